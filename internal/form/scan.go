package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// cursor walks the inside of one JSON object or array, value by value. It relies on the bytes having passed valid:
// then punctuation carries no information, and the values of an object come as name, value, name, value.
type cursor struct{ rest []byte }

// inside is a cursor on what the outermost brackets of composite hold.
func inside(composite []byte) cursor { return cursor{composite[1 : len(composite)-1]} }

// next is the next value as it is spelled, nil at the end.
func (c *cursor) next() []byte {
	i := 0
	for i < len(c.rest) && isBetween(c.rest[i]) {
		i++
	}
	b := c.rest[i:]
	if len(b) == 0 {
		return nil
	}
	end := 0
	switch b[0] {
	case '"':
		end = stringEnd(b)
	case '{', '[':
		for depth := 0; end < len(b); {
			switch b[end] {
			case '"':
				end += stringEnd(b[end:])
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			end++
			if depth == 0 {
				break
			}
		}
	default:
		for end < len(b) && !isBetween(b[end]) {
			end++
		}
	}
	c.rest = b[end:]
	return b[:end]
}

func isBetween(c byte) bool {
	return c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// stringEnd is the length of the JSON string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// text is what a JSON string says. Without escapes it is a view of the string's own bytes.
func text(token []byte) []byte {
	inner := token[1 : len(token)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(token, &s) != nil {
		return inner
	}
	return []byte(s)
}

// quote is the JSON string for s, with <, > and & left readable.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

type member struct {
	name  string
	value []byte
}

// members lists the members of a JSON object in their order.
func members(object []byte) ([]member, error) {
	if object[0] != '{' {
		return nil, errors.New("must be an object")
	}
	var list []member
	seen := map[string]bool{}
	for c := inside(object); ; {
		token := c.next()
		if token == nil {
			return list, nil
		}
		name := string(text(token))
		if seen[name] {
			return nil, fmt.Errorf("has %q twice; keep one", name)
		}
		seen[name] = true
		list = append(list, member{name, c.next()})
	}
}

// elements lists the elements of a JSON array.
func elements(array []byte) ([][]byte, error) {
	if array[0] != '[' {
		return nil, errors.New("must be an array")
	}
	var list [][]byte
	for c := inside(array); ; {
		token := c.next()
		if token == nil {
			return list, nil
		}
		list = append(list, token)
	}
}

// stringsIn lists the elements of a JSON array of strings.
func stringsIn(array []byte) ([]string, error) {
	tokens, err := elements(array)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(tokens))
	for i, token := range tokens {
		if list[i], err = stringIn(token); err != nil {
			return nil, fmt.Errorf("element %d %w", i, err)
		}
	}
	return list, nil
}

func stringIn(token []byte) (string, error) {
	if token[0] != '"' {
		return "", errors.New("must be a string")
	}
	return string(text(token)), nil
}

func isNumber(token []byte) bool {
	return len(token) > 0 && (token[0] == '-' || '0' <= token[0] && token[0] <= '9')
}
