package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// maxBody bounds the body of a request.
const maxBody = 4 << 20

// listenAndRun starts the two servers of a scene and the client, and returns when the client has ended.
func (s *scene) listenAndRun(ctx context.Context, name string) error {
	first := httptest.NewUnstartedServer(http.HandlerFunc(s.serveFirst))
	second := httptest.NewUnstartedServer(http.HandlerFunc(s.serveSecond))
	// Handlers read the addresses, so they are set before any request is served.
	other := "http://" + second.Listener.Addr().String()
	s.elsewhere, s.canary = other+"/mcp", other+"/page/"+nonce()
	for _, server := range []*httptest.Server{first, second} {
		server.Config.ReadHeaderTimeout, server.Config.MaxHeaderBytes = 10*time.Second, 1<<20
		server.Start()
		defer server.Close()
		defer server.CloseClientConnections()
	}
	return s.runProgram(ctx, name, first.URL+"/mcp")
}

// read records a request, and answers it if it is no message.
func (s *scene) read(w http.ResponseWriter, hr *http.Request, second bool) *request {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	r := &request{second: second, verb: hr.Method, path: hr.URL.RequestURI(), header: hr.Header, body: body}
	r.canary = second && "http://"+hr.Host+hr.URL.Path == s.canary
	fault := err
	if fault == nil && hr.Method == http.MethodPost {
		fault = json.Unmarshal(body, r)
	}
	switch {
	case !s.receive(r):
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "too many requests in one scenario", http.StatusServiceUnavailable)
	case hr.Method != http.MethodPost:
		http.Error(w, "only POST is served", http.StatusMethodNotAllowed)
	case fault != nil:
		send(w, http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"the body is no message"}}`)
	case r.ID == nil || string(r.ID) == "null":
		w.WriteHeader(http.StatusAccepted)
	default:
		return r
	}
	return nil
}

// serveFirst is the server that the client knows.
func (s *scene) serveFirst(w http.ResponseWriter, hr *http.Request) {
	r := s.read(w, hr, false)
	if r == nil {
		return
	}
	if s.serve[0].Fault == "refuse-contact" {
		refuse(w, r, http.StatusBadRequest, -32020, "a header does not match the body")
		return
	}
	switch r.Method {
	case "server/discover":
		respond(w, r, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["`+modern+`"],`+
			`"capabilities":{"tools":{},"extensions":{"`+tasksExtension+`":{}}},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"askback-check","version":"1"}}}`)
	case "initialize":
		send(w, http.StatusBadRequest, `{"jsonrpc":"2.0","id":`+string(r.ID)+`,"error":{"code":-32022,`+
			`"message":"this server speaks `+modern+` only","data":{"supported":["`+modern+`"],"requested":""}}}`)
	case "tools/list":
		respond(w, r, s.list())
	case "tools/call":
		s.serveCall(w, r)
	case "tasks/get", "tasks/update", "tasks/cancel":
		s.serveTask(w, r)
	default:
		refuse(w, r, http.StatusNotFound, -32601, "Method not found")
	}
}

// serveSecond is another origin, which answers all that comes.
func (s *scene) serveSecond(w http.ResponseWriter, hr *http.Request) {
	if r := s.read(w, hr, true); r != nil {
		respond(w, r, complete("echo-state-ok"))
	}
}

// others are the tools of the official suite besides the tool under test, and what they say.
var others = map[string]string{
	suiteTool: "echo-state-ok", "test_mrtr_unrelated": "unrelated-ok", "test_mrtr_no_state": "no-state-ok",
	"test_mrtr_no_result_type": "no-result-type-test-ok",
}

func (s *scene) list() string {
	tool := func(name, text string) map[string]any {
		return map[string]any{"name": name, "description": text,
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}}
	}
	tools := []any{tool(s.opts.tool, "Asks before it answers.")}
	for name := range others {
		if name != s.opts.tool {
			tools = append(tools, tool(name, "Answers at once."))
		}
	}
	return marshal(map[string]any{"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools})
}

func (s *scene) serveCall(w http.ResponseWriter, r *request) {
	if r.Params.Name != s.opts.tool {
		if text, ok := others[r.Params.Name]; ok {
			respond(w, r, complete(text))
		} else {
			refuse(w, r, http.StatusOK, -32602, "there is no such tool")
		}
		return
	}
	n := s.call(r)
	switch n.reply.Fault {
	case "close":
		panic(http.ErrAbortHandler) // the connection ends without a response
	case "redirect-307", "redirect-308":
		w.Header().Set("Location", s.elsewhere)
		w.WriteHeader(map[string]int{"redirect-307": 307, "redirect-308": 308}[n.reply.Fault])
	case "refuse":
		refuse(w, r, http.StatusBadRequest, -32021, "a capability is missing")
	case "huge":
		respond(w, r, complete(strings.Repeat("0123456789abcdef", 1<<20)))
	case "deep":
		deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
		respond(w, r, `{"resultType":"complete","content":[],"structuredContent":`+deep+`}`)
	case "wrong-id":
		send(w, http.StatusOK, `{"jsonrpc":"2.0","id":"another-`+nonce()+`","result":`+n.result()+`}`)
	case "twice":
		w.Header().Set("Content-Type", "text/event-stream")
		event := "event: message\ndata: " + message(r, n.result()) + "\n\n"
		_, _ = io.WriteString(w, event+event) // the client may be gone
	default:
		if n.reply.Task == "created" {
			s.createTask(w, r, n)
			return
		}
		respond(w, r, n.result())
	}
}

// createTask answers a call with a task if the client takes tasks.
func (s *scene) createTask(w http.ResponseWriter, r *request, n *round) {
	if !r.declares("tasks") {
		respond(w, r, complete("echo-state-ok"))
		return
	}
	id := nonce()
	s.mu.Lock()
	s.tasks[id] = &task{next: n.index + 1}
	s.mu.Unlock()
	respond(w, r, n.status(id))
}

func (s *scene) serveTask(w http.ResponseWriter, r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[r.Params.TaskID]
	switch {
	case t == nil || s.closed:
		refuse(w, r, http.StatusOK, -32602, "there is no such task")
	case r.Method != "tasks/get":
		respond(w, r, `{"resultType":"complete"}`)
	default:
		n := s.round(t.next, r)
		t.next++
		t.gets = append(t.gets, n)
		respond(w, r, n.status(r.Params.TaskID))
	}
}

func message(r *request, result string) string {
	return `{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":` + result + `}`
}

func respond(w http.ResponseWriter, r *request, result string) {
	send(w, http.StatusOK, message(r, result))
}

func refuse(w http.ResponseWriter, r *request, status, code int, text string) {
	send(w, status, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.ID, code, marshal(text)))
}

func send(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone
}
