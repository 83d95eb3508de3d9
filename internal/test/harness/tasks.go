package harness

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// TaskServer is a server with tasks, over HTTP. It works in a bubble, unless its URL is called.
type TaskServer struct {
	t       testing.TB
	URL     func() string // of the server in the network
	Handler http.Handler
	Stop    func() // running tasks, and waits
}

// Send sends a request with these members of params and headers, each "name: value", and returns its response.
func (s *TaskServer) Send(capabilities, method, name, members string,
	header ...string) (status int, response map[string]any) {
	s.t.Helper()
	r := Request{Method: method, Target: name, Body: Message(1, method, members, capabilities), Header: http.Header{}}
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Set(key, value)
	}
	if name == "" {
		r.Header["Mcp-Name"] = nil
	}
	res := r.Send(s.t, s.Handler)
	if err := json.Unmarshal([]byte(res.Raw), &response); err != nil {
		s.t.Fatalf("%s: %v in %s", method, err, res.Raw)
	}
	return res.Status, response
}

// Result is [TaskServer.Send] for a request that must have a result.
func (s *TaskServer) Result(capabilities, method, name, members string) map[string]any {
	s.t.Helper()
	status, response := s.Send(capabilities, method, name, members)
	result, ok := response["result"].(map[string]any)
	if !ok || status != http.StatusOK {
		s.t.Fatalf("%s: %d %v", method, status, response)
	}
	return result
}

// Fault is [TaskServer.Send] for a request that must have an error.
func (s *TaskServer) Fault(capabilities, method, name, members string, header ...string) (code int, message string) {
	s.t.Helper()
	_, response := s.Send(capabilities, method, name, members, header...)
	fault, ok := response["error"].(map[string]any)
	if !ok {
		s.t.Fatalf("%s: %v", method, response)
	}
	return int(fault["code"].(float64)), fault["message"].(string)
}

// Get polls tasks/get until the task has the status.
func (s *TaskServer) Get(capabilities, id, want string) map[string]any {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		now := s.Result(capabilities, "tasks/get", id, `"taskId":"`+id+`"`)
		if now["status"] == want {
			return now
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the task is %v, want %s", now, want)
		}
	}
}

// NewTaskServer starts an instance on a store of its own.
func NewTaskServer(t testing.TB, opts *askback.Options, register ...func(*askback.Server)) *TaskServer {
	t.Helper()
	return NewTaskServerOn(t, new(task.MemoryStore), opts, register...)
}

// NewTaskServerOn starts an instance on a store.
func NewTaskServerOn(t testing.TB, store task.Store, opts *askback.Options,
	register ...func(*askback.Server)) *TaskServer {
	t.Helper()
	own, tasks := askback.Options{}, askback.Tasks{}
	if opts != nil {
		own = *opts
	}
	if own.Tasks != nil {
		tasks = *own.Tasks
	}
	tasks.Store = store
	own.Tasks = &tasks
	srv := NewServer(t, &own, register...)
	stop := RunTasks(t, srv)
	s := ServeTasks(t, srv)
	s.Stop = stop
	return s
}

// Steal takes a task from the server that runs it, as another worker does when its lease has ended. The task is due
// when giveBack is called.
func Steal(t testing.TB, store task.Store, id string) (giveBack func()) {
	t.Helper()
	row := expect.Must(store.Get(t.Context(), id))(t)
	update := func(u task.Update) {
		t.Helper()
		expect.Check(t, store.Update(t.Context(), row, u))
	}
	update(task.Update{Lease: time.Hour})
	return func() { t.Helper(); update(task.Update{Due: 0}) }
}

// RunTasks runs the tasks of a server until stop, which waits, or the end of the test.
func RunTasks(t testing.TB, srv *askback.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := srv.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); working.Wait() }
	t.Cleanup(stop)
	return stop
}

// ServeTasks serves a server over HTTP, and leaves running its tasks to the caller.
func ServeTasks(t testing.TB, srv *askback.Server) *TaskServer {
	handler := srv.HTTPHandler(nil)
	return &TaskServer{t: t, Handler: handler, URL: sync.OnceValue(func() string {
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		return web.URL
	})}
}

const (
	// WithExtension are the capabilities of a client that declares the tasks extension.
	WithExtension = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	// ProposalOnly are the capabilities of a client that speaks the proposals' dialect of tasks, if any.
	ProposalOnly = `{"elicitation":{}}`
)

// Answered returns members of params: the answers to a task's questions.
func Answered(id, answers string) string {
	return `"taskId":"` + id + `","inputResponses":{` + answers + `}`
}

// At follows names of members and indexes into JSON. It returns nil for what is not there.
func At(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			a, _ := v.([]any)
			if step >= len(a) {
				return nil
			}
			v = a[step]
		}
	}
	return v
}

// Content returns the text of a result's only content, or nil.
func Content(res map[string]any) any {
	if At(res, "content", 1) != nil {
		return nil
	}
	return At(res, "content", 0, "text")
}
