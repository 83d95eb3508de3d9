package seal

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The entries of a key file that are not keys. Each is followed by a time.
const (
	switchedPrefix = "switched="
	revokedPrefix  = "revoked="
)

// A key file that was cut off at the end of a line would have fewer keys and no error. Its head promises a last line.
const (
	promiseOfEnd = `# The last line is "# end of keys".`
	endOfKeys    = "# end of keys"
)

// ParseRing reads the text of a key file or of an environment variable: keys as [Key.EncodeSecret] writes them, the
// one that seals first, separated by white space, line breaks or commas. A # starts a comment that ends with the
// line. An entry such as switched=20261120T110000Z says when the first key took over; [Ring.Rotate] keeps it. An
// entry such as revoked=20261120T110000Z does what [Ring.RevokeBefore] does. The text of [Ring.EncodeSecrets] announces
// its last line: a text without that line was cut off and is refused.
//
// Errors name line, entry and fault, and contain nothing of the text.
func ParseRing(text string) (*Ring, error) {
	type place struct{ line, entry int }
	var (
		keys              []Key
		places            = map[string]place{}
		switched, revoked time.Time
		times             = map[string]*time.Time{switchedPrefix: &switched, revokedPrefix: &revoked}
	)
	text = strings.TrimPrefix(text, "\ufeff") // editors on Windows begin a file with it
	number, promised, ended := 0, false, false
	for line := range strings.SplitSeq(text, "\n") {
		number++
		promised = promised || strings.TrimSpace(line) == promiseOfEnd
		ended = ended || strings.TrimSpace(line) == endOfKeys
		entries, _, _ := strings.Cut(line, "#")
		at := place{line: number}
		for entry := range strings.FieldsFuncSeq(entries, isSeparator) {
			at.entry++
			if name, stamp, ok := strings.Cut(entry, "="); ok && times[name+"="] != nil {
				name += "="
				t, err := parseTime(stamp)
				if err != nil {
					return nil, parseError(at, fmt.Errorf("want %s followed by a time of the form %s", name, timeLayout))
				}
				if !times[name].IsZero() {
					return nil, parseError(at, fmt.Errorf("a second %s: leave one out", name))
				}
				*times[name] = t
				continue
			}
			key, err := parseKey(entry)
			if err != nil {
				return nil, parseError(at, err)
			}
			if first, ok := places[key.ID()]; ok {
				return nil, parseError(at, fmt.Errorf("key %s is already on line %d, entry %d: leave one out", key.ID(), first.line,
					first.entry))
			}
			places[key.ID()] = at
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		if strings.Contains(text, "#") {
			return nil, errors.New("seal: parse keys: no key outside comments: if the text lost its line breaks, leave the " +
				"comments out")
		}
		return nil, errors.New("seal: parse keys: no key in the text: make one with 'askback keys new'")
	}
	if promised && !ended {
		return nil, fmt.Errorf("seal: parse keys: the text has no line %q: it was cut off after line %d; copy the whole file",
			endOfKeys, number)
	}
	ring, err := newRing(switched, keys...)
	if err != nil || revoked.IsZero() {
		return ring, err
	}
	return ring.RevokeBefore(revoked), nil
}

func isSeparator(r rune) bool {
	return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\v' || r == '\f'
}

func parseError(at struct{ line, entry int }, err error) error {
	return fmt.Errorf("seal: parse keys: line %d, entry %d: %w", at.line, at.entry, err)
}

// EncodeSecrets writes the ring with its secrets as a commented key file that [ParseRing] reads. Keep it where only
// the server can read it.
func (r *Ring) EncodeSecrets() string {
	var b strings.Builder
	b.WriteString("# Askback keys. Secret: who reads this file can read and forge requestState.\n" +
		"# The first key seals, all of them open. Every instance needs the same file.\n" +
		promiseOfEnd + "\n")
	set := r.load()
	if !set.switched.IsZero() {
		fmt.Fprintf(&b, "%s%s\n", switchedPrefix, set.switched.Format(timeLayout))
	}
	if !set.revoked.IsZero() {
		fmt.Fprintf(&b, "%s%s\n", revokedPrefix, set.revoked.Format(timeLayout))
	}
	for i, s := range set.sealers {
		use := "seals and opens"
		switch {
		case i > 0 && s.key.Created().After(set.sealers[0].key.Created()):
			use = "opens; to seal after the switch"
		case i > 0:
			use = "opens what it sealed before"
		}
		fmt.Fprintf(&b, "\n# %s: %s\n%s\n", s.key.ID(), use, s.key.EncodeSecret())
	}
	b.WriteString("\n" + endOfKeys + "\n")
	return b.String()
}
