package drafts

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// asking is a ratified result that asks. Its questions are an object's members, or "" for a call that only comes back.
func asking(questions string) string {
	if questions != "" {
		questions = `"inputRequests":{` + questions + `},`
	}
	return `{"resultType":"input_required",` + questions +
		`"requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"},` +
		`"io.github.askback-mcp/expires":"2026-01-01T00:00:00Z"}}`
}

const (
	formQuestion = `{"method":"elicitation/create","params":{"mode":"form","message":"Who?",` +
		`"requestedSchema":{"type":"object","properties":{}}}}`
	samplingQuestion = `{"method":"sampling/createMessage","params":{"_meta":{"mine":1},"maxTokens":9}}`
	rootsQuestion    = `{"method":"roots/list","params":{}}`
)

// Every form of a response that asks, for each request that may be answered so.
func TestQuestionsInEveryForm(t *testing.T) {
	const (
		one     = `"a":` + formQuestion
		three   = one + `,"b":` + samplingQuestion + `,"c":` + rootsQuestion
		related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}`
		ofTask  = `{"resultType":"input_required","inputRequests":{"a":` + formQuestion + `},` + related + `}`
		ofTwo   = `{"resultType":"input_required","inputRequests":{"a":` + formQuestion + `,"b":` + samplingQuestion + `},` +
			related + `}`
		fields = `"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}`
	)
	incomplete := func(questions string) string {
		return `"result":{"inputRequests":{` + questions + `},"requestState":"s"}`
	}
	all := text(t, envelope{State: "s", Keys: []string{"a", "b", "c"}})
	none := text(t, envelope{State: "s"})
	of := func(key, question string) string {
		return `{"state":` + text(t, envelope{State: "s", Keys: []string{key}}) + `,` + question[1:]
	}
	for _, test := range []struct {
		forms, methods string
		ratified, want string
	}{
		{"mrtr-1 mrtr-2 tasks-1", "tools/call prompts/get resources/read", asking(three), incomplete(three)},
		{"tasks-2", "prompts/get resources/read", asking(three), incomplete(three)},
		{"mrtr-1 mrtr-2 tasks-1 tasks-2", "tools/call prompts/get resources/read", asking(""),
			`"result":{"requestState":"s"}`},
		{"mrtr-1 mrtr-2 state-1 state-2", "tasks/result", ofTask, `"result":{"inputRequests":{"a":` + formQuestion + `},` +
			related + `}`},

		{"tasks-1", "tasks/result", ofTask, `"method":"elicitation/create","params":{` + fields + `},` + related},
		{"tasks-1", "tasks/result", ofTwo, `"method":"elicitation/create","params":{` + fields + `},` + related},
		{"tasks-1", "tasks/result", asking(""), `"result":{"requestState":"s"}`},

		{"tasks-2", "tasks/result", ofTask, `"result":{"content":[{"type":"elicitation",` + fields + `}],"isError":false,` +
			related + `}`},
		// A question's own _meta and its key share one member.
		{"tasks-2", "tasks/result", ofTwo, `"result":{"content":[{"type":"elicitation",` + fields +
			`,"_meta":{"io.github.askback-mcp/key":"a"}},` +
			`{"type":"sampling","maxTokens":9,"_meta":{"mine":1,"io.github.askback-mcp/key":"b"}}],"isError":false,` +
			related + `}`},
		{"tasks-2", "tasks/result", asking(""), `"result":{"content":[],"isError":false,"requestState":"s"}`},
		{"tasks-2", "tools/call", asking(three), `"result":{"content":[{"type":"elicitation",` + fields +
			`,"_meta":{"io.github.askback-mcp/key":"a"}},` +
			`{"type":"sampling","maxTokens":9,"_meta":{"mine":1,"io.github.askback-mcp/key":"b"}},{"type":"roots",` +
			`"_meta":{"io.github.askback-mcp/key":"c"}}],"isError":false,"requestState":"s"}`},
		// A key that the question has from elsewhere is replaced, or left out where none is needed.
		{"tasks-2", "tools/call", asking(`"a":{"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/key":"b"}}}`),
			`"result":{"content":[{"type":"roots","_meta":{"io.github.askback-mcp/key":"a"}}],"isError":false,` +
				`"requestState":"s"}`},
		{"tasks-2", "tasks/result",
			asking(`"a":{"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/key":"b"}}}`),
			`"result":{"content":[{"type":"roots"}],"isError":false,"requestState":"s"}`},

		{"state-1", "tools/call prompts/get resources/read", asking(three), `"dependent_requests":{"state":` + all +
			`,"requests":[` + formQuestion + `,` + samplingQuestion + `,` + rootsQuestion + `]}`},
		{"state-2", "tools/call prompts/get resources/read", asking(three), `"dependent_requests":{"requests":[` +
			of("a", formQuestion) + `,` + of("b", samplingQuestion) + `,` + of("c", rootsQuestion) + `]}`},
		{"state-1 state-2", "tools/call", asking(""), `"dependent_requests":{"state":` + none + `,"requests":[]}`},
		{"state-1", "tools/call", `{"resultType":"input_required","inputRequests":{},"_meta":{"mine":1}}`,
			`"dependent_requests":{"state":` + text(t, envelope{}) + `,"requests":[]},"_meta":{"mine":1}`},
	} {
		for form := range strings.FieldsSeq(test.forms) {
			for method := range strings.FieldsSeq(test.methods) {
				t.Run(form+" "+method, func(t *testing.T) {
					got := Form(form).response(method, []byte(`{"jsonrpc":"2.0","id":7,"result":`+test.ratified+`}`))
					sameJSON(t, `{"jsonrpc":"2.0","id":7,`+test.want+`}`, string(got))
				})
			}
		}
	}
}

// A result that asks nothing loses what only the ratified revision has; a task's status is spelled as the form does it.
func TestResultsInEveryForm(t *testing.T) {
	const (
		lower, upper = "mrtr-2 state-1 state-2", "mrtr-1 tasks-1 tasks-2"
		server       = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}`
	)
	for _, test := range []struct{ forms, methods, ratified, want string }{
		{lower + " " + upper, "tools/call prompts/get resources/read tasks/result",
			`{"resultType":"complete","isError":false,"content":[],"n":1e400,` + server + `}`,
			`{"isError":false,"content":[],"n":1e400}`},
		{lower + " " + upper, "tools/call tasks/result",
			`{"resultType":"complete","content":[],"_meta":{"mine":1,"io.github.askback-mcp/expires":"x"}}`,
			`{"content":[],"_meta":{"mine":1}}`},
		{lower + " " + upper, "tasks/input_response", `{"resultType":"complete",` + server + `}`, `{}`},
		{lower, "tasks/get tasks/cancel", `{"taskId":"t","status":"working"}`, `{"taskId":"t","status":"working"}`},
		{upper, "tasks/get tasks/cancel", `{"taskId":"t","status":"working"}`, `{"taskId":"t","status":"Working"}`},
		{upper, "tasks/get tasks/cancel", `{"taskId":"t","status":"completed"}`, `{"taskId":"t","status":"Completed"}`},
		{upper, "tasks/get tasks/cancel", `{"taskId":"t","status":"failed"}`, `{"taskId":"t","status":"Failed"}`},
		{upper, "tasks/get tasks/cancel", `{"taskId":"t","status":"cancelled","statusMessage":"<&>"}`,
			`{"taskId":"t","status":"Cancelled","statusMessage":"<&>"}`},
		{lower + " " + upper, "tasks/get", `{"taskId":"t","status":"input_required"}`,
			`{"taskId":"t","status":"input_required"}`},
		{lower + " " + upper, "tasks/get", `{"taskId":"t"}`, `{"taskId":"t"}`},
		{lower, "tools/call", `{"task":{"taskId":"t","status":"working","ttl":1}}`,
			`{"task":{"taskId":"t","status":"working","ttl":1}}`},
		{upper, "tools/call", `{"task":{"taskId":"t","status":"working","ttl":1}}`,
			`{"task":{"taskId":"t","status":"Working","ttl":1}}`},
		{lower + " " + upper, "tools/call", `{"content":[],"status":"working"}`, `{"content":[],"status":"working"}`},
		{lower + " " + upper, "tasks/result", `{"content":[],"status":"working"}`, `{"content":[],"status":"working"}`},
		{lower, "tasks/list", `{"tasks":[{"taskId":"t","status":"working"}]}`,
			`{"tasks":[{"taskId":"t","status":"working"}]}`},
		{upper, "tasks/list", `{"nextCursor":"c","tasks":[{"taskId":"t","status":"working"},{"taskId":"u",` +
			`"status":"input_required"},{"taskId":"v","status":"failed"}]}`,
			`{"nextCursor":"c","tasks":[{"taskId":"t","status":"Working"},{"taskId":"u","status":"input_required"},` +
				`{"taskId":"v","status":"Failed"}]}`},
		{upper, "tasks/list", `{"tasks":[{"taskId":"t","status":"working"}]}`,
			`{"tasks":[{"taskId":"t","status":"Working"}]}`},
		{lower + " " + upper, "tasks/list", `{"tasks":[]}`, `{"tasks":[]}`},
		{lower + " " + upper, "tasks/list", `{}`, `{}`},
	} {
		for form := range strings.FieldsSeq(test.forms) {
			for method := range strings.FieldsSeq(test.methods) {
				t.Run(form+" "+method, func(t *testing.T) {
					got := Form(form).response(method, []byte(`{"jsonrpc":"2.0","id":"x","result":`+test.ratified+`}`))
					sameJSON(t, `{"jsonrpc":"2.0","id":"x","result":`+test.want+`}`, string(got))
				})
			}
		}
	}
}

// Errors and notifications are the same in all forms.
func TestErrorsAndNotificationsStay(t *testing.T) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"resultType":"input_required"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
	} {
		for _, form := range forms {
			if got := string(form.response("tools/call", []byte(message))); got != message {
				t.Errorf("%s: %s became %s", form, message, got)
			}
		}
	}
}

// A response is translated however it is written: whole, in parts, or as the events of a stream.
func TestResponsesAsTheyAreWritten(t *testing.T) {
	const (
		ratified = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}`
		draft    = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	)
	for name, test := range map[string]struct {
		kind   string
		length string
		status int
		writes []string
		body   string
		code   int
	}{
		"JSON": {"application/json", "99", 0, []string{ratified}, draft, 200},
		"JSON in parts": {"application/json; charset=utf-8", "", 0, []string{ratified[:9], ratified[9:], "\n"},
			draft, 200},
		"JSON with status": {"application/json", "99", 400, []string{`{"jsonrpc":"2.0","id":1,"error":{}}`},
			`{"jsonrpc":"2.0","id":1,"error":{}}`, 400},
		"JSON, empty": {"application/json", "", 404, nil, "", 404},
		"a stream": {"text/event-stream", "", 0, []string{"data: " + progress + "\n\n", "id: 7\nevent: message\n" +
			"data: " + ratified + "\n\n"}, "data: " + progress + "\n\nid: 7\nevent: message\ndata: " + draft + "\n\n", 200},
		"a stream's status": {"text/event-stream; charset=utf-8", "", 202,
			[]string{": waiting\n\n", "data: " + ratified + "\n\n"}, ": waiting\n\ndata: " + draft + "\n\n", 202},
		"a part of an event": {"text/event-stream", "", 0, []string{"data: " + ratified}, "data: " + ratified, 200},
		"text": {"text/plain", "", 503, []string{"data: " + ratified + "\n\n"}, "data: " + ratified + "\n\n",
			503},
		"nothing": {"", "", 202, nil, "", 202},
	} {
		t.Run(name, func(t *testing.T) {
			edge, next := &Edge{Depth: 16}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				if test.kind != "" {
					w.Header().Set("Content-Type", test.kind)
				}
				if test.length != "" {
					w.Header().Set("Content-Length", test.length)
				}
				if test.status != 0 {
					w.WriteHeader(test.status)
				}
				for _, part := range test.writes {
					expect.Equal(t, "wrote", expect.Must(w.Write([]byte(part)))(t), len(part))
					if strings.HasPrefix(test.kind, "text/event-stream") {
						if err := http.NewResponseController(w).Flush(); err != nil {
							t.Error(err)
						}
					}
				}
			}
			w := httptest.NewRecorder()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
			if !edge.Serve(w, httptest.NewRequest(http.MethodPost, "/mcp", nil), []byte(body), true, next) {
				t.Fatal("passed on")
			}
			if got := w.Body.String(); got != test.body || w.Code != test.code {
				t.Errorf("status %d, want %d\n got %s\nwant %s", w.Code, test.code, got, test.body)
			}
			expect.Equal(t, "Content-Length", w.Result().Header.Get("Content-Length"), "")
		})
	}
}
