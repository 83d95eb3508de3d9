package alter

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Leaf is a value in a state that can be read without a key.
type Leaf struct {
	Path  string // where it is: the layers that were undone, and then members and indexes. It has no spaces.
	Value any    // a string, a json.Number or a bool

	// Protected reports that another part of the state looks like a signature, such as the third part of a JWT.
	Protected bool

	set func(value string) string
}

// With returns the state with another value, given as JSON, and "" if that is impossible.
func (l *Leaf) With(value string) string {
	if !json.Valid([]byte(value)) {
		return ""
	}
	return l.set(value)
}

const (
	maxDepth    = 4       // layers
	maxLeaves   = 64      // of a state
	maxInflated = 1 << 20 // bytes
)

// Leaves returns the values that can be read in a state: in JSON, base64, hexadecimal digits, gzip, zlib, deflate, a
// JWT, the query of a URL, or plain text, and these in each other. There are 64 at most.
func Leaves(state string) []Leaf {
	if len(state) > MaxState {
		return nil
	}
	o := &opener{}
	o.open(state, "", func(s string) string { return s }, false, 0)
	return o.leaves
}

type opener struct{ leaves []Leaf }

func (o *opener) add(l Leaf) {
	if len(o.leaves) < maxLeaves {
		l.Path = strings.ReplaceAll(l.Path, " ", "%20")
		o.leaves = append(o.leaves, l)
	}
}

// open undoes one layer of text, and reports whether it could. The function wrap makes the state from another text.
func (o *opener) open(text, path string, wrap func(string) string, protected bool, depth int) bool {
	if depth > maxDepth || text == "" || len(o.leaves) >= maxLeaves {
		return false
	}
	return o.openJSON(text, path, wrap, protected, depth) ||
		o.openCompressed(text, path, wrap, protected, depth) ||
		o.openParts(text, path, wrap, protected, depth) ||
		o.openHex(text, path, wrap, protected, depth) ||
		o.openBase64(text, path, wrap, protected, depth) ||
		o.openQuery(text, path, wrap, protected) ||
		o.openText(text, path, wrap, protected)
}

func (o *opener) openJSON(text, path string, wrap func(string) string, protected bool, depth int) bool {
	start, end := findJSON(text)
	if start == end {
		return false
	}
	before, after := text[:start], text[end:]
	protected = protected || isMAC(before) || isMAC(after)
	outer := wrap
	text, wrap = text[start:end], func(s string) string { return outer(before + s + after) }
	places := jsonPlaces(text, path)
	for _, p := range places {
		text, isText := p.value.(string)
		protected = protected || isText && looksRandom(text)
	}
	for _, p := range places {
		set := func(value string) string { return wrap(text[:p.start] + value + text[p.end:]) }
		if inner, ok := p.value.(string); ok && len(inner) > 8 {
			quoted := func(s string) string {
				b, _ := json.Marshal(s) // a string always has a JSON form
				return set(string(b))
			}
			n := len(o.leaves)
			if o.open(inner, p.path+"=", quoted, protected, depth+1) && (inner[0] == '{' || !isPlain(o.leaves[n:], inner)) {
				continue
			}
			o.leaves = o.leaves[:n]
		}
		o.add(Leaf{Path: p.path, Value: p.value, Protected: protected, set: set})
	}
	return len(places) > 0
}

// findJSON returns where JSON stands in a text: all of it, or one object with other bytes before or after it, such as a
// MAC. Without any, start and end are equal.
func findJSON(text string) (start, end int) {
	if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') &&
		json.Valid([]byte(text)) {
		return 0, len(text)
	}
	for range 8 {
		i := strings.Index(text[end:], `{"`)
		if i < 0 {
			return 0, 0
		}
		start = end + i
		var object json.RawMessage
		if json.NewDecoder(strings.NewReader(text[start:])).Decode(&object) == nil {
			return start, start + len(object)
		}
		end = start + 1
	}
	return 0, 0
}

// shortestMAC is the least that a MAC has, in bytes; what is shorter is a checksum.
const shortestMAC = 10

// isMAC reports whether what stands beside the JSON of a state may be a MAC.
func isMAC(beside string) bool {
	return len(beside) >= shortestMAC && !readable([]byte(beside)) || looksRandom(strings.Trim(beside, " .:|~-_,;"))
}

// A place is where a value stands in a JSON text.
type place struct {
	start, end int
	path       string
	value      any // a string, a json.Number or a bool
}

// jsonPlaces returns the places of the values in a JSON text that are neither null nor composed.
func jsonPlaces(text, path string) (places []place) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var walk func(at string, levels int) bool
	walk = func(at string, levels int) bool {
		before := int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil || levels > 50 {
			return false
		}
		switch token {
		case json.Delim('{'):
			for decoder.More() {
				name, err := decoder.Token()
				key, ok := name.(string)
				if err != nil || !ok || !walk(at+"/"+key, levels+1) {
					return false
				}
			}
			_, err = decoder.Token()
			return err == nil
		case json.Delim('['):
			for i := 0; decoder.More(); i++ {
				if !walk(at+"/"+strconv.Itoa(i), levels+1) {
					return false
				}
			}
			_, err = decoder.Token()
			return err == nil
		case nil:
			return true
		}
		end := int(decoder.InputOffset())
		start := before + len(text[before:end]) - len(strings.TrimLeft(text[before:end], " \t\r\n,:"))
		places = append(places, place{start, end, at, token})
		return true
	}
	walk(path, 0)
	return places
}

// isPlain reports that opening a text has only split it.
func isPlain(leaves []Leaf, text string) bool {
	for _, l := range leaves {
		if s, ok := l.Value.(string); !ok || !strings.Contains(text, s) {
			return false
		}
	}
	return true
}

var encodings = []struct {
	name string
	*base64.Encoding
}{
	{"base64url", base64.RawURLEncoding}, {"base64", base64.StdEncoding},
	{"base64raw", base64.RawStdEncoding}, {"base64urlpad", base64.URLEncoding},
}

func (o *opener) openBase64(text, path string, wrap func(string) string, protected bool, depth int) bool {
	for _, e := range encodings {
		plain, err := e.Strict().DecodeString(text)
		if err != nil || len(plain) < 3 {
			continue
		}
		if !says(plain) {
			continue
		}
		encode := func(s string) string { return wrap(e.EncodeToString([]byte(s))) }
		if o.open(string(plain), path+e.name+":", encode, protected, depth+1) {
			return true
		}
	}
	return false
}

func (o *opener) openHex(text, path string, wrap func(string) string, protected bool, depth int) bool {
	plain, err := hex.DecodeString(text)
	if err != nil || len(plain) < 8 || !says(plain) {
		return false
	}
	encode := func(s string) string { return wrap(hex.EncodeToString([]byte(s))) }
	return o.open(string(plain), path+"hex:", encode, protected, depth+1)
}

// says reports whether bytes are a text, or hold one that anybody can read.
func says(b []byte) bool {
	start, end := findJSON(string(b))
	return readable(b) || start < end || compressed(b)
}

func compressed(b []byte) bool {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) || len(b) > 2 && b[0] == 0x78 && (int(b[0])<<8|int(b[1]))%31 == 0 {
		return true
	}
	// Bytes that begin like a stream without a header may be random. The end of such a stream has to be their end.
	in := bytes.NewReader(b)
	return inflate(flate.NewReader(in)) != "" && in.Len() == 0
}

// inflate returns the text in a compressed stream, and "" for what is none.
func inflate(r io.Reader) string {
	b, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err != nil || len(b) > maxInflated || len(b) < 3 || !readable(b) {
		return ""
	}
	return string(b)
}

func (o *opener) openCompressed(text, path string, wrap func(string) string, protected bool, depth int) bool {
	type form struct {
		name string
		read func() (io.Reader, error)
		make func(io.Writer) io.WriteCloser
	}
	in := func() io.Reader { return strings.NewReader(text) }
	for _, f := range []form{
		{"gzip", func() (io.Reader, error) { return gzip.NewReader(in()) },
			func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
		{"zlib", func() (io.Reader, error) { return zlib.NewReader(in()) },
			func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }},
		{"deflate", func() (io.Reader, error) { return flate.NewReader(in()), nil },
			func(w io.Writer) io.WriteCloser {
				fw, _ := flate.NewWriter(w, flate.DefaultCompression) // the level is valid
				return fw
			}},
	} {
		r, err := f.read()
		if err != nil {
			continue
		}
		plain := inflate(r)
		if plain == "" {
			continue
		}
		pack := func(s string) string {
			var b bytes.Buffer
			w := f.make(&b)
			_, _ = io.WriteString(w, s) // a buffer takes everything
			_ = w.Close()
			return wrap(b.String())
		}
		return o.open(plain, path+f.name+":", pack, protected, depth+1)
	}
	return false
}

// openParts opens the parts of a text such as a JWT, or a payload and its signature.
func (o *opener) openParts(text, path string, wrap func(string) string, protected bool, depth int) bool {
	if strings.ContainsAny(text, " \t\n{}[]\"") {
		return false
	}
	for _, separator := range []string{".", ":", "|", "~"} {
		parts := strings.Split(text, separator)
		if len(parts) < 2 || len(parts) > 8 || separator == ":" && hasTime.MatchString(text) { // its colons separate nothing
			continue
		}
		opened, signed := false, slices.ContainsFunc(parts, looksRandom)
		for i, part := range parts {
			if looksRandom(part) || len(part) < 4 {
				continue
			}
			at := path + "part" + strconv.Itoa(i) + ":"
			join := func(s string) string {
				changed := append([]string(nil), parts...)
				changed[i] = s
				return wrap(strings.Join(changed, separator))
			}
			if !o.open(part, at, join, protected || signed, depth+1) {
				continue
			}
			opened = true
			if i == 1 && len(parts) == 3 && strings.HasPrefix(part, "eyJ") {
				// A JWT without a signature, as its own header may say.
				none := func(s string) string {
					return wrap(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + s + ".")
				}
				o.open(part, path+"unsigned:", none, protected || signed, depth+1)
			}
		}
		if opened {
			return true
		}
	}
	return false
}

func (o *opener) openQuery(text, path string, wrap func(string) string, protected bool) bool {
	if !strings.Contains(text, "=") || strings.ContainsAny(text, " {}\"\n") || strings.HasSuffix(text, "=") {
		return false
	}
	pairs := strings.Split(text, "&")
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); !ok || name == "" || strings.Contains(value, "=") {
			return false
		}
	}
	for _, pair := range pairs {
		_, value, _ := strings.Cut(pair, "=")
		protected = protected || looksRandom(value)
	}
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(value)
		if err != nil {
			return false
		}
		o.add(Leaf{Path: path + "?" + name, Value: plain, Protected: protected, set: func(value string) string {
			changed := append([]string(nil), pairs...)
			text := unquote(value)
			if plain != pairs[i][len(name)+1:] || strings.ContainsAny(text, "&=%+ ") { // else as it was written
				text = url.QueryEscape(text)
			}
			changed[i] = name + "=" + text
			return wrap(strings.Join(changed, "&"))
		}})
	}
	return true
}

// unquote is the text of a JSON value.
func unquote(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// words are what a text of words has: times and URLs, which have separators in them, and other words.
var words = regexp.MustCompile(aTime + `|[a-z][a-z0-9+.-]*://[^|;,\s]+|[^:|;,/&\s]+`)

const aTime = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}[0-9:.]*(?:Z|[+-][0-9]{2}:[0-9]{2})?`

var hasTime = regexp.MustCompile(aTime)

// openText splits a text of words. What looks random is no word: it is a handle, or protected.
func (o *opener) openText(text, path string, wrap func(string) string, protected bool) bool {
	if !readable([]byte(text)) || len(text) > 4096 || looksRandom(text) {
		return false
	}
	places := words.FindAllStringIndex(text, 17)
	if len(places) == 0 || len(places) > 16 {
		return false
	}
	for _, p := range places {
		protected = protected || looksRandom(text[p[0]:p[1]])
	}
	for i, p := range places {
		if looksRandom(text[p[0]:p[1]]) {
			continue
		}
		o.add(Leaf{Path: path + "word" + strconv.Itoa(i), Value: text[p[0]:p[1]], Protected: protected,
			set: func(value string) string { return wrap(text[:p[0]] + unquote(value) + text[p[1]:]) }})
	}
	return true
}

func readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' {
			return false
		}
	}
	return true
}

var (
	randomText = regexp.MustCompile(`^[A-Za-z0-9+/_=-]{16,}$`)
	uuid       = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// looksRandom reports whether a text may be a signature, a ciphertext or a handle: long, of the letters of base64 or
// hexadecimal, and with the mixture that random bytes have.
func looksRandom(text string) bool {
	if uuid.MatchString(text) {
		return true
	}
	if !randomText.MatchString(text) || strings.HasPrefix(text, "eyJ") {
		return false
	}
	for _, e := range encodings {
		if b, err := e.DecodeString(text); err == nil && len(text) >= 22 && says(b) {
			return false
		}
	}
	var digits, lower, upper, changes int
	kind := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			digits++
			return 0
		case c >= 'a' && c <= 'z':
			lower++
			return 1
		case c >= 'A' && c <= 'Z':
			upper++
			return 2
		}
		return 3
	}
	last := -1
	for i := range len(text) {
		if k := kind(text[i]); k != last {
			changes++
			last = k
		}
	}
	return digits > 0 && lower+upper > 0 && changes >= len(text)/4
}
