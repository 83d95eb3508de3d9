package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// load is the clients. Each of them has a task made, answers its questions, and follows it to its end, with each
// request to any server.
type load struct {
	ctx   context.Context
	fleet *fleet
	http  http.Client
	ended chan struct{} // closed when no more tasks are made
	end   sync.Once
	all   sync.WaitGroup

	mu     sync.Mutex
	phase  string
	report *report
}

const (
	// All anonymous callers together may have 100 unfinished tasks, and 1000 in all: clients make no more than most.
	clients = 12
	most    = 900
	every   = 120 * time.Millisecond
	// How long a call, and a task, may take.
	callPatience = 20 * time.Second
	taskPatience = 2 * time.Minute
)

func newLoad(ctx context.Context, f *fleet, r *report) *load {
	l := &load{ctx: ctx, fleet: f, report: r, ended: make(chan struct{})}
	numbers := make(chan int)
	l.all.Go(func() {
		defer close(numbers)
		for n := range most {
			select {
			case numbers <- n:
			case <-l.ended:
				return
			}
			time.Sleep(every)
		}
	})
	for range clients {
		l.all.Go(func() {
			for n := range numbers {
				if err := l.follow(n); err != nil && ctx.Err() == nil {
					l.note(func(r *report) { r.fail("task %d, when %s: %v", n, l.phase, err) })
				}
			}
		})
	}
	return l
}

// note changes the report.
func (l *load) note(change func(*report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.report)
}

// begin begins a phase.
func (l *load) begin(phase string) {
	l.note(func(r *report) {
		l.phase = phase
		r.phases = append(r.phases, phase)
	})
}

// work lets clients work for a time.
func (l *load) work(d time.Duration) error {
	select {
	case <-l.ctx.Done():
		return l.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// finish waits until all tasks have ended.
func (l *load) finish() {
	l.end.Do(func() { close(l.ended) })
	l.all.Wait()
}

// stop is finish for a run that has failed: it cancels the context of the calls.
func (l *load) stop() { l.end.Do(func() { close(l.ended) }) }

// follow makes a task and sees it to its end. Every third is one of several steps, under a lease.
func (l *load) follow(n int) error {
	ctx, cancel := context.WithTimeout(l.ctx, taskPatience)
	defer cancel()
	tool, arguments := "echo", map[string]any{}
	if n%3 == 0 {
		tool = "provision_vm"
		arguments = map[string]any{"name": fmt.Sprint("vm-", n), "cpus": 1, "memoryMiB": 128, "diskMiB": 1}
	}
	var task struct {
		TaskID        string
		Status        string
		InputRequests map[string]any
		Result        struct{ IsError bool }
	}
	if err := l.call(ctx, "tools/call", tool, map[string]any{"name": tool, "arguments": arguments}, &task); err != nil {
		return err
	}
	for id := task.TaskID; ; {
		task.InputRequests = nil
		if err := l.call(ctx, "tasks/get", id, map[string]any{"taskId": id}, &task); err != nil {
			return err
		}
		switch task.Status {
		case "completed":
			if task.Result.IsError {
				return fmt.Errorf("%s has failed", tool)
			}
			l.note(func(r *report) { r.ended++ })
			return nil
		case "input_required":
			responses := map[string]any{}
			for key := range task.InputRequests {
				content := map[string]any{"input": "hello"}
				if tool != "echo" {
					content = map[string]any{"hostname": fmt.Sprint("host-", n, "-", rand.IntN(1000))}
					if !strings.HasPrefix(key, "hostname") {
						content["network"] = "nat"
					}
				}
				responses[key] = map[string]any{"action": "accept", "content": content}
			}
			params := map[string]any{"taskId": id, "inputResponses": responses}
			if err := l.call(ctx, "tasks/update", id, params, new(json.RawMessage)); err != nil {
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
func (l *load) call(ctx context.Context, method, name string, params map[string]any, result any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	begun := time.Now()
	for {
		urls := l.fleet.urls()
		var sent bool
		sent, err = l.send(ctx, urls[rand.IntN(len(urls))], method, name, params, result)
		if sent || ctx.Err() != nil {
			break
		}
	}
	l.note(func(r *report) {
		r.calls++
		r.slowest[l.phase] = max(r.slowest[l.phase], time.Since(begun))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// send sends one request. Sent is false if the server is about to stop, and has done nothing.
func (l *load) send(
	ctx context.Context, url, method, name string, params map[string]any, result any,
) (sent bool, err error) {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"elicitation": map[string]any{},
			"extensions":  map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
		},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return true, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return true, err
	}
	for header, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(header, value)
	}
	res, err := l.http.Do(req)
	if err != nil {
		return false, err // these tests break only connections to servers that have stopped
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return true, err
	}
	var response struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return true, fmt.Errorf("%s: %w in %.200q", res.Status, err, data)
	}
	if response.Error == nil {
		return true, json.Unmarshal(response.Result, result)
	}
	stopping := res.StatusCode == http.StatusServiceUnavailable && strings.Contains(response.Error.Message, "stopping")
	return !stopping, fmt.Errorf("%s: %s", res.Status, response.Error.Message)
}
