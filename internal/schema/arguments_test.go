package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/schema"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestDefaultsKeepDigitsAndCostLittle(t *testing.T) {
	type in struct {
		O struct {
			ID   int64  `json:"id"`
			Kind string `json:"kind"`
		} `json:"o"`
		Mode string `json:"mode"`
	}
	tool := &mcp.Tool{InputSchema: json.RawMessage(`{"type":"object","properties":{"o":{"type":"object",` +
		`"properties":{"kind":{"type":"string","default":"plain"}}},"mode":{"type":"string","default":"fast"}}}`)}
	arguments := expect.Must(schema.ForArguments(tool, reflect.TypeFor[in]()))(t)
	var got in
	if err := arguments.Decode([]byte(`{"o":{"id":9007199254740993}}`), true, &got); err != nil ||
		got.O.ID != 9007199254740993 || got.O.Kind != "plain" || got.Mode != "fast" {
		t.Errorf("got %+v, %v", got, err)
	}
	var many strings.Builder
	many.WriteString(`{"o":{}`)
	for i := range 500_000 { // if their square counted, go test would end it
		fmt.Fprintf(&many, `,"m%d":1`, i)
	}
	many.WriteByte('}')
	if err := arguments.Decode([]byte(many.String()), true, new(in)); err != nil {
		t.Error(err)
	}
}
