package drafts

import (
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// taskAnswer is an answer to a question of a task, in the form of a response.
func taskAnswer(task string) string {
	return `{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{"n":1},"_meta":{"mine":1,` +
		`"io.modelcontextprotocol/related-task":{"taskId":"` + task + `"}}}}`
}

// An answer that is a response goes to the first open question of its task, in the dialect that tells what is open.
func TestAnAnswerToATask(t *testing.T) {
	const (
		extensionMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		asked = `{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","taskId":"t","status":"input_required",` +
			`"inputRequests":{"first":{},"second":{}}}}`
		nothingOpen = `{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","taskId":"t","status":"working"}}`
		updated     = `{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete"}}`
		notFound    = `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Task not found","data":{"n":1}}}`
	)
	sent := func(id, name, method, params string) received {
		return received{Version: "2026-07-28", Method: method, Name: name,
			Body: decoded(t,
				`{"jsonrpc":"2.0","id":0,"method":"`+method+`","params":{"taskId":"`+id+`",`+params+extensionMeta+`}}`)}
	}
	get := sent("t", "t", "tasks/get", "")
	update := sent("t", "t", "tasks/update", `"inputResponses":{"first":{"action":"accept","content":{"n":1}}},`)
	for name, test := range map[string]struct {
		exchange
		status int
		answer string
		sent   []received
	}{
		"the first of two questions": {exchange{body: taskAnswer("t"), responses: []string{asked, updated}}, 202, "",
			[]received{get, update}},
		"nothing is open": {exchange{body: taskAnswer("t"), responses: []string{nothingOpen}}, 202, "",
			[]received{get}},
		"in a session, by its URL": {exchange{url: "?draft=tasks-1", header: map[string]string{"Mcp-Session-Id": "held"},
			body: taskAnswer("t"), responses: []string{asked, updated}}, 202, "", []received{get, update}},
		"an id beyond ASCII": {exchange{body: taskAnswer("é"), responses: []string{nothingOpen}}, 202, "",
			[]received{sent("é", "=?base64?w6k=?=", "tasks/get", "")}},
		"no such task": {exchange{body: taskAnswer("t"), responses: []string{notFound}}, 400,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"Task not found","data":{"n":1}}}`, []received{get}},
		"the answer is refused": {exchange{body: taskAnswer("t"), responses: []string{asked, notFound}}, 400,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"Task not found","data":{"n":1}}}`,
			[]received{get, update}},
		"no tasks are served": {exchange{body: taskAnswer("t")}, 400,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"internal error"}}`, []received{get}},
		"updates are not served": {exchange{body: taskAnswer("t"), responses: []string{asked}}, 400,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"internal error"}}`, []received{get, update}},
	} {
		t.Run(name, func(t *testing.T) {
			x := test.exchange
			if !x.serve(t) || x.answer.Code != test.status {
				t.Fatalf("status %d, want %d: %s", x.answer.Code, test.status, x.answer.Body)
			}
			expect.Diff(t, "sent", test.sent, x.requests)
			expect.Diff(t, "answered", decoded(t, test.answer), decoded(t, x.answer.Body.String()))
		})
	}
}
