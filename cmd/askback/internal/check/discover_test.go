package check

import (
	"encoding/json"
	"testing"
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
		if err := json.Unmarshal([]byte(test.hints), &h); err != nil {
			t.Fatal(err)
		}
		if h.destroys() != test.want {
			t.Errorf("%s: destroys is %t", test.hints, !test.want)
		}
	}
}
