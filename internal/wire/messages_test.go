package wire

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each message that is refused is answered to its ID, as far as it can be read, with what is wrong.
func TestParseRequest(t *testing.T) {
	const head = `{"jsonrpc":"2.0",`
	for _, c := range []struct {
		body, id string
		code     int64
		says     string
	}{
		{head + `"id":1,"method":"tools/call","params":{"name":"t"}}`, "1", 0, ""},
		{head + `"id":"a","method":"tools/list"}`, `"a"`, 0, ""},
		{head + `"method":"notifications/cancelled"}`, "", 0, ""},
		{head + `"id":1,"method":"m","params":[]}`, "1", jsonrpc.CodeInvalidRequest, `"params" must be an object`},
		{head + `"id":1,"method":""}`, "1", jsonrpc.CodeInvalidRequest, `"method" must be a string`},
		{head + `"id":1,"method":7}`, "1", jsonrpc.CodeInvalidRequest, `"method" must be a string`},
		{head + `"id":1}`, "1", jsonrpc.CodeInvalidRequest, `"method" must be a string`},
		{head + `"id":1.5,"method":"m"}`, "", jsonrpc.CodeInvalidRequest, `"id" must be a string or an integer`},
		{head + `"id":null,"method":"m"}`, "", jsonrpc.CodeInvalidRequest, `"id" must be a string or an integer`},
		{`{"jsonrpc":"1.0","id":1,"method":"m"}`, "1", jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`},
		{`{"jsonrpc":2.0,"id":1,"method":"m"}`, "1", jsonrpc.CodeInvalidRequest, `"jsonrpc" must be "2.0"`},
		{`[]`, "", jsonrpc.CodeInvalidRequest, "batches are not part of this protocol version"},
		{`"x"`, "", jsonrpc.CodeInvalidRequest, "the body must be a JSON object"},
		{`{"id":1,`, "", jsonrpc.CodeParseError, "parse error"},
		{head + `"id":1,"method":"a","method":"b"}`, "1", jsonrpc.CodeParseError, "parse error"},
		{head + `"id":1,"method":"m","params":{"a":{"b":{"c":{}}}}}`, "1", jsonrpc.CodeParseError, "deep"},
	} {
		req, fault := ParseRequest([]byte(c.body), 4, new(strictjson.Outline), false)
		if string(req.ID) != c.id {
			t.Errorf("%s: the ID is %q, want %q", c.body, req.ID, c.id)
		}
		switch {
		case fault == nil && c.code != 0:
			t.Errorf("%s: accepted", c.body)
		case fault != nil && (fault.Code != c.code || !strings.Contains(fault.Message, c.says)):
			t.Errorf("%s: %v, want %d %q", c.body, fault, c.code, c.says)
		}
	}
	req, _ := ParseRequest([]byte(head+`"id":1,"method":"tools/call","params":{"arguments":{"b":1,"a":2}}}`), 4,
		new(strictjson.Outline), true)
	var p Params
	p.Parse(&req)
	if req.Method != CallTool || string(req.Params) != `{"arguments":{"b":1,"a":2}}` {
		t.Errorf("the request is %q with %s", req.Method, req.Params)
	}
	if want := strictjson.Digest([]byte(`{"a":2,"b":1}`)); p.Digest == nil || *p.Digest != want {
		t.Errorf("the digest of the arguments is %x, want %x", p.Digest, want)
	}
}

func TestParseParams(t *testing.T) {
	for _, c := range []struct{ method, params, says string }{
		{CallTool, `{"name":"t"}`, ""},
		{ReadResource, `{"uri":"doc://a","name":7}`, ""},
		{CallTool, `{"name":"t","arguments":null}`, ""},
		{CallTool, ``, `"tools/call" needs "params"`},
		{CallTool, `{"name":""}`, `"name" must be a string`},
		{ReadResource, `{"name":"t"}`, `"uri" must be a string`},
		{CallTool, `{"name":"t","arguments":[]}`, `"arguments" must be an object`},
		{CallTool, `{"name":"t","inputResponses":[]}`, `"inputResponses" must be an object of objects`},
		{CallTool, `{"name":"t","inputResponses":{"a":{},"b":1}}`, `"inputResponses" must be an object of objects`},
		{CallTool, `{"name":"t","inputResponses":{"a":1,"b":{}}}`, `"inputResponses" must be an object of objects`},
		{CallTool, `{"name":"t","requestState":null}`, `"requestState" is null: leave it out`},
		{CallTool, `{"name":"t","requestState":7}`, InvalidState().Message},
		{CallTool, `{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":7}}`, "must be a string"},
		{CallTool, `{"name":"t","_meta":{"io.modelcontextprotocol/clientInfo":7}}`, "must be an object"},
		{CallTool, `{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":7}}`, "must be an object"},
		{CallTool, `{"name":"t","_meta":{"progressToken":"` + strings.Repeat("x", MaxProgressToken-2) + `"}}`, ""},
		{CallTool, `{"name":"t","_meta":{"progressToken":"` + strings.Repeat("x", MaxProgressToken-1) + `"}}`,
			"progressToken exceeds the limit of 1024 bytes"},
	} {
		var params []byte
		if c.params != "" {
			params = []byte(c.params)
		}
		p, fault := ParseParams(c.method, params)
		switch {
		case c.says == "" && fault != nil, c.says != "" && fault == nil, (p == nil) != (fault != nil):
			t.Errorf("%s: %v, %v", c.params, p, fault)
		case fault != nil && (fault.Code != jsonrpc.CodeInvalidParams || !strings.Contains(fault.Message, c.says)):
			t.Errorf("%s: %v, want %q", c.params, fault, c.says)
		}
	}
	p, fault := ParseParams(CallTool, []byte(`{"name":"t","requestState":"s","task":{"ttl":5},"inputResponses":{"q":{}},
		"_meta":{"traceparent":"00-ab","n":7,"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientInfo":{"name":"c","version":"2"},
		"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`))
	if fault != nil {
		t.Fatal(fault)
	}
	if p.Target != "t" || p.State != "s" || !p.HasState || string(p.Task) != `{"ttl":5}` ||
		string(p.Responses["q"]) != "{}" || p.Arguments != nil {
		t.Errorf("the parameters are %+v", p)
	}
	m := p.Meta
	if m.Version != Version || string(m.ProgressToken) != `"p"` || !m.HasCapabilities || m.Capabilities != Tasks ||
		m.Text("traceparent") != "00-ab" || m.Text("n") != "" || m.Text("absent") != "" {
		t.Errorf("the _meta is %+v", m)
	}
	if c := m.Client(); c == nil || c.Name != "c" || c.Version != "2" {
		t.Errorf("the client is %+v", c)
	}
	if c := new(Meta).Client(); c != nil {
		t.Errorf("a client that says nothing is %+v", c)
	}
	broken := Meta{raw: []byte(`{"io.modelcontextprotocol/clientInfo":{"name":7}}`)}
	if c := broken.Client(); c != nil {
		t.Errorf("a client whose name is a number is %+v", c)
	}
	if _, fault := ParseResponses(nil); fault == nil || !strings.Contains(fault.Message, "is missing") {
		t.Errorf("absent responses: %v", fault)
	}
}

// A header of the protocol occurs once, in visible ASCII, and says what the body says.
func TestRoutingHeaders(t *testing.T) {
	set := func(pairs ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
		}
		return h
	}
	for _, c := range []struct {
		h            http.Header
		method, name string
		required     bool
		says         string
	}{
		{set(HeaderMethod, CallTool, HeaderName, "t"), CallTool, "t", true, ""},
		{set(HeaderMethod, CallTool, HeaderName, "=?base64?w7w=?="), CallTool, "ü", true, ""},
		{set(HeaderMethod, "tools/list"), "tools/list", "", true, ""},
		{set(), CallTool, "t", false, ""},
		{set(), CallTool, "t", true, "the Mcp-Method header is missing"},
		{set(HeaderMethod, CallTool), CallTool, "t", true, "the Mcp-Name header is missing"},
		{set(HeaderMethod, CallTool), CallTool, "t", false, ""},
		{set(HeaderMethod, GetPrompt), CallTool, "t", false, "the Mcp-Method header does not match"},
		{set(HeaderName, "u"), CallTool, "t", false, "the Mcp-Name header does not match"},
		{set(HeaderName, "x"), "tools/list", "", false, "the Mcp-Name header does not match"},
		{set(HeaderName, "=?base64?w7?="), CallTool, "ü", false, "the Mcp-Name header is not valid Base64"},
		{set(HeaderName, "t", HeaderName, "t"), CallTool, "t", false, "the Mcp-Name header occurs 2 times"},
		{set(HeaderMethod, "a", HeaderMethod, "b"), "a", "", true, "the Mcp-Method header occurs 2 times"},
	} {
		fault := CheckRouting(c.h, c.method, c.name, c.required)
		if c.says == "" && fault != nil || c.says != "" && fault == nil {
			t.Errorf("%v for %s %s: %v, want %q", c.h, c.method, c.name, fault, c.says)
		} else if fault != nil && (fault.Code != mcp.CodeHeaderMismatch || !strings.Contains(fault.Message, c.says)) {
			t.Errorf("%v for %s %s: %v, want %q", c.h, c.method, c.name, fault, c.says)
		}
	}
	for _, c := range []struct {
		h  http.Header
		ok bool
	}{
		{set(HeaderVersion, Version, "Accept", "a", "Accept", "b", "X", "ü"), true},
		{set(HeaderName, "a b\t~"), true},
		{http.Header{HeaderName: nil}, true},
		{set(HeaderName, "ü"), false}, {set(HeaderName, "\x7f"), false}, {set(HeaderName, "\x1f"), false},
		{set(HeaderVersion, "a", HeaderVersion, "a"), false}, {set("Mcp-Param-A", "a", "Mcp-Param-A", "a"), false},
	} {
		if fault := CheckOnce(c.h); (fault == nil) != c.ok {
			t.Errorf("%v: %v", c.h, fault)
		}
	}
}

func TestName(t *testing.T) {
	const related = `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"r"}}`
	for _, c := range []struct{ method, params, want string }{
		{CallTool, `{"name":"t","uri":"u"}`, "t"}, {ReadResource, `{"name":"t","uri":"u"}`, "u"},
		{GetTask, `{"taskId":"id"}`, "id"}, {GetTask, related + "}", ""}, {InputResponse, related + "}", "r"},
		{InputResponse, related + `,"taskId":"id"}`, "id"}, {"tools/list", `{"name":"t"}`, ""}, {CallTool, `{"name":7}`, ""},
		{CallTool, ``, ""},
	} {
		if got := Name(c.method, []byte(c.params)); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.params, got, c.want)
		}
	}
}

func TestParamHeadersAreChecked(t *testing.T) {
	params, err := ParamHeaders(map[string]any{"properties": map[string]any{"any": true,
		"on": map[string]any{"type": "boolean", "x-mcp-header": "On"},
		"n":  map[string]any{"type": []string{"integer", "string", "null"}, "x-mcp-header": "N"}}})
	if err != nil || len(params) != 2 {
		t.Fatal(params, err)
	}
	n, on := params[0], params[1]
	for _, c := range []struct {
		p               ParamHeader
		header, in      string
		accepted, isSet bool
	}{
		{on, "true", `{"on":true}`, true, true}, {on, "false", `{"on":true}`, false, true}, {n, "7", `{"n":7}`, true, true},
		{n, "8", `{"n":7}`, false, true}, {n, "", `{"n":7}`, false, false}, {n, "", `{}`, true, false},
		{n, "", `{"n":null}`, true, false}, {n, "7", `{}`, false, true}, {n, "a", `{"n":"a"}`, true, true},
		{n, "b", `{"n":"a"}`, false, true}, {n, "x", `{"n":[]}`, false, true}, {n, "=?base64?!?=", `{"n":"a"}`, false, true},
	} {
		h := make(http.Header)
		if c.isSet {
			h[c.p.header] = []string{c.header}
		}
		if fault := c.p.Check(h, []byte(c.in)); (fault == nil) != c.accepted {
			t.Errorf("%q for %s: %v", c.header, c.in, fault)
		}
		if c.p.In(h) != c.isSet || HasParamHeaders(h) != c.isSet {
			t.Errorf("%v: In is %v, HasParamHeaders is %v", h, c.p.In(h), HasParamHeaders(h))
		}
	}
	if HasParamHeaders(http.Header{HeaderName: {"t"}}) {
		t.Error("Mcp-Name is taken for the header of a parameter")
	}
	if _, err := ParamHeaders(func() {}); err == nil {
		t.Error("a schema that is no JSON is accepted")
	}
}

func TestMissingCapability(t *testing.T) {
	for need, want := range map[Capability]string{
		Form:                     `elicitation.form {"requiredCapabilities":{"elicitation":{"form":{}}}}`,
		SamplingTools | Sampling: `sampling.tools, sampling {"requiredCapabilities":{"sampling":{"tools":{}}}}`,
		Tasks: `io.modelcontextprotocol/tasks {"requiredCapabilities":{"extensions":` +
			`{"io.modelcontextprotocol/tasks":{}}}}`,
		0: ` {"requiredCapabilities":{}}`,
	} {
		fault := MissingCapability(need)
		got := strings.TrimPrefix(fault.Message, "Missing required client capability: ") + " " + string(fault.Data)
		if got != want || fault.Code != mcp.CodeMissingRequiredClientCapabilities {
			t.Errorf("%b:\n got %d %s\nwant %s", need, fault.Code, got, want)
		}
	}
	if got := parseCapabilities([]byte(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)); got != Tasks {
		t.Errorf("the extension: %b", got)
	}
	expect.Equal(t, "another extension", parseCapabilities([]byte(`{"extensions":{"other":{}}}`)), 0)
}

func TestAnnotationsThatBreakARule(t *testing.T) {
	const good = `{"type":"string","x-mcp-header":"Good"}`
	in := func(keyword string) string { return `{"properties":{"a":{"` + keyword + `"}}}` }
	for name, c := range map[string]struct{ schema, want string }{
		"none":                  {`{"properties":{"a":true,"b":{"items":false}}}`, ""},
		"good":                  {`{"properties":{"a":` + good + `}}`, ""},
		"nested":                {`{"properties":{"a":{"properties":{"b":` + good + `}}}}`, ""},
		"names like keywords":   {`{"properties":{"items":` + good + `,"x-mcp-header":{"type":"string"}}}`, ""},
		"data like annotations": {in(`default":` + good + `,"const":` + good + `,"enum":[` + good + `],"x":"`), ""},
		"a definition's name":   {`{"$defs":{"x-mcp-header":{"type":"string"}}}`, ""},
		"at the root":           {`{"type":"string","x-mcp-header":"A"}`, "root"},
		"empty":                 {in(`type":"string","x-mcp-header":"`), "not a name"},
		"a number as name":      {in(`x-mcp-header":7,"x":"`), "not a name"},
		"a space":               {in(`type":"string","x-mcp-header":"a b`), "token"},
		"a line":                {in(`type":"string","x-mcp-header":"a\r\nb`), "token"},
		"another letter":        {in(`type":"string","x-mcp-header":"ø`), "token"},
		"no type":               {in(`x-mcp-header":"A`), "type"},
		"number":                {in(`type":"number","x-mcp-header":"A`), "type"},
		"object":                {in(`type":"object","x-mcp-header":"A`), "type"},
		"a number among types":  {in(`type":["string","number"],"x-mcp-header":"A`), "type"},
		"twice": {`{"properties":{"a":` + good + `,"b":{"properties":{"c":` + strings.ToLower(good) +
			`}}}}`, "twice"},
		"items":           {`{"properties":{"a":{"items":` + good + `}}}`, `"items"`},
		"deep in items":   {`{"properties":{"a":{"items":{"properties":{"b":` + good + `}}}}}`, `"items"`},
		"prefixItems":     {`{"prefixItems":[true,` + good + `]}`, `"prefixItems"`},
		"oneOf":           {`{"oneOf":[{"properties":{"a":` + good + `}}]}`, `"oneOf"`},
		"not":             {`{"not":` + good + `}`, `"not"`},
		"then":            {`{"then":{"properties":{"items":` + good + `}}}`, `"then"`},
		"a definition":    {`{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":` + good + `}}`, `"$defs"`},
		"more properties": {`{"additionalProperties":` + good + `}`, `"additionalProperties"`},
	} {
		_, err := ParamHeaders(json.RawMessage(c.schema))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
