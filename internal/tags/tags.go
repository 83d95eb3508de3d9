// Package tags finds the mistakes in struct tags that package reflect passes over in silence.
package tags

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/askback-mcp/askback/internal/edits"
)

// Check returns an error for a tag that cannot be read whole, for a key that looks like one of known but is not, and
// for one of foreign. Other keys belong to other packages.
func Check(tag reflect.StructTag, known, foreign []string) error {
	keys, err := keysOf(tag)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if slices.Contains(known, key) {
			continue
		}
		if near := nearest(key, known); near != nil {
			return fmt.Errorf("no tag is called %s; did you mean %s?", key, strings.Join(near, " or "))
		}
		if slices.Contains(foreign, key) {
			return fmt.Errorf("no tag is called %s; there are %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

// keysOf reads a tag as [reflect.StructTag] describes it.
func keysOf(tag reflect.StructTag) (keys []string, err error) {
	for rest := strings.TrimLeft(string(tag), " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, value, _ := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(value)
		if err != nil || key == "" || strings.ContainsAny(key, " \"") || !strings.HasPrefix(quoted, `"`) {
			return nil, fmt.Errorf("the tag %q cannot be read from here on; write name:\"value\" for each, with a space "+
				"between them", rest)
		}
		if rest = value[len(quoted):]; rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("the tag %q needs a space after %s", string(tag), key)
		}
		if slices.Contains(keys, key) {
			return nil, errors.New("the tag " + key + " is there twice; keep one")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// nearest returns the known names that a key is probably meant to be: they differ in case, or by a letter, or if they
// are long by two. All of them differ as little: a single name might be that of the opposite rule.
func nearest(key string, known []string) (near []string) {
	const long = 7
	word, best := []rune(strings.ToLower(key)), 2
	for _, name := range known {
		most := 0
		switch {
		case len(name) >= long:
			most = 2
		case len(name) > 4:
			most = 1
		}
		if away := len(key) - len(name); away > most || -away > most {
			continue
		}
		switch n := edits.Count(word, []rune(strings.ToLower(name))); {
		case n > most || n > best:
		case n < best:
			near, best = []string{name}, n
		default:
			near = append(near, name)
		}
	}
	return near
}
