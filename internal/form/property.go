package form

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// property is one compiled property of a form.
type property struct {
	name     string
	key      []byte // the quoted name and its colon
	schema   []byte // The schema on the wire.
	kind     kind
	required bool
	fallback []byte // the default as a clean value, or nil

	format    *format         // The format of a string, or nil.
	min, max  int             // code points of a string, items of a multi-select
	low, high bound           // the limits of a number: the schema's, or else the limits of its Go type
	values    map[string]bool // The values of an enum.
	choices   string          // the values of an enum, as messages list them

	// Of a stranger's form.
	nullable bool   // null is an answer
	rule     []byte // a schema that is applied to an answer, too, or nil
}

type kind int

const (
	kindString kind = iota
	kindInteger
	kindNumber
	kindBoolean // people choose the values of this kind and of those behind it, and do not type them
	kindChoice  // single-select enum
	kindChoices // multi-select enum
	kindJSON    // anything that no form has a field for, as JSON
)

// bound is a limit on numbers. Messages show it as it was spelled.
type bound struct {
	decimal
	text string
}

func newBound(number string) bound { return bound{parseDecimal([]byte(number)), number} }

// minExponent bounds how close to 0 a number may be without being 0. Anything closer is 0 to a float64. Check refuses
// it instead of rounding it, because a json.Number would pass it on, and a big.Rat of 1e-999999999 exhausts memory.
const minExponent = -400

// appendKey appends the property's name to an object.
func (p *property) appendKey(dst []byte) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	return append(dst, p.key...)
}

// judge is check with the rule of a stranger's form.
func (p *property) judge(dst, value []byte) (clean []byte, problem string) {
	if clean, problem = p.check(dst, value); problem == "" {
		problem = p.breaks(value)
	}
	return clean, problem
}

// check appends the clean spelling of a JSON value to dst, or returns the problem with the value.
func (p *property) check(dst, value []byte) (clean []byte, problem string) {
	switch p.kind {
	case kindBoolean:
		if strictjson.TypeOf(value) != strictjson.TypeBool {
			return dst, "must be true or false"
		}
		return append(dst, value...), ""
	case kindInteger, kindNumber:
		return p.checkNumber(dst, value)
	case kindChoices:
		return p.checkChoices(dst, value)
	case kindJSON:
		return strictjson.AppendCompact(dst, value), ""
	}
	s, ok := strictjson.Text(value)
	if !ok {
		return dst, "must be a string"
	}
	if p.kind == kindChoice {
		if !p.values[string(s)] {
			return dst, "must be one of " + p.choices
		}
		return append(dst, value...), ""
	}
	if n := utf8.RuneCount(s); n < p.min { // JSON Schema counts characters, and Go's len would count bytes
		return dst, fmt.Sprintf("must be at least %s long", count(p.min, "character"))
	} else if n > p.max {
		return dst, fmt.Sprintf("must be at most %s long", count(p.max, "character"))
	}
	if f := p.format; f != nil {
		if len(s) > f.longest || !f.ok(string(s)) {
			return dst, f.want
		}
		return strictjson.AppendString(dst, string(s)), "" // without escapes, which a time.Time does not decode
	}
	return append(dst, value...), ""
}

func (p *property) checkNumber(dst, value []byte) (clean []byte, problem string) {
	want := "must be a number"
	if p.kind == kindInteger {
		want = "must be a whole number"
	}
	if strictjson.TypeOf(value) != strictjson.TypeNumber {
		return dst, want
	}
	d := parseDecimal(value)
	switch {
	case p.kind == kindInteger && !d.isWhole():
		return dst, want
	case d.compare(p.low.decimal) < 0:
		return dst, "must be at least " + p.low.text
	case d.compare(p.high.decimal) > 0:
		return dst, "must be at most " + p.high.text
	case d.exp < minExponent:
		return dst, fmt.Sprintf("must be 0 or have a magnitude of at least 1e%d", minExponent)
	case p.kind == kindInteger || d.isZero():
		return d.appendWhole(dst), "" // within low and high, so at most 20 digits
	}
	return append(dst, value...), ""
}

func (p *property) checkChoices(dst, value []byte) (clean []byte, problem string) {
	if strictjson.TypeOf(value) != strictjson.TypeArray {
		return dst, "must be a list of values out of " + p.choices
	}
	dst = append(dst, '[')
	n := 0
	for item := range strictjson.Elements(value) {
		if s, ok := strictjson.Text(item); !ok || !p.values[string(s)] {
			return dst, "must hold nothing but " + p.choices
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	if n < p.min {
		return dst, "must hold at least " + count(p.min, "item")
	}
	if n > p.max {
		return dst, "must hold at most " + count(p.max, "item")
	}
	return append(dst, ']'), ""
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// listed returns the values of an enum for a message, and cuts a long list.
func listed(values []string) string {
	const most, bytes = 20, 1 << 10
	list := wire.Cut(strings.Join(values[:min(len(values), most)], ", "), bytes)
	if len(values) > most {
		return fmt.Sprintf("%s, … (%d in all)", list, len(values))
	}
	return list
}
