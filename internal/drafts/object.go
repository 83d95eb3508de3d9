package drafts

import "encoding/json"

// object writes a JSON object. Adding a nil value adds no member.
type object struct{ encoded []byte }

func (o *object) add(name string, value []byte) {
	if value == nil {
		return
	}
	if o.encoded == nil {
		o.encoded = []byte{'{'}
	} else {
		o.encoded = append(o.encoded, ',')
	}
	o.encoded = append(append(o.encoded, quote(name)...), ':')
	o.encoded = append(o.encoded, value...)
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
