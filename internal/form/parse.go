package form

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Parse compiles a schema that its author wrote by hand. It accepts the five shapes of property on the elicitation
// page, the legacy enumNames beside enum, and $schema; anything else is an error that names the property, the keyword
// and what is allowed. Numbers are bounded to the range of a float64, integers from -1<<63 to 1<<64-1: wide enough for
// every type of Go. The decoder reports a number that does not fit its own type.
//
// The schema's JSON is equivalent to the given document, in this package's order and spacing.
func Parse(schema []byte) (*Schema, error) {
	checked := strictjson.Check(schema, strictjson.MaxDepth)
	var invalid *strictjson.Error
	if errors.As(checked, &invalid) && (invalid.Kind != strictjson.Duplicate || !json.Valid(schema)) {
		return nil, fmt.Errorf("form: requestedSchema: %w", invalid)
	}
	s, err := parse(schema)
	if err = cmp.Or(err, checked); err != nil {
		return nil, fmt.Errorf("form: requestedSchema: %w", err)
	}
	return s, nil
}

// parse accepts duplicate names in schema, in order to report in which object they are.
func parse(schema []byte) (*Schema, error) {
	top, err := keywords(schema)
	if err != nil {
		return nil, err
	}
	if word, found := top.outside("$schema", "type", "properties", "required"); found {
		return nil, fmt.Errorf("%.100q is not allowed: a form has only $schema, type, properties and required; "+
			"leave it out", word)
	}
	dialect := top["$schema"]
	switch {
	case dialect != nil && strictjson.TypeOf(dialect) != strictjson.TypeString:
		return nil, errors.New("$schema: must be a string")
	case string(top["type"]) != `"object"`:
		return nil, errors.New(`type: must be "object"`)
	case top["properties"] == nil:
		return nil, errors.New("properties: missing; use an empty object for a form that asks only for consent")
	case strictjson.TypeOf(top["properties"]) != strictjson.TypeObject:
		return nil, errors.New("properties: must be an object")
	}

	index := make(map[string]int)
	for name := range strictjson.Members(top["properties"]) {
		if _, twice := index[string(name)]; twice {
			return nil, fmt.Errorf("properties: has %.100q twice; keep one", name)
		}
		index[string(name)] = len(index)
	}
	properties := make([]property, 0, len(index))
	for name, value := range strictjson.Members(top["properties"]) {
		p, err := parseProperty(string(name), value)
		if err != nil {
			return nil, fmt.Errorf("property %.100q: %w", name, err)
		}
		properties = append(properties, p)
	}
	var required []string
	if list := top["required"]; list != nil {
		if required, err = stringsIn(list, stringIn); err != nil {
			return nil, fmt.Errorf("required: %w", err)
		}
	}
	for _, name := range required {
		i, ok := index[name]
		if !ok {
			return nil, fmt.Errorf("required: there is no property %.100q", name)
		}
		if properties[i].required {
			return nil, fmt.Errorf("required: %.100q is there twice; keep one", name)
		}
		properties[i].required = true
	}
	return newSchema(dialect, properties, index), nil
}

func parseProperty(name string, definition []byte) (property, error) {
	w, err := keywords(definition)
	if err != nil {
		return property{}, err
	}
	if string(w["type"]) == `"integer"` {
		return compile(name, w, newBound(strconv.Itoa(math.MinInt64)), newBound(strconv.FormatUint(math.MaxUint64, 10)))
	}
	return compile(name, w, float64Low, float64High)
}

var (
	float64High = newBound(strconv.FormatFloat(math.MaxFloat64, 'g', -1, 64))
	float64Low  = newBound("-" + float64High.text)
)

// words holds the keywords of one property with their JSON values.
type words map[string][]byte

// keywords decodes one level of a schema.
func keywords(object []byte) (words, error) {
	if strictjson.TypeOf(object) != strictjson.TypeObject {
		return nil, errors.New("must be an object")
	}
	w := words{}
	for name, value := range strictjson.Members(object) {
		if w[string(name)] != nil {
			return nil, fmt.Errorf("has %.100q twice; keep one", name)
		}
		w[string(name)] = value
	}
	return w, nil
}

// outside returns a keyword that is not allowed, if there is one: the first in alphabetical order.
func (w words) outside(allowed ...string) (word string, found bool) {
	for name := range w {
		if !slices.Contains(allowed, name) && (!found || name < word) {
			word, found = name, true
		}
	}
	return word, found
}

// order is the order of keywords in the specification's examples, and in every schema that this package writes.
var order = []string{
	"type", "title", "description", "minLength", "maxLength", "format", "minimum", "maximum", "minItems", "maxItems",
	"enum", "enumNames", "oneOf", "items", "default",
}

// append appends the property's schema to dst.
func (w words) append(dst []byte) []byte {
	separator := byte('{')
	for _, word := range order {
		if value, ok := w[word]; ok {
			dst = append(append(append(dst, separator, '"'), word...), '"', ':')
			dst = strictjson.AppendCompact(dst, value)
			separator = ','
		}
	}
	return append(dst, '}')
}

// shape is one of the forms a property's schema can take.
type shape struct {
	name  string
	kind  kind
	words []string // allowed besides the keywords of every shape
}

var (
	shapeString       = shape{"a string", kindString, []string{"minLength", "maxLength", "format"}}
	shapeNumber       = shape{"a number", kindNumber, []string{"minimum", "maximum"}}
	shapeInteger      = shape{"an integer", kindInteger, []string{"minimum", "maximum"}}
	shapeBoolean      = shape{"a boolean", kindBoolean, nil}
	shapeChoice       = shape{"a single-select enum", kindChoice, []string{"enum", "enumNames"}}
	shapeTitledChoice = shape{"a single-select enum with titles", kindChoice, []string{"oneOf"}}
	shapeChoices      = shape{"a multi-select enum", kindChoices, []string{"minItems", "maxItems", "items"}}
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
	return shape{}, errors.New(`type: must be "string", "number", "integer", "boolean", or "array" for a multi-select ` +
		`enum; a form is flat, and an optional property is left out of "required"`)
}

// compile makes a property from its keywords. Low and high are the bounds of the Go type behind a number.
// An error begins with the keyword that is wrong.
func compile(name string, w words, low, high bound) (property, error) {
	p := property{name: name, key: append(encode(name), ':'), schema: w.append(nil), max: math.MaxInt, low: low,
		high: high}
	s, err := w.shape()
	if err != nil {
		return p, err
	}
	p.kind = s.kind
	allowed := slices.Concat([]string{"type", "title", "description", "default"}, s.words)
	if word, found := w.outside(allowed...); found {
		return p, fmt.Errorf("%s: not allowed on %s, which may have %s", word, s.name, strings.Join(allowed[1:], ", "))
	}
	if p.kind == kindChoices && w["items"] == nil {
		return p, errors.New(`items: missing; a list must be a multi-select enum, with items {"type": "string", "enum": ` +
			`[…]} or {"anyOf": [{"const": …, "title": …}, …]}`)
	}
	for _, word := range order { // Default is the last: it meets a property that is complete.
		value, ok := w[word]
		if !ok {
			continue
		}
		if err := p.apply(word, value); err != nil {
			return p, fmt.Errorf("%s: %w", word, err)
		}
	}
	if p.kind == kindChoices && p.min > len(p.values) {
		return p, fmt.Errorf("minItems: %d is more than the %d values to choose from", p.min, len(p.values))
	}
	return p, nil
}

// apply evaluates one keyword, which is allowed for this kind of property.
func (p *property) apply(word string, value []byte) error {
	var err error
	switch word {
	case "title", "description":
		_, err = stringIn(value)
	case "format":
		var name string
		if name, err = stringIn(value); err == nil {
			if p.format = formats[name]; p.format == nil {
				err = fmt.Errorf("%.100q is not one of %s", name, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
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
	case "enum":
		err = p.applyEnum(value, stringIn)
	case "oneOf":
		err = p.applyEnum(value, titledValue)
	case "enumNames":
		var names []string
		if names, err = stringsIn(value, stringIn); err == nil && len(names) != len(p.values) {
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

// within parses a limit on numbers. A new limit must lie within the present ones.
func (p *property) within(value []byte) (bound, error) {
	if strictjson.TypeOf(value) != strictjson.TypeNumber {
		return bound{}, errors.New("must be a number")
	}
	b := newBound(string(value))
	if b.compare(p.low.decimal) < 0 || b.compare(p.high.decimal) > 0 {
		return bound{}, fmt.Errorf("%s is outside %s…%s, the range that the type and the other limit allow", b.text,
			p.low.text, p.high.text)
	}
	return b, nil
}

func size(value []byte) (int, error) {
	if strictjson.TypeOf(value) == strictjson.TypeNumber {
		if d := parseDecimal(value); d.isWhole() && !d.negative && d.exp < 10 {
			return strconv.Atoi(string(d.appendWhole(nil)))
		}
	}
	return 0, errors.New("must be a whole number, 0 or more and below 1000000000")
}

// applyEnum sets the values of an enum. Read extracts the value from an element of the array.
func (p *property) applyEnum(array []byte, read func([]byte) (string, error)) error {
	values, err := stringsIn(array, read)
	if err != nil {
		return err
	}
	if len(values) == 0 {
		return errors.New("must have at least one value")
	}
	p.values = make(map[string]bool, len(values))
	for _, v := range values {
		if p.values[v] {
			return fmt.Errorf("has the value %.100q twice; keep one", v)
		}
		p.values[v] = true
	}
	p.choices = listed(values)
	return nil
}

// titledValue returns the const of {"const": …, "title": …}.
func titledValue(entry []byte) (string, error) {
	w, err := keywords(entry)
	if err != nil {
		return "", err
	}
	var said [2]string
	for i, word := range []string{"const", "title"} {
		if value, ok := w[word]; ok {
			if said[i], err = stringIn(value); err != nil {
				return "", fmt.Errorf("%s: %w", word, err)
			}
		}
	}
	if len(w) != 2 || said[0] == "" || said[1] == "" {
		return "", errors.New(`must be {"const": …, "title": …}, both with a text`)
	}
	return said[0], nil
}

func (p *property) applyItems(value []byte) error {
	items, err := keywords(value)
	switch {
	case err != nil:
		return err
	case len(items) == 2 && string(items["type"]) == `"string"` && items["enum"] != nil:
		return p.applyEnum(items["enum"], stringIn)
	case len(items) == 1 && items["anyOf"] != nil:
		return p.applyEnum(items["anyOf"], titledValue)
	}
	return errors.New(`must be {"type": "string", "enum": […]} or {"anyOf": [{"const": …, "title": …}, …]} and ` +
		`nothing else`)
}

// stringsIn applies read to each element of an array.
func stringsIn(array []byte, read func([]byte) (string, error)) (all []string, err error) {
	if strictjson.TypeOf(array) != strictjson.TypeArray {
		return nil, errors.New("must be an array")
	}
	for value := range strictjson.Elements(array) {
		s, err := read(value)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(all), err)
		}
		all = append(all, s)
	}
	return all, nil
}

func stringIn(value []byte) (string, error) {
	s, ok := strictjson.String(value)
	if !ok {
		return "", errors.New("must be a string")
	}
	return s, nil
}
