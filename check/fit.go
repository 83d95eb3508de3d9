package check

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

// A property is what is understood of a property's schema. A schema is foreign: what is not understood is left out,
// and no reference is followed.
type property struct {
	Type      any             `json:"type"`
	Enum      []any           `json:"enum"`
	Const     any             `json:"const"`
	OneOf     []property      `json:"oneOf"`
	AnyOf     []property      `json:"anyOf"`
	Items     *property       `json:"items"`
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
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

func parseObject(schema json.RawMessage) (o object) {
	_ = json.Unmarshal(schema, &o)
	return o
}

// required returns the properties of a schema that must be there.
func required(schema json.RawMessage) map[string]property {
	o := parseObject(schema)
	needed := map[string]property{}
	for _, name := range o.Required {
		needed[name] = o.Properties[name]
	}
	return needed
}

// content returns the least content that fits a form: what is required, and everything if nothing is.
func content(schema json.RawMessage, text string) map[string]any {
	needed := required(schema)
	if len(needed) == 0 {
		needed = parseObject(schema).Properties
	}
	all := map[string]any{}
	for name, p := range needed {
		all[name] = least(p, text)
	}
	return all
}

func (p property) kind() string {
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

// isDefault reports whether a value is what a server may take where nobody has answered.
func (p property) isDefault(value any) bool {
	var unless any
	if json.Unmarshal(p.Default, &unless) != nil {
		return false
	}
	return reflect.DeepEqual(value, unless)
}

// refusing are options by which a person may say no.
var refusing = regexp.MustCompile(`(?i)^(no|none|never|cancel|reject|decline|deny|abort|keep|skip|stop|off|false)\b`)

// chosen is an option that somebody takes who agrees, and not the default where there is another.
func (p property) chosen(options []any) any {
	for _, option := range options {
		if !p.isDefault(option) && !refusing.MatchString(fmt.Sprint(option)) {
			return option
		}
	}
	return options[0]
}

// number is a number that fits and is no default, if there is one.
func (p property) number() any {
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
func least(p property, text string) any {
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
		hex := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		return hex[:8] + "-" + hex[8:12] + "-4" + hex[13:16] + "-8" + hex[17:20] + "-" + hex[20:32]
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

// defaults returns the content of a form with its defaults in place of the values that are none, and the same with
// other values there. Both are nil for a form without defaults, and for one with a default that says no: to decline may
// come to the same as that.
func defaults(schema json.RawMessage, fits map[string]any) (with, others map[string]any) {
	for name, p := range parseObject(schema).Properties {
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

// misfits returns contents that do not fit a form, each with one wrong value, and what is wrong.
func misfits(schema json.RawMessage, fits map[string]any, text string) (all []map[string]any, what []string) {
	o := parseObject(schema)
	add := func(name string, value any, why string) {
		wrong := maps.Clone(fits)
		if wrong[name] = value; value == nil {
			delete(wrong, name)
		}
		all, what = append(all, wrong), append(what, name+" "+why)
	}
	for _, name := range slices.Sorted(maps.Keys(fits)) {
		p := o.Properties[name]
		switch {
		case len(p.Enum)+len(p.OneOf)+len(p.AnyOf) > 0:
			add(name, text, "is not among the options")
		case p.kind() == "boolean":
			add(name, text, "is no boolean")
		case p.kind() == "integer" || p.kind() == "number":
			if p.Maximum != nil {
				add(name, *p.Maximum+987654321, "is greater than the maximum")
			} else {
				add(name, text, "is no number")
			}
		case p.kind() == "string" && p.MaxLength != nil && *p.MaxLength < 10000:
			add(name, text+strings.Repeat("x", int(max(0, *p.MaxLength))), "is longer than maxLength")
		case p.kind() == "string":
			add(name, map[string]any{"askback": text}, "is no string")
		}
		if slices.Contains(o.Required, name) {
			add(name, nil, "is missing")
		}
	}
	return all, what
}

// wrongValue is what the value of an attack looks like in a text, in one programming language or another.
var wrongValue = map[string]*regexp.Regexp{
	"schema": regexp.MustCompile(`^(?:…|x+|askback|map|[^a-zA-Z])*$`),
	"kind":   regexp.MustCompile(`^…?$`),
	"none":   regexp.MustCompile(`^\S*$`),
}

// hasOtherValue reports that a reply says what the valid one says, with another value in the place of the fitting one.
// Other replies may be refusals.
func (r *run) hasOtherValue(aim step, c *call, came, valid *reply) bool {
	a, b := []rune(came.text), []rune(valid.text)
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	other, fitting := string(a[begin:len(a)-end]), string(b[begin:len(b)-end])
	fits := ""
	for _, q := range c.last().questions {
		if answer, ok := r.honest(c.target, q, c.canary).(map[string]any); ok {
			fits += r.mask(fmt.Sprint(answer["content"]))
		}
	}
	looks := wrongValue[aim.Answers]
	return came.class == valid.class && strings.Contains(fits, fitting) && (looks == nil || looks.MatchString(other))
}
