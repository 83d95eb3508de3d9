package form

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/exactjson"
)

// FuzzCheck: whatever the bytes, there is an *Error, or an answer that decodes and holds nothing but the form's own.
func FuzzCheck(f *testing.F) {
	type form struct {
		Name   *string      `json:"name" minLength:"1" maxLength:"80"`
		Email  *string      `json:"email" format:"email"`
		Age    *uint64      `json:"age" maximum:"18446744073709551614"`
		Colors *[]string    `json:"colors" enum:"red=Red|green=Green|blue=Blue" minItems:"1"`
		Agree  bool         `json:"agree"`
		Small  *int8        `json:"small" default:"3"`
		Float  *float32     `json:"float"`
		Num    *json.Number `json:"num"`
		When   *time.Time   `json:"when"`
		Day    *string      `json:"day" format:"date"`
		Link   *string      `json:"link" format:"uri"`
		One    *string      `json:"one" enum:"a=A|b=B"`
	}
	s := mustFor[form](f)
	for _, seed := range []string{
		"", "null", "{}", "[]", "{", oneAnswer, sixAnswers, `{"agree":true,"agree":false}`, `{"agree":true,"A\u0067ree":1}`,
		`{"agree":false,"small":1.2e1,"float":1e38,"num":1e-300,"when":"2026-02-30T00:00:00Z","day":"2024-02-29",` +
			`"link":"a:b","one":"b"}`,
		`{"agree":true,"age":1e999999999,"x":[{"y":"\\\"]}"}]}`, `{"agree":true,"name":"\ud800","colors":["red"," blue"]}`,
		`{"agree":true,"when":"2026-07-28T12:00:00.123456789+23:59"}`, `{"agree":true,"num":-0.0e-9}`,
		`{"agree":true,"when":"2026\u002d02-28T00:00:00Z"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		clean, err := s.Check(content)
		if err != nil {
			var e *Error
			if clean != nil || !errors.As(err, &e) || len(e.Problems) == 0 {
				t.Fatalf("%q, %#v", clean, err)
			}
			return
		}
		var members map[string]any
		if err := json.Unmarshal(clean, &members); err != nil {
			t.Fatalf("%q → %q: %v", content, clean, err)
		}
		for name := range members {
			if _, known := s.index[name]; !known {
				t.Fatalf("%q → %q", content, clean)
			}
		}
		var decoded, exact form
		if err := json.Unmarshal(clean, &decoded); err != nil {
			t.Fatalf("%q → %q: %v", content, clean, err)
		}
		if err := exactjson.Unmarshal(clean, &exact); err != nil || !reflect.DeepEqual(decoded, exact) {
			t.Fatalf("%q → %q: encoding/json decodes %+v, and exactjson %+v, %v", content, clean, decoded, exact, err)
		}
		if again, err := s.Check(clean); err != nil || string(again) != string(clean) {
			t.Fatalf("%q → %q → %q, %v", content, clean, again, err)
		}
	})
}

// FuzzParse: whatever the bytes, there is an error, or a schema that is its own fixed point and can check answers.
func FuzzParse(f *testing.F) {
	for _, property := range []string{
		specString, specNumber, specBoolean, specChoice, specTitledChoice, specChoices, specTitledChoices,
		`{"type":"integer","minimum":1e999999999}`, `{"type":"string","maxLength":1e999999999}`,
		`{"type":"string","enum":["a"],"enumNames":["A"]}`, `true`, `{"type":"array","items":{}}`,
	} {
		f.Add([]byte(`{"type":"object","properties":{"p":` + property + `},"required":["p"]}`))
	}
	f.Add([]byte(""))
	f.Add([]byte("null"))
	f.Add([]byte(`{"$schema":"x","type":"object","properties":{}}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		s, err := Parse(schema)
		if err != nil {
			return
		}
		again, err := Parse(s.JSON())
		if err != nil || string(again.JSON()) != string(s.JSON()) {
			t.Fatalf("%q → %q: %v", schema, s.JSON(), err)
		}
		_, _ = s.Check(nil)
		_, _ = s.Check([]byte(`{"p":1,"":"x"}`))
		_, _ = s.Check(schema)
	})
}
