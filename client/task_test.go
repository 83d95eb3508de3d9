package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/client"
)

// If a server sends an invalid task, the call ends with an error that names the fault.
func TestHostileTasks(t *testing.T) {
	const plain = `"status":"working"`
	other := strings.Replace(askWho, "Who?", "Your password?", 1)
	get := func(results ...string) map[string]func(int, message) string {
		return map[string]func(int, message) string{
			"tools/call": always(created("working", "")), "tasks/get": inTurn(results...), "tasks/update": always(`{}`),
		}
	}
	call := func(result string) map[string]func(int, message) string {
		return map[string]func(int, message) string{"tools/call": always(result), "tasks/get": always(flat("working", ""))}
	}
	proposal := func(method, result string) map[string]func(int, message) string {
		on := map[string]func(int, message) string{
			"tools/call": always(`{"task":` + draft("working") + `}`), "tasks/get": always(draft("input_required")),
			"tasks/result": always(`{` + askWho + `}`), "tasks/input_response": always(`{}`),
		}
		on[method] = always(result)
		return on
	}
	cases := map[string]struct {
		on   map[string]func(int, message) string
		want func(error) bool
	}{
		"an id that no header can carry": {call(`{"resultType":"task","taskId":"` + strings.Repeat("x", 4097) + `",` +
			plain + `}`), isProtocol},
		"an empty id":                {call(`{"resultType":"task","taskId":"",` + plain + `}`), isProtocol},
		"an id that is no string":    {call(`{"resultType":"task","taskId":7,` + plain + `}`), isProtocol},
		"no id":                      {call(`{"resultType":"task",` + plain + `}`), isProtocol},
		"no status":                  {call(`{"resultType":"task","taskId":"x"}`), isProtocol},
		"a status that is no string": {call(`{"resultType":"task","taskId":"x","status":["working"]}`), isProtocol},
		"an unknown status":          {get(flat("dreaming", "")), isProtocol},
		"an endless status":          {get(flat(strings.Repeat("working", 1000), "")), isProtocol},
		"another task":               {get(strings.Replace(flat("working", ""), oddID, "x", 1)), isProtocol},
		"a task that is no object":   {get(`[]`), isProtocol},
		"a task of another type": {get(strings.Replace(flat("working", ""), `"complete"`, `"input_required"`, 1)),
			isProtocol},
		"a key for two questions": {get(flat("input_required", ","+askWho), flat("input_required", ","+other)),
			isProtocol},
		"questions that are no object": {get(flat("input_required", `,"inputRequests":[]`)), isProtocol},
		"a question of an unknown kind": {get(flat("input_required", `,"inputRequests":{"q":{"method":"shell/run"}}`)),
			isUndeclared("shell/run")},
		"an undeclared kind": {
			get(flat("input_required", `,"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"voice"}}}`)),
			isUndeclared("elicitation.voice")},
		"deep nesting": {
			get(flat("completed", `,"result":`+strings.Repeat(`{"a":`, 100)+`1`+strings.Repeat(`}`, 100))), isProtocol},
		"duplicate members":          {get(flat("working", `,"status":"completed"`)), isProtocol},
		"no result":                  {get(flat("completed", "")), isProtocol},
		"a result that is no object": {get(flat("completed", `,"result":[]`)), isProtocol},
		"a result that asks": {get(flat("completed", `,"result":{"resultType":"input_required",`+askWho+`}`)),
			isProtocol},
		"a result that is a task": {get(flat("completed", `,"result":`+created("working", ""))), isProtocol},
		"a result of another kind": {get(flat("completed", `,"result":{"content":[{"type":"hologram"}]}`)),
			isProtocol},
		"an error that is none": {get(flat("failed", `,"error":"no luck"`)), isProtocol},
		"endless work":          {get(flat("working", "")), isLimit("seconds per call")},
		"work without end, always news": {map[string]func(int,
			message) string{"tools/call": always(created("working", "")), "tasks/get": func(n int, _ message) string {
			return flat("working", fmt.Sprintf(`,"statusMessage":"%d"`, n))
		}}, isLimit("seconds per call")},
		"input required, nothing asked": {get(flat("input_required", `,"inputRequests":{}`)),
			isLimit("seconds per call")},
		"input required, without a word": {get(flat("input_required", "")), isProtocol},
		"no JSON":                        {get("<p>"), func(err error) bool { return err != nil }},
		"proposal: a result of no type":  {proposal("tasks/result", `{"resultType":"surprise"}`), isProtocol},
		"proposal: an odd type":          {proposal("tasks/result", `{"resultType":7}`), isProtocol},
		"proposal: no questions": {proposal("tasks/result", `{"resultType":"input_required","requestState":"x"}`),
			isProtocol},
		"proposal: a state of no string":     {proposal("tasks/result", `{`+askWho+`,"requestState":{}}`), isProtocol},
		"proposal: a task that is no object": {proposal("tools/call", `{"task":7}`), isProtocol},
		"proposal: the extension's task":     {proposal("tools/call", created("working", "")), isProtocol},
		"proposal: asks without end":         {proposal("tasks/get", draft("input_required")), isLimit("rounds per call")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := patient()
			opts.Roots = nil
			opts.Limits.Rounds = 4
			if c.want(&client.LimitError{Limit: "seconds per call"}) { // others may take longer on a busy machine
				opts.Limits.CallTTL = time.Second
			}
			if strings.HasPrefix(name, "proposal") {
				opts.Tasks = client.TasksProposal
			}
			_, err := called(t, connect(t, opts, serveTasks(t, c.on).transport(), ""), "t")
			if !c.want(err) {
				t.Errorf("got %T: %.300v", err, err)
			}
		})
	}
}

// Invalid advice is ignored.
func TestAbsurdAdvice(t *testing.T) {
	for advice, want := range map[string]client.Task{
		`"ttlMs":1e999,"pollIntervalMs":1e999`: {
			TTL: 100 * 365 * 24 * time.Hour, PollInterval: 100 * 365 * 24 * time.Hour},
		`"ttlMs":-5,"pollIntervalMs":-1e300`:                                                  {},
		`"ttlMs":"long","pollIntervalMs":{}`:                                                  {},
		`"ttlMs":null,"createdAt":"yesterday","lastUpdatedAt":5`:                              {},
		`"ttl":2.5,"createdAt":"9999999-01-01T00:00:00Z","statusMessage":[1]`:                 {TTL: 2500 * time.Microsecond},
		`"pollInterval":0,"createdAt":"0001-01-01T00:00:00Z","lastUpdatedAt":"2026-13-01T00"`: {},
	} {
		session := connect(t, patient(), serveTasks(t, map[string]func(int, message) string{
			"tasks/get": always(`{"taskId":"x","status":"working",` + advice + `}`),
		}).transport(), "")
		got, err := session.GetTask(t.Context(), "x")
		if err != nil {
			t.Errorf("%s: %v", advice, err)
		} else if got.TTL != want.TTL || got.PollInterval != want.PollInterval || !got.Created.IsZero() ||
			!got.Updated.IsZero() || got.Message != "" {
			t.Errorf("%s: %+v", advice, got)
		}
	}
}

// GetTask returns the outcome if it came with the status.
func TestOutcomeOfATask(t *testing.T) {
	const fault = `{"code":-32000,"message":"no luck"}`
	srv := serveTasks(t, map[string]func(int, message) string{
		"tasks/get": inTurn(flat("working", ""), flat("completed", `,"result":`+done), flat("failed", `,"error":`+fault),
			flat("failed", "")),
	})
	session := connect(t, patient(), srv.transport(), "")
	for _, want := range [][2]string{{}, {done}, {"", fault}, {}} {
		got, err := session.GetTask(t.Context(), oddID)
		if err != nil || string(got.Result) != want[0] || string(got.Error) != want[1] {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
