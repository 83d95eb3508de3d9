package main

import (
	"strings"
	"testing"
)

// extended is a correct transcript of the scenario "a question" of the extension. Each test breaks one thing in it.
const extended = `client {"id":1,"method":"tools/call","params":{"name":"x_ask","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}
server {"id":1,"result":{"resultType":"task","taskId":"T","status":"working","createdAt":"c","lastUpdatedAt":"u","ttlMs":60000}}
client {"id":2,"method":"tasks/get","params":{"taskId":"T","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
server {"id":2,"result":{"resultType":"complete","taskId":"T","status":"input_required","createdAt":"c","lastUpdatedAt":"u","ttlMs":null,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"m"}}}}}
client {"id":3,"method":"tasks/update","params":{"taskId":"T","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
server {"id":3,"result":{"resultType":"complete"}}
client {"id":4,"method":"tasks/get","params":{"taskId":"T","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
server {"id":4,"result":{"resultType":"complete","taskId":"T","status":"completed","createdAt":"c","lastUpdatedAt":"u","ttlMs":1,"result":{"resultType":"complete","content":[]}}}`

func TestJudgeExtension(t *testing.T) {
	const inner = `"result":{"resultType":"complete","content":[]}`
	for _, test := range []struct{ name, old, new, want string }{
		{"all is well", "", "", ""},
		{"another revision", `"2026-07-28"}}}` + "\n" + `server {"id":2`, `"2025-11-25"}}}` + "\n" + `server {"id":2`,
			`revision "2025-11-25"`},
		{"a request of the server", `server {"id":3`, `server {"id":9,"method":"roots/list"}` + "\n" + `server {"id":3`,
			"request of its own: roots/list"},
		{"not declared", `"io.modelcontextprotocol/tasks"`, `"other"`, "did not declare the extension"},
		{"no task", `"resultType":"task"`, `"resultType":"complete"`,
			`tools/call has the resultType "complete" instead of "task"`},
		{"no resultType of a status", `{"resultType":"complete","taskId"`, `{"taskId"`, `tasks/get has the resultType ""`},
		{"no resultType of an acknowledgement", `"result":{"resultType":"complete"}`, `"result":{}`,
			`tasks/update has the resultType ""`},
		{"no resultType inside", inner, `"result":{"content":[]}`, `result in a task has the resultType ""`},
		{"no content inside", inner, `"result":{"resultType":"complete"}`, "and content: false"},
		{"no result", "," + inner, "", `"completed" has a result: false`},
		{"no error", `"completed"`, `"failed"`, `"failed" has a result: true`},
		{"an empty error", `"completed","createdAt":"c","lastUpdatedAt":"u","ttlMs":1,` + inner,
			`"failed","createdAt":"c","lastUpdatedAt":"u","ttlMs":1,"error":{}`, "lacks its code"},
		{"another task", `"complete","taskId":"T"`, `"complete","taskId":"U"`, "about another task"},
		{"no time to live", `,"ttlMs":60000`, "", "tools/call is incomplete"},
		{"no questions", `"inputRequests"`, `"inputs"`, "has 0 questions"},
		{"a question too many", `{"q":`, `{"p":{"method":"roots/list"},"q":`, `asked ["elicitation/create" "roots/list"]`},
		{"a key again", `{"resultType":"complete"}}` + "\n", `{"resultType":"complete"}}` + "\n" +
			`server {"id":2,"result":{"resultType":"complete","taskId":"T","status":"input_required","createdAt":"c",` +
			`"lastUpdatedAt":"u","ttlMs":null,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"n"}}}}}` +
			"\n",
			`"q" is used for two questions`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(extended, test.old, test.new, 1)
			if test.old != "" && text == extended {
				t.Fatal("nothing was broken")
			}
			got := judgeExtension(extensionScenarios[1], "", tapped(text))
			if !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
