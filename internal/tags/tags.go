// Package tags finds the mistakes in struct tags that package reflect passes over in silence.
package tags

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
		if i := slices.IndexFunc(known, func(k string) bool { return resembles(key, k) }); i >= 0 {
			return fmt.Errorf("no tag is called %s; did you mean %s?", key, known[i])
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

// resembles reports whether a key is probably a misspelt name: names differ in case, or by a letter, or if they are
// long by two.
func resembles(key, name string) bool {
	const long = 7
	most := 1
	if len(name) >= long {
		most = 2
	}
	return strings.EqualFold(key, name) || len(name) > 4 && distance(strings.ToLower(key), strings.ToLower(name)) <= most
}

// distance is how many letters must be added, removed or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
