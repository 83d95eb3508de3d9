package main

import (
	"strings"
	"testing"
)

// rounds is a faultless cell of the scenario "three rounds", of which the tests break
// one thing each.
const rounds = `client {"id":1,"method":"tools/call","params":{"name":"t_rounds","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
server {"id":1,"result":{"resultType":"input_required","inputRequests":{"person":{"method":"elicitation/create"}}}}
client {"id":2,"method":"tools/call","params":{"name":"t_rounds","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"inputResponses":{"person":{}}}}
server {"id":2,"result":{"resultType":"input_required","inputRequests":{"city":{"method":"sampling/createMessage"}},"requestState":"s2"}}
client {"id":3,"method":"tools/call","params":{"name":"t_rounds","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"inputResponses":{"city":{}},"requestState":"s2"}}
server {"id":3,"result":{"resultType":"input_required","inputRequests":{"signer":{"method":"elicitation/create"}},"requestState":"s3"}}
client {"id":4,"method":"tools/call","params":{"name":"t_rounds","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"inputResponses":{"signer":{}},"requestState":"s3"}}
server {"id":4,"result":{"resultType":"complete","content":[{"text":"octocat of Paris, signed octocat"}]}}`

const session = `client {"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
server {"id":1,"result":{"protocolVersion":"2025-11-25"}}
client {"id":2,"method":"tools/call","params":{"name":"t_rounds"}}
server {"id":1,"method":"elicitation/create"}
client {"id":1,"result":{}}
server {"id":2,"method":"sampling/createMessage"}
client {"id":2,"result":{}}
server {"id":3,"method":"elicitation/create"}
client {"id":3,"result":{}}
server {"id":2,"result":{"content":[{"text":"octocat of Paris, signed octocat"}]}}`

func tapped(text string) []message {
	tap := new(wiretap)
	for line := range strings.Lines(text) {
		from, data, _ := strings.Cut(line, " ")
		tap.add(from, []byte(data))
	}
	return tap.messages
}

func TestJudgeWire(t *testing.T) {
	three := scenarios[4]
	for _, test := range []struct {
		name, transport, old, new, want string
	}{
		{"modern", "http", "", "", ""},
		{"another revision", "http", `2026-07-28"}}}` + "\nserver", `2025-11-25"}}}` + "\nserver", `revision "2025-11-25"`},
		{"an id again", "http", `client {"id":2`, `client {"id":1`, "has the id of the request before"},
		{"no answer", "http", `server {"id":4`, `server {"id":9`, "request 4 has no result"},
		{"no resultType", "http", `"resultType":"complete",`, ``, `the final result has the resultType ""`},
		{"complete too early", "http", `"resultType":"input_required","inputRequests":{"city"`,
			`"resultType":"complete","inputRequests":{"city"`, `result 2 has the resultType "complete"`},
		{"neither", "http", `,"inputRequests":{"person":{"method":"elicitation/create"}}`, ``, "result 1 has neither"},
		{"another question", "http", `{"city":{"method":"sampling/createMessage"}}`, `{"city":{"method":"roots/list"}}`,
			`asks ["roots/list"]`},
		{"state dropped", "http", `"inputResponses":{"city":{}},"requestState":"s2"`, `"inputResponses":{"city":{}}`,
			"request 3 lacks the requestState"},
		{"state changed", "http", `{}},"requestState":"s3"`, `{}},"requestState":"s4"`, "request 4 has another requestState"},
		{"state invented", "http", `{"person":{}}`, `{"person":{}},"requestState":""`,
			"request 2 has a requestState that nobody gave it"},
		{"answer missing", "http", `"inputResponses":{"city":{}}`, `"inputResponses":{}`, "request 3 answers []"},
		{"answer to an old question", "http", `"inputResponses":{"city":{}}`, `"inputResponses":{"city":{},"person":{}}`,
			`answers ["city" "person"]`},
		{"null for an answer", "http", `{"city":{}}`, `{"city":null}`, `answers "city" with null`},
		{"a round too few", "http", "client", "Client", "3 requests tools/call instead of 4"},
		{"a request of the server", "stdio", `server {"id":4`,
			`server {"id":7,"method":"roots/list"}` + "\n" + `server {"id":4`, "requests of its own: roots/list"},
		{"legacy", "legacy", "", "", ""},
		{"legacy of another revision", "legacy", `"result":{"protocolVersion":"2025-11-25"}`,
			`"result":{"protocolVersion":"2025-06-18"}`, `revision "2025-06-18"`},
		{"legacy with a retry", "legacy", `client {"id":3,"result":{}}`, `client {"id":3,"method":"tools/call"}`,
			"2 requests tools/call instead of 1"},
		{"legacy with a question less", "legacy", `server {"id":3,"method":"elicitation/create"}`, ``, "the server asked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := rounds
			if test.transport == "legacy" {
				text = session
			}
			if !strings.Contains(text, test.old) {
				t.Fatalf("%q is not there to be broken", test.old)
			}
			got := judgeWire(three, test.transport, tapped(strings.Replace(text, test.old, test.new, 1)))
			if got == "" && test.want != "" || !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestJudgeResult(t *testing.T) {
	for _, test := range []struct{ name, stdout, want string }{
		{"right", `{"content":[{"type":"text","text":"Hello, octocat."}]}`, ""},
		{"wrong text", `{"content":[{"type":"text","text":"Hello, ."}]}`, `says "Hello, ." instead of "Hello, octocat."`},
		{"tool error", `{"content":[{"type":"text","text":"Hello, octocat."}],"isError":true}`, "tool error"},
		{"unfinished", `{"content":[],"resultType":"input_required"}`, "input_required as the result"},
		{"nothing", ``, "no result"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judgeResult(scenarios[0], []byte(test.stdout)); !strings.Contains(got, test.want) || test.want == "" &&
				got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
