package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// Request is a request of 2026-07-28 as a test varies it.
type Request struct {
	Method       string // default tools/call
	Target       string
	Arguments    string // default none
	Responses    string // inputResponses
	State        string
	Capabilities string // default all
	Meta         string // further members of _meta, each with a comma before
	Header       http.Header
	Body         string // instead of all above
	Context      func(*http.Request) *http.Request
}

// HTTP returns the request with the headers that mirror its body.
func (r Request) HTTP(t testing.TB) *http.Request {
	t.Helper()
	r.Method, r.Capabilities = cmp.Or(r.Method, "tools/call"), cmp.Or(r.Capabilities, AllCapabilities)
	body := r.Body
	if body == "" {
		params := Quote(wire.TargetMember(r.Method)) + ":" + Quote(r.Target)
		if r.Arguments != "" {
			params += `,"arguments":` + r.Arguments
		}
		if r.Responses != "" {
			params += `,"inputResponses":` + r.Responses
		}
		if r.State != "" {
			params += `,"requestState":` + Quote(r.State)
		}
		body = Message(1, r.Method, params, r.Capabilities+r.Meta)
	}
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	setHeaders(req, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", r.Method, "Mcp-Name", r.Target})
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if r.Context != nil {
		req = r.Context(req)
	}
	return req
}

// Send lets a handler serve the request.
func (r Request) Send(t testing.TB, h http.Handler) *Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.HTTP(t))
	res := &Response{Status: w.Code, Header: w.Header(), Raw: w.Body.String()}
	body := lastMessage(w.Header(), w.Body.Bytes())
	err := json.Unmarshal(body, res)
	if err != nil && len(body) > 0 && w.Header().Get("Content-Type") == "application/json" {
		t.Fatalf("status %d: %v in %s", w.Code, err, body)
	}
	return res
}

// Message returns a request with these members of params. With capabilities it is one of
// 2026-07-28, and without one of a session before that. Members that have a _meta keep it.
func Message(id int, method, members, capabilities string) string {
	if capabilities != "" && !strings.Contains(members, `"_meta":`) {
		if members != "" {
			members += ","
		}
		members += `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s,"params":{%s}}`, id, Quote(method), members)
}

// AllCapabilities are the capabilities of a client that can be asked everything.
const AllCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// Response is what a request got: a result or an error, or only a status.
type Response struct {
	Status int         `json:"-"`
	Header http.Header `json:"-"`
	Raw    string      `json:"-"`
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

// Text returns the text of a complete result.
func (r *Response) Text(t testing.TB) string {
	t.Helper()
	if r.Result == nil || r.Result.Type != "complete" {
		t.Fatalf("no complete result: %s", r.Raw)
	}
	var b strings.Builder
	for _, c := range r.Result.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// Asked returns the state of a result that asks exactly these keys.
func (r *Response) Asked(t testing.TB, keys ...string) string {
	t.Helper()
	if r.Result == nil || r.Result.Type != "input_required" {
		t.Fatalf("want input_required, got %s", r.Raw)
	}
	asked := slices.Sorted(maps.Keys(r.Result.Requests))
	if !slices.Equal(asked, slices.Sorted(slices.Values(keys))) {
		t.Errorf("want the questions %q, got %s", keys, r.Raw)
	}
	return r.Result.State
}

// Refused returns the message of an error with this status and code.
func (r *Response) Refused(t testing.TB, status, code int) string {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || r.Status != status {
		t.Fatalf("want status %d with error %d, got status %d: %s", status, code, r.Status, r.Raw)
	}
	return r.Error.Message
}

// StateRefused is the one message that a client gets for a state that is refused.
const StateRefused = "Invalid or expired requestState"

// Text is a result with one text.
func Text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// Quote returns the JSON of a string.
func Quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Begun is a response that tells when it has begun.
type Begun struct {
	*httptest.ResponseRecorder
	Began atomic.Bool
}

// NewBegun returns a response that has not begun.
func NewBegun() *Begun { return &Begun{ResponseRecorder: httptest.NewRecorder()} }

// Write implements [io.Writer].
func (b *Begun) Write(p []byte) (int, error) {
	defer b.Began.Store(true)
	return b.ResponseRecorder.Write(p)
}
