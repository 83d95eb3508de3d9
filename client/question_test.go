package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestQuestionsKeepTheServersOrder(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if zip, name := strings.Index(string(q.Schema), `"zip"`), strings.Index(string(q.Schema), `"name"`); zip < 0 ||
			zip > name {
			t.Errorf("the form's fields are out of order: %s", q.Schema)
		}
		if q.Server == nil || q.Server.Name != "the server" {
			t.Errorf("it is not clear who asks: %v", q.Server)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	for _, transport := range []mcp.Transport{web(t, newServer(t, askback.Options{})),
		memory(t, newServer(t, askback.Options{}))} {
		session := connect(t, opts, transport, "")
		res, err := called(t, session, "ask")
		if err != nil || !res.IsError {
			t.Errorf("declined: %v, %v", res, err)
		}
	}
}

// Only web pages reach a handler, because it may hand the URL to the system to open.
func TestOnlyPagesAreOpened(t *testing.T) {
	for _, address := range []string{
		"javascript:alert(1)", "file:///etc/passwd", "data:text/html,<script>", "vscode://x/y", "//evil.example/",
		"/etc/passwd",
		"http:evil.example", "https://", "java\nscript:alert(1)", "%", "http://",
	} {
		question, err := json.Marshal(map[string]any{"method": "elicitation/create", "params": map[string]any{
			"mode": "url", "message": "Sign in", "url": address, "elicitationId": "1",
		}})
		expect.Check(t, err)
		opts := client.Options{URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			t.Errorf("the handler got %q", q.URL)
			return &mcp.ElicitResult{Action: "accept"}, nil
		}}
		session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
			respond(w, m, `{"resultType":"input_required","inputRequests":{"page":`+string(question)+`},"requestState":"s"}`)
		}), "")
		_, err = called(t, session, "ask")
		if !isProtocol(err) {
			t.Errorf("%q: got %v, want a ProtocolError", address, err)
		}
		parked := `{"method":"tools/call","params":{"name":"ask"},"round":1,"requestState":"s","questions":[{"key":"page",` +
			string(question[1:]) + `]}`
		if err := json.Unmarshal([]byte(parked), new(client.Pending)); !isProtocol(err) {
			t.Errorf("%q in a parked call: got %v, want a ProtocolError", address, err)
		}

		// Inside a session the question is a request of the server.
		refused := make(chan error, 1)
		inside := other(t, opts, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult,
			any, error) {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: address,
				ElicitationID: "1"})
			refused <- err
			return text("done"), nil, nil
		})
		expect.Must(called(t, inside, "t"))(t)
		if err := <-refused; err == nil {
			t.Errorf("%q: the question of a session was answered", address)
		}
	}
}

// A round may ask as much as the limit says, and no more.
func TestTheLimitOfQuestionsIsExact(t *testing.T) {
	const most = 3
	for asked := most - 1; asked <= most+1; asked++ {
		var questions []string
		for i := range asked {
			questions = append(questions, fmt.Sprintf(`"q%d":%s`, i, formQuestion))
		}
		opts := answers()
		opts.Limits.Questions = most
		var s script
		session := connect(t, opts,
			s.serve(t, `{"resultType":"input_required","inputRequests":{`+strings.Join(questions, ",")+`}}`, done), "")
		_, err := called(t, session, "t")
		if within := asked <= most; within && err != nil || !within && !isLimit("questions per round")(err) {
			t.Errorf("%d questions of %d: got %v", asked, most, err)
		}
	}
}

// No handler gets a question that the client declared no capability for, in a round or inside a session.
func TestQuestionsNeedTheirCapability(t *testing.T) {
	all := answers()
	const sampled = `"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":1`
	for name, c := range map[string]struct {
		opts   client.Options
		method string
		params string
		kind   string // what the question needs
	}{
		"a form, to who opens pages": {client.Options{URL: all.URL}, "elicitation/create",
			`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`, "elicitation.form"},
		"a page, to who fills forms": {client.Options{Form: all.Form}, "elicitation/create",
			`{"mode":"url","message":"?","url":"https://example.com/in","elicitationId":"1"}`, "elicitation.url"},
		"sampling": {client.Options{Form: all.Form}, "sampling/createMessage", `{` + sampled + `}`,
			"sampling"},
		"tools": {client.Options{Sample: all.Sample}, "sampling/createMessage",
			`{` + sampled + `,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, "sampling.tools"},
		"a choice of tools": {client.Options{Sample: all.Sample}, "sampling/createMessage",
			`{` + sampled + `,"toolChoice":{"mode":"none"}}`, "sampling.tools"},
		"roots": {client.Options{Form: all.Form}, "roots/list", `{}`, "roots"},
	} {
		t.Run(name, func(t *testing.T) {
			var s script
			session := connect(t, c.opts,
				s.serve(t, `{"resultType":"input_required","inputRequests":{"q":{"method":"`+c.method+`","params":`+c.params+`}}}`,
					done), "")
			if _, err := called(t, session, "t"); !isUndeclared(c.kind)(err) {
				t.Errorf("in a round: got %v", err)
			}

			refused := make(chan message, 1)
			session = connect(t, c.opts, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
				switch {
				case m.Method == "tools/call":
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":%q,\"params\":%s}\n\n", c.method, c.params)
					w.(http.Flusher).Flush()
					select {
					case refusal := <-refused:
						if refusal.Result != nil {
							t.Errorf("inside a session: got %s", refusal.Result)
						}
					case <-r.Context().Done():
					}
					respondOn(w, m, `{"content":[]}`)
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
				case m.Method == "" && r.Method == http.MethodPost:
					refused <- m
					fallthrough
				default:
					w.WriteHeader(http.StatusAccepted)
				}
			}), "2025-11-25")
			if _, err := called(t, session, "t"); err != nil {
				t.Error(err)
			}
		})
	}
}
