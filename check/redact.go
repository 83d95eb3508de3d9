package check

import (
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash/maphash"
	"html"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	redacted = "[redacted]"

	leastSecret = 6        // characters; shorter texts occur in any text
	leastPiece  = 10       // characters of a token that are a secret by themselves
	leastPart   = 32       // characters of a state or an answer that are one
	maxKept     = 16 << 10 // bytes of a secret that are looked for
	maxDecoded  = 96 << 10 // bytes of a text that are decoded, all layers together
)

// secrets are the texts that no output may have. A server may cut them, encode them and put them into other texts.
type secrets struct {
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

func newSecrets() *secrets {
	return &secrets{seed: maphash.MakeSeed(), known: map[uint64]bool{}, windows: map[uint64]int32{}}
}

// add notes a secret, and that so many characters of it are one as well. It is looked for as it is, and without its
// separators.
func (s *secrets) add(text string, part int) {
	text = lowerCase(text[:min(len(text), maxKept)])
	s.addText(text, part)
	s.addText(bare(text), part)
}

func (s *secrets) addText(text string, part int) {
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
func (s *secrets) find(text string, from int) (start, end int) {
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
func (s *secrets) has(text string) bool {
	_, end := s.find(lowerCase(text), 0)
	return end > 0
}

// clean removes the secrets from a text: as they are, and in what may be an encoding of them. It finds them in any
// case, cut to ten characters, with anything but letters and digits between them, and backwards; escaped as in URLs,
// HTML, JSON, Go and C; in hexadecimal, base32, base64, gzip and lists of character codes, also in groups; and in up to
// three of these at once. Ciphers and translations are not found.
func (s *secrets) clean(text string) string {
	lower := lowerCase(text)
	var b strings.Builder
	last := 0
	for {
		start, end := s.find(lower, last)
		if end == 0 {
			break
		}
		b.WriteString(text[last:start] + redacted)
		last = end
	}
	b.WriteString(text[last:])
	left := maxDecoded
	text = encoded.ReplaceAllStringFunc(b.String(), func(run string) string {
		if s.hides(run, 0, &left) {
			return redacted
		}
		return run
	})
	left = maxDecoded
	text = groups.ReplaceAllStringFunc(text, func(run string) string {
		if joined := separator.ReplaceAllString(run, ""); s.has(joined) || s.hides(joined, 0, &left) || s.has(codes(run)) {
			return redacted
		}
		return run
	})
	for _, plain := range []string{unescape(text), html.UnescapeString(text), bare(text), reversed(bare(text))} {
		if s.has(plain) {
			return redacted
		}
	}
	return text
}

// bare is a text without all that is no letter or digit of ASCII.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, text)
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}

// codes are the characters whose decimal codes a text lists.
func codes(list string) string {
	var b []byte
	for _, digits := range decimal.FindAllString(list, -1) {
		if n, err := strconv.Atoi(digits); err == nil && n < 128 {
			b = append(b, byte(n))
		}
	}
	return string(b)
}

// groups are short groups of letters and digits with something between them, as in de:ad:be:ef.
var (
	groups    = regexp.MustCompile(`(?:(?:0x)?[A-Za-z0-9+/=_]{1,4}[\s:,.|;-]+){5,}(?:0x)?[A-Za-z0-9+/=_]{1,4}`)
	separator = regexp.MustCompile(`[\s:,.|;-]+(?:0x)?|^0x`)
	decimal   = regexp.MustCompile(`[0-9]+`)
)

var (
	encoded = regexp.MustCompile(`[A-Za-z0-9+/_=%&;#\\.-]{8,}`)
	escape  = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-7]{3}|.)`)
)

// hides reports whether a run of letters has a secret when it is decoded, up to three times. What would take too long
// to decode counts as a secret.
func (s *secrets) hides(run string, depth int, left *int) bool {
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

// decode returns what a run of letters may stand for.
func decode(run string) (all []string) {
	if strings.ContainsAny(run, `%\&`) {
		plain, err := url.QueryUnescape(run)
		if err != nil {
			plain = run
		}
		all = append(all, html.UnescapeString(unescape(plain)))
	}
	for _, digits := range hexDigits.FindAllString(run, -1) {
		for offset := range 2 {
			b, _ := hex.DecodeString(digits[offset : len(digits)-(len(digits)-offset)%2]) // these are digits
			all = append(all, string(b))
		}
	}
	for _, digits := range base32Digits.FindAllString(run, -1) {
		digits = strings.ToUpper(digits)
		for offset := range 8 {
			b := make([]byte, base32Bare.DecodedLen(len(digits)))
			n, _ := base32Bare.Decode(b, []byte(digits[offset:]))
			all = append(all, string(b[:n]))
		}
	}
	for _, digits := range base64Digits.FindAllString(run, -1) {
		digits = standard.Replace(digits)
		for offset := range 4 {
			b := make([]byte, base64.RawStdEncoding.DecodedLen(len(digits)-offset))
			n, _ := base64.RawStdEncoding.Decode(b, []byte(digits[offset:])) // up to an end that is cut off
			all = append(all, string(b[:n]))
			if text := gunzip(b[:n]); text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	hexDigits    = regexp.MustCompile(`[0-9a-fA-F]{12,}`)
	base32Digits = regexp.MustCompile(`[A-Za-z2-7]{16,}`)
	base32Bare   = base32.StdEncoding.WithPadding(base32.NoPadding)
	base64Digits = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)
	standard     = strings.NewReplacer("-", "+", "_", "/")
)

func gunzip(b []byte) string {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(r, maxKept)) // as much as came
	return string(text)
}

// unescape undoes the escapes of JSON and of Go.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(e string) string {
		var plain string
		if strings.HasPrefix(e, `\x`) {
			e = `\u00` + e[2:]
		}
		if n, err := strconv.ParseUint(e[1:], 8, 8); err == nil && len(e) == 4 {
			return string(rune(n))
		}
		if json.Unmarshal([]byte(`"`+e+`"`), &plain) != nil {
			return e[1:]
		}
		return plain
	})
}

// secret notes a text that no output may have, not even a part.
func (r *run) secret(text string) {
	r.secrets.add(text, leastPiece)
	r.tokens.add(text, leastPiece)
}

// jsonText is how a text stands in JSON.
func jsonText(text string) string {
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return string(quoted[1 : len(quoted)-1])
}

// hide notes a state that no output may have. One that stands in the name of its target is no secret.
func (r *run) hide(t *target, state string) {
	if !strings.Contains(t.String(), state) {
		r.secrets.add(state, leastPart)
	}
}

// redact removes the secrets from the report.
func (r *run) redact() {
	cleaned := map[string]string{} // most texts come often
	clean := func(text *string) {
		if _, ok := cleaned[*text]; !ok {
			cleaned[*text] = r.secrets.clean(*text)
		}
		*text = cleaned[*text]
	}
	report := r.report
	for _, text := range []*string{&report.Subject, &report.Name, &report.Revision, &report.Stopped} {
		clean(text)
	}
	for i := range report.Targets {
		t := &report.Targets[i]
		clean(&t.Method)
		clean(&t.Name)
		clean(&t.Why)
		for k := range t.Asks {
			clean(&t.Asks[k])
		}
	}
	for i := range report.Verdicts {
		v := &report.Verdicts[i]
		clean(&v.Target)
		clean(&v.Reason)
		clean(&v.Remedy)
		if r.Raw {
			v.Transcript = r.tokens.clean(v.Transcript)
		} else {
			v.Transcript = r.secrets.clean(v.Transcript)
		}
	}
}

// redactPlanned returns how things are called, without what a server has put into names, options and constants.
func (r *run) redactPlanned() (calls map[string]PlannedCall) {
	text, err := json.Marshal(r.planned)
	if err != nil {
		return nil
	}
	_ = json.Unmarshal([]byte(r.secrets.clean(string(text))), &calls) // without its syntax there is nothing to show
	return calls
}
