package terminal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/askback-mcp/askback/internal/form"
)

// The limits of a form that a person can fill in.
const (
	maxSchema  = 256 << 10 // bytes
	maxFields  = 50
	maxOptions = 250
	maxShown   = 12      // options of a list that is shown whole
	listRows   = 8       // options in view of a longer one
	maxText    = 100_000 // characters, of a default or an answer
)

// field is one field of a form, and its answer so far.
type field struct {
	*form.Property        // with texts as the server spells them
	label          string // the title, safe to show
	about          string // the description, safe to show; may be empty
	want           string // what a valid answer looks like, in our words; may be empty
	warning        string // in our words; may be empty
	kind           kind
	options        []option // for the kinds one and many

	text   string // the answer of the kinds without options
	picked []bool // the answer of the kinds with options: which of them
	filter string // what the person has typed to find an option of a long list
}

type kind int

const (
	text kind = iota
	number
	one      // one of the options, such as yes and no
	many     // any number of the options
	prose    // a text of several lines, which no schema asks for
	document // JSON, for what has no field
)

// option is one choice of a field.
type option struct {
	label string // safe to show
	value any    // a string or a bool; nil leaves the field empty
}

func (f *field) isChoice() bool { return f.kind == one || f.kind == many }

// isLong reports whether a list has more options than are shown at once, so that a person finds one by typing.
func (f *field) isLong() bool { return len(f.options) > maxShown }

// matching returns the options that have all words of a filter in their labels.
func (f *field) matching(filter string) []int {
	words := strings.Fields(strings.ToLower(filter))
	var found []int
	for i, o := range f.options {
		label := strings.ToLower(o.label)
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(label, word) }) {
			found = append(found, i)
		}
	}
	return found
}

// nearest returns the option that a filter finds first: one that begins with it, or else the first one that has it. It
// is -1 if there is none.
func (f *field) nearest(filter string) int {
	found := f.matching(filter)
	if len(found) == 0 {
		return -1
	}
	prefix := strings.ToLower(strings.TrimSpace(filter))
	if at := slices.IndexFunc(found, func(i int) bool {
		return strings.HasPrefix(strings.ToLower(f.options[i].label), prefix)
	}); at >= 0 {
		return found[at]
	}
	return found[0]
}

// picks returns the labels of the options that are the answer.
func (f *field) picks() []string {
	var labels []string
	for i, o := range f.options {
		if f.picked[i] {
			labels = append(labels, o.label)
		}
	}
	return labels
}

// fieldsOf returns the fields of a form in the order of the schema. The error is for the person.
func fieldsOf(schema json.RawMessage) ([]*field, error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("its form is %d bytes long, and this command shows at most %d", len(schema), maxSchema)
	}
	parsed, err := form.Read(schema)
	if err != nil {
		return nil, err
	}
	properties := parsed.Properties()
	if len(properties) > maxFields {
		return nil, fmt.Errorf("its form has more than the %d fields that this command shows", maxFields)
	}
	fields := make([]*field, len(properties))
	for i, p := range properties {
		if fields[i], err = newField(p); err != nil {
			return nil, fmt.Errorf("property %q: %w", p.Name, err)
		}
	}
	return fields, nil
}

// terms tells whether an answer is required, and what a valid one looks like.
func (f *field) terms() []string {
	terms := []string{"optional"}
	if f.Required {
		terms[0] = "required"
	}
	if f.want != "" {
		terms = append(terms, f.want)
	}
	return terms
}

func newField(p *form.Property) (*field, error) {
	f := &field{
		Property: p,
		label:    cmp.Or(line(p.Title, maxLabel), line(p.Name, maxLabel), "(no name)"),
		about:    line(p.Description, maxAbout),
	}
	if secret.MatchString(f.label + " " + p.Name + " " + f.about) {
		f.warning = "Servers must not ask for passwords, keys or payment data in a form. Decline if this does."
	}
	var err error
	f.options, err = optionsOf(p.Options)
	switch {
	case err != nil:
		return nil, err
	case p.Type == "boolean":
		f.kind = one
		f.options = []option{{"Yes", true}, {"No", false}}
	case p.Type == "integer":
		f.kind, f.want = number, and("a whole number", span(p.Low, p.High, ""))
	case p.Type == "number":
		f.kind, f.want = number, and("a number", span(p.Low, p.High, ""))
	case p.Type == "array":
		f.kind, f.want = many, span(p.Low, p.High, " to choose")
	case p.Options != nil:
		f.kind = one
	case p.Type == "json":
		f.kind, f.want = document, "as JSON, such as [\"a\"] or {\"a\": 1}"
	default:
		f.want = and(formats[p.Format], span(p.Low, p.High, " characters"))
	}
	f.want = visible(f.want, maxLabel)
	if !f.Required && f.kind == one {
		f.options = slices.Insert(f.options, 0, option{label: "(leave empty)"})
	}
	f.picked = make([]bool, len(f.options))
	f.fill(p.Default)
	return f, nil
}

// secret matches fields that ask for something that a form must not ask for: "Form Mode Security" in the specification.
var secret = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|credential|token|(api|private|access).?key|` +
	`card.?number|credit.?card|\bcv[vc]\b`)

var formats = map[string]string{
	"email":     "an email address",
	"uri":       "a full address, https: or the like included",
	"date":      "a date such as 2026-01-31",
	"date-time": "a date and time such as 2026-01-31 14:30",
}

// span describes limits in words.
func span(low, high, of string) string {
	switch {
	case low != "" && low == high:
		return "exactly " + low + of
	case low != "" && high != "":
		return low + " to " + high + of
	case low != "":
		return low + " or more" + of
	case high != "":
		return "at most " + high + of
	}
	return ""
}

func and(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func optionsOf(entries []form.Option) ([]option, error) {
	if len(entries) > maxOptions {
		return nil, fmt.Errorf("has more than the %d choices that this command shows", maxOptions)
	}
	options := make([]option, len(entries))
	for i, e := range entries {
		label := line(e.Title, maxOption)
		// The person agrees to the value that is sent, so it is shown.
		if !strings.EqualFold(e.Title, e.Value) {
			label += " (" + line(e.Value, maxLabel) + ")"
		}
		options[i] = option{cmp.Or(strings.TrimSpace(label), "(empty)"), e.Value}
	}
	return options, nil
}

// fill sets the default, which the form has checked, as the answer.
func (f *field) fill(fallback json.RawMessage) {
	switch {
	case f.isChoice():
		values := make([]any, 1) // nil is the option that leaves the field empty
		if f.kind == many {
			_ = json.Unmarshal(fallback, &values)
		} else {
			_ = json.Unmarshal(fallback, &values[0])
		}
		for i, o := range f.options {
			f.picked[i] = slices.Contains(values, o.value)
		}
	case f.kind == number || f.kind == document:
		f.text = string(fallback)
	default:
		// The person sends what is shown, so characters that cannot be shown are removed from the default.
		_ = json.Unmarshal(fallback, &f.text)
		f.text = visible(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && !unicode.IsSpace(r) {
				return -1
			}
			return r
		}, f.text), maxText)
	}
}

// raw returns the answer as JSON, unchecked. Nil means that the field is left empty.
func (f *field) raw() json.RawMessage {
	switch f.kind {
	case one:
		i := slices.Index(f.picked, true)
		if i < 0 || f.options[i].value == nil {
			return nil
		}
		value, _ := json.Marshal(f.options[i].value)
		return value
	case many:
		values := []any{}
		for i, o := range f.options {
			if f.picked[i] {
				values = append(values, o.value)
			}
		}
		list, _ := json.Marshal(values)
		// No choice leaves the field empty, except where it is an answer: in a required field, or in one whose default
		// the person has removed.
		if len(values) == 0 && !f.Required && !(f.Default != nil && f.complaint(list) == "") {
			return nil
		}
		return list
	case number:
		if s := strings.TrimSpace(f.text); s != "" {
			return jsonNumber(s)
		}
		return nil
	case document:
		if s := strings.TrimSpace(f.text); s != "" {
			return json.RawMessage(s) // which may be none
		}
		return nil
	}
	s := f.text
	if f.Format != "" {
		s = strings.TrimSpace(s)
	}
	if f.Format == "date-time" {
		s = withZone(s)
	}
	value, _ := json.Marshal(s)
	if s == "" && !(f.Default != nil && !f.Required && f.complaint(value) == "") {
		return nil
	}
	return value
}

// jsonNumber converts a number as people write it to JSON. It returns false, which no number field accepts, for any
// other text.
func jsonNumber(s string) json.RawMessage {
	m := numeral.FindStringSubmatch(s)
	if m == nil || m[2]+m[3] == "" {
		return json.RawMessage("false")
	}
	sign := map[string]string{"-": "-", "−": "-"}[m[1]]
	return json.RawMessage(sign + cmp.Or(m[2], "0") + m[3] + m[4])
}

// numeral matches a number as people write it: its sign, its whole part without leading zeros, its fraction and its
// exponent.
var numeral = regexp.MustCompile(`^([-−+]?)(?:0*(\d+))?(\.\d+)?([eE][-+]?\d+)?\.?$`)

// withZone adds the time zone of this machine to a date and time as people write it.
func withZone(s string) string {
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return s
}

// problem returns the fault of the answer. It is empty for a valid one.
func (f *field) problem() string {
	raw := f.raw()
	switch {
	case f.filter != "" && len(f.matching(f.filter)) == 0:
		return "no choice contains that"
	case f.kind == prose && strings.TrimSpace(f.text) == "":
		return "write something first"
	case f.kind == prose, raw == nil && !f.Required:
		return ""
	case raw == nil && f.isChoice():
		return "choose one"
	case raw == nil:
		return "must be answered"
	}
	return f.complaint(raw)
}

func (f *field) complaint(raw json.RawMessage) string {
	_, problem := f.Check(raw)
	switch {
	case problem == "":
		return ""
	case f.kind == many: // out of the options, so their number is wrong
		return "choose " + visible(span(f.Low, f.High, ""), maxLabel)
	case f.isChoice():
		return line(problem, maxAbout)
	}
	return visible(problem, maxAbout) // shows limits and our own examples only
}

// value returns the answer as it is sent. Nil means that the field is left empty.
func (f *field) value() (value any, err error) {
	raw := f.raw()
	if raw == nil {
		return nil, nil
	}
	raw, problem := f.Check(raw)
	switch {
	case problem != "":
		return nil, errors.New(problem)
	case f.kind == number:
		return numberOf(json.Number(raw)), nil
	case f.kind == document:
		return raw, nil
	}
	err = json.Unmarshal(raw, &value)
	return value, err
}

// numberOf returns a float64, as decoders of JSON do, or the json.Number if a float64 would change the value.
func numberOf(n json.Number) any {
	f, err := n.Float64()
	if err != nil {
		return n
	}
	exact, ok := new(big.Rat).SetString(string(n))
	written, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok || exact.Cmp(written) != 0 {
		return n
	}
	return f
}

// answer returns what will be sent, as lines to show.
func (f *field) answer() []string {
	if f.kind == prose {
		text := strings.Split(f.text, "\n")
		for i, l := range text {
			text[i] = visible(l, maxText)
		}
		return text
	}
	raw := f.raw()
	switch {
	case raw == nil && f.Default != nil:
		return []string{"(left empty; the server may take its default)"}
	case raw == nil:
		return []string{"(left empty)"}
	case f.isChoice():
		if labels := f.picks(); labels != nil {
			return labels
		}
		return []string{"(none of them)"}
	}
	if clean, problem := f.Check(raw); problem == "" {
		raw = clean
	}
	if f.kind == number {
		return []string{string(raw)}
	}
	if f.kind == document {
		return []string{visible(string(raw), maxText)}
	}
	var s string
	_ = json.Unmarshal(raw, &s) // this package has encoded it
	if s == "" {
		return []string{"(an empty text)"}
	}
	return []string{visible(s, maxText)}
}
