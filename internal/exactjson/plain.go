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

// decoder decodes a checked value into a variable. It reports false for a value that it does not take: then the library
// decodes the whole document, so that only the library's verdicts and words are seen. Where a decoder does take a value,
// the variable is as the library leaves it; FuzzUnmarshal compares them.
type decoder func(value []byte, into reflect.Value) bool

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
		switch t.Elem().Kind() {
		case reflect.Struct, reflect.Slice:
			// The library reads nested values once, and this package once for each level.
			if t.Elem() == raw {
				return newSliceDecoder(t)
			}
		case reflect.Uint8: // which is Base64
		default:
			return newSliceDecoder(t)
		}
	case reflect.Struct:
		return newStructDecoder(t)
	}
	return decodeByLibrary
}

func decodeByLibrary(value []byte, into reflect.Value) bool {
	return byLibrary(value, into.Addr().Interface()) == nil
}

func decodeRaw(value []byte, into reflect.Value) bool {
	into.SetBytes(append(json.RawMessage(nil), value...))
	return true
}

func decodeBool(value []byte, into reflect.Value) bool {
	if strictjson.TypeOf(value) != strictjson.TypeBool {
		return false
	}
	into.SetBool(value[0] == 't')
	return true
}

func decodeString(value []byte, into reflect.Value) bool {
	s, ok := strictjson.String(value)
	if ok {
		into.SetString(s)
	}
	return ok
}

func decodeInt(value []byte, into reflect.Value) bool {
	n, err := strconv.ParseInt(string(value), 10, into.Type().Bits())
	if err == nil {
		into.SetInt(n)
	}
	return err == nil
}

func decodeFloat(value []byte, into reflect.Value) bool {
	if strictjson.TypeOf(value) != strictjson.TypeNumber {
		return false // which strconv may take for one
	}
	n, err := strconv.ParseFloat(string(value), into.Type().Bits())
	if err == nil {
		into.SetFloat(n)
	}
	return err == nil
}

func newSliceDecoder(t reflect.Type) decoder {
	decoderOfElement := later(t.Elem())
	return func(value []byte, into reflect.Value) bool {
		if strictjson.TypeOf(value) != strictjson.TypeArray {
			return false
		}
		into.Set(reflect.MakeSlice(t, 0, 0))
		decode := decoderOfElement()
		for item := range strictjson.Elements(value) {
			n := into.Len()
			if n == into.Cap() {
				into.Grow(max(4, n))
			}
			into.SetLen(n + 1)
			if !decode(item, into.Index(n)) {
				return false
			}
		}
		return true
	}
}

// newStructDecoder returns a decoder of structs all of whose fields have plain names.
func newStructDecoder(t reflect.Type) decoder {
	type member struct {
		field   int
		decoder func() decoder
	}
	members := make(map[string]member)
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
		if _, twice := members[name]; twice {
			return decodeByLibrary
		}
		members[name] = member{i, later(field.Type)}
	}
	return func(value []byte, into reflect.Value) bool {
		if strictjson.TypeOf(value) != strictjson.TypeObject {
			return false
		}
		for name, value := range strictjson.Members(value) {
			if m, ok := members[string(name)]; ok && !m.decoder()(value, into.Field(m.field)) {
				return false
			}
		}
		return true
	}
}

// isSpecial reports whether a character makes a name in a tag one that readers of tags may see differently.
func isSpecial(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
}
