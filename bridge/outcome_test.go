package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// fate is what becomes of a call at a scripted server, after its effect if ran says so.
type fate struct {
	ran    bool
	answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	want   []string // in what the host is told
}

// scripted is a server of one revision. It has the tools "act", which is not idempotent, and "look", which is.
type scripted struct {
	*httptest.Server
	version string

	mu        sync.Mutex
	fate      *fate
	sessions  int
	effects   int
	calls     int    // that have arrived
	resumed   int    // streams
	forgotten string // an ID of a session
}

func newScripted(t *testing.T, version string) *scripted {
	t.Helper()
	s := &scripted{version: version}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

const listed = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[
	{"name":"act","inputSchema":{"type":"object"}},
	{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	session := r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	modern := s.version == "2026-07-28"
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") != "":
		s.resumed++
		http.Error(w, "no such session", http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case session != "" && session == s.forgotten:
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	switch {
	case m.Method == "server/discover" && modern:
		respond(w, m.ID, fmt.Sprintf(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":[%q],
			"capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}`, s.version))
	case m.Method == "server/discover":
		http.Error(w, "what?", http.StatusBadRequest)
	case m.Method == "initialize":
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.sessions))
		respond(w, m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},
			"serverInfo":{"name":"scripted","version":"1"}}`, s.version))
	case m.Method == "tools/list":
		respond(w, m.ID, listed)
	case m.Method == "tools/call":
		s.calls++
		f := s.fate
		if f == nil || f.ran {
			s.effects++
		}
		if f != nil {
			f.answer(w, r, m.ID)
			return
		}
		respond(w, m.ID, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func respond(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// meets has calls meet a fate, and forgets what was counted.
func (s *scripted) meets(f *fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate, s.effects, s.calls, s.resumed = f, 0, 0, 0
}

// told calls a tool, and returns its text or its error.
func told(t *testing.T, s *client.Session, tool string) string {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprint(fault.Code, " ", fault.Message)
	}
	if err != nil {
		return err.Error()
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func status(code int) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		http.Error(w, http.StatusText(code), code)
	}
}

// said answers with a status and an error of JSON-RPC.
func said(code int, id string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, own json.RawMessage) {
		if id == "" {
			id = string(own)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32077,"message":"too many cooks"}}`, id)
	}
}

func cut(http.ResponseWriter, *http.Request, json.RawMessage) { panic(http.ErrAbortHandler) }

// stream answers with a part of a stream of events.
func stream(events string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, events)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func answers(contentType, body string) func(http.ResponseWriter, *http.Request, json.RawMessage) {
	return func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, strings.ReplaceAll(body, "ID", string(id)))
	}
}

// fates are all that can become of a call over HTTP.
func fates() map[string]*fate {
	const unknown, notRun = "The outcome of this call is unknown", "did not run"
	all := map[string]*fate{
		"its own error":              {true, said(200, ""), []string{"too many cooks", "-32077"}},
		"a handler's error with 400": {true, said(400, ""), []string{"too many cooks", "-32077"}},
		"a handler's error with 404": {true, said(404, ""), []string{"too many cooks", "-32077"}},
		"an error with 422":          {true, said(422, ""), []string{"too many cooks", "-32077"}},
		"an error of a gateway":      {true, said(502, ""), []string{unknown, "502", "too many cooks"}},
		"an error of nobody's":       {true, said(422, "null"), []string{unknown, "422", "too many cooks"}},
		"a refusal that says why":    {false, said(429, ""), []string{notRun, "429", "too many cooks", "-32077"}},
		"a refusal without the ID":   {false, said(403, "null"), []string{notRun, "403", "too many cooks"}},
		"cut off":                    {true, cut, []string{unknown}},
		"a stream that ends":         {true, stream(": hello\n\n"), []string{unknown}},
		"a stream that ends and has an ID": {true, stream("id: 1\nretry: 1\ndata:\n\n"),
			[]string{unknown}},
		"a page":           {true, answers("text/html", "<p>"), []string{unknown, "without a JSON-RPC message"}},
		"nothing":          {true, status(202), []string{unknown, "202"}},
		"no JSON":          {true, answers("application/json", "{"), []string{unknown}},
		"another's result": {true, answers("application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`), []string{unknown}},
		"a result that is none": {true, answers("application/json", `{"jsonrpc":"2.0","id":ID,"result":7}`),
			[]string{unknown, "cannot be passed on"}},
		"a redirect": {true, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
		}, []string{unknown}},
		"a redirect to a page": {true, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			http.Redirect(w, r, "/moved", http.StatusSeeOther)
		}, []string{unknown}},
		"403 for want of a scope": {false, func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write", error_description="read only"`)
			w.WriteHeader(http.StatusForbidden)
		}, []string{notRun, "403", `scope "write"`, `"read only"`}},
	}
	for _, code := range []int{400, 401, 403, 405, 406, 413, 415, 421, 429} {
		all[fmt.Sprint(code)] = &fate{false, status(code), []string{notRun, fmt.Sprint(code)}}
	}
	for _, code := range []int{402, 408, 409, 410, 422, 425, 499, 500, 501, 502, 503, 504, 520} {
		all[fmt.Sprint(code)] = &fate{true, status(code), []string{unknown, fmt.Sprint(code)}}
	}
	return all
}

// Over HTTP only one of the statuses that come before anything runs says that a call did not run. Everything else is
// unknown, except the server's own error. Nothing is sent twice, and the next call is served.
func TestWhatAHostIsToldOfACall(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			s := newScripted(t, version)
			f := newFront(t, s.URL, func(o *bridge.Options) {
				o.Servers[0].Connect = func() (mcp.Transport, error) { return bridge.AtURL(s.URL, nil), nil }
			})
			h := host(t, f.url, "", client.Options{})
			for name, c := range fates() {
				s.meets(c)
				text := told(t, h, "act")
				for _, want := range c.want {
					expect.Contains(t, name, text, want)
				}
				if strings.Contains(text, "32005") || c.ran && strings.Contains(text, "did not run") ||
					strings.Contains(text, "s1") {
					t.Errorf("%s: %q", name, text)
				}
				s.mu.Lock()
				expect.Equal(t, name+": the call came times", s.calls, 1)
				if ids := strings.Contains(name, "has an ID"); version < "2026" && ids != (s.resumed > 0) {
					t.Errorf("%s: the stream was resumed %d times", name, s.resumed)
				}
				s.mu.Unlock()
				s.meets(nil)
				expect.Equal(t, "the call after "+name, told(t, h, "act"), "done")
			}
		})
	}
}

// A server that cannot be reached did not run the call, whether it was reached before or not.
func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		s := newScripted(t, version)
		connections := new(http.Transport)
		f := newFront(t, s.URL, func(o *bridge.Options) {
			o.Servers[0].Connect = func() (mcp.Transport, error) {
				return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: connections}}, nil
			}
		})
		h := host(t, f.url, "", client.Options{})
		expect.Equal(t, "the text", told(t, h, "act"), "done")
		s.Listener.Close()
		connections.CloseIdleConnections()
		for _, tool := range []string{"act", "look"} {
			expect.Contains(t, "the text", told(t, h, tool), "was not sent. It did not run: ")
		}
		expect.Equal(t, version+": effects", s.effects, 1)
	}
}

// fragile calls a tool that asks for a color, and answers it.
func fragile(t *testing.T, url string) (h *client.Session, name string) {
	t.Helper()
	f := newFront(t, url)
	h = host(t, f.url, "", client.Options{Tasks: client.TasksOff})
	waits(t, h, "fragile", nil)
	return h, f.answer(t, "ada", says("red")).Name
}

// A tool that can be called again, and whose connection breaks after an answer, is called again with this answer.
func TestACallThatIsRepeatedAsksNobodyAgain(t *testing.T) {
	s := new(older)
	m := s.server("2025-11-25")
	var web *httptest.Server
	mcp.AddTool(m, &mcp.Tool{Name: "fragile", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (*mcp.CallToolResult, any, error) {
			color, err := elicit(ctx, req, "Which color?")
			if err == nil && s.done("fragile") == 1 {
				web.CloseClientConnections()
			}
			return text("%s", color), nil, err
		})
	web = harness.Serve(t, overHTTP(m))
	h, name := fragile(t, web.URL)
	if text := fetch(t, h, name); text != "red" || s.count("fragile") != 2 {
		t.Errorf("%q after %d runs", text, s.count("fragile"))
	}
}

// A tool that could be called again when its call began, and no longer can, is not called again.
func TestACallThatMayNoLongerBeRepeated(t *testing.T) {
	s := new(older)
	m := s.server("2025-11-25")
	var web *httptest.Server
	runs, broken := make(chan struct{}), make(chan struct{})
	add := func(readOnly bool, description string) {
		mcp.AddTool(m, &mcp.Tool{Name: "fragile", Description: description,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: readOnly}},
			func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (*mcp.CallToolResult, any, error) {
				color, err := elicit(ctx, req, "Which color?")
				if err == nil && s.done("fragile") == 1 {
					close(runs)
					<-broken
				}
				return text("%s", color), nil, err
			})
	}
	add(true, "reads")
	web = harness.Serve(t, overHTTP(m))
	h, name := fragile(t, web.URL)
	<-runs
	add(false, "writes")
	eventually(t, "the bridge has the new tool", func() bool {
		tools, err := h.SDK().ListTools(t.Context(), nil)
		return err == nil && strings.Contains(encoded(t, tools), "writes")
	})
	web.CloseClientConnections()
	close(broken)
	if text := fetch(t, h, name); !strings.Contains(text, "It may have run. It does not say") || s.count("fragile") != 1 {
		t.Errorf("%q after %d runs", text, s.count("fragile"))
	}
}

// A tool that can be called again, and whose server is gone then, may have run all the same.
func TestARepeatedCallThatIsNotSent(t *testing.T) {
	s := new(older)
	m := s.server("2025-11-25")
	var web *httptest.Server
	mcp.AddTool(m, &mcp.Tool{Name: "fragile", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (*mcp.CallToolResult, any, error) {
			_, err := elicit(ctx, req, "Which color?")
			web.Listener.Close()
			web.CloseClientConnections()
			return text("done"), nil, err
		})
	web = harness.Serve(t, overHTTP(m))
	h, name := fragile(t, web.URL)
	if text := fetch(t, h, name); !strings.HasPrefix(text, `The tool "fragile" may have run: `) {
		t.Errorf("%q", text)
	}
}

// A call that waits for another session, because the server has forgotten the first one, ends with the bridge.
func TestACallThatWaitsForItsSecondSession(t *testing.T) {
	s := newScripted(t, "2025-11-25")
	begins := make(chan struct{})
	var held atomic.Bool
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if held.Load() && bytes.Contains(body, []byte(`"initialize"`)) {
			close(begins)
			<-r.Context().Done()
			return
		}
		s.ServeHTTP(w, r)
	}))
	b := expect.Must(bridge.Open(t.Context(), frontOptions(t, web.URL)))(t)
	front := harness.Serve(t, b.Server().HTTPHandler(nil))
	h := host(t, front.URL, "", client.Options{})
	expect.Equal(t, "the text", told(t, h, "act"), "done")
	s.mu.Lock()
	s.forgotten = fmt.Sprint("s", s.sessions)
	s.mu.Unlock()
	held.Store(true)
	ended := make(chan string)
	go func() { ended <- told(t, h, "act") }()
	<-begins
	b.Close()
	expect.Contains(t, "the result", <-ended, "was not called: the bridge stops")
}

// A call whose own request says that the session is not known is made once more, in a new session.
func TestASessionThatIsForgotten(t *testing.T) {
	s := newScripted(t, "2025-11-25")
	f := newFront(t, s.URL)
	h := host(t, f.url, "", client.Options{})
	expect.Equal(t, "the text", told(t, h, "act"), "done")
	s.mu.Lock()
	s.forgotten = fmt.Sprint("s", s.sessions)
	s.mu.Unlock()
	if text := told(t, h, "act"); text != "done" || s.calls != 2 {
		t.Errorf("after the session was forgotten: %q, %d calls", text, s.calls)
	}
	s.meets(&fate{answer: status(http.StatusNotFound)})
	expect.Contains(t, "a server that has no session", told(t, h, "act"),
		"did not run: the server answered with HTTP status 404")
	expect.Equal(t, "it was called times", s.calls, 2)
}

// A server of this library answers with status 200 once its handler has run, so that nobody is told that nothing did.
func TestAnErrorAfterAnEffect(t *testing.T) {
	behind := newBehind(t)
	for name, code := range map[string]int64{"bad": -32602, "mismatch": -32020} {
		askback.AddTool(behind.Server, &mcp.Tool{Name: name}, func(context.Context, *askback.Call, struct{}) (string, error) {
			behind.done(name)
			return "", &jsonrpc.Error{Code: code, Message: "no such size, after all"}
		})
	}
	front := newFront(t, behind.url)
	for _, version := range revisions {
		s := host(t, front.url, version, able())
		for name, code := range map[string]int64{"bad": -32602, "mismatch": -32020} {
			before := behind.count(name)
			_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || fault.Code != code || fault.Message != "no such size, after all" {
				t.Errorf("%s: %s: the host is told %v, want the server's error", version, name, err)
			}
			if n := behind.count(name) - before; n != 1 {
				t.Errorf("%s: %s ran %d times", version, name, n)
			}
		}
	}
}
