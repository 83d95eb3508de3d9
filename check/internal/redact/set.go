package redact

import (
	"hash/maphash"
	"html"
	"regexp"
	"slices"
	"strings"
)

// Redacted stands in place of what is removed.
const Redacted = "[redacted]"

const (
	leastSecret = 6        // characters; shorter texts occur in any text
	leastPiece  = 10       // characters of a token that are a secret by themselves
	leastPart   = 32       // characters of a state or an answer that are one
	maxKept     = 16 << 10 // bytes of a secret that are looked for
	maxDecoded  = 96 << 10 // bytes of a text that are decoded, all layers together
)

// A set is texts that no output may have. A server may cut them, encode them and put them into other texts.
type set struct {
	seed    maphash.Seed
	texts   []secret
	known   map[uint64]bool  // hashes of texts
	windows map[uint64]int32 // hashes of parts of the texts, in lower case, and where in texts they are from
	lengths []int            // of windows
}

type secret struct {
	text string // in lower case
	part int    // the length of a part that is a secret, too
}

func newSet() *set {
	return &set{seed: maphash.MakeSeed(), known: map[uint64]bool{}, windows: map[uint64]int32{}}
}

// add notes a secret, and that so many characters of it are one as well. It is looked for as it is, and without its
// separators.
func (s *set) add(text string, part int) {
	text = lowerCase(text[:min(len(text), maxKept)])
	s.addText(text, part)
	s.addText(bare(text), part)
}

func (s *set) addText(text string, part int) {
	hash := maphash.String(s.seed, text)
	if len(text) < leastSecret || s.known[hash] {
		return
	}
	s.known[hash] = true
	t := secret{text, min(part, len(text))}
	s.texts = append(s.texts, t)
	length := t.window()
	step := length
	if t.part <= leastPiece {
		step = 1
	}
	if !slices.Contains(s.lengths, length) {
		s.lengths = append(s.lengths, length)
	}
	for at := 0; at+length <= len(text); at += step {
		s.windows[maphash.String(s.seed, text[at:at+length])] = int32(len(s.texts) - 1)
	}
}

// lowerCase is the text with small letters, as far as ASCII goes. It is as long.
func lowerCase(text string) string {
	b := []byte(text)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}

// window is the length of the parts that are looked up. Two of them, side by side, fit into each part that counts.
func (s secret) window() int {
	if s.part <= leastPiece {
		return s.part
	}
	return min(s.part, leastPart) / 2
}

// find returns the first place in a text, from a position on, that has a secret. The text is in lower case.
func (s *set) find(text string, from int) (start, end int) {
	for at := from; at < len(text); at++ {
		for _, length := range s.lengths {
			if at+length > len(text) {
				continue
			}
			i, ok := s.windows[maphash.String(s.seed, text[at:at+length])]
			if !ok {
				continue
			}
			if start, end := s.texts[i].extend(text, at, length); end-start >= s.texts[i].part {
				return max(start, from), end
			}
		}
	}
	return 0, 0
}

// extend returns the place of the longest part of the secret around a window of a text.
func (s secret) extend(text string, at, length int) (start, end int) {
	from := strings.Index(s.text, text[at:at+length])
	if from < 0 {
		return at, at // another text has the same hash
	}
	start, end = at, at+length
	for begin := from; begin > 0 && start > 0 && s.text[begin-1] == text[start-1]; begin-- {
		start--
	}
	for last := from + length; last < len(s.text) && end < len(text) && s.text[last] == text[end]; last++ {
		end++
	}
	return start, end
}

// has reports whether a text has a secret, as it is.
func (s *set) has(text string) bool {
	_, end := s.find(lowerCase(text), 0)
	return end > 0
}

func (s *set) clean(text string) string {
	lower := lowerCase(text)
	var b strings.Builder
	last := 0
	for {
		start, end := s.find(lower, last)
		if end == 0 {
			break
		}
		b.WriteString(text[last:start] + Redacted)
		last = end
	}
	b.WriteString(text[last:])
	left := maxDecoded
	text = encoded.ReplaceAllStringFunc(b.String(), func(run string) string {
		if s.hides(run, 0, &left) {
			return Redacted
		}
		return run
	})
	left = maxDecoded
	text = groups.ReplaceAllStringFunc(text, func(run string) string {
		if joined := separator.ReplaceAllString(run, ""); s.has(joined) || s.hides(joined, 0, &left) || s.has(codes(run)) {
			return Redacted
		}
		return run
	})
	for _, plain := range []string{unescape(text), html.UnescapeString(text), bare(text), reversed(bare(text))} {
		if s.has(plain) {
			return Redacted
		}
	}
	return text
}

// groups are short groups of letters and digits with something between them, as in de:ad:be:ef.
var (
	groups    = regexp.MustCompile(`(?:(?:0x)?[A-Za-z0-9+/=_]{1,4}[\s:,.|;-]+){5,}(?:0x)?[A-Za-z0-9+/=_]{1,4}`)
	separator = regexp.MustCompile(`[\s:,.|;-]+(?:0x)?|^0x`)
)

var encoded = regexp.MustCompile(`[A-Za-z0-9+/_=%&;#\\.-]{8,}`)

// hides reports whether a run of letters has a secret when it is decoded, up to three times. What would take too long
// to decode counts as a secret.
func (s *set) hides(run string, depth int, left *int) bool {
	if *left -= len(run); *left < 0 {
		return true
	}
	for _, plain := range decode(run) {
		if s.has(plain) {
			return true
		}
		if depth < 2 {
			for _, inner := range encoded.FindAllString(plain, 16) {
				if inner != run && s.hides(inner, depth+1, left) {
					return true
				}
			}
		}
	}
	return false
}
