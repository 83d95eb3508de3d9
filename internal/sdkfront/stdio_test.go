package sdkfront

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/call"
)

// Around params a line may be ambiguous, too. An answer has the id that can be told, or else none.
func TestAmbiguousLinesAreRefused(t *testing.T) {
	for line, id := range map[string]any{
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`:                                                               nil,
		`{"jsonrpc":"2.0","id":3,"i\u0064":4,"method":"ping"}`:                                                          nil,
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/list"}`:                                                5.0,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"plain"},"params":{"name":"quiet"}}`:            6.0,
		`{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"ping"}`:                                                       nil,
		`[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"plain","name":"quiet"}}]`:                     nil,
		`{"jsonrpc":"2.0","id":9,"method":"ping","result":{},"result":{}}`:                                              9.0,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}`:                   nil,
		`{"jsonrpc":"2.0","id":8,"method":"ping","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: 8.0,
	} {
		const next = `{"jsonrpc":"2.0","id":10,"method":"ping"}` + "\n"
		var passed, answered bytes.Buffer
		if err := filter(strings.NewReader(line+"\n"+next), &passed, &answered, call.Limits{MessageBytes: 1 << 20, Depth: 64, Batch: 64}); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", line, err)
		}
		var got struct {
			ID    any
			Error struct{ Code int }
		}
		if err := json.Unmarshal(answered.Bytes(), &got); err != nil || got.Error.Code != -32700 || got.ID != id {
			t.Errorf("%s: got %s (%v), want -32700 with the id %v", line, &answered, err, id)
		}
		if passed.String() != next {
			t.Errorf("%s: passed on %s", line, &passed)
		}
	}
}
