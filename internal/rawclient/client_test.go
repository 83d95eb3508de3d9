package rawclient_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

var (
	greet   = map[string]any{"name": "greet", "arguments": map[string]any{"place": "New York"}}
	octocat = rawclient.Accept(map[string]any{"name": "octocat"})
)

func TestRounds(t *testing.T) {
	t.Parallel()
	c := &rawclient.Client{URL: harness.NewTaskServer(t, nil, harness.AddGreet, harness.AddEcho).URL()}
	var asked, done rawclient.Result
	if err := c.Call(t.Context(), "tools/call", greet, &asked); err != nil || asked.Requests["login"] == nil {
		t.Fatalf("asked %+v, %v", asked, err)
	}
	err := c.Call(t.Context(), "tools/call", asked.Retry(greet, map[string]any{"login": octocat}), &done)
	if err != nil || done.Type != "complete" || done.Text() != "Hello octocat in New York" {
		t.Errorf("done %+v, %v", done, err)
	}
	err = c.Call(t.Context(), "tasks/get", map[string]any{"taskId": "none"}, nil)
	if fault, ok := errors.AsType[*rawclient.Error](err); !ok || fault.Code != -32602 {
		t.Errorf("an unknown task: %v", err)
	}
	var created rawclient.Result
	err = c.Call(t.Context(), "tools/call", map[string]any{"name": "echo"}, &created)
	if err != nil || created.TaskID == "" {
		t.Errorf("a task: %+v, %v", created, err)
	}
	c.Capabilities = `{"elicitation":{}}`
	var noTask rawclient.Result
	err = c.Call(t.Context(), "tools/call", map[string]any{"name": "echo"}, &noTask)
	if err != nil || noTask.TaskID != "" {
		t.Errorf("a task for a client that takes none: %+v, %v", noTask, err)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil))
	t.Cleanup(web.Close)
	session, err := (&rawclient.Client{URL: web.URL}).Initialize(t.Context(), "2025-11-25")
	expect.Check(t, err)
	call, err := session.Open(t.Context(), "tools/call", greet)
	expect.Check(t, err)
	defer call.Close()
	question, err := call.Next()
	if err != nil || question.Method != "elicitation/create" {
		t.Fatalf("a question: %+v, %v", question, err)
	}
	expect.Check(t, session.Answer(t.Context(), question, octocat))
	var done rawclient.Result
	if err := call.Result(&done); err != nil || done.Text() != "Hello octocat in New York" {
		t.Errorf("done %+v, %v", done, err)
	}
	if _, err := call.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the response: %v", err)
	}
	ended, err := session.Send(t.Context(), http.MethodDelete, nil, nil)
	expect.Check(t, err)
	ended.Close()
	if err := session.Call(t.Context(), "tools/list", nil, nil); err == nil {
		t.Error("a session that has ended lists its tools")
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	large := `{"id":1,"result":{"content":[{"text":"` + strings.Repeat("x", 100_000) + `"}]}}`
	const events = "text/event-stream; charset=utf-8"
	for _, test := range []struct{ name, contentType, body, want string }{
		{"JSON", "application/json", `{"id":1,"result":{"content":[{"text":"yes"}]}}`, ""},
		{"events", events, ": hello\n\nevent: message\ndata: {\"method\":\"a\"}\n\ndata:{\"id\":1,\"result\":{}}\n\n", ""},
		{"an event in two lines", events, "data: {\"id\":1,\ndata: \"result\":{}}\n\n", ""},
		{"an event without its end", events, "data: {\"id\":1,\"result\":{}}\n", "unexpected EOF"},
		{"an error", "application/json", `{"id":1,"error":{"code":-32602,"message":"no"}}`, "-32602 no"},
		{"a text", "text/plain", "what?", "status 200: no message"},
		{"nothing", "application/json", "", "unexpected EOF"},
		{"no response", events, "data: {\"method\":\"a\"}\n\n", "unexpected EOF"},
		{"large JSON", "application/json", large, "larger than 10000 bytes"},
		{"a large event", events, "data: " + large + "\n\n", "larger than 10000 bytes"},
		{"a flood of lines that are no event", events, strings.Repeat(": x\n", 10_000), "larger than 10000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				_, _ = io.WriteString(w, test.body)
			}))
			defer web.Close()
			c := &rawclient.Client{URL: web.URL, MaxBytes: 10_000}
			err := c.Call(t.Context(), "tools/call", greet, new(rawclient.Result))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	err := (&rawclient.Client{URL: "http://127.0.0.1:1"}).Call(t.Context(), "tools/call", greet, nil)
	if _, ok := errors.AsType[*url.Error](err); !ok {
		t.Errorf("no server: %v", err)
	}
}

// No response makes the client panic, read without a bound, or wait for more than came.
func FuzzResponse(f *testing.F) {
	f.Add(true, "data: {\"id\":1,\"result\":{}}\n\n")
	f.Add(false, `{"id":1,"error":{"code":-32602,"message":"no"}}`)
	f.Fuzz(func(t *testing.T, events bool, body string) {
		contentType := "application/json"
		if events {
			contentType = "text/event-stream"
		}
		c := &rawclient.Client{MaxBytes: 1000, HTTP: &http.Client{Transport: respond(func() *http.Response {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}},
				Body: io.NopCloser(strings.NewReader(body)),
			}
		})}}
		s, err := c.Open(t.Context(), "tools/call", greet)
		expect.Check(t, err)
		for {
			m, err := s.Next()
			if _, refused := errors.AsType[*rawclient.Error](err); err != nil && !refused {
				return
			}
			if err == nil && len(m.Result) > 1000 {
				t.Errorf("a result of %d bytes", len(m.Result))
			}
		}
	})
}

// A server that nobody trusts cannot send the client elsewhere, inflate a response or delay its headers.
func TestDirect(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			elsewhere.Store(true)
		case "/large":
			w.Header().Set("X", strings.Repeat("x", 100_000))
		case "/silent":
			<-r.Context().Done()
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding")+"not unpacked")
		}
	}))
	defer web.Close()
	for path, want := range map[string]string{
		"/redirect": "unexpected EOF", "/large": "server response headers exceeded", "/silent": "timeout awaiting response",
		"/gzip": `no message: "not unpacked"`,
	} {
		c := &rawclient.Client{URL: web.URL + path, HTTP: rawclient.Direct(time.Second)}
		expect.Fails(t, path, c.Call(t.Context(), "tools/call", greet, nil), want)
	}
	if elsewhere.Load() {
		t.Error("the client has followed a redirect")
	}
}

type respond func() *http.Response

func (r respond) RoundTrip(*http.Request) (*http.Response, error) { return r(), nil }
