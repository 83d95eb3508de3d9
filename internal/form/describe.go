package form

import (
	"cmp"
	"encoding/json"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Property is one property of a form, for a program that shows the form to a person.
type Property struct {
	Name, Title, Description string

	Type     string          // "string", "integer", "number", "boolean" or "array"; "json" if no field can show it
	Format   string          // The format of a string.
	Low      string          // minimum, minLength or minItems as the schema spells it; empty for none
	High     string          // maximum, maxLength or maxItems
	Options  []Option        // The options of an enum.
	Required bool            // there must be an answer
	Default  json.RawMessage // nil for none

	compiled *property
}

// Option is one value of an enum. A value without a title is its own title.
type Option struct {
	Value string `json:"const"`
	Title string `json:"title"`
}

// Properties returns the properties in the schema's order.
func (s *Schema) Properties() []*Property {
	all := make([]*Property, len(s.properties))
	for i := range s.properties {
		p := &s.properties[i]
		var d struct {
			Type, Title, Description, Format                           string
			MinLength, MaxLength, Minimum, Maximum, MinItems, MaxItems json.Number
			Enum, EnumNames                                            []string
			OneOf                                                      []Option
			Items                                                      struct {
				Enum  []string
				AnyOf []Option
			}
			Default json.RawMessage
		}
		_ = json.Unmarshal(p.schema, &d) // this package has compiled it
		if p.kind == kindJSON {
			d.Type = "json"
		}
		options := append(d.OneOf, d.Items.AnyOf...)
		for i, value := range append(d.Enum, d.Items.Enum...) {
			option := Option{value, value}
			if d.EnumNames != nil {
				option.Title = d.EnumNames[i]
			}
			options = append(options, option)
		}
		all[i] = &Property{
			Name: p.name, Title: d.Title, Description: d.Description, Type: d.Type, Format: d.Format,
			Low:     string(cmp.Or(d.MinLength, d.Minimum, d.MinItems)),
			High:    string(cmp.Or(d.MaxLength, d.Maximum, d.MaxItems)),
			Options: options, Required: p.required && !p.nullable, Default: d.Default, compiled: p,
		}
	}
	return all
}

// Check validates one value as [Schema.Check] does. Problem is empty for a valid one.
func (p *Property) Check(value []byte) (clean json.RawMessage, problem string) {
	if err := strictjson.Check(value, strictjson.MaxDepth); err != nil {
		return nil, "is " + err.Error()
	}
	return p.compiled.judge(nil, value)
}
