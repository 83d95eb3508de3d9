package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxBody bounds the body of a request.
const maxBody = 4 << 20

// listenAndRun starts the two servers of a scene and the client, and returns when the client has ended.
func (s *scene) listenAndRun(ctx context.Context, name string, limit time.Duration) error {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer second.Close()
	// Handlers read the addresses, so they are set before any request is served.
	s.end.elsewhere = "http://" + second.Addr().String() + "/mcp"
	s.end.canary = "http://" + second.Addr().String() + "/page/" + nonce()
	defer serve(first, s.serveFirst)()
	defer serve(second, s.serveSecond)()
	return s.runProgram(ctx, name, "http://"+first.Addr().String()+"/mcp", limit)
}

// serve serves on a listener, and returns the function that ends it.
func serve(l net.Listener, handler http.HandlerFunc) (end func()) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 20}
	go func() { _ = server.Serve(l) }() // until it is closed
	return func() { _ = server.Close() }
}

// read records a request, and answers it if it is no message.
func (s *scene) read(w http.ResponseWriter, hr *http.Request, second bool) *request {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody))
	r := &request{second: second, verb: hr.Method, path: hr.URL.RequestURI(), header: hr.Header, body: body}
	r.canary = second && "http://"+hr.Host+hr.URL.Path == s.end.canary
	fault := err
	if fault == nil && hr.Method == http.MethodPost {
		fault = r.decode()
	}
	switch {
	case !s.receive(r):
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "too many requests in one scenario", http.StatusServiceUnavailable)
	case hr.Method != http.MethodPost:
		http.Error(w, "only POST is served", http.StatusMethodNotAllowed)
	case fault != nil:
		send(w, http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"the body is no message"}}`)
	case r.id == "" || r.id == "null":
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
	switch r.method {
	case "server/discover":
		respond(w, r, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["`+modern+`"],`+
			`"capabilities":{"tools":{},"extensions":{"`+tasksExtension+`":{}}},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"askback-check","version":"1"}}}`)
	case "initialize":
		send(w, http.StatusBadRequest, `{"jsonrpc":"2.0","id":`+r.id+`,"error":{"code":-32022,`+
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
var others = [][2]string{
	{suiteTool, "echo-state-ok"}, {"test_mrtr_unrelated", "unrelated-ok"}, {"test_mrtr_no_state", "no-state-ok"},
	{"test_mrtr_no_result_type", "no-result-type-test-ok"},
}

func (s *scene) list() string {
	tool := func(name, text string) map[string]any {
		return map[string]any{"name": name, "description": text,
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}}
	}
	tools := []any{tool(s.opts.tool, "Asks before it answers.")}
	for _, other := range others {
		if other[0] != s.opts.tool {
			tools = append(tools, tool(other[0], "Answers at once."))
		}
	}
	return marshal(map[string]any{"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools})
}

func (s *scene) serveCall(w http.ResponseWriter, r *request) {
	if r.tool != s.opts.tool {
		i := slices.IndexFunc(others, func(o [2]string) bool { return o[0] == r.tool })
		if i < 0 {
			refuse(w, r, http.StatusOK, -32602, "there is no such tool")
			return
		}
		respond(w, r, complete(others[i][1]))
		return
	}
	n := s.call(r)
	switch n.reply.Fault {
	case "close":
		panic(http.ErrAbortHandler) // the connection ends without a response
	case "redirect-307", "redirect-308":
		w.Header().Set("Location", s.end.elsewhere)
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
	respond(w, r, s.status(id, n))
}

func (s *scene) serveTask(w http.ResponseWriter, r *request) {
	s.mu.Lock()
	t := s.tasks[r.taskID]
	if t == nil || s.closed {
		s.mu.Unlock()
		refuse(w, r, http.StatusOK, -32602, "there is no such task")
		return
	}
	if r.method != "tasks/get" {
		s.mu.Unlock()
		respond(w, r, `{"resultType":"complete"}`)
		return
	}
	index := min(t.next, len(s.serve)-1)
	n := &round{index: index, reply: s.serve[index], request: r}
	n.fill(s)
	t.next++
	t.gets = append(t.gets, &poll{r, n.reply})
	s.mu.Unlock()
	respond(w, r, s.status(r.taskID, n))
}

func message(r *request, result string) string {
	return `{"jsonrpc":"2.0","id":` + r.id + `,"result":` + result + `}`
}

func respond(w http.ResponseWriter, r *request, result string) {
	send(w, http.StatusOK, message(r, result))
}

func refuse(w http.ResponseWriter, r *request, status, code int, text string) {
	send(w, status, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, r.id, code, quote(text)))
}

func send(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone
}
