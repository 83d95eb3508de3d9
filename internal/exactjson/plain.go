package exactjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// decoder decodes the value at a cursor into a variable, and returns the cursor behind it. It reports false for a value that
// it does not take: then the library decodes the whole document, so that only the library's verdicts and words are seen.
// Where a decoder does take a value, the variable is as the library leaves it; FuzzUnmarshal compares them.
//
// It has no pointer to the cursor, which would then be on the heap.
type decoder func(t *texts, c strictjson.Cursor, into reflect.Value) (behind strictjson.Cursor, ok bool)

// texts makes the strings of a large value, many in one allocation. A string that is kept keeps those beside it, which are a
// few kilobytes at most. Nil makes each by itself.
type texts struct{ strings.Builder }

func (t *texts) of(text []byte) string {
	const together = 2 << 10
	if t == nil || len(text) > together/8 {
		return string(text)
	}
	if t.Len()+len(text) > t.Cap() {
		t.Reset()
		t.Grow(together)
	}
	start := t.Len()
	t.Write(text)
	return t.String()[start:]
}

// decoders holds the decoder of each type.
var decoders sync.Map // reflect.Type → decoder

func decoderFor(t reflect.Type) decoder {
	if known, ok := decoders.Load(t); ok {
		return known.(decoder)
	}
	d := newDecoder(t)
	decoders.Store(t, d)
	return d
}

// later returns the decoder of a part of another type, which may be a part of itself: so it is made when it is first used.
func later(t reflect.Type) func() decoder {
	return sync.OnceValue(func() decoder { return decoderFor(t) })
}

// Types with rules of their own, beside those with methods for it, are the library's.
var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	raw             = reflect.TypeFor[json.RawMessage]()
	special         = map[reflect.Type]bool{reflect.TypeFor[json.Number](): true, reflect.TypeFor[time.Duration](): true}
)

func newDecoder(t reflect.Type) decoder {
	p := reflect.PointerTo(t)
	switch {
	case t == raw:
		return decodeRaw
	case p.Implements(unmarshaler), p.Implements(textUnmarshaler), special[t]:
		return decodeByLibrary
	}
	switch t.Kind() {
	case reflect.Bool:
		return decodeBool
	case reflect.String:
		return decodeString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // which is Base64
			return newSliceDecoder(t)
		}
	case reflect.Struct:
		return newStructDecoder(t)
	}
	return decodeByLibrary
}

func decodeByLibrary(_ *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	err := byLibrary(c.Value(), into.Addr().Interface())
	return c, err == nil
}

func decodeRaw(_ *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	into.SetBytes(append(json.RawMessage(nil), c.Value()...))
	return c, true
}

func decodeBool(_ *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	if c.Type() != strictjson.TypeBool {
		return c, false
	}
	into.SetBool(c.Value()[0] == 't')
	return c, true
}

func decodeString(t *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	text, ok := c.Text()
	if ok {
		into.SetString(t.of(text))
	}
	return c, ok
}

func decodeInt(_ *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	n, err := strconv.ParseInt(string(c.Value()), 10, into.Type().Bits())
	if err == nil {
		into.SetInt(n)
	}
	return c, err == nil
}

func decodeFloat(_ *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
	if c.Type() != strictjson.TypeNumber {
		return c, false // which strconv may take for one
	}
	n, err := strconv.ParseFloat(string(c.Value()), into.Type().Bits())
	if err == nil {
		into.SetFloat(n)
	}
	return c, err == nil
}

func newSliceDecoder(t reflect.Type) decoder {
	decoderOfElement, empty := later(t.Elem()), reflect.MakeSlice(t, 0, 0)
	return func(t *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
		if c.Type() != strictjson.TypeArray {
			return c, false
		}
		into.Set(empty)
		decode := decoderOfElement()
		for n := range c.Elements() {
			if n == into.Cap() {
				into.Grow(max(4, n))
			}
			into.SetLen(n + 1)
			var ok bool
			if c, ok = decode(t, c, into.Index(n)); !ok {
				return c, false
			}
		}
		return c, true
	}
}

// newStructDecoder returns a decoder of structs all of whose fields have plain names.
func newStructDecoder(t reflect.Type) decoder {
	type member struct {
		name    string
		field   int
		decoder func() decoder
	}
	var members []member
	byName := make(map[string]int)
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, comma := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous, strings.Contains(options, "string"), strings.ContainsFunc(name, isSpecial):
			return decodeByLibrary
		case !field.IsExported() || name == "-" && !comma:
			continue
		case name == "":
			name = field.Name
		}
		if _, twice := byName[name]; twice {
			return decodeByLibrary
		}
		byName[name] = len(members)
		members = append(members, member{name, i, later(field.Type)})
	}
	return func(t *texts, c strictjson.Cursor, into reflect.Value) (strictjson.Cursor, bool) {
		if c.Type() != strictjson.TypeObject {
			return c, false
		}
		next := 0 // the member that probably comes next, because most senders keep the order
		for name := range c.Members() {
			i, ok := next, next < len(members) && members[next].name == string(name)
			if !ok {
				if i, ok = byName[string(name)]; !ok {
					continue
				}
			}
			if c, ok = members[i].decoder()(t, c, into.Field(members[i].field)); !ok {
				return c, false
			}
			next = i + 1
		}
		return c, true
	}
}

// isSpecial reports whether a character makes a name in a tag one that readers of tags may see differently.
func isSpecial(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
}
