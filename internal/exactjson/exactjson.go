// Package exactjson decodes JSON into Go values by the exact names of their fields. Package encoding/json would let a
// member "Name" reach the field of "name".
package exactjson

import (
	"github.com/segmentio/encoding/json"

	"github.com/askback-mcp/askback/internal/avx"
)

// Unmarshal decodes one value, which has passed strictjson.Check.
func Unmarshal(data []byte, into any) error {
	_, err := json.Parse(data, into, json.DontMatchCaseInsensitiveStructFields)
	avx.ZeroUpper() // which the decoder leaves in use
	return err
}
