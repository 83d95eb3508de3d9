// Package exactjson decodes JSON into Go values by the exact names of their fields. Package encoding/json would let a
// member "Name" reach the field of "name".
//
// Plain types, which are most, it decodes itself: that takes half of the time, because the input has passed
// [strictjson.Check]. Everything else is left to a library.
package exactjson

import (
	"reflect"

	"github.com/segmentio/encoding/json"

	"github.com/askback-mcp/askback/internal/avx"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Unmarshal decodes one value, which has passed [strictjson.Check], into what a pointer points to.
func Unmarshal(data []byte, into any) error {
	v := reflect.ValueOf(into).Elem()
	var together *texts
	if len(data) >= large {
		together = new(texts)
	}
	if _, ok := decoderFor(v.Type())(together, strictjson.At(data), v); ok {
		return nil
	}
	return byLibrary(data, into)
}

// large is the size of a value whose strings are allocated together.
const large = 8 << 10

func byLibrary(data []byte, into any) error {
	_, err := json.Parse(data, into, json.DontMatchCaseInsensitiveStructFields)
	avx.ZeroUpper() // which the decoder leaves in use
	return err
}
