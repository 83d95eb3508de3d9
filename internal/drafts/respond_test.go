package drafts

import "testing"

// A question's own _meta and its key share one member.
func TestSeveralRequestsAsContent(t *testing.T) {
	const ratified = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{` +
		`"a":{"method":"sampling/createMessage","params":{"_meta":{"mine":1},"maxTokens":9}},` +
		`"b":{"method":"roots/list","params":{}}}}}`
	const want = `{"jsonrpc":"2.0","id":1,"result":{"content":[` +
		`{"type":"sampling","maxTokens":9,"_meta":{"mine":1,"io.github.askback-mcp/key":"a"}},` +
		`{"type":"roots","_meta":{"io.github.askback-mcp/key":"b"}}],"isError":false}}`
	if got := string(Tasks2.response("tasks/result", []byte(ratified))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
