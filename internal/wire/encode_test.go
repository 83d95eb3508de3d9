package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each message is encoded to the byte, and is JSON whatever a peer or a handler has put into it.
func TestMessagesAreEncodedExactly(t *testing.T) {
	row := &Task{
		ID: "t", Status: "working", Created: time.UnixMilli(1_767_225_600_123),
		Updated: time.UnixMilli(1_767_225_601_000).In(time.FixedZone("", 3600)),
		TTL:     time.Minute, Poll: 1500 * time.Millisecond,
	}
	const members = `"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00.123Z",` +
		`"lastUpdatedAt":"2026-01-01T00:00:01.000Z",`
	told := *row
	told.Message = "half \"way\"\xff"
	object := func(dst []byte) []byte { return append(dst, `{"a":1}`...) }
	for says, c := range map[string]struct{ got, want string }{
		"a result": {string(AppendResult([]byte("x"), []byte(`"id"`), object)),
			`x{"jsonrpc":"2.0","id":"id","result":{"a":1}}`},
		"an error": {string(AppendError(nil, []byte("7"), Errorf(-32602, "no %q", "x"))),
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no \"x\""}}`},
		"an error without an ID": {string(AppendError(nil, nil, Errorf(-32700, "parse error"))),
			`{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`},
		"an error whose data is not JSON": {
			string(AppendError(nil, nil, &jsonrpc.Error{Code: -32000, Message: "m", Data: json.RawMessage("{")})),
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"m"}}`},
		"a request": {string(AppendRequest(nil, Request{ID: []byte("1"), Method: "roots/\xff", Params: []byte("{}")})),
			`{"jsonrpc":"2.0","id":1,"method":"roots/` + "\uFFFD" + `","params":{}}`},
		"a notification": {string(AppendNotification(nil, "notifications/progress", []byte(`{"n":1}`))),
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}`},
		"a complete result": {string(Complete(nil, []byte(`{"content":[]}`), []byte(`{"k":1}`), `"isError":false,`)),
			`{"resultType":"complete","_meta":{"k":1},"isError":false,"content":[]}`},
		"an empty result": {string(Complete(nil, []byte(`{}`), nil, `"left":"out",`)), `{"resultType":"complete"}`},
		"members of a result": {string(CompleteMembers(nil, []byte(`"a":1`), []byte(`{}`))),
			`{"resultType":"complete","_meta":{},"a":1}`},
		"no members of a result":  {string(CompleteMembers(nil, nil, nil)), `{"resultType":"complete"}`},
		"a task of the extension": {string(row.Append(nil, true)), members + `"ttlMs":60000,"pollIntervalMs":1500`},
		"a task of the proposals": {string(row.Append(nil, false)), members + `"ttl":60000,"pollInterval":1500`},
		"a task with a message": {string(told.Append(nil, true)), strings.Replace(members, `,"createdAt"`,
			`,"statusMessage":"half \"way\"`+"\uFFFD"+`","createdAt"`, 1) + `"ttlMs":60000,"pollIntervalMs":1500`},
		"a call that became a task": {string(CreateTaskResult(nil, row, true, []byte(`{"k":1}`))),
			`{"resultType":"task",` + members + `"ttlMs":60000,"pollIntervalMs":1500,"_meta":{"k":1}}`},
		"a call that became a task of the proposals": {string(CreateTaskResult(nil, row, false, nil)),
			`{"task":{` + members + `"ttl":60000,"pollInterval":1500}}`},
	} {
		expect.Diff(t, says, c.want, c.got)
		message := strings.TrimPrefix(c.got, "x")
		if strings.HasPrefix(message, "{") && !json.Valid([]byte(message)) {
			t.Errorf("%s is not JSON: %s", says, message)
		}
	}
}

// The errors that the protocol defines have its codes and its data.
func TestErrorsOfTheProtocol(t *testing.T) {
	for says, c := range map[string]struct {
		err           *jsonrpc.Error
		code          int64
		message, data string
	}{
		"a refused state": {InvalidState(), -32602, "Invalid or expired requestState", ""},
		"a version": {UnsupportedVersion("1999", []string{"2026-07-28"}), -32022, "Unsupported protocol version",
			`{"requested":"1999","supported":["2026-07-28"]}`},
		"a capability": {MissingCapability(Form), -32021, "Missing required client capability: elicitation.form",
			`{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		"two capabilities": {MissingCapability(Sampling | SamplingTools), -32021,
			"Missing required client capability: sampling.tools, sampling",
			`{"requiredCapabilities":{"sampling":{"tools":{}}}}`},
		"an extension": {MissingCapability(Tasks), -32021, "Missing required client capability: " + TasksExtension,
			`{"requiredCapabilities":{"extensions":{"` + TasksExtension + `":{}}}}`},
		"a long token": {LongProgressToken(), -32602,
			"invalid params: _meta progressToken exceeds the limit of 1024 bytes", ""},
	} {
		if c.err.Code != c.code || c.err.Message != c.message || string(c.err.Data) != c.data {
			t.Errorf("%s: %d %q %s", says, c.err.Code, c.err.Message, c.err.Data)
		}
	}
}

// Tasks that are stored have 8 bits of capabilities, of which one is taken by another fact. No capability may have it.
func TestNoCapabilityHasTheReservedBit(t *testing.T) {
	for _, c := range capabilities {
		if c.set&(1<<6) != 0 {
			t.Errorf("%s has the bit", c.name)
		}
	}
	if can := parseCapabilities([]byte(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},` +
		`"extensions":{"` + TasksExtension + `":{},"` + EventsExtension + `":{}}}`)); can !=
		Form|URL|Sampling|SamplingTools|Roots|Tasks|Events {
		t.Errorf("%b", can)
	}
}

func TestTimesToLive(t *testing.T) {
	for task, want := range map[string]time.Duration{
		`{}`: 0, `{"ttl":null}`: 0, `{"ttl":1500}`: 1500 * time.Millisecond, `{"ttl":1.5}`: time.Millisecond,
		`{"ttl":1e300}`: 100 * 365 * 24 * time.Hour,
		`[]`:            -1, `{"ttl":0}`: -1, `{"ttl":-1}`: -1, `{"ttl":"1500"}`: -1, `{"ttl":1e999}`: -1,
	} {
		got, err := ParseTTL([]byte(task))
		if want < 0 != (err != nil) || want >= 0 && got != want {
			t.Errorf("%s: %v, %v, want %v", task, got, err, want)
		}
	}
}

// What peers say is cut for the log, at a bound and into valid text.
func TestTextsOfPeersAreCut(t *testing.T) {
	for text, want := range map[string]string{
		"short": "short", "exactly8": "exactly8", "too long for it": "too long… (15 bytes)",
		"sevené": "sevené", "1234567é!": "1234567… (10 bytes)",
	} {
		if got := Cut(text, 8); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
	long := `"` + strings.Repeat("i", 100) + `"`
	for id, want := range map[string]string{
		`"a\"b"`: `a"b`, `7`: "7", "": "", long: strings.Repeat("i", 64), "\"\xff\"": "",
	} {
		if got := IDText([]byte(id)); got != want {
			t.Errorf("the ID %q is %q in a log, want %q", id, got, want)
		}
	}
}

// A request about a task names the task, and tells it from what is not its own.
func TestRelatedTasks(t *testing.T) {
	related := []byte(`{"_meta":{"` + MetaRelatedTask + `":{"taskId":"t"}}}`)
	expect.Equal(t, "RelatedTask(related)", RelatedTask(related), "t")
	for _, none := range []string{`{}`, `{"_meta":{}}`, `{"_meta":{"` + MetaRelatedTask + `":{"taskId":1}}}`} {
		if got := RelatedTask([]byte(none)); got != "" {
			t.Errorf("%s relates to %q", none, got)
		}
	}
	for _, c := range []struct{ method, params, want string }{
		{CallTool, `{"name":"n"}`, "n"}, {ReadResource, `{"uri":"u"}`, "u"}, {GetTask, `{"taskId":"t"}`, "t"},
		{InputResponse, string(related), "t"}, {InputResponse, `{"taskId":"own"}`, "own"}, {GetTask, string(related), ""},
		{"tools/list", `{"name":"n"}`, ""}, {CallTool, `{"name":1}`, ""},
	} {
		if got := Name(c.method, []byte(c.params)); got != c.want {
			t.Errorf("%s %s names %q, want %q", c.method, c.params, got, c.want)
		}
	}
	for _, method := range TaskMethods {
		if !IsTask(method) {
			t.Errorf("%s is no request about a task", method)
		}
	}
	if IsTask(CallTool) {
		t.Error("a call is a request about a task")
	}
}

// The _meta of a request tells who its client is, and what else it says.
func TestMeta(t *testing.T) {
	meta, fault := ParseMeta([]byte(
		`{"io.modelcontextprotocol/clientInfo":{"name":"host","version":"2"},"own":"text","n":1}`))
	if fault != nil {
		t.Fatal(fault)
	}
	if c := meta.Client(); c == nil || c.Name != "host" || c.Version != "2" {
		t.Errorf("the client is %+v", c)
	}
	if meta.Text("own") != "text" || meta.Text("n") != "" || meta.Text("missing") != "" {
		t.Error("members that are text are not read as they are")
	}
	if (&Meta{}).Client() != nil {
		t.Error("a client that says nothing is somebody")
	}
	if meta, _ := ParseMeta([]byte(`{"io.modelcontextprotocol/clientInfo":{"name":1}}`)); meta.Client() != nil {
		t.Error("a client whose name is a number is somebody")
	}
	_, fault = ParseMeta([]byte(`{"progressToken":"` + strings.Repeat("x", MaxProgressToken) + `"}`))
	if fault == nil || fault.Message != LongProgressToken().Message {
		t.Errorf("a long token: %v", fault)
	}
}
