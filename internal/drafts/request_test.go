package drafts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// What a draft's client sends becomes the ratified request that means the same.
func TestRequestsBecomeRatified(t *testing.T) {
	const (
		answer = `{"action":"accept","content":{"name":"octocat"}}`
		meta   = `"_meta":` + ratifiedMetaJSON
	)
	shared := text(t, envelope{State: "sealed", Keys: []string{"a", "b"}})
	ofA, ofB := text(t, envelope{State: "sealed", Keys: []string{"a"}}),
		text(t, envelope{State: "sealed", Keys: []string{"b"}})
	for name, test := range map[string]struct{ url, params, beside, want string }{
		"first round": {"", `{"name":"x","arguments":{"n":1}}`, ``,
			`{"name":"x","arguments":{"n":1},` + meta + `}`},
		"no params": {"", ``, ``, `{` + meta + `}`},
		"numbers as they are spelled": {"", `{"name":"x","arguments":{"n":9007199254740993,"m":1.50e400}}`, ``,
			`{"name":"x","arguments":{"n":9007199254740993,"m":1.50e400},` + meta + `}`},
		"names with escapes": {"", `{"n\u0061me":"x","_met\u0061":{"\"\u00e9":1}}`, ``,
			`{"name":"x","_meta":{"\"é":1,` + ratifiedMetaJSON[1:] + `}`},
		"task": {"", `{"name":"x","task":{"ttl":60000}}`, ``,
			`{"name":"x","task":{"ttl":60000},` + meta + `}`},
		"bare answer": {"", `{"name":"x","inputResponses":{"a":` + answer +
			`},"requestState":"s"}`, ``, `{"name":"x","inputResponses":{"a":` + answer + `},"requestState":"s",` + meta + `}`},
		"wrapped answer": {"", `{"name":"x","inputResponses":{"a":{"result":` + answer +
			`}},"requestState":"s"}`, ``, `{"name":"x","inputResponses":{"a":` + answer + `},"requestState":"s",` + meta + `}`},
		"wrapped and bare answers": {"", `{"name":"x","inputResponses":{"a":{"result":{"n":1}},"b":{"n":2},` +
			`"c":{}}}`, ``, `{"name":"x","inputResponses":{"a":{"n":1},"b":{"n":2},"c":{}},` + meta + `}`},
		"wrapped, whatever form is named": {"?draft=tasks-2", `{"name":"x","inputResponses":{"a":{"result":{"n":1}}}}`,
			``, `{"name":"x","inputResponses":{"a":{"n":1}},` + meta + `}`},
		"an answer with a result of its own": {"", `{"name":"x","inputResponses":{"a":{"result":{},"action":"cancel"}}}`,
			``, `{"name":"x","inputResponses":{"a":{"result":{},"action":"cancel"}},` + meta + `}`},
		"an answer that is unwrapped once": {"", `{"name":"x","inputResponses":{"a":{"result":{"result":{"n":1}}}}}`,
			``, `{"name":"x","inputResponses":{"a":{"result":{"n":1}}},` + meta + `}`},
		"an answer that is none": {"", `{"name":"x","inputResponses":{"a":1,"b":null,"c":["result"]}}`, ``,
			`{"name":"x","inputResponses":{"a":1,"b":null,"c":["result"]},` + meta + `}`},
		"answers that are none": {"", `{"name":"x","inputResponses":[]}`, ``,
			`{"name":"x","inputResponses":[],` + meta + `}`},
		"answers beside params": {"", `{"name":"x"}`,
			`,"inputResponses":{"a":{"result":{"n":1}}},"requestState":"s"`,
			`{"name":"x","inputResponses":{"a":{"n":1}},"requestState":"s",` + meta + `}`},
		"answers beside, state inside": {"", `{"name":"x","requestState":"s"}`, `,"inputResponses":{"a":{"n":1}}`,
			`{"name":"x","inputResponses":{"a":{"n":1}},"requestState":"s",` + meta + `}`},
		"answers inside, state beside": {"", `{"name":"x","inputResponses":{"a":{"n":1}}}`, `,"requestState":"s"`,
			`{"name":"x","inputResponses":{"a":{"n":1}},"requestState":"s",` + meta + `}`},
		"a state that is none": {"", `{"name":"x","requestState":{"n":1}}`, ``,
			`{"name":"x","requestState":{"n":1},` + meta + `}`},
		"meta of its own": {"", `{"name":"x","_meta":{"progressToken":"p"}}`, ``,
			`{"name":"x","_meta":{"progressToken":"p",` + ratifiedMetaJSON[1:] + `}`},
		"declared capabilities": {"",
			`{"name":"x","_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`, ``,
			`{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{}}}`},
		"another version, where a form is named": {"?draft=mrtr-1",
			`{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"1"}}`, ``, `{"name":"x",` + meta + `}`},
		"meta that is none": {"", `{"name":"x","_meta":[1]}`, ``, `{"name":"x","_meta":[1]}`},

		"one state for all": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared +
			`,"responses":[{"result":{"n":1}},{"result":{"n":2}}]}`, `{"name":"x","inputResponses":{"a":{"n":1},"b":{"n":2}},` +
			`"requestState":"sealed",` + meta + `}`},
		"one state, the first answered": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared +
			`,"responses":[{"result":{"n":1}}]}`, `{"name":"x","inputResponses":{"a":{"n":1}},"requestState":"sealed",` +
			meta + `}`},
		"one state, the second answered": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared +
			`,"responses":[{"error":{}},{"result":{"n":2}}]}`, `{"name":"x","inputResponses":{"b":{"n":2}},` +
			`"requestState":"sealed",` + meta + `}`},
		"one state, an answer to nothing": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared +
			`,"responses":[{"result":{"n":1}},{"result":{"n":2}},{"result":{"n":3}}]}`,
			`{"name":"x","inputResponses":{"a":{"n":1},"b":{"n":2}},"requestState":"sealed",` + meta + `}`},
		"one state, no answers": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared + `}`,
			`{"name":"x","inputResponses":{},"requestState":"sealed",` + meta + `}`},
		"a state for each": {"", `{"name":"x"}`, `,"dependent_responses":{"responses":[{"state":` + ofB +
			`,"result":{"n":2}},{"state":` + ofA + `,"result":{"n":1}}]}`,
			`{"name":"x","inputResponses":{"a":{"n":1},"b":{"n":2}},"requestState":"sealed",` + meta + `}`},
		"a state for each, one twice": {"", `{"name":"x"}`, `,"dependent_responses":{"responses":[{"state":` + ofA +
			`,"result":{"n":1}},{"state":` + ofA + `,"result":{"n":2}}]}`,
			`{"name":"x","inputResponses":{"a":{"n":1}},"requestState":"sealed",` + meta + `}`},
		"both kinds of state": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` + shared +
			`,"responses":[{"result":{"n":1}},{"state":` + ofB + `,"result":{"n":2}}]}`,
			`{"name":"x","inputResponses":{"a":{"n":1},"b":{"n":2}},"requestState":"sealed",` + meta + `}`},
		"a state of a bare first round": {"", `{"name":"x"}`, `,"dependent_responses":{"state":` +
			text(t, envelope{Keys: []string{"a"}}) + `,"responses":[{"result":{"n":1}}]}`,
			`{"name":"x","inputResponses":{"a":{"n":1}},` + meta + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call"`
			if test.params != "" {
				body += `,"params":` + test.params
			}
			x := exchange{url: test.url, body: body + test.beside + `}`,
				responses: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}}
			if !x.serve(t) || len(x.requests) != 1 {
				t.Fatalf("not served: %d requests, %s", len(x.requests), x.answer.Body)
			}
			want := decoded(t, `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":`+test.want+`}`)
			expect.Diff(t, "the value", want, x.requests[0].Body)
		})
	}
}

// The headers of a translated request say what the ratified transport wants them to say, whatever its client sent.
func TestRequestsHaveTheRatifiedHeaders(t *testing.T) {
	for _, test := range []struct{ method, params, name string }{
		{"tools/call", `{"name":"x","uri":"file:///y"}`, "x"},
		{"prompts/get", `{"name":"x","uri":"file:///y"}`, "x"},
		{"resources/read", `{"name":"x","uri":"file:///y"}`, "file:///y"},
		{"tools/call", `{"name":"Köln"}`, "=?base64?S8O2bG4=?="},
		{"tools/call", `{"name":7}`, ""},
		{"tools/call", `{}`, ""},
		{"tasks/get", `{"taskId":"x","name":"x"}`, ""},
		{"tasks/input_response", `{"name":"x"}`, ""},
	} {
		x := exchange{url: "?draft=mrtr-2", body: `{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":` +
			test.params + `}`,
			header: map[string]string{"Mcp-Session-Id": "held", "Mcp-Protocol-Version": "2025-11-25"}}
		if !x.serve(t) || len(x.requests) != 1 {
			t.Fatalf("%s %s: not served", test.method, test.params)
		}
		got := x.requests[0]
		got.Body = nil
		if diff := cmp.Diff(received{Version: "2026-07-28", Method: test.method, Name: test.name}, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.params, diff)
		}
	}
}

// The drafts have no routing headers. Where there are some, as from a client of both, an intermediary may have acted
// upon them: they say what the body says, or the request is refused as a ratified one would be.
func TestRoutingHeadersMatchTheBody(t *testing.T) {
	const (
		deletes = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_everything"}}`
		reads   = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"name":"x","uri":"file:///ä"}}`
		nobody  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`
		gets    = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t","name":"x"}}`
		answers = `{"jsonrpc":"2.0","id":1,"method":"tasks/input_response","params":{"inputResponses":{},` +
			`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}`
		lists = `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`
	)
	done := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`
	echo := `{"jsonrpc":"2.0","id":1,"state":` +
		text(t, envelope{State: "s", Keys: []string{"a"}, Call: sessionCall("gone")}) + `,"result":{}}`
	for _, test := range []struct {
		name, body  string
		method, tag []string // the headers Mcp-Method and Mcp-Name
		refused     bool
	}{
		{"both match", deletes, []string{"tools/call"}, []string{"delete_everything"}, false},
		{"the method alone", deletes, []string{"tools/call"}, nil, false},
		{"the name alone", deletes, nil, []string{"delete_everything"}, false},
		{"an encoded name", deletes, nil, []string{"=?base64?ZGVsZXRlX2V2ZXJ5dGhpbmc=?="}, false},
		{"another name", deletes, []string{"tools/call"}, []string{"harmless"}, true},
		{"another name, encoded", deletes, nil, []string{"=?base64?aGFybWxlc3M=?="}, true},
		{"an empty name", deletes, nil, []string{""}, true},
		{"the name twice", deletes, nil, []string{"delete_everything", "harmless"}, true},
		{"another method", deletes, []string{"tools/list"}, nil, true},
		{"an empty method", deletes, []string{""}, nil, true},
		{"the method twice", deletes, []string{"tools/call", "tools/call"}, nil, true},
		{"the method in capitals", deletes, []string{"Tools/Call"}, nil, true},
		{"no name in the body", nobody, nil, []string{"harmless"}, true},
		{"a resource by its URI", reads, []string{"resources/read"}, []string{"=?base64?ZmlsZTovLy/DpA==?="}, false},
		{"a resource by its name", reads, nil, []string{"x"}, true},
		{"a task by its id", gets, []string{"tasks/get"}, []string{"t"}, false},
		{"another task", gets, nil, []string{"x"}, true},
		{"an answer to its task", answers, []string{"tasks/input_response"}, []string{"t"}, false},
		{"an answer to another task", answers, nil, []string{"x"}, true},
		{"a list", lists, []string{"tasks/list"}, nil, false},
		{"a list of something", lists, nil, []string{"x"}, true},
		{"a response to a task's question", taskAnswer("t"), nil, nil, false},
		{"a response to a task's question, with a method", taskAnswer("t"), []string{"ping"}, nil, true},
		{"a response to a task's question, with a name", taskAnswer("t"), nil, []string{"t"}, true},
		{"an echo", echo, nil, nil, false},
		{"an echo with a method", echo, []string{"tools/call"}, nil, true},
		{"an echo with a name", echo, nil, []string{"harmless"}, true},
	} {
		for _, url := range []string{"", "?draft=mrtr-1"} {
			x := exchange{url: url, body: test.body,
				routing: map[string][]string{"Mcp-Method": test.method, "Mcp-Name": test.tag}, responses: []string{done, done}}
			if !x.serve(t) {
				t.Fatalf("%s: passed on", test.name)
			}
			got := x.answer.Body.String()
			if refused := strings.Contains(got, `"code":-32020`) && strings.Contains(got, "Header mismatch: ") &&
				x.answer.Code == 400 && strings.Contains(got, `"id":`); refused != test.refused ||
				refused != (len(x.requests) == 0) {
				t.Errorf("%s%s: status %d after %d requests: %s", test.name, url, x.answer.Code, len(x.requests), got)
			}
		}
	}
}

// What is no draft's request goes to the server as it came.
func TestWhatIsNoDraftsIsPassedOn(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	for name, x := range map[string]*exchange{
		"claims the ratified version in a header": {body: call,
			header: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}},
		"says its version in _meta": {body: strings.Replace(call, `"x"`,
			`"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`, 1)},
		"an echo of the ratified version": {body: `{"jsonrpc":"2.0","id":1,"state":"x","result":{}}`,
			header: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}},
		"an answer of the ratified version": {body: taskAnswer("t"),
			header: map[string]string{"Mcp-Protocol-Version": "2026-07-28"}},
		"belongs to a session": {body: call, header: map[string]string{"Mcp-Session-Id": "held"}},
		"belongs to a session that knows states": {url: "?draft=state", body: call,
			header: map[string]string{"Mcp-Session-Id": "held"}},
		"an answer in a session": {body: taskAnswer("t"),
			header: map[string]string{"Mcp-Session-Id": "held"}},
		"a response": {body: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"a response with another meta": {
			body: `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":7}}}}`},
		"a notification": {body: `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}`},
		"another method": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		"another method, a form named": {url: "?draft=mrtr-1",
			body: `{"jsonrpc":"2.0","id":1,"method":"initialize"}`},
		"a method that is none": {body: `{"jsonrpc":"2.0","id":1,"method":7}`},
		"an id that is none":    {body: `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`},
		"an id with a fraction": {body: `{"jsonrpc":"2.0","id":1.5,"method":"tools/call"}`},
		"a null id":             {body: `{"jsonrpc":"2.0","id":null,"method":"tools/call"}`},
		"a batch":               {url: "?draft=mrtr-1", body: `[` + call + `]`},
		"no object":             {url: "?draft=mrtr-1", body: `"tools/call"`},
		"nothing":               {url: "?draft=mrtr-1", body: ``},
		"no JSON": {url: "?draft=mrtr-1",
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call"`},
		"a member twice": {url: "?draft=mrtr-1",
			body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call"}`},
		"nested too deep": {url: "?draft=mrtr-1",
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":` + strings.Repeat("[", 15) +
				strings.Repeat("]", 15) + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if x.serve(t) {
				t.Errorf("served: %v, %d %s", x.requests, x.answer.Code, x.answer.Body)
			}
		})
	}
}

// A form that the URL names goes before what the request says of itself.
func TestANamedFormGoesFirst(t *testing.T) {
	for name, header := range map[string]map[string]string{
		"of the ratified version": {"Mcp-Protocol-Version": "2026-07-28"},
		"in a session":            {"Mcp-Session-Id": "held"},
	} {
		x := exchange{url: "?draft=mrtr-1", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
			header:    header,
			responses: []string{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`}}
		if !x.serve(t) {
			t.Fatalf("%s: passed on", name)
		}
		sameJSON(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, x.answer.Body.String())
	}
}

// Without a form in the URL the response has the form in which the request came.
func TestTheFormOfAResponseFollowsTheRequest(t *testing.T) {
	const asks = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",` +
		`"inputRequests":{"c":{"method":"roots/list","params":{}}},"requestState":"next"}}`
	next := text(t, envelope{State: "next", Keys: []string{"c"}})
	state := text(t, envelope{State: "s", Keys: []string{"a"}})
	for name, test := range map[string]struct{ beside, want string }{
		"nothing": {``, `{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{"c":{"method":"roots/list",` +
			`"params":{}}},"requestState":"next"}}`},
		"one state for all": {`,"dependent_responses":{"state":` + state + `}`,
			`{"jsonrpc":"2.0","id":1,"dependent_requests":{"state":` + next +
				`,"requests":[{"method":"roots/list","params":{}}]}}`},
		"a state for each": {`,"dependent_responses":{"responses":[{"state":` + state + `}]}`,
			`{"jsonrpc":"2.0","id":1,"dependent_requests":{"requests":[{"state":` + next +
				`,"method":"roots/list","params":{}}]}}`},
	} {
		x := exchange{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}` + test.beside + `}`,
			responses: []string{asks}}
		if !x.serve(t) {
			t.Fatalf("%s: passed on", name)
		}
		sameJSON(t, test.want, x.answer.Body.String())
	}
}

// Where nothing is named, a task's status is in lower case.
func TestTheFormOfATaskUnlessNamed(t *testing.T) {
	x := exchange{body: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`,
		responses: []string{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"t","status":"working"}}`}}
	if !x.serve(t) {
		t.Fatal("passed on")
	}
	sameJSON(t, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","status":"working"}}`, x.answer.Body.String())
}

// What contradicts itself is refused before anybody serves it.
func TestRequestsThatAreRefused(t *testing.T) {
	const (
		invalidState = `{"code":-32602,"message":"Invalid or expired requestState"}`
		malformed    = `{"code":-32602,"message":"invalid params: \"dependent_responses\" must be an object with an array ` +
			`\"responses\" of objects"}`
		alone = `{"code":-32602,"message":"invalid params: \"dependent_responses\" comes without \"inputResponses\" ` +
			`and \"requestState\""}`
	)
	mine, other := text(t, envelope{State: "mine", Keys: []string{"a"}}),
		text(t, envelope{State: "other", Keys: []string{"b"}})
	for name, test := range map[string]struct{ params, beside, want string }{
		"state twice": {`{"requestState":"s"}`, `"requestState":"s"`,
			`{"code":-32602,"message":"invalid params: \"requestState\" is both inside and beside params; send it once"}`},
		"answers twice": {`{"inputResponses":{}}`, `"inputResponses":{}`,
			`{"code":-32602,"message":"invalid params: \"inputResponses\" is both inside and beside params; send it once"}`},
		"params that are none": {`[]`, `"x":1`, `{"code":-32600,"message":"invalid request: \"params\" must ` +
			`be an object"}`},
		"null params": {`null`, `"x":1`, `{"code":-32600,"message":"invalid request: \"params\" must ` +
			`be an object"}`},
		"two drafts, a state": {`{"requestState":"s"}`, `"dependent_responses":{"state":` + mine + `}`, alone},
		"two drafts, answers": {`{}`, `"inputResponses":{},"dependent_responses":{"state":` + mine + `}`,
			alone},
		"dependent responses in a list":     {`{}`, `"dependent_responses":[]`, malformed},
		"dependent responses that are null": {`{}`, `"dependent_responses":null`, malformed},
		"responses in an object":            {`{}`, `"dependent_responses":{"state":` + mine + `,"responses":{}}`, malformed},
		"a response that is none": {`{}`, `"dependent_responses":{"state":` + mine + `,"responses":[1]}`,
			malformed},
		"a response that is null": {`{}`, `"dependent_responses":{"state":` + mine +
			`,"responses":[{"result":{}},null]}`, malformed},
		"no state":               {`{}`, `"dependent_responses":{}`, invalidState},
		"no state in a response": {`{}`, `"dependent_responses":{"responses":[{"result":{}}]}`, invalidState},
		"no state in the second": {`{}`, `"dependent_responses":{"responses":[{"state":` + mine +
			`,"result":{}},{"result":{}}]}`, invalidState},
		"states of two rounds": {`{}`, `"dependent_responses":{"responses":[{"state":` + mine +
			`,"result":{}},{"state":` + other + `,"result":{}}]}`, invalidState},
		"a shared state of another round": {`{}`, `"dependent_responses":{"state":` + mine + `,"responses":[{"state":` +
			other + `,"result":{}}]}`, invalidState},
		"a state that is an object":   {`{}`, `"dependent_responses":{"state":{"s":"mine"}}`, invalidState},
		"a state that is null":        {`{}`, `"dependent_responses":{"state":null}`, invalidState},
		"a state in another alphabet": {`{}`, `"dependent_responses":{"state":"!"}`, invalidState},
		"a state that is no JSON":     {`{}`, `"dependent_responses":{"state":"eA"}`, invalidState},
		"a state of another type": {`{}`, `"dependent_responses":{"state":` + encoded(`{"s":1}`) + `}`,
			invalidState},
		"a state with a member twice": {`{}`, `"dependent_responses":{"state":` + encoded(`{"s":"a","s":"b"}`) + `}`,
			invalidState},
		"a state nested deep": {`{}`, `"dependent_responses":{"state":` + encoded(`{"x":[[[[1]]]]}`) + `}`,
			invalidState},
		"a state nested very deep": {`{}`, `"dependent_responses":{"state":` +
			encoded(strings.Repeat(`{"c":`, 10_000)+"1"+strings.Repeat("}", 10_000)) + `}`, invalidState},
		"a bad state in a response": {`{}`, `"dependent_responses":{"responses":[{"state":"!","result":{}}]}`,
			invalidState},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange{body: `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":` + test.params + `,` +
				test.beside + `}`}
			if !x.serve(t) || len(x.requests) != 0 || x.answer.Code != 400 ||
				x.answer.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("%d requests, status %d %v: %s", len(x.requests), x.answer.Code, x.answer.Header(), x.answer.Body)
			}
			sameJSON(t, `{"jsonrpc":"2.0","id":"x","error":`+test.want+`}`, x.answer.Body.String())
		})
	}
}

// The name of the form is looked at first: of what comes to another, nothing is read.
func TestAnUnknownFormIsRefused(t *testing.T) {
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{`, ``} {
		x := exchange{url: "?draft=mrtr-9", body: body}
		if !x.serve(t) || len(x.requests) != 0 || x.answer.Code != 400 {
			t.Fatalf("%s: status %d, %s", body, x.answer.Code, x.answer.Body)
		}
		sameJSON(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"unknown draft in the URL's query: want one of `+
			`[mrtr-1 mrtr-2 tasks-1 tasks-2 state-1 state-2 state]"}}`, x.answer.Body.String())
	}
}
