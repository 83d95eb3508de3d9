package terminal

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestFieldsStandInTheOrderOfTheSchema(t *testing.T) {
	fields := expect.Must(fieldsOf(json.RawMessage(bug)))(t)
	var got []string
	for _, f := range fields {
		got = append(got, f.Name)
	}
	want := []string{"zeta", "alpha", "mail", "home", "due", "at", "weight", "colour", "loud", "public", "tags", "note"}
	expect.Diff(t, "the value", want, got)
}

func TestNoNumbers(t *testing.T) {
	for _, s := range []string{"abc", "null", "true", "-", ".", "+-1", "e5", "0x10", "1,5", "--1", `"1"`, "[1]", "1 2",
		"NaN"} {
		f := fieldOf(t, `{"type":"number"}`)
		f.text = s
		expect.Equal(t, fmt.Sprintf("%q", s), f.problem(), "must be a number")
	}
}

func TestNotesOnTheWholeSchemaAreIgnored(t *testing.T) {
	_, err := fieldsOf(json.RawMessage(`{"title":"Bug","description":"A ` +
		`bug","additionalProperties":false,"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`))
	if err != nil {
		t.Error(err)
	}
}

func fieldOf(t *testing.T, property string) *field {
	t.Helper()
	fields := expect.Must(fieldsOf(fmt.Appendf(nil, `{"type":"object","properties":{"it":%s}}`, property)))(t)
	return fields[0]
}
