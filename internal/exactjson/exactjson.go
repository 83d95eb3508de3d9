// Package exactjson decodes JSON into Go values by the exact names of their fields. Package encoding/json would let a
// member "Name" reach the field of "name".
package exactjson

import "github.com/segmentio/encoding/json"

// Unmarshal decodes one value into what a pointer points to.
func Unmarshal(data []byte, into any) error {
	_, err := json.Parse(data, into, json.DontMatchCaseInsensitiveStructFields)
	return err
}
