// Package exactjson decodes JSON into Go values by the exact names of their fields. Package encoding/json would let a
// member "Name" reach the field of "name".
package exactjson

import (
	"bytes"

	"github.com/segmentio/encoding/json"
)

// Unmarshal decodes one value, which has passed strictjson.Check.
func Unmarshal(data []byte, into any) error {
	_, err := json.Parse(data, into, json.DontMatchCaseInsensitiveStructFields)
	// The decoder's assembly leaves the upper halves of vector registers in use (no VZEROUPPER in segmentio/asm 1.1.3
	// to 1.2.1), with which the hashing and sealing that follow take ten times as long. Every vectorized function of
	// the standard library frees them.
	bytes.IndexByte(zeros[:], 1)
	return err
}

var zeros [64]byte // vectorized from 33 bytes on
