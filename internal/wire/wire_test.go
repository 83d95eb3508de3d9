package wire

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestCapabilities(t *testing.T) {
	for caps, want := range map[string]Capability{
		`{}`:                                   0,
		`{"elicitation":{}}`:                   Form,
		`{"elicitation":{"form":{}}}`:          Form,
		`{"elicitation":{"url":{}}}`:           URL,
		`{"elicitation":{"form":{},"url":{}}}`: Form | URL,
		`{"elicitation":null,"sampling":true}`: 0,
		`{"sampling":{}}`:                      Sampling,
		`{"sampling":{"tools":{}}}`:            Sampling | SamplingTools,
		`{"sampling":{"tools":false}}`:         Sampling,
		`{"roots":{"listChanged":true}}`:       Roots,
	} {
		expect.Equal(t, caps, parseCapabilities([]byte(caps)), want)
	}
}

func TestInputRequiredIsEncodedExactly(t *testing.T) {
	for _, test := range []struct {
		requests []InputRequest
		state    string
		want     string
	}{
		{nil, "s", `{"resultType":"input_required","inputRequests":{},"requestState":"s","_meta":{}}`},
		{[]InputRequest{{"a", "roots/list", []byte(`{}`)}}, "",
			`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"_meta":{}}`},
		{[]InputRequest{{"ü\"\n", "m", []byte(`{}`)}, {"b", "m", []byte(`{}`)}}, "s",
			`{"resultType":"input_required","inputRequests":{"ü\"\n":{"method":"m","params":{}},"b":{"method":"m",` +
				`"params":{}}},"requestState":"s","_meta":{}}`},
	} {
		if got := string(InputRequired(nil, test.requests, test.state, []byte(`{}`))); got != test.want {
			t.Errorf("\n got %s\nwant %s", got, test.want)
		}
	}
}

func TestNumbersInHeadersAreComparedAsNumbers(t *testing.T) {
	for _, test := range []struct {
		header, body string
		same         bool
	}{
		{"42", "42", true}, {"42.0", "42", true}, {"-7", "-7.0", true}, {"9007199254740993", "9007199254740993", true},
		{"42", "43", false}, {"9007199254740993", "9007199254740992", false}, {"", "0", false}, {"0x2A", "42", false},
		{"42.5", "42.5", false}, {"1e2", "100", false}, {"100", "1e2", false}, {"1/1", "1", false}, {"Inf", "1", false},
		{"0b10", "2", false}, {"0o7", "7", false}, {"+42", "42", false}, {"4_2", "42", false}, {"1p1", "2", false}, {" 42",
			"42", false},
		{"010", "10", true}, {"010", "8", false}, {"-", "0", false}, {".", "0", false}, {"4-2", "42", false}, {"-0",
			"0", true},
		{"1." + strings.Repeat("0", 38), "1", true}, {"1." + strings.Repeat("0", 39), "1", false},
		{"1", "1." + strings.Repeat("0", 38), true}, {"1", "1." + strings.Repeat("0", 39), false},
	} {
		if got := sameInteger(test.header, test.body); got != test.same {
			t.Errorf("header %q, body %s: %v", test.header, test.body, got)
		}
	}
}

// A _meta that is wrong is told before anything else that is.
func TestParamsWithAWrongMeta(t *testing.T) {
	for meta, want := range map[string]string{
		`1`:                     `invalid params: "_meta" must be an object`,
		`{"progressToken":1.5}`: `invalid params: _meta progressToken must be a string or an integer`,
		`{}`:                    `invalid params: "name" must be a string`,
	} {
		p, fault := ParseParams(CallTool, []byte(`{"name":1,"_meta":`+meta+`}`))
		if p != nil || fault == nil || fault.Message != want {
			t.Errorf("%s: %v, %v, want %s", meta, p, fault, want)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},` +
		`"inputResponses":{"a":{}},"requestState":"s","_meta":{"progressToken":1,` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, fault := ParseRequest(body, 64, new(strictjson.Outline), true)
		if response := AppendError(nil, req.ID, Errorf(1, "x")); !json.Valid(response) {
			t.Fatalf("no JSON: %s", response)
		}
		if fault != nil {
			return
		}
		for _, method := range []string{CallTool, GetPrompt, ReadResource} {
			p, fault := ParseParams(method, req.Params)
			if (p == nil) == (fault == nil) {
				t.Fatalf("params %v, fault %v", p, fault)
			}
			if p == nil {
				continue
			}
			for _, raw := range p.Responses {
				if strictjson.TypeOf(raw) != strictjson.TypeObject {
					t.Fatalf("an input response is no object: %s", raw)
				}
			}
			if p.Target == "" || p.Arguments != nil && strictjson.TypeOf(p.Arguments) != strictjson.TypeObject {
				t.Fatalf("accepted %s", req.Params)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("=?base64?aGk=?=", `{"a":{"b":"hi"}}`)
	f.Add("42.0", `{"a":{"b":42}}`)
	headers, err := ParamHeaders(json.RawMessage(
		`{"properties":{"a":{"properties":{"b":{"type":"string","x-mcp-header":"B"}}}}}`))
	if err != nil || len(headers) != 1 {
		f.Fatal(headers, err)
	}
	f.Fuzz(func(t *testing.T, header, arguments string) {
		if strictjson.Check([]byte(arguments), 64) != nil {
			return
		}
		h := http.Header{"Mcp-Param-B": {header}, HeaderMethod: {header}, HeaderName: {header}}
		_ = headers[0].Check(h, []byte(arguments))
		_ = CheckRouting(h, header, Name(CallTool, []byte(arguments)), true)
		if CheckOnce(h) == nil {
			for _, c := range header {
				if c > '~' {
					t.Fatalf("accepted %q", header)
				}
			}
		}
	})
}

// What a client sets is what a server accepts.
func TestParamHeadersAreSet(t *testing.T) {
	for value, want := range map[string]string{
		`"plain"`: "plain", `"Tromsø"`: "=?base64?VHJvbXPDuA==?=", `true`: "true", `42`: "42", `42.0`: "42", `-7`: "-7",
		`9007199254740991`: "9007199254740991",
		`9007199254740992`: "", `1.5`: "", `null`: "", `{}`: "", `[1]`: "",
	} {
		params, err := ParamHeaders(json.RawMessage(
			`{"properties":{"a":{"properties":{"b":{"type":"string","x-mcp-header":"B"}}}}}`))
		if err != nil || len(params) != 1 {
			t.Fatal(params, err)
		}
		h, arguments := make(http.Header), []byte(`{"a":{"b":`+value+`},"c":"x"}`)
		for _, p := range params {
			p.Set(h, arguments)
		}
		if got := h.Get("Mcp-Param-B"); got != want || len(h) > 1 {
			t.Errorf("%s: %q, want %q", value, h, want)
		}
		if fault := params[0].Check(h, arguments); want != "" && fault != nil {
			t.Errorf("%s: %v", value, fault)
		}
	}
}

// The response to a refused message names the one request that it belongs to, or none.
func TestAddressee(t *testing.T) {
	for _, c := range []struct {
		message, id string
		response    bool
	}{
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, `7`, false},
		{`{"id":"seven","method":"tools/call","params":{"id":8}}`, `"seven"`, false},
		{`{"id":-7,"result":{}}`, `-7`, true},
		{`{"error":{},"id":7}`, `7`, true},
		{`{"id":7,"method":"tools/call","result":{}}`, `7`, false},
		{`{"id":7}`, `7`, false},
		{`{"method":"notifications/initialized"}`, ``, false},
		{`{"id":7,"id":8,"method":"tools/call"}`, ``, false},
		{`{"id":7,"id":7,"method":"tools/call"}`, ``, false},
		{`{"id":null,"method":"tools/call"}`, ``, false},
		{`{"id":7.5,"method":"tools/call"}`, ``, false},
		{`{"id":7e1,"method":"tools/call"}`, ``, false},
		{`{"id":true,"method":"tools/call"}`, ``, false},
		{`{"id":[7],"method":"tools/call"}`, ``, false},
		{`{"id":{"id":7},"method":"tools/call"}`, ``, false},
		{"{\"id\":\"\xff\",\"method\":\"tools/call\"}", ``, false},
		{`{"id":"\ud800","method":"tools/call"}`, ``, false},
		{`[{"id":7,"method":"tools/call"}]`, ``, false},
		{`{"id":7,"method":"tools/call"`, ``, false},
		{``, ``, false},
	} {
		id, response := Addressee([]byte(c.message))
		if string(id) != c.id || response != c.response {
			t.Errorf("%s: %q, a response: %v; want %q, %v", c.message, id, response, c.id, c.response)
		}
	}
}
