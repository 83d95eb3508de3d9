package schema

import (
	"bytes"
	"math"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// shape is a schema in a form that checks raw JSON, without decoding it first. It knows the keywords that are inferred
// from Go types, and only ever accepts: what it does not accept, because it is invalid or because the schema says more
// than a shape knows, is left to the full validator, whose verdicts and words are the only ones that a client sees.
//
// It is sound because it is compiled from the schema that the full validator has, a keyword that it does not know
// leaves that part of the schema without a shape, and each check of it is the validator's. Numbers, too, are compared
// as the float64 that the validator gets to see. FuzzShape compares the verdicts.
//
// A nil shape accepts nothing.
type shape struct {
	types     types
	values    map[string]bool // The values of an enum of strings. Nil means any.
	low, high float64         // The limits of a number.
	items     *shape          // The items of an array.
	few, many int             // The least and the greatest number of items.

	// The members of an object: those that the schema names, the set of those that must be there, and the shape of
	// all others.
	members  map[string]member
	required uint64
	others   *shape
}

// member is a named member of an object. Its bit tells it from the others.
type member struct {
	shape *shape
	bit   uint64
}

// types is a set of JSON types.
type types uint16

const (
	integer types = 1 << iota
	number        // with integers
	text
	boolean
	null
	array
	object

	all = integer | number | text | boolean | null | array | object
)

var typesByName = map[string]types{
	"integer": integer, "number": integer | number, "string": text, "boolean": boolean, "null": null, "array": array,
	"object": object,
}

// anything is the shape of a schema without constraints.
var anything = new(shape)

// compile returns the shape of a schema, or nil if there is none. A nil schema allows any value.
func compile(s *jsonschema.Schema) *shape {
	switch {
	case s == nil || saysNothing(*s):
		return anything
	case !isKnown(*s) || len(s.Properties) > 64: // the members that were seen are bits of a uint64
		return nil
	}
	c := &shape{
		types: typesByName[s.Type], low: math.Inf(-1), high: math.Inf(1), many: math.MaxInt,
		items: compile(s.Items), others: compile(s.AdditionalProperties), members: make(map[string]member),
	}
	for _, name := range s.Types {
		c.types |= typesByName[name]
	}
	if s.Type == "" && s.Types == nil {
		c.types = all
	}
	if c.values = stringValues(s); c.values != nil {
		c.types &= text
	} else if s.Enum != nil {
		return nil
	}
	set(&c.low, s.Minimum)
	set(&c.high, s.Maximum)
	set(&c.few, s.MinItems)
	set(&c.many, s.MaxItems)
	for name, property := range s.Properties {
		c.members[name] = member{compile(property), 1 << len(c.members)}
	}
	for _, name := range s.Required {
		m, named := c.members[name]
		if !named { // it is required, but only additionalProperties allow it: no bit stands for it
			return nil
		}
		c.required |= m.bit
	}
	return c
}

// saysNothing reports whether every value is valid.
func saysNothing(s jsonschema.Schema) bool {
	s.Title, s.Description = "", ""
	return reflect.ValueOf(s).IsZero()
}

// isKnown reports whether compile understands each keyword of a schema, or can ignore it because it does not restrict
// the values.
func isKnown(s jsonschema.Schema) bool {
	s.Title, s.Description, s.PropertyOrder = "", "", nil
	s.Type, s.Types, s.Minimum, s.Maximum = "", nil, nil, nil
	s.Items, s.MinItems, s.MaxItems, s.Enum = nil, nil, nil, nil
	s.Properties, s.Required, s.AdditionalProperties = nil, nil, nil
	return reflect.ValueOf(s).IsZero()
}

func set[T any](to, limit *T) {
	if limit != nil {
		*to = *limit
	}
}

// accepts reports whether a checked value is certainly valid. With floats each of its numbers is certainly a float64.
func (s *shape) accepts(value []byte, floats bool) bool {
	if floats && s.acceptsObjects() && strictjson.TypeOf(value) == strictjson.TypeObject {
		return true
	}
	c := strictjson.At(value)
	return s.acceptsAt(&c, floats)
}

// acceptsObjects reports whether every object is valid whose numbers are float64s.
func (s *shape) acceptsObjects() bool {
	return s != nil && s.types&object != 0 && len(s.members) == 0 && s.others == anything
}

// acceptsAt moves the cursor behind a value that it accepts.
func (s *shape) acceptsAt(c *strictjson.Cursor, floats bool) bool {
	switch {
	case s == nil:
		return false
	case s == anything && floats:
		return c.Value() != nil
	case s == anything:
		return fit(c)
	}
	switch c.Type() {
	case strictjson.TypeString:
		if s.values != nil {
			value, ok := strictjson.Text(c.Value())
			return s.types&text != 0 && ok && s.values[string(value)]
		}
		return s.types&text != 0 && c.Value() != nil
	case strictjson.TypeBool:
		return s.types&boolean != 0 && c.Value() != nil
	case strictjson.TypeNull:
		return s.types&null != 0 && c.Value() != nil
	case strictjson.TypeNumber:
		n, err := strconv.ParseFloat(string(c.Value()), 64)
		meant := s.types&number != 0 || s.types&integer != 0 && n == math.Trunc(n)
		return err == nil && meant && s.low <= n && n <= s.high
	case strictjson.TypeArray:
		return s.types&array != 0 && s.acceptsItems(c, floats)
	case strictjson.TypeObject:
		return s.types&object != 0 && s.acceptsMembers(c, floats)
	}
	return false
}

func (s *shape) acceptsItems(c *strictjson.Cursor, floats bool) bool {
	n := 0
	for range c.Elements() {
		if !s.items.acceptsAt(c, floats) {
			return false
		}
		n++
	}
	return s.few <= n && n <= s.many
}

func (s *shape) acceptsMembers(c *strictjson.Cursor, floats bool) bool {
	var seen uint64
	for name := range c.Members() {
		m, named := s.members[string(name)]
		if !named {
			m.shape = s.others
		}
		if !m.shape.acceptsAt(c, floats) {
			return false
		}
		seen |= m.bit
	}
	return seen&s.required == s.required
}

// fit reports whether each number in a checked value is a float64, as the full validator wants it.
func fit(c *strictjson.Cursor) bool {
	for n := range c.Numbers() {
		if len(n) > strictjson.CertainlyFloat || bytes.ContainsAny(n, "eE") {
			if _, err := strconv.ParseFloat(string(n), 64); err != nil {
				return false
			}
		}
	}
	return true
}
