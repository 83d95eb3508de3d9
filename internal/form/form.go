// Package form types the answers to form elicitation.
//
// A server that elicits in form mode sends a message and a requestedSchema, which is a restricted JSON Schema: a
// flat object whose properties are strings, numbers, booleans and enums. A client shows a form made from it and
// sends back what the person filled in. Nothing in that answer can be trusted: the client may be broken or hostile.
//
// This package makes the schema from a Go struct, so that an author writes the form once, and checks an answer
// against it, so that the author's struct holds only values that the schema allows:
//
//	type Resolution struct {
//		Kind  string  `json:"kind" enum:"fixed|duplicate|wontfix" jsonschema:"How the bug was resolved"`
//		Ref   int     `json:"ref,omitempty" minimum:"1" title:"Duplicate of"`
//		Notes *string `json:"notes" maxLength:"500"`
//	}
//
//	schema, err := form.For(reflect.TypeFor[Resolution]()) // once per type, cached
//	request.RequestedSchema = json.RawMessage(schema.JSON())
//	…
//	clean, err := schema.Check(answer.Content) // *form.Error names what is wrong, property by property
//	err = json.Unmarshal(clean, &resolution)
//
// An answer passes through in one direction: raw bytes, Check, clean bytes, json.Unmarshal (or exactjson.Unmarshal,
// which decodes them to the same value). Clean bytes hold the properties of the schema and nothing else, each under its
// exact name, so encoding/json's case-insensitive match of names never applies. Clean bytes of a schema made by [For]
// always decode into its struct: Check itself refuses an integer too large for its field and a leap second that
// time.Time cannot hold, respells the integer 4.2e1 as 42, and spells a date without escapes. Numbers are compared as
// exact decimals and never become a float64.
//
// An author who needs more than tags can express writes the schema by hand and passes it to [Parse], which accepts
// exactly the restricted subset.
//
// See "Requested Schema" on the elicitation page of the MCP specification, 2026-07-28.
package form

import (
	"bytes"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Schema is the requestedSchema of one form. Make one with [For] or [Parse]; it never changes afterwards and is safe
// for concurrent use.
type Schema struct {
	json       []byte
	properties []property
	index      map[string]int // name → position in properties
	room       int            // the most bytes that the defaults add to an answer
}

// JSON is the schema as it goes on the wire: compact, with properties in the order of the struct's fields or of the
// author's document, and the same bytes for the same schema every time. The caller must not change them.
func (s *Schema) JSON() []byte { return s.json }

// Check validates an answer against the schema. Content is the raw "content" member of an ElicitResult; nil, empty and
// null stand for an empty object. Content may be any bytes: Check never panics, and its time is linear in their number.
//
// The result is a JSON object with the properties of the schema only, in the schema's order, each value of the right
// type and within its limits. Members outside the schema are dropped, null counts as missing, an optional property
// that is missing gets its default, and integers are written as plain digits.
//
// The error is always an [*Error].
func (s *Schema) Check(content []byte) (clean []byte, err error) {
	if content = bytes.Trim(content, " \t\r\n"); len(content) == 0 {
		content = []byte("{}")
	}
	if err := strictjson.Check(content, strictjson.MaxDepth); err != nil {
		return nil, s.refuse(content, err)
	}
	var few [8][]byte // most forms are small: no allocation for these
	values := few[:]
	if len(s.properties) > len(few) {
		values = make([][]byte, len(s.properties))
	}
	if kind := strictjson.TypeOf(content); kind != strictjson.TypeObject && kind != strictjson.TypeNull {
		return nil, &Error{[]Problem{{"", "content must be an object"}}}
	}
	for name, value := range strictjson.Members(content) {
		if i, known := s.index[string(name)]; known {
			values[i] = value
		}
	}

	var problems []Problem
	clean = append(make([]byte, 0, len(content)+s.room), '{')
	for i := range s.properties {
		p, value := &s.properties[i], values[i]
		if isMissing(value) {
			switch {
			case p.required && p.nullable:
				clean = append(p.appendKey(clean), "null"...)
			case p.required:
				problems = append(problems, Problem{p.name, "is required"})
			case p.fallback != nil:
				clean = append(p.appendKey(clean), p.fallback...)
			}
			continue
		}
		var problem string
		if clean, problem = p.judge(p.appendKey(clean), value); problem != "" {
			problems = append(problems, Problem{p.name, problem})
		}
	}
	if problems != nil {
		return nil, &Error{problems}
	}
	return append(clean, '}'), nil
}

// refuse returns the error for content that strictjson.Check refused with err.
func (s *Schema) refuse(content []byte, err error) *Error {
	if invalid, ok := err.(*strictjson.Error); ok && invalid.Kind == strictjson.Duplicate {
		name, _ := strictjson.Text(content[invalid.Offset:])
		if i, known := s.index[string(name)]; known {
			return &Error{[]Problem{{s.properties[i].name, "was given twice"}}}
		}
	}
	return &Error{[]Problem{{"", "content is " + err.Error()}}}
}

func isMissing(value []byte) bool {
	return value == nil || strictjson.TypeOf(value) == strictjson.TypeNull
}

// Error is the reason why an answer was refused. It is safe to log and to show: it contains names and limits of the
// schema, and nothing from the answer.
type Error struct {
	Problems []Problem // in the order of the schema, at least one
}

// Problem is one thing wrong with an answer.
type Problem struct {
	Property string // empty for a problem of the answer as a whole
	Message  string // "must be at least 18"
}

// Error lists the problems: "age: must be at least 18; name: is required".
func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if texts[i] = p.Message; p.Property != "" {
			texts[i] = p.Property + ": " + p.Message
		}
	}
	return strings.Join(texts, "; ")
}

// newSchema makes the schema of properties, whose positions index holds by name.
func newSchema(dialect []byte, properties []property, index map[string]int) *Schema {
	s := &Schema{properties: properties, index: index}
	var b, required []byte
	b = append(b, '{')
	if dialect != nil {
		b = append(append(append(b, `"$schema":`...), dialect...), ',')
	}
	b = append(b, `"type":"object","properties":{`...)
	for i := range properties {
		p := &properties[i]
		s.room += len(p.key) + len(p.fallback) + 1
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, p.key...), p.schema...)
		if p.required {
			required = append(append(required, ','), p.key[:len(p.key)-1]...)
		}
	}
	b = append(b, '}')
	if required != nil {
		b = append(append(append(b, `,"required":[`...), required[1:]...), ']')
	}
	s.json = append(b, '}')
	return s
}
