package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/internal/edits"
)

// DidYouMean suggests the nearest name. It is empty if none is similar.
func DidYouMean(name string, among []string) string {
	if near := Nearest(name, among); near != "" {
		return fmt.Sprintf("; did you mean %s?", HarmlessLine(near, 200))
	}
	return ""
}

// Nearest returns the name that takes the fewest edits, or "" if none is similar: it may take an edit for every three
// letters.
func Nearest(name string, among []string) string {
	fold := func(s string) []rune { return []rune(noLetters.Replace(strings.ToLower(s))) }
	word, best := fold(name), ""
	most := len(word) / 3
	if len(word) < 4 || len(word) > maxWord {
		most = 0
	}
	for _, one := range among {
		other := fold(one)
		if abs := len(other) - len(word); abs > most || -abs > most {
			continue
		}
		if d := edits.Count(word, other); d < most || d == most && best == "" {
			best, most = one, d
		}
	}
	return best
}

// maxWord is the length of the longest word that is compared with others letter by letter.
const maxWord = 200

var noLetters = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// UnknownName returns the error of a tool or prompt that the server does not have.
func UnknownName(kind, name string, names []string) error {
	if similar := DidYouMean(name, names); similar != "" {
		return Usagef("there is no %s %q%s", kind, name, similar)
	}
	if len(names) == 0 {
		return Usagef("there is no %s %q; the server has no %[1]ss", kind, name)
	}
	slices.Sort(names)
	const most = 20
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	return Usagef("there is no %s %q; the %[1]ss are %[3]s%[4]s", kind, name, Keys(names), more)
}
