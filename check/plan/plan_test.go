package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A plan that can be read is as it was after it is written.
func FuzzParse(f *testing.F) {
	f.Add(`{"calls":{"a":{"arguments":{"b":"any text"},"answers":{"q":{"x":[1,"two"]}},"toTheEnd":true}},` +
		`"stateTTL":"30s"}`)
	f.Add(`{"stateTTL":"-1s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse([]byte(text))
		if err != nil {
			return
		}
		again := expect.Must(json.Marshal(p))(t)
		if _, err := Parse(again); err != nil && !strings.Contains(err.Error(), "exceeded max depth") {
			t.Errorf("%s: %v", again, err)
		}
	})
}
