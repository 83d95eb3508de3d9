package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// TaskServer is a server with tasks, over HTTP.
type TaskServer struct {
	t       testing.TB
	URL     string
	Handler http.Handler
	Stop    func() // running tasks, and waits
}

// Send sends a request with these members of params, and returns its response.
func (s *TaskServer) Send(capabilities, method, name, members string, header ...string) (status int, response map[string]any) {
	s.t.Helper()
	if members != "" {
		members += ","
	}
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities
	if strings.Contains(members, `"_meta":{`) {
		members = strings.Replace(members, `"_meta":{`, `"_meta":{`+meta+`,`, 1)
		members = strings.TrimSuffix(members, ",")
	} else {
		members += `"_meta":{` + meta + `}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, members)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream",
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name} {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	if name == "" {
		req.Header.Del("Mcp-Name")
	}
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &response); err != nil {
		s.t.Fatalf("%s: %v in %s", method, err, data)
	}
	return res.StatusCode, response
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
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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
func NewTaskServerOn(t testing.TB, store task.Store, opts *askback.Options, register ...func(*askback.Server)) *TaskServer {
	t.Helper()
	all := askback.Options{}
	if opts != nil {
		all = *opts
	}
	tasks := askback.Tasks{}
	if all.Tasks != nil {
		tasks = *all.Tasks
	}
	tasks.Store = store
	all.Tasks = &tasks
	srv := NewServer(t, &all, register...)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := srv.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	stop := func() { cancel(); working.Wait() }
	t.Cleanup(func() {
		stop()
	})
	s := ServeTasks(t, srv)
	s.Stop = stop
	return s
}

// ServeTasks serves a server over HTTP, and leaves running its tasks to the caller.
func ServeTasks(t testing.TB, srv *askback.Server) *TaskServer {
	handler := srv.HTTPHandler(nil)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return &TaskServer{t: t, URL: web.URL, Handler: handler}
}

const (
	// WithExtension are the capabilities of a client that declares the tasks extension.
	WithExtension = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	// ProposalOnly are those of a client that speaks the proposals' dialect of tasks, if any.
	ProposalOnly = `{"elicitation":{}}`
)

// Answered returns members of params: the answers to a task's questions.
func Answered(id, answers string) string {
	return `"taskId":"` + id + `","inputResponses":{` + answers + `}`
}

// At follows a path of member names.
func At(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// Content returns the text of a result's only content, or nil.
func Content(res map[string]any) any {
	list, _ := res["content"].([]any)
	if len(list) != 1 {
		return nil
	}
	return At(list[0], "text")
}
