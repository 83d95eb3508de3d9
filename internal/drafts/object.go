package drafts

import (
	"encoding/json"
	"slices"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// object writes a JSON object.
type object struct{ encoded []byte }

// add adds a member. A nil value adds none.
func (o *object) add(name string, value []byte) {
	if value == nil {
		return
	}
	separator := byte(',')
	if o.empty() {
		separator = '{'
	}
	o.encoded = append(append(append(o.encoded, separator), quote(name)...), ':')
	o.encoded = append(o.encoded, value...)
}

// addAll adds the members of a checked object, except those with the given names.
func (o *object) addAll(obj []byte, except ...string) {
	for name, value := range strictjson.Members(obj) {
		if !slices.Contains(except, string(name)) {
			o.add(string(name), value)
		}
	}
}

func (o *object) empty() bool { return o.encoded == nil }

func (o *object) bytes() []byte {
	if o.empty() {
		return []byte("{}")
	}
	return append(o.encoded, '}')
}

func quote(s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return quoted
}

// elements returns the raw elements of a checked array, or nil for anything else.
func elements(array []byte) []json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(array, &all) != nil {
		return nil
	}
	return all
}
