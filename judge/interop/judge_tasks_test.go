package main

import (
	"strings"
	"testing"
)

// task is a faultless cell of the scenario "a question", of which the tests break one
// thing each.
const task = `client {"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
server {"id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}}
client {"id":2,"method":"tools/call","params":{"name":"k_ask","task":{"ttl":60000}}}
server {"id":2,"result":{"task":{"taskId":"T","status":"working","createdAt":"c","lastUpdatedAt":"u","ttl":60000}}}
client {"id":3,"method":"tasks/get","params":{"taskId":"T"}}
server {"id":3,"result":{"taskId":"T","status":"input_required","createdAt":"c","lastUpdatedAt":"u","ttl":null}}
client {"id":4,"method":"tasks/result","params":{"taskId":"T"}}
server {"id":1,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}}
client {"id":1,"result":{"action":"accept"}}
server {"id":4,"result":{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}}
client {"id":5,"method":"tasks/cancel","params":{"taskId":"T"}}
server {"id":5,"result":{"taskId":"T","status":"cancelled","createdAt":"c","lastUpdatedAt":"u","ttl":1}}
client {"id":6,"method":"tasks/list"}
server {"id":6,"result":{"tasks":[{"taskId":"T","status":"cancelled","createdAt":"c","lastUpdatedAt":"u","ttl":1}]}}`

func TestJudgeTasks(t *testing.T) {
	for _, test := range []struct{ name, old, new, want string }{
		{"all is well", "", "", ""},
		{"another revision", `"result":{"protocolVersion":"2025-11-25"`, `"result":{"protocolVersion":"2025-06-18"`,
			`revision "2025-06-18"`},
		{"not declared", `{"call":{}}`, `{}`, "does not declare tasks"},
		{"no task asked for", `,"task":{"ttl":60000}}`, `}`, "called a tool without a task"},
		{"the result at once", `"result":{"task":`, `"result":{"content":[],"task":`, "no CreateTaskResult"},
		{"begins elsewhere", `"status":"working"`, `"status":"completed"`, `begins as "completed"`},
		{"no time to live", `,"ttl":60000}}}`, `}}}`, "in the result of tools/call is incomplete"},
		{"another task", `"result":{"taskId":"T","status":"input_required"`,
			`"result":{"taskId":"U","status":"input_required"`, "tasks/get answers about another task"},
		{"a question of no task", `"params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}`, `"params":{}`,
			"elicitation/create is related to no task"},
		{"a question of another task", `"params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"`,
			`"params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"U"`,
			"elicitation/create is related to no task"},
		{"a question too few", `server {"id":1,"method"`, `Server {"id":1,"method"`, "the server asked []"},
		{"a result of no task", `"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}`,
			`"content":[]`, "tasks/result is related to no task"},
		{"metadata too many", `"status":"input_required"`,
			`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}},"status":"input_required"`,
			"tasks/get has metadata"},
		{"not cancelled", `"result":{"taskId":"T","status":"cancelled"`, `"result":{"taskId":"T","status":"working"`,
			`leaves the task "working"`},
		{"listed in part", `"createdAt":"c","lastUpdatedAt":"u","ttl":1}]`, `"ttl":1}]`,
			"in the result of tasks/list is incomplete"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(task, test.old, test.new, 1)
			if test.old != "" && text == task {
				t.Fatal("nothing was broken")
			}
			got := judgeTasks(taskScenarios[0], "", tapped(text))
			if !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
