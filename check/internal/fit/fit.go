// Package fit makes arguments and answers that fit the schemas of a server, and such that do not.
package fit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A Property is the part of a property's schema that is understood. A schema is foreign: what is not understood is left
// out, and no reference is followed.
type Property struct {
	Type      any             `json:"type"`
	Enum      []any           `json:"enum"`
	Const     any             `json:"const"`
	OneOf     []Property      `json:"oneOf"`
	AnyOf     []Property      `json:"anyOf"`
	Items     *Property       `json:"items"`
	Format    string          `json:"format"`
	Pattern   string          `json:"pattern"`
	MinLength float64         `json:"minLength"`
	MaxLength *float64        `json:"maxLength"`
	Minimum   *float64        `json:"minimum"`
	Maximum   *float64        `json:"maximum"`
	Title     string          `json:"title"`
	Default   json.RawMessage `json:"default"`
}

type object struct {
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required"`
}

func parse(schema json.RawMessage) (o object) {
	_ = json.Unmarshal(schema, &o)
	return o
}

// Properties returns the properties of an object's schema.
func Properties(schema json.RawMessage) map[string]Property { return parse(schema).Properties }

// Required returns the least values that fit, of the properties that must be there.
func Required(schema json.RawMessage, text string) map[string]any {
	o := parse(schema)
	all := map[string]any{}
	for _, name := range o.Required {
		all[name] = least(o.Properties[name], text)
	}
	return all
}

// Content returns the least content that fits a form: what is required, and everything if nothing is.
func Content(schema json.RawMessage, text string) map[string]any {
	all := Required(schema, text)
	if len(all) == 0 {
		for name, p := range Properties(schema) {
			all[name] = least(p, text)
		}
	}
	return all
}

func (p Property) kind() string {
	switch t := p.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	return "string"
}

// isDefault reports whether a value is the default, which a server may take where nobody has answered.
func (p Property) isDefault(value any) bool {
	var unless any
	if json.Unmarshal(p.Default, &unless) != nil {
		return false
	}
	return reflect.DeepEqual(value, unless)
}

// refusing are options by which a person may say no.
var refusing = regexp.MustCompile(`(?i)^(no|none|never|cancel|reject|decline|deny|abort|keep|skip|stop|off|false)\b`)

// chosen is an option that somebody takes who agrees, and not the default where there is another.
func (p Property) chosen(options []any) any {
	for _, option := range options {
		if !p.isDefault(option) && !refusing.MatchString(fmt.Sprint(option)) {
			return option
		}
	}
	return options[0]
}

// number is a number that fits and is no default, if there is one.
func (p Property) number() any {
	least, most := 1.0, 1e6
	if p.Minimum != nil {
		least = math.Ceil(*p.Minimum)
	}
	if p.Maximum != nil {
		most = *p.Maximum
	}
	for _, n := range []float64{least + 2, least + 1, least} {
		if n <= most && !p.isDefault(n) {
			return n
		}
	}
	return min(least, most)
}

// least returns a value that fits a property and is nobody's default: the text, if any text does.
func least(p Property, text string) any {
	switch {
	case p.Const != nil:
		return p.Const
	case len(p.Enum) > 0:
		return p.chosen(p.Enum)
	case len(p.OneOf) > 0 && p.OneOf[0].Const != nil:
		var options []any
		for _, one := range p.OneOf {
			options = append(options, one.Const)
		}
		return p.chosen(options)
	case len(p.OneOf) > 0:
		return least(p.OneOf[0], text)
	case len(p.AnyOf) > 0:
		return least(p.AnyOf[0], text)
	}
	switch p.kind() {
	case "boolean":
		return true
	case "integer", "number":
		return p.number()
	case "array":
		if p.Items == nil {
			return []any{}
		}
		return []any{least(*p.Items, text)}
	case "object":
		return map[string]any{}
	}
	switch p.Format {
	case "email":
		return text + "@example.com"
	case "uri":
		return "https://example.com/" + text
	case "uuid":
		return UUID(text)
	case "date":
		return "2030-01-01"
	case "date-time":
		return "2030-01-01T00:00:00Z"
	}
	if n := int(min(p.MinLength, 1000)); len(text) < n {
		text += strings.Repeat("x", n-len(text))
	}
	if p.MaxLength != nil && *p.MaxLength >= 0 && float64(len(text)) > *p.MaxLength {
		text = text[len(text)-int(*p.MaxLength):]
	}
	return text
}

// UUID returns a UUID that stands for a text.
func UUID(text string) string {
	hex := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	return hex[:8] + "-" + hex[8:12] + "-4" + hex[13:16] + "-8" + hex[17:20] + "-" + hex[20:32]
}

// Defaults returns the content of a form with its defaults in place of the values that are none, and the same with
// other values there. Both are nil for a form without defaults, and for one with a default that says no: to decline may
// come to the same as that.
func Defaults(schema json.RawMessage, fits map[string]any) (with, others map[string]any) {
	for name, p := range Properties(schema) {
		var value any
		if json.Unmarshal(p.Default, &value) != nil || value == nil {
			continue
		}
		if value == 0.0 || value == "" || refusing.MatchString(fmt.Sprint(value)) {
			return nil, nil
		}
		if with == nil {
			with, others = maps.Clone(fits), maps.Clone(fits)
		}
		with[name] = value
		if value == true {
			others[name] = false
		}
	}
	return with, others
}

// Misfits returns contents that do not fit a form, each with one wrong value.
func Misfits(schema json.RawMessage, fits map[string]any, text string) (all []map[string]any) {
	o := parse(schema)
	add := func(name string, value any) {
		wrong := maps.Clone(fits)
		if wrong[name] = value; value == nil {
			delete(wrong, name)
		}
		all = append(all, wrong)
	}
	for _, name := range slices.Sorted(maps.Keys(fits)) {
		p := o.Properties[name]
		switch {
		case len(p.Enum)+len(p.OneOf)+len(p.AnyOf) > 0, p.kind() == "boolean":
			add(name, text)
		case p.kind() == "integer" || p.kind() == "number":
			if p.Maximum != nil {
				add(name, *p.Maximum+987654321)
			} else {
				add(name, text)
			}
		case p.kind() == "string" && p.MaxLength != nil && *p.MaxLength < 10000:
			add(name, text+strings.Repeat("x", int(max(0, *p.MaxLength))))
		case p.kind() == "string":
			add(name, map[string]any{"askback": text})
		}
		if slices.Contains(o.Required, name) {
			add(name, nil)
		}
	}
	return all
}

// Choices returns the texts of which a property has one.
func (p Property) Choices() (all []string) {
	for _, value := range p.Enum {
		all = append(all, fmt.Sprint(value))
	}
	for _, one := range append(slices.Clone(p.OneOf), p.AnyOf...) {
		if one.Const != nil {
			all = append(all, fmt.Sprint(one.Const))
		}
	}
	return all
}

// IsTyped reports whether a field takes a text or a number, and no choice.
func (p Property) IsTyped() bool {
	return p.Type != "boolean" && p.Type != "array" && p.Enum == nil && p.OneOf == nil && p.Const == nil
}
