package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// minutes is a job whose parts take ten minutes each. It notes each part that it has loaded.
type minutes struct{ loaded []int }

func (m *minutes) load(ctx context.Context, _ string, part int) error {
	select {
	case <-time.After(10 * time.Minute):
		m.loaded = append(m.loaded, part)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve returns a server on the store, and what stops the work on its tasks.
func serve(t *testing.T, store task.Store, job *minutes) (srv *askback.Server, stop func()) {
	t.Helper()
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if srv, err = newServer(keys, store, 45*time.Second, job.load); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.RunTasks(ctx) }()
	return srv, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// host connects a host that knows no tasks, shows no questions, and gives up on a request after a minute.
func host(t *testing.T, srv *askback.Server) (call func(tool string, arguments any) string) {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1.0.0"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return func(tool string, arguments any) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatalf("the host gives up on %s: %v", tool, err)
		}
		return res.Content[0].(*mcp.TextContent).Text
	}
}

var named = regexp.MustCompile(`call the tool askback_result with the name "([^"]+)"`)

// fetch calls askback_result as often as the words say that the call goes on.
func fetch(call func(string, any) string, told string) (result string, times int) {
	for result = told; times < 100; times++ {
		name := named.FindStringSubmatch(result)
		if name == nil {
			break
		}
		result = call("askback_result", map[string]any{"name": name[1]})
	}
	return result, times
}

// A job of half an hour reaches a host that gives up after a minute.
func TestAHostWithoutTasksGetsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := new(minutes)
		srv, stop := serve(t, new(task.MemoryStore), job)
		defer stop()
		call := host(t, srv)
		began := time.Now()
		told := call("import", file{"orders.csv"})
		const words = "The call is running: loading orders.csv (1 of 3). The call goes on by itself; "
		if took := time.Since(began); took != 45*time.Second || !strings.HasPrefix(told, words) {
			t.Errorf("after %v the host is told %q", took, told)
		}
		result, times := fetch(call, told)
		if took := time.Since(began).Round(time.Minute); result != "orders.csv is imported." || took != 30*time.Minute {
			t.Errorf("after %v and %d calls the result is %q", took, times, result)
		}
	})
}

// The server stops in the second part. The next one on the same store begins with that part.
func TestAJobSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job, store := new(minutes), new(task.MemoryStore)
		srv, stop := serve(t, store, job)
		told := host(t, srv)("import", file{"orders.csv"})
		time.Sleep(15 * time.Minute)
		stop()
		srv, stop = serve(t, store, job)
		defer stop()
		if result, _ := fetch(host(t, srv), told); result != "orders.csv is imported." {
			t.Errorf("the result is %q", result)
		}
		if !slices.Equal(job.loaded, []int{1, 2, 3}) {
			t.Errorf("the parts %v are loaded", job.loaded)
		}
	})
}
