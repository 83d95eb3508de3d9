package talk

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// texts are the texts by which the check knows its own calls again.
type texts struct {
	Canaries []string         // all that were made up
	UsedUp   []*regexp.Regexp // values of plans, which calls use up
}

// Canary makes up a text that occurs nowhere else.
func (x *texts) Canary() string {
	b := []byte("canary")
	for range 7 {
		b = append(b, 'a'+byte(rand.IntN(26)))
	}
	x.Canaries = append(x.Canaries, string(b))
	return string(b)
}

// noteTail notes a text of the check's own that a schema has cut.
func (x *texts) noteTail(value any, text string) {
	const least = 5 // characters that hardly occur elsewhere
	if cut, ok := value.(string); ok && len(cut) >= least && cut != text && strings.HasSuffix(text, cut) {
		x.Canaries = append(x.Canaries, cut)
	}
}

// OwnText reports whether a text has one of them.
func (x *texts) OwnText(text string) bool {
	return slices.ContainsFunc(x.Canaries, func(c string) bool { return strings.Contains(text, c) }) ||
		slices.ContainsFunc(x.UsedUp, func(values *regexp.Regexp) bool { return values.MatchString(text) })
}

// Changing matches what changes with each call: identifiers, times, and long numbers.
var Changing = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|` +
	`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+Z?|\b[0-9a-f]{16,}\b|\b[0-9]{5,}(?:\.[0-9]+)?\b`)

// echoMark stands for the state of the request in what a server says.
const echoMark = "‹state›"

// withoutEcho leaves out the state of the request, which a server may quote when it refuses it. In its place stands a
// mark that no other text has.
func withoutEcho(text, state string) string {
	if len(state) < 8 {
		return text
	}
	return strings.NewReplacer(state, echoMark, JSONText(state), echoMark).Replace(text)
}

// JSONText is how a text stands in JSON.
func JSONText(text string) string {
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return string(quoted[1 : len(quoted)-1])
}

// Mask leaves out what differs between two calls that are alike.
func (x *texts) Mask(text string) string {
	text = strings.ReplaceAll(text, echoMark, "…") // the state may be no more than such a text
	for _, canary := range x.Canaries {
		text = strings.ReplaceAll(text, canary, "…")
	}
	for _, values := range x.UsedUp {
		text = values.ReplaceAllString(text, "…")
	}
	return Changing.ReplaceAllString(text, "#")
}
