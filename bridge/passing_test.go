package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A host that wants to be told of progress is told what the server tells, in every revision.
func TestProgressPasses(t *testing.T) {
	behind := newBehind(t)
	release := make(chan struct{})
	askback.AddTool(behind.Server, &mcp.Tool{Name: "slow"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			for n := range 3 {
				if err := call.Progress(ctx, float64(n+1), 3, fmt.Sprint("step ", n+1)); err != nil {
					return "", err
				}
			}
			<-release
			return "done", nil
		})
	front := newFront(t, behind.url)
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			var mu sync.Mutex
			var told []string
			opts := client.Options{SDK: mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					p := req.Params
					told = append(told, fmt.Sprint(p.ProgressToken, ": ", p.Message, " of ", p.Total))
				},
			}}
			params := &mcp.CallToolParams{Name: "slow"}
			params.SetProgressToken("mine")
			s, ended := host(t, front.url, version, opts), make(chan error, 1)
			go func() {
				_, err := s.CallTool(t.Context(), params)
				ended <- err
			}()
			eventually(t, "three steps are told", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(told, []string{"mine: step 1 of 3", "mine: step 2 of 3", "mine: step 3 of 3"})
			})
			release <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// A call that its host cancels is cancelled at the server.
func TestACancelPasses(t *testing.T) {
	behind := newBehind(t)
	begun, cancelled := make(chan struct{}), make(chan struct{}, 1)
	askback.AddTool(behind.Server, &mcp.Tool{Name: "slow"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			begun <- struct{}{}
			<-ctx.Done()
			cancelled <- struct{}{}
			return "", ctx.Err()
		})
	front := newFront(t, behind.url)
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := host(t, front.url, version, client.Options{})
			go func() {
				<-begun
				cancel()
			}()
			if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); err == nil {
				t.Error("a cancelled call has a result")
			}
			<-cancelled
		})
	}
}

// A tool that runs as a task only is called for hosts that know no tasks, too.
func TestATaskToolForEveryHost(t *testing.T) {
	behind := newBehind(t)
	askback.AddTaskTool(behind.Server, &mcp.Tool{Name: "task_only"}, &askback.TaskSupport{Required: true},
		func(context.Context, *askback.Call, struct{}) (string, error) {
			behind.done("task_only")
			return "done", nil
		})
	front := newFront(t, behind.url, func(o *bridge.Options) { o.Server.Desk.Wait = 0 }) // the default
	for n, version := range revisions {
		s := host(t, front.url, version, client.Options{Tasks: client.TasksOff})
		returns(t, s, "task_only", nil, "done")
		expect.Equal(t, version+": it ran", behind.count("task_only"), n+1)
	}
}
