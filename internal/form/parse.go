package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse compiles a schema that its author wrote by hand. It accepts the five shapes of property on the elicitation
// page, the legacy enumNames beside enum, and $schema; anything else is an error that names the property, the keyword
// and what is allowed. Numbers are bounded to what a float64 holds, integers to −2⁶³…2⁶⁴−1: whether one fits the Go
// type it is decoded into is for the decoder to say.
//
// JSON says the same as the given document, in this package's order and spacing.
func Parse(schema []byte) (*Schema, error) {
	s, err := parse(bytes.Trim(schema, " \t\r\n"))
	if err != nil {
		return nil, fmt.Errorf("form: requestedSchema: %w", err)
	}
	return s, nil
}

func parse(schema []byte) (*Schema, error) {
	if !valid(schema) {
		return nil, errors.New("not valid JSON")
	}
	top, err := members(schema)
	if err != nil {
		return nil, err
	}
	var dialect, typ, required []byte
	var definitions []member
	for _, m := range top {
		switch m.name {
		case "$schema":
			_, err = stringIn(m.value)
			dialect = m.value
		case "type":
			typ = m.value
		case "properties":
			definitions, err = members(m.value)
		case "required":
			required = m.value
		default:
			return nil, fmt.Errorf("%q is outside the restricted subset, which allows $schema, type, properties and required; leave it out", m.name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if string(typ) != `"object"` {
		return nil, errors.New(`type: must be "object"`)
	}
	if !slices.ContainsFunc(top, func(m member) bool { return m.name == "properties" }) {
		return nil, errors.New("properties: missing; a form that asks nothing but yes or no has an empty object here")
	}

	properties := make([]property, len(definitions))
	for i, def := range definitions {
		if properties[i], err = parseProperty(def); err != nil {
			return nil, fmt.Errorf("property %q: %w", def.name, err)
		}
	}
	if required != nil {
		names, err := stringsIn(required)
		if err != nil {
			return nil, fmt.Errorf("required: %w", err)
		}
		for _, name := range names {
			i := slices.IndexFunc(definitions, func(m member) bool { return m.name == name })
			if i < 0 {
				return nil, fmt.Errorf("required: there is no property %q", name)
			}
			if properties[i].required {
				return nil, fmt.Errorf("required: %q is there twice; keep one", name)
			}
			properties[i].required = true
		}
	}
	return newSchema(dialect, properties), nil
}

func parseProperty(def member) (property, error) {
	list, err := members(def.value)
	if err != nil {
		return property{}, err
	}
	w := words{}
	for _, m := range list {
		w[m.name] = m.value
	}
	if string(w["type"]) == `"integer"` {
		return compile(def.name, w, newBound(strconv.Itoa(math.MinInt64)), newBound(strconv.FormatUint(math.MaxUint64, 10)))
	}
	return compile(def.name, w, float64Low, float64High)
}

var (
	float64High = newBound(strconv.FormatFloat(math.MaxFloat64, 'g', -1, 64))
	float64Low  = newBound("-" + float64High.text)
)

// words are the keywords of one property with their JSON values.
type words map[string]json.RawMessage

// order is how the specification's examples order keywords, and so does every schema this package writes.
var order = []string{
	"type", "title", "description", "minLength", "maxLength", "format", "minimum", "maximum", "minItems", "maxItems",
	"enum", "enumNames", "oneOf", "items", "default",
}

// append writes the property's schema.
func (w words) append(dst []byte) []byte {
	buf := bytes.NewBuffer(append(dst, '{'))
	first := true
	for _, word := range order {
		value, ok := w[word]
		if !ok {
			continue
		}
		if !first {
			buf.WriteByte(',')
		}
		first = false
		buf.WriteString(`"` + word + `":`)
		_ = json.Compact(buf, value) // valid already
	}
	return append(buf.Bytes(), '}')
}

// shape is one of the forms a property's schema can take.
type shape struct {
	name  string
	kind  kind
	words string // allowed besides type, title, description and default
}

var (
	shapeString       = shape{"a string", kindString, "minLength, maxLength, format"}
	shapeNumber       = shape{"a number", kindNumber, "minimum, maximum"}
	shapeInteger      = shape{"an integer", kindInteger, "minimum, maximum"}
	shapeBoolean      = shape{"a boolean", kindBoolean, ""}
	shapeChoice       = shape{"a single-select enum", kindChoice, "enum, enumNames"}
	shapeTitledChoice = shape{"a single-select enum with titles", kindChoice, "oneOf"}
	shapeChoices      = shape{"a multi-select enum", kindChoices, "minItems, maxItems, items"}
)

func (w words) shape() (shape, error) {
	switch string(w["type"]) {
	case `"string"`:
		switch {
		case w["enum"] != nil:
			return shapeChoice, nil
		case w["oneOf"] != nil:
			return shapeTitledChoice, nil
		}
		return shapeString, nil
	case `"number"`:
		return shapeNumber, nil
	case `"integer"`:
		return shapeInteger, nil
	case `"boolean"`:
		return shapeBoolean, nil
	case `"array"`:
		return shapeChoices, nil
	}
	return shape{}, errors.New(`type: must be "string", "number", "integer", "boolean", or "array" for a multi-select enum; a form is flat, and a property is optional by not being in "required"`)
}

// compile makes a property of its keywords. Low and high are what the Go type behind a number can hold.
// An error begins with the keyword it is about.
func compile(name string, w words, low, high bound) (property, error) {
	p := property{name: name, key: append(quote(name), ':'), schema: w.append(nil), max: math.MaxInt, low: low, high: high}
	s, err := w.shape()
	if err != nil {
		return p, err
	}
	p.kind = s.kind
	allowed := append([]string{"title", "description", "default"}, strings.Split(s.words, ", ")...)
	for _, word := range slices.Sorted(maps.Keys(w)) {
		if word != "type" && !slices.Contains(allowed, word) {
			return p, fmt.Errorf("%s: not allowed on %s, which may have %s", word, s.name, strings.TrimSuffix(strings.Join(allowed, ", "), ", "))
		}
	}
	if p.kind == kindChoices && w["items"] == nil {
		return p, errors.New(`items: missing; a list must be a multi-select enum, with items {"type": "string", "enum": […]} or {"anyOf": [{"const": …, "title": …}, …]}`)
	}
	for _, word := range order { // so that default, the last, meets a property that is complete
		value, ok := w[word]
		if !ok {
			continue
		}
		if err := p.apply(word, value); err != nil {
			return p, fmt.Errorf("%s: %w", word, err)
		}
	}
	if p.kind == kindChoices && p.min > len(p.values) {
		return p, fmt.Errorf("minItems: %d is more than the %d values there are to choose from", p.min, len(p.values))
	}
	return p, nil
}

// apply takes one keyword into account. The keyword is known to be allowed.
func (p *property) apply(word string, value []byte) error {
	var err error
	switch word {
	case "title", "description":
		_, err = stringIn(value)
	case "format":
		var name string
		if name, err = stringIn(value); err == nil {
			if p.format = formats[name]; p.format == nil {
				err = fmt.Errorf("%q is not one of %s", name, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
			}
		}
	case "minLength", "minItems":
		p.min, err = size(value)
	case "maxLength", "maxItems":
		if p.max, err = size(value); err == nil && p.max < p.min {
			err = fmt.Errorf("%d is less than the minimum of %d, so no answer could pass", p.max, p.min)
		}
	case "minimum":
		p.low, err = p.within(value)
	case "maximum":
		p.high, err = p.within(value)
	case "enum", "oneOf":
		err = p.applyEnum(value, word == "oneOf")
	case "enumNames":
		var names []string
		if names, err = stringsIn(value); err == nil && len(names) != len(p.values) {
			err = fmt.Errorf("has %d names for %d values", len(names), len(p.values))
		}
	case "items":
		err = p.applyItems(value)
	case "default":
		var problem string
		if p.fallback, problem = p.check(nil, value); problem != "" {
			err = errors.New(problem)
		}
	}
	return err
}

// within reads a limit on numbers, which must itself lie within the limits so far.
func (p *property) within(value []byte) (bound, error) {
	if !isNumber(value) {
		return bound{}, errors.New("must be a number")
	}
	b := newBound(string(value))
	if b.compare(p.low.decimal) < 0 || b.compare(p.high.decimal) > 0 {
		return bound{}, fmt.Errorf("%s is outside %s…%s, which is what the type and the other limit leave", b.text, p.low.text, p.high.text)
	}
	return b, nil
}

func size(value []byte) (int, error) {
	if isNumber(value) {
		if d := parseDecimal(value); d.isWhole() && !d.negative && d.exp < 10 {
			return strconv.Atoi(string(d.appendWhole(nil)))
		}
	}
	return 0, errors.New("must be a whole number, 0 or more and below 1000000000")
}

func (p *property) applyEnum(value []byte, titled bool) error {
	var values []string
	var err error
	if titled {
		values, err = titledValues(value)
	} else {
		values, err = stringsIn(value)
	}
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return errors.New("must have at least one value")
	}
	p.values = make(map[string]bool, len(values))
	for _, v := range values {
		if p.values[v] {
			return fmt.Errorf("has the value %q twice; keep one", v)
		}
		p.values[v] = true
	}
	p.choices = listed(values)
	return nil
}

func titledValues(list []byte) ([]string, error) {
	entries, err := elements(list)
	if err != nil {
		return nil, err
	}
	values := make([]string, len(entries))
	for i, entry := range entries {
		fields, err := members(entry)
		if err != nil {
			return nil, fmt.Errorf("element %d %w", i, err)
		}
		found := map[string]string{}
		for _, f := range fields {
			if found[f.name], err = stringIn(f.value); err != nil {
				return nil, fmt.Errorf("element %d: %s %w", i, f.name, err)
			}
		}
		if len(found) != 2 || found["const"] == "" || found["title"] == "" {
			return nil, fmt.Errorf(`element %d must be {"const": …, "title": …}, neither empty`, i)
		}
		values[i] = found["const"]
	}
	return values, nil
}

func (p *property) applyItems(value []byte) error {
	list, err := members(value)
	if err != nil {
		return err
	}
	items := words{}
	for _, m := range list {
		items[m.name] = m.value
	}
	switch {
	case len(items) == 2 && string(items["type"]) == `"string"` && items["enum"] != nil:
		err = p.applyEnum(items["enum"], false)
	case len(items) == 1 && items["anyOf"] != nil:
		err = p.applyEnum(items["anyOf"], true)
	default:
		return errors.New(`must be {"type": "string", "enum": […]} or {"anyOf": [{"const": …, "title": …}, …]} and nothing else`)
	}
	return err
}
