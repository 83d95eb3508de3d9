package rulescmd

import (
	"io"
	"testing"

	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// FuzzTry reads any file of calls.
func FuzzTry(f *testing.F) {
	r, err := rules.Parse("rules.yaml", []byte("default: {ask: {}}\n"+
		"rules: [{name: a, when: arguments.n > 3 && annotations.readOnlyHint, allow: true}]"))
	expect.Check(f, err)
	f.Add([]byte(`{"server":"s","tool":"t","annotations":{"readOnlyHint":true},"arguments":{"n":4},"caller":"ada"}`))
	f.Add([]byte(`{"want":"deny"}` + "\n\n" + `{"arguments":[]}`))
	f.Add([]byte(`{} {}`))
	f.Add([]byte(`{"annotations":null,"arguments":null,"definition":"\u202e"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = try(t.Context(), io.Discard, r, "calls", text, false)
		_ = try(t.Context(), io.Discard, r, "calls", text, true)
	})
}
