package tap

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// config is that of the tests' taps.
var config = Config{
	MessageBytes: 1 << 20, Depth: 64, Questions: 16, Echo: true,
	Limit:  func(limit string, most int64) error { return fmt.Errorf("more than %d %s", most, limit) },
	Broken: func(reason string) error { return fmt.Errorf("broken: %s", reason) },
	Life:   context.Background(),
}

// Whatever a server answers, the SDK sees JSON, and the result that is kept is a sound object
// within the limits.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",` +
			`"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object",` +
			`"properties":{"a":{"type":"integer"}}}}}},"requestState":"s",` +
			`"_meta":{"io.github.askback-mcp/expires":"2026-11-20T12:00:00Z"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, x := range []*Exchange{new(Exchange), {Method: "tasks/get"}, {Task: json.RawMessage(`{}`)}} {
			if shown := x.message(data, &config); json.Valid(data) && !json.Valid(shown) {
				t.Fatalf("shows %s", shown)
			}
			result, err := x.Result()
			if err != nil || result == nil {
				continue
			}
			if err := strictjson.Check(result, config.Depth); err != nil || strictjson.TypeOf(result) != strictjson.TypeObject {
				t.Fatalf("keeps %s: %v", result, err)
			}
		}
	})
}
