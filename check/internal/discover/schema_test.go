package discover

import (
	"encoding/json"
	"testing"

	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// What a tool is marked as decides whether a check calls it without permission.
func TestMarkedAsDestructive(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hints string
		want  bool
	}{
		{`{}`, false},
		{`{"destructiveHint":true}`, true},
		{`{"destructiveHint":false}`, false},
		{`{"destructiveHint":true,"readOnlyHint":false,"openWorldHint":true}`, true},
		{`{"destructiveHint":true,"readOnlyHint":false,"idempotentHint":true,"openWorldHint":true}`, true},
		{`{"destructiveHint":true,"readOnlyHint":false,"idempotentHint":false,"openWorldHint":true}`, false}, // the defaults
	} {
		var h hints
		expect.Check(t, json.Unmarshal([]byte(test.hints), &h))
		if h.destroys() != test.want {
			t.Errorf("%s: destroys is %t", test.hints, !test.want)
		}
	}
}

// Whatever a server lists makes a target that can be called.
func FuzzTarget(f *testing.F) {
	f.Add(`{"name":"a","inputSchema":{"required":["b"],"properties":{"b":{"type":"string","maxLength":3}}}}`)
	f.Add(`{"uri":"a://b","arguments":[{"name":"x","required":true}]}`)
	f.Add(`{"name":"\n--> A"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var entry listed
		if json.Unmarshal([]byte(text), &entry) != nil {
			return
		}
		l := expect.Must(transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"}))(t)
		defer l.Close()
		cl := talk.New(l, redact.New())
		d := New(cl, nil, nil, nil)
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			tg, _ := d.newTarget(method, entry)
			if tg == nil {
				continue
			}
			d.note(tg)
			c := &talk.Call{Target: tg}
			expect.Check(t, cl.Fill(c))
			if _, err := json.Marshal(tg.Params(c.Arguments)); err != nil {
				t.Error(err)
			}
		}
		if _, err := json.Marshal(d.Planned); err != nil {
			t.Error(err)
		}
	})
}
