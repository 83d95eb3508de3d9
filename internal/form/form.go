// Package form types the answers to form elicitation.
//
// A server that elicits in form mode sends a message and a requestedSchema, which is a restricted JSON Schema: a
// flat object whose properties are strings, numbers, booleans and enums. A client shows a form made from it and
// sends back what the person filled in. Nothing in that answer can be trusted: the client may be broken or hostile.
//
// This package makes the schema from a Go struct, so that an author writes the form once, and checks an answer
// against it, so that what reaches the author's struct is what the schema promised:
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
// The way of an answer is one way: raw bytes, Check, clean bytes, json.Unmarshal. Clean bytes hold the properties of
// the schema and nothing else, each under its exact name, so encoding/json's case-insensitive match of names never
// finds anything to match. For a schema made by [For], clean bytes always decode into the struct it was made from:
// an integer too large for its field, a leap second that time.Time cannot hold or a number spelled 4.2e1 is dealt
// with here and not left to the decoder. Numbers are compared as decimals, exactly, without passing through float64.
//
// An author who needs what tags cannot say writes the schema by hand and hands it to [Parse], which accepts the
// restricted subset and nothing else.
//
// See "Requested Schema" on the elicitation page of the MCP specification, 2026-07-28.
package form

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Schema is the requestedSchema of one form. Make one with [For] or [Parse]; it never changes afterwards and is safe
// for concurrent use.
type Schema struct {
	json       []byte
	properties []property
	index      map[string]int // name → position in properties
	room       int            // how many bytes the defaults can add to an answer
}

// JSON is the schema as it goes on the wire: compact, with properties in the order of the struct's fields or of the
// author's document, and the same bytes for the same schema every time. The caller must not change them.
func (s *Schema) JSON() []byte { return s.json }

// Check holds an answer against the schema. Content is the raw "content" member of an ElicitResult; nil, empty and
// null stand for an empty object. No bytes make Check panic, and its work is linear in their number.
//
// The result is a JSON object with the properties of the schema only, in the schema's order, each value of the right
// type and within its limits. Members the schema does not know are dropped, null counts as missing, an optional
// property that is missing gets its default, and integers are spelled with digits alone.
//
// The error is always an [*Error].
func (s *Schema) Check(content []byte) (clean []byte, err error) {
	content = bytes.Trim(content, " \t\r\n")
	switch {
	case len(content) == 0 || string(content) == "null":
		content = []byte("{}")
	case !valid(content):
		return nil, &Error{[]Problem{{"", "content is not valid JSON"}}}
	case content[0] != '{':
		return nil, &Error{[]Problem{{"", "content must be an object"}}}
	}

	var problems []Problem
	var few [8][]byte // most forms are small: no allocation for these
	values := few[:]
	if len(s.properties) > len(few) {
		values = make([][]byte, len(s.properties))
	}
	for members := inside(content); ; {
		name := members.next()
		if name == nil {
			break
		}
		value := members.next()
		i, known := s.index[string(text(name))]
		switch {
		case !known:
		case values[i] != nil:
			problems = append(problems, Problem{s.properties[i].name, "was given twice"})
		default:
			values[i] = value
		}
	}

	clean = append(make([]byte, 0, len(content)+s.room), '{')
	for i := range s.properties {
		p, value := &s.properties[i], values[i]
		if value == nil || string(value) == "null" {
			switch {
			case p.required:
				problems = append(problems, Problem{p.name, "is required"})
			case p.fallback != nil:
				clean = append(p.appendKey(clean), p.fallback...)
			}
			continue
		}
		var problem string
		if clean, problem = p.check(p.appendKey(clean), value); problem != "" {
			problems = append(problems, Problem{p.name, problem})
		}
	}
	if problems != nil {
		return nil, &Error{problems}
	}
	return append(clean, '}'), nil
}

// Error says why an answer was refused. It is safe to log and to show: it holds names and limits of the schema, never
// anything the client sent.
type Error struct {
	Problems []Problem // in the order of the schema, at least one
}

// Problem is one thing wrong with an answer.
type Problem struct {
	Property string // empty when the answer as a whole is meant
	Message  string // "must be at least 18"
}

// Error lists the problems: "age: must be at least 18; name: is required".
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		if p.Property != "" {
			b.WriteString(p.Property + ": ")
		}
		b.WriteString(p.Message)
	}
	return b.String()
}

// newSchema writes down the schema that the properties make.
func newSchema(dialect json.RawMessage, properties []property) *Schema {
	s := &Schema{properties: properties, index: make(map[string]int, len(properties))}
	var b, required []byte
	b = append(b, '{')
	if dialect != nil {
		b = append(append(append(b, `"$schema":`...), dialect...), ',')
	}
	b = append(b, `"type":"object","properties":{`...)
	for i := range properties {
		p := &properties[i]
		s.index[p.name] = i
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

func valid(b []byte) bool { return utf8.Valid(b) && json.Valid(b) }
