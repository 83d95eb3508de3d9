package planted

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

const (
	maxBody    = 1 << 20
	maxDepth   = 64
	maxAnswers = 100
	bodyTime   = 5 * time.Second
)

func mismatch(message string) error {
	return &refusal{http.StatusBadRequest, -32020, message, nil}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	case !s.isOwn(r):
		http.Error(w, "the origin is not allowed", http.StatusForbidden)
		return
	}
	req := &request{}
	switch req.token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); req.token {
	case Alice:
		req.principal = "alice"
	case Bob:
		req.principal = "bob"
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	if err := s.read(w, r, req); err != nil {
		s.respond(w, req, nil, err)
		return
	}
	if len(req.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if req.Method == "subscriptions/listen" {
		s.listen(w, r, req)
		return
	}
	result, err := s.dispatch(req)
	s.respond(w, req, result, err)
}

// isOwn reports whether a request is of no page, or of a page of this server, which is on the local host: a page of
// another host can have its own name lead here (DNS rebinding), so that its origin is the host of the request.
func (o *Options) isOwn(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || o.has("http-origin") {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host != r.Host {
		return false
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	return o.has("http-rebinding") || u.Hostname() == "localhost" || addr.IsLoopback()
}

// read reads the body and compares the headers with it.
func (s *server) read(w http.ResponseWriter, r *http.Request, req *request) error {
	body := io.Reader(r.Body)
	if !s.has("load-body") {
		body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	control := http.NewResponseController(w)
	if !s.has("load-half") {
		_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // a recorder of a test has none
	}
	text, err := io.ReadAll(body)
	if err == nil { // otherwise net/http would wait for the rest before it responds
		_ = control.SetReadDeadline(time.Time{})
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &refusal{http.StatusRequestEntityTooLarge, -32600, "the body is too large", nil}
	} else if err != nil {
		return &refusal{http.StatusBadRequest, -32700, "the body did not arrive", nil}
	}
	if err := s.strict(text); err != nil {
		return &refusal{http.StatusBadRequest, -32700, err.Error(), nil}
	}
	var message struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	var members struct {
		Arguments map[string]any `json:"arguments"`
		Meta      map[string]any `json:"_meta"`
	}
	if json.Unmarshal(text, &message) != nil || message.Version != "2.0" || message.Method == "" {
		return &refusal{http.StatusBadRequest, -32600, "this is no JSON-RPC request", nil}
	}
	req.ID, req.Method = message.ID, message.Method
	if len(message.Params) > 0 {
		if json.Unmarshal(message.Params, &req.params) != nil || json.Unmarshal(message.Params, &members) != nil {
			return invalid("the params are not of this method")
		}
	}
	req.arguments, req.meta = members.Arguments, members.Meta
	switch req.Method {
	case "tools/call", "prompts/get":
		req.target = req.Name
	case "resources/read":
		req.target = req.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		req.target = req.TaskID
	}
	if len(req.params.Answers) > maxAnswers && !s.has("load-answers") {
		return invalid("there are too many answers")
	}
	return s.compare(r.Header, req)
}

// strict refuses JSON that two readers could understand differently.
func (o *Options) strict(text []byte) error {
	depth := maxDepth
	if o.has("http-depth") {
		depth = 1 << 20
	}
	err := strictjson.Check(text, depth)
	wrong := new(strictjson.Error)
	if errors.As(err, &wrong) && (wrong.Kind == strictjson.Duplicate && o.has("http-duplicate") ||
		wrong.Kind == strictjson.Encoding && o.has("http-utf8")) {
		return nil
	}
	return err
}

func (o *Options) compare(h http.Header, req *request) error {
	body, _ := req.meta["io.modelcontextprotocol/protocolVersion"].(string)
	if header := h.Get("MCP-Protocol-Version"); header != body && !o.has("http-version") {
		return mismatch("Header mismatch: MCP-Protocol-Version does not match the body")
	}
	if len(req.ID) > 0 && h.Get("Mcp-Method") != req.Method && !o.has("http-method") {
		return mismatch("Header mismatch: Mcp-Method does not match the body")
	}
	if req.target != "" && headerText(h.Get("Mcp-Name")) != req.target && !o.has("http-name") {
		return mismatch("Header mismatch: Mcp-Name does not match the body")
	}
	_, declared := req.meta["io.modelcontextprotocol/clientCapabilities"].(map[string]any)
	if len(req.ID) > 0 && (body == "" || !declared) {
		return invalid("the protocol version and the client's capabilities are required in _meta")
	}
	if body != "" && body != version {
		return &refusal{http.StatusBadRequest, -32022, "Unsupported protocol version",
			map[string]any{"supported": []string{version}, "requested": body}}
	}
	return nil
}

func headerText(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if inner, ok2 := strings.CutSuffix(inner, "?="); ok && ok2 {
		text, err := base64.StdEncoding.DecodeString(inner)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return value
}
