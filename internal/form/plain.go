package form

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Plain returns the schema, as it goes on the wire, of the same form for a client that shows nothing but text, yes or
// no, and single choices: it asks for numbers and multiple choices as text. It returns nil if s has neither.
//
// A multiple choice stays one if the text could not tell its values apart.
func (s *Schema) Plain() []byte {
	var changed bool
	plain := &Schema{properties: make([]property, len(s.properties))}
	for i, p := range s.Properties() {
		plain.properties[i] = s.properties[i]
		if p.isText() {
			continue
		}
		changed = true
		property := struct {
			Type        string  `json:"type"`
			Title       string  `json:"title,omitempty"`
			Description string  `json:"description"`
			Default     *string `json:"default,omitempty"`
		}{"string", p.Title, strings.TrimSpace(p.Description + " " + p.hint()), p.plainDefault()}
		plain.properties[i].schema, _ = json.Marshal(property) // strings always marshal
	}
	if !changed {
		return nil
	}
	return newSchema(nil, plain.properties, nil).json
}

// FromPlain returns the content of an answer with texts replaced by the numbers and multiple choices for which they
// stand. It reports whether there was any. Other texts stay as they are, and [Schema.Check] refuses them.
func (s *Schema) FromPlain(content []byte) (converted []byte, found bool) {
	if strictjson.Check(content, strictjson.MaxDepth) != nil || strictjson.TypeOf(content) != strictjson.TypeObject {
		return content, false
	}
	converted = append(make([]byte, 0, len(content)+16), '{')
	for name, value := range strictjson.Members(content) {
		if i, known := s.index[string(name)]; known {
			if text, ok := strictjson.String(value); ok {
				if parsed := s.properties[i].parse(text); parsed != nil {
					value, found = parsed, true
				}
			}
		}
		if len(converted) > 1 {
			converted = append(converted, ',')
		}
		converted = append(strictjson.AppendString(converted, string(name)), ':')
		converted = append(converted, value...)
	}
	return append(converted, '}'), found
}

// parse returns the value that a text stands for, or nil.
func (p *property) parse(text string) []byte {
	text = strings.TrimSpace(text)
	switch p.kind {
	case kindInteger, kindNumber:
		if text == "" {
			return []byte("null") // an empty field: null counts as missing
		}
		number := []byte(strings.TrimPrefix(text, "+"))
		if strictjson.Check(number, 1) != nil || strictjson.TypeOf(number) != strictjson.TypeNumber {
			return nil
		}
		return number
	case kindJSON:
		if strictjson.Check([]byte(text), strictjson.MaxDepth) != nil {
			return nil
		}
		return []byte(text)
	case kindChoices:
		list := []byte{'['}
		for value := range strings.SplitSeq(text, ",") {
			if value = strings.TrimSpace(value); value != "" {
				list = append(strictjson.AppendString(list, value), ',')
			}
		}
		return append(bytes.TrimSuffix(list, []byte(",")), ']')
	}
	return nil
}

// isText reports whether a property is shown the same in a plain form.
func (p *Property) isText() bool {
	switch p.compiled.kind {
	case kindInteger, kindNumber, kindJSON:
		return false
	case kindChoices:
		for _, o := range p.Options {
			if o.Value == "" || strings.Contains(o.Value, ",") || strings.TrimSpace(o.Value) != o.Value {
				return true
			}
		}
		return false
	}
	return true
}

// hint returns the sentence that tells people how to write the value.
func (p *Property) hint() string {
	what, low, high := "A number", "at least %s", "at most %s"
	switch p.compiled.kind {
	case kindInteger:
		what = "A whole number"
	case kindJSON:
		what = "As JSON"
	case kindChoices:
		var options []string
		for _, o := range p.Options {
			if o.Title != o.Value {
				o.Value += " (" + o.Title + ")"
			}
			options = append(options, o.Value)
		}
		what, low, high = "Any of "+strings.Join(options, ", ")+", separated by commas", "at least %s of them",
			"at most %s of them"
	}
	if p.Low != "" {
		what += ", " + fmt.Sprintf(low, p.Low)
	}
	if p.High != "" {
		what += ", " + fmt.Sprintf(high, p.High)
	}
	return what + "."
}

// plainDefault returns the text that stands for the default, or nil.
func (p *Property) plainDefault() *string {
	if p.Default == nil {
		return nil
	}
	text := string(p.Default)
	if p.compiled.kind == kindChoices {
		var values []string
		_ = json.Unmarshal(p.Default, &values) // this package has compiled it
		text = strings.Join(values, ", ")
	}
	return &text
}
