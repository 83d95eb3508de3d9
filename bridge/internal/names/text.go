package names

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Longest bounds the name of a tool, in bytes.
const Longest = 128

// OneLine is what a stranger has written, as a person can read it in a sentence.
func OneLine(text string, most int) string {
	line := []rune(strings.Join(strings.FieldsFunc(text, func(c rune) bool {
		return c == unicode.ReplacementChar || !unicode.IsPrint(c) || unicode.IsSpace(c)
	}), " "))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

// CheckReadable returns an error for a name that a person cannot read as it is.
func CheckReadable(name string) error {
	if len(name) > Longest || strings.ContainsFunc(name, func(c rune) bool {
		return c == unicode.ReplacementChar || !unicode.IsPrint(c)
	}) {
		return fmt.Errorf("the name %.200q is longer than %d bytes, or has characters that cannot be seen", name, Longest)
	}
	return nil
}

// plainName matches the characters of a tool's name as the specification has it (server/tools, "Tool Names").
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// IsPlain reports whether a name is 1 to 128 of these characters.
func IsPlain(name string) bool { return len(name) <= Longest && plainName.MatchString(name) }
