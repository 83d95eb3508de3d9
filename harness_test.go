package askback_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
)

// newServer makes a server with the handlers that register adds. Without options it
// has keys of its own and logs nothing.
func newServer(t testing.TB, opts *askback.Options, register ...func(*askback.Server)) *askback.Server {
	t.Helper()
	all := askback.Options{Keys: newRing(t), Logger: slog.New(slog.DiscardHandler)}
	if opts != nil {
		all = *opts
		if all.Keys == nil {
			all.Keys = newRing(t)
		}
		if all.Logger == nil {
			all.Logger = slog.New(slog.DiscardHandler)
		}
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), &all)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range register {
		f(srv)
	}
	return srv
}

func newRing(t testing.TB) *seal.Ring {
	t.Helper()
	ring, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// request is a modern request as a test varies it.
type request struct {
	method       string // default tools/call
	target       string
	arguments    string // default none
	responses    string // inputResponses
	state        string
	capabilities string // default all
	meta         string // further members of _meta, each with a comma before
	header       http.Header
	body         string // instead of all above
	ctx          func(*http.Request) *http.Request
}

type response struct {
	status int
	header http.Header
	raw    string
	Result *struct {
		Type     string                     `json:"resultType"`
		Requests map[string]json.RawMessage `json:"inputRequests"`
		State    string                     `json:"requestState"`
		Content  []struct{ Text string }    `json:"content"`
		IsError  bool                       `json:"isError"`
		Meta     map[string]json.RawMessage `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (r request) http(t testing.TB) *http.Request {
	t.Helper()
	if r.method == "" {
		r.method = "tools/call"
	}
	if r.capabilities == "" {
		r.capabilities = allCapabilities
	}
	body := r.body
	if body == "" {
		target := "name"
		if r.method == "resources/read" {
			target = "uri"
		}
		params := `"` + target + `":` + quote(r.target)
		if r.arguments != "" {
			params += `,"arguments":` + r.arguments
		}
		if r.responses != "" {
			params += `,"inputResponses":` + r.responses
		}
		if r.state != "" {
			params += `,"requestState":` + quote(r.state)
		}
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + r.capabilities + r.meta + `}`
		body = `{"jsonrpc":"2.0","id":1,"method":` + quote(r.method) + `,"params":{` + params + `}}`
	}
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           r.method,
		"Mcp-Name":             r.target,
	} {
		req.Header.Set(name, value)
	}
	for name, values := range r.header {
		if values == nil {
			req.Header.Del(name)
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if r.ctx != nil {
		req = r.ctx(req)
	}
	return req
}

func (r request) send(t testing.TB, h http.Handler) *response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.http(t))
	return parse(t, w)
}

func parse(t testing.TB, w *httptest.ResponseRecorder) *response {
	t.Helper()
	res := &response{status: w.Code, header: w.Header(), raw: w.Body.String()}
	body := w.Body.Bytes()
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		events := bytes.Split(bytes.TrimSpace(body), []byte("\n\n"))
		_, body, _ = bytes.Cut(events[len(events)-1], []byte("data: "))
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, res); err != nil && w.Header().Get("Content-Type") == "application/json" {
			t.Fatalf("status %d: %v in %s", w.Code, err, body)
		}
	}
	return res
}

// text is the text of a complete result.
func (r *response) text(t testing.TB) string {
	t.Helper()
	if r.Result == nil || r.Result.Type != "complete" {
		t.Fatalf("no complete result: %s", r.raw)
	}
	var b strings.Builder
	for _, c := range r.Result.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// asked is the state of a result that asks exactly these keys.
func (r *response) asked(t testing.TB, keys ...string) string {
	t.Helper()
	if r.Result == nil || r.Result.Type != "input_required" {
		t.Fatalf("want input_required, got %s", r.raw)
	}
	for _, key := range keys {
		if r.Result.Requests[key] == nil {
			t.Errorf("%q is not asked: %s", key, r.raw)
		}
	}
	if len(r.Result.Requests) != len(keys) {
		t.Errorf("want %d questions, got %s", len(keys), r.raw)
	}
	return r.Result.State
}

// refused checks the error of a response.
func (r *response) refused(t testing.TB, status, code int) string {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || r.status != status {
		t.Fatalf("want status %d with error %d, got status %d: %s", status, code, r.status, r.raw)
	}
	return r.Error.Message
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// logs collects what a server logs.
func logs() (*slog.Logger, *bytes.Buffer) {
	buf := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(io.Writer(buf), nil)), buf
}
