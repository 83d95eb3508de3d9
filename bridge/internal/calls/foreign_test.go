package calls

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/hostile"
)

// FuzzEdited lets a server list a tool with any schema, and a person edit its arguments to anything.
func FuzzEdited(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, kind := range hostile.Kinds {
		if schema, arguments, _ := hostile.Draw(r, kind); len(schema) < 8<<10 {
			f.Add(schema, arguments)
		}
	}
	f.Add([]byte(`{"type":"object","$ref":"#"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		c := &Call{Target: new(Target)}
		if json.Unmarshal(schema, &c.Schema) != nil {
			return
		}
		able := c.fits(t.Context(), nil)
		err := c.fits(t.Context(), arguments)
		if _, unable := errors.AsType[*foreign.BoundError](err); able != nil && !unable {
			t.Errorf("%s: %v, but %s of it: %v", schema, able, arguments, err)
		}
		if err == nil && strictjson.TypeOf(arguments) != strictjson.TypeObject {
			t.Errorf("%s fits", arguments)
		}
	})
}

// FuzzPassedOn lets a server return any result. What the host gets is JSON, without what only the bridge says.
func FuzzPassedOn(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"text","text":"a"}],"_meta":{"a":1e400,"io.github.askback-mcp/exact":1}}`,
		`{"resultType":"input_required","requestState":"s","inputRequests":{},"taskId":"t","structuredContent":{"b":-0.0}}`,
		`{"_meta":null}`, `{"_meta":{"io.modelcontextprotocol/related-task":{}},"é\"":[]}`, `{}`, `[]`, `{"_meta":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		if strictjson.Check(result, outcome.Depth) != nil {
			return // as it is refused before
		}
		passed, err := passedOn(result)
		if err != nil {
			return
		}
		whole, err := passed.MarshalJSON()
		if err != nil || strictjson.Check(whole, outcome.Depth+1) != nil {
			t.Fatalf("%s is passed on as %s, %v", result, whole, err)
		}
		for _, own := range []string{"resultType", "inputRequests", "requestState", "taskId"} {
			if strictjson.Get(whole, own) != nil {
				t.Errorf("%s is passed on with its %s", result, own)
			}
		}
		for name := range strictjson.Members(strictjson.Get(whole, "_meta")) {
			if bytes.HasPrefix(name, []byte(ownMeta)) {
				t.Errorf("%s is passed on with the bridge's %s", result, name)
			}
		}
		if !bytes.Equal(strictjson.Get(result, "content"), strictjson.Get(whole, "content")) {
			t.Errorf("%s has other content as %s", result, whole)
		}
	})
}
