package names

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Choice has the meaning of bridge.Choice.
type Choice struct {
	Allow, Deny []string
	Rename      map[string]string
}

// Check returns an error for a pattern that is malformed, or a name that the specification does not allow.
func (c *Choice) Check() error {
	for _, pattern := range slices.Concat(c.Allow, c.Deny) {
		if err := CheckPattern(pattern); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Rename)) {
		if to := c.Rename[name]; name == "" || !IsPlain(to) {
			return fmt.Errorf("the new name %.200q of the tool %.200q is not 1 to %d letters, digits, _, - or dots", to, name,
				Longest)
		}
	}
	return nil
}

// CheckPattern returns an error for a pattern that is malformed, or that no name can match.
func CheckPattern(pattern string) error {
	strange := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	if pattern == "" || strings.ContainsFunc(pattern, strange) {
		return fmt.Errorf("the pattern %q is empty, or has characters that no name of a tool has", pattern)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return nil
}

// MatchAny reports whether one of the patterns matches one of the names.
func MatchAny(patterns, names []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Match(pattern, names) })
}

// leavesOut reports whether a tool with these names is not offered.
func (c *Choice) leavesOut(names []string) bool {
	return MatchAny(c.Deny, names) || c.Allow != nil && !MatchAny(c.Allow, names)
}

// anyText folds what is compared, so that the * of path.Match is any text, which may have a slash.
func anyText(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }

// Match reports whether a pattern matches one of the names of a tool. The pattern has the syntax of
// path.Match, except that * matches any text and case makes no difference.
func Match(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		match, _ := path.Match(anyText(pattern), anyText(name))
		return match
	})
}
