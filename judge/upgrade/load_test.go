package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	// All anonymous callers together may have 100 unfinished tasks, and 1000 in all: clients make no more than most.
	clients = 12
	most    = 900
	every   = 120 * time.Millisecond
	// How long a call, and a task, may take.
	callPatience = 20 * time.Second
	taskPatience = 2 * time.Minute
)

// load starts the clients. Each of them has a task made, answers its questions, and follows it to its end, with each
// request to any server. Finish waits until all tasks have ended, and no more are made.
func (r *run) load() (finish func()) {
	ended := make(chan struct{})
	numbers := make(chan int)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(numbers)
		begin := time.NewTicker(every)
		defer begin.Stop()
		for n := range most {
			select {
			case <-ended:
				return
			case <-begin.C:
				numbers <- n
			}
		}
	})
	for range clients {
		all.Go(func() {
			for n := range numbers {
				if err := r.follow(n); err != nil && !r.t.Failed() {
					r.t.Errorf("task %d: %v", n, err)
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(ended); all.Wait() })
}

// follow makes a task and sees it to its end. Every third is one of several steps, under a lease.
func (r *run) follow(n int) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), taskPatience)
	defer cancel()
	tool, arguments := "echo", map[string]any{}
	if n%3 == 0 {
		tool = "provision_vm"
		arguments = map[string]any{"name": fmt.Sprint("vm-", n), "cpus": 1, "memoryMiB": 128, "diskMiB": 1}
	}
	var created rawclient.Result
	if err := r.call(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments}, &created); err != nil {
		return err
	}
	for id := created.TaskID; ; {
		var task rawclient.Result
		if err := r.call(ctx, "tasks/get", map[string]any{"taskId": id}, &task); err != nil {
			return err
		}
		switch task.Status {
		case "completed":
			if task.Result == nil || task.Result.IsError {
				return fmt.Errorf("%s has failed", tool)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended++
			return nil
		case "input_required":
			answers := map[string]any{}
			for key := range task.Requests {
				content := map[string]any{"input": "hello"}
				if tool != "echo" {
					content = map[string]any{"hostname": fmt.Sprint("host-", n, "-", rand.IntN(1000))}
					if !strings.HasPrefix(key, "hostname") {
						content["network"] = "nat"
					}
				}
				answers[key] = rawclient.Accept(content)
			}
			params := map[string]any{"taskId": id, "inputResponses": answers}
			if err := r.call(ctx, "tasks/update", params, nil); err != nil {
				return err
			}
		case "working":
		default:
			return fmt.Errorf("%s is %s", tool, task.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is %s after %v", tool, task.Status, taskPatience)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// call sends a request to one of the servers. When that one is just being stopped, it goes to another.
func (r *run) call(ctx context.Context, method string, params map[string]any, result any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	begun := time.Now()
	for stopping := true; stopping && ctx.Err() == nil; {
		c := rawclient.Client{URL: r.anyURL()}
		err = c.Call(ctx, method, params, result)
		_, unsent := errors.AsType[*url.Error](err) // only connections to servers that have stopped are broken here
		fault, refused := errors.AsType[*rawclient.Error](err)
		stopping = unsent || refused &&
			fault.Status == http.StatusServiceUnavailable && strings.Contains(fault.Message, "stopping")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.slowest[r.phase] = max(r.slowest[r.phase], time.Since(begun))
	if err != nil {
		return fmt.Errorf("when %s: %s: %w", r.phase, method, err)
	}
	return nil
}

// anyURL returns the endpoint of a server that runs.
func (r *run) anyURL() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var urls []string
	for _, s := range r.servers {
		urls = append(urls, s.url)
	}
	return urls[rand.IntN(len(urls))]
}
