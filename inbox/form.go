package inbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/form"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// fields are the form of a question, with the values that are filled in.
type fields []*field

// field is one property of the schema as a control of a page.
type field struct {
	*form.Property
	ID      string // of the control in the page, and its name in what the browser sends
	Label   string
	Control string // "text", "area", "number", "moment", "one", "few" or "many"
	Type    string // of an input
	Pattern string // of a text: counts code points, which maxlength does not
	Choices []choice
	Hints   []string
	Problem string
	Warning string
	Value   string   // the text of a control without choices
	Picked  []string // the names of the choices that are picked
	nothing bool     // "no answer" is a choice

	Edits bool // the arguments of the call
	Rows  int  // of a text with several lines
}

// choice is one value of a field. The browser sends its name: its number, or "" for no answer.
type choice struct {
	Name, Title, Value string
	json               json.RawMessage
	Picked             bool
}

// mostRadios is the number of choices that are shown beside each other. More than that become a list to open.
const mostRadios = 7

// secret matches what a form must not ask for ("Servers MUST NOT use form mode elicitation to request sensitive
// information").
var secret = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|credential|token|(api|private|access).?key|` +
	`card.?number|credit.?card|\bcv[vc]\b`)

// newFields returns the form of a schema, filled in with a content, which may be nil. What it lacks has its default.
func newFields(schema *form.Schema, content json.RawMessage) fields {
	var all fields
	for i, p := range schema.Properties() {
		f := &field{Property: p, ID: "f" + strconv.Itoa(i), Label: cmp.Or(strings.TrimSpace(p.Title), p.Name)}
		f.setControl()
		f.setChoices()
		value := strictjson.Get(content, p.Name)
		if content == nil {
			value = p.Default
		}
		f.fill(value)
		f.setHints()
		if secret.MatchString(p.Name + " " + p.Title + " " + p.Description) {
			f.Warning = "A form must not ask for passwords, keys or payment data. Decline if this one does."
		}
		all = append(all, f)
	}
	return all
}

func (f *field) setControl() {
	f.Control, f.Type = "text", "text"
	f.Edits, f.Rows = editsArguments(f.Property), 4
	switch {
	case f.Property.Type == "array":
		f.Control = "many"
	case f.Property.Type == "boolean", f.Options != nil && len(f.Options) <= mostRadios:
		f.Control = "few"
	case f.Options != nil:
		f.Control = "one"
	case f.Property.Type == "integer", f.Property.Type == "number":
		f.Control, f.Type = "number", "number"
	case f.Property.Type == "json":
		f.Control = "area"
	case f.Format == "email":
		f.Type = "email"
	case f.Format == "uri":
		f.Type = "url"
	case f.Format == "date":
		f.Type = "date"
	case f.Format == "date-time":
		f.Control, f.Type = "moment", "datetime-local"
	case f.Edits || longText(f.High) || strings.Contains(string(f.Default), `\n`):
		f.Control = "area"
	}
	if f.Control == "text" && (f.Low != "" || f.High != "") {
		f.Pattern = `[\s\S]{` + cmp.Or(f.Low, "0") + "," + f.High + "}"
	}
}

// longText reports whether a text of this maximum needs a place of several lines.
func longText(most string) bool {
	n, err := strconv.Atoi(most)
	return err == nil && n >= 200
}

func (f *field) setChoices() {
	add := func(title, value string, raw json.RawMessage) {
		f.Choices = append(f.Choices, choice{Name: strconv.Itoa(len(f.Choices)), Title: title, Value: value, json: raw})
	}
	switch {
	case f.Property.Type == "boolean":
		add("Yes", "true", json.RawMessage("true"))
		add("No", "false", json.RawMessage("false"))
	default:
		for _, o := range f.Options {
			add(o.Title, o.Value, strictjson.AppendString(nil, o.Value))
		}
	}
	if f.Choices != nil && f.Control != "many" && !f.Required && f.Default == nil {
		f.nothing = true
		f.Choices = append(f.Choices, choice{Title: "No answer"})
	}
}

func (f *field) setHints() {
	add := func(hint string) { f.Hints = append(f.Hints, hint) }
	if f.Property.Type == "json" {
		add(`as JSON, such as ["a"] or {"a": 1}`)
	}
	between := func(unit, one string) {
		switch {
		case f.Low != "" && f.Low == f.High:
			add("exactly " + counted(f.Low, unit, one))
		case f.Low != "" && f.High != "":
			add(f.Low + " to " + counted(f.High, unit, one))
		case f.Low != "":
			add("at least " + counted(f.Low, unit, one))
		case f.High != "":
			add("at most " + counted(f.High, unit, one))
		}
	}
	switch f.Control {
	case "number":
		if f.Property.Type == "integer" {
			add("a whole number")
		}
		between("", "")
	case "many":
		between("choices", "choice")
	case "text", "area":
		between("characters", "character")
	case "moment":
		add("in UTC")
	}
	if f.Format == "date-time" && f.Control != "moment" {
		f.Hints = []string{"such as 2026-11-24T12:00:00Z"}
	}
	if !f.Required {
		add("optional")
		if f.Default != nil && f.Control == "number" {
			add("empty means " + string(f.Default))
		}
	}
}

func counted(n, many, one string) string {
	if n == "1" {
		many = one
	}
	return strings.TrimSpace(n + " " + many)
}

// fill fills in a JSON value of the property, or nothing if there is none.
func (f *field) fill(value json.RawMessage) {
	f.Value, f.Picked = f.texts(value)
	if f.Control == "moment" && f.Value != "" && !isLocal(f.Value) {
		f.Control, f.Type = "text", "text" // the picker cannot show it as it is
	}
	if f.Edits {
		f.Rows = min(max(f.Rows, strings.Count(f.Value, "\n")+1), 24)
	}
	f.pick()
}

func (f *field) pick() {
	for i := range f.Choices {
		f.Choices[i].Picked = slices.Contains(f.Picked, f.Choices[i].Name)
	}
}

// localLayout is the form of a date and time in a picker, with seconds.
const localLayout = "2006-01-02T15:04:05"

func isLocal(s string) bool {
	at, err := time.Parse(localLayout, s)
	return err == nil && at.Format(localLayout) == s
}

// texts returns the texts of the page's controls for a value.
func (f *field) texts(value json.RawMessage) (text string, picked []string) {
	if value == nil && f.nothing {
		return "", []string{""}
	}
	if f.Choices != nil {
		items := [][]byte{value}
		if f.Control == "many" {
			items = slices.Collect(strictjson.Elements(value))
		}
		for _, item := range items {
			s, isString := strictjson.String(item)
			for _, c := range f.Choices {
				if c.json != nil && (isString && s == c.Value && f.Property.Type != "boolean" || string(item) == string(c.json)) {
					picked = append(picked, c.Name)
				}
			}
		}
		return "", f.known(picked)
	}
	if f.Control == "number" || f.Property.Type == "json" {
		return string(value), nil
	}
	text, _ = strictjson.String(value)
	if f.Edits {
		return indented(text), nil
	}
	if f.Format == "date-time" {
		if local, found := strings.CutSuffix(text, "Z"); found && isLocal(local) {
			return local, nil
		}
	}
	return text, nil
}

// read reads the form that a browser has sent. Shown is the content with which the form was shown: where somebody has
// changed nothing, the value stays exactly as it was, however the browser spells it. So a vote for a proposal is one
// for the same content. The result has a problem at each field that the schema does not allow.
func (all fields) read(sent url.Values, shown json.RawMessage) (content json.RawMessage, sound bool) {
	out := []byte{'{'}
	sound = true
	for _, f := range all {
		before := strictjson.Get(shown, f.Name)
		if shown == nil {
			before = f.Default
		}
		value := f.read(sent, before)
		switch {
		case value == nil && f.Required && f.Choices != nil:
			f.Problem = "choose one"
		case value == nil && f.Required:
			f.Problem = "is required"
		case value != nil:
			if _, f.Problem = f.Check(value); f.Edits && f.Problem == "" {
				f.Problem = notAnObject(f.Value)
			}
		}
		if f.Problem != "" {
			sound = false
			continue
		}
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, strictjson.AppendString(nil, f.Name)...), ':'), value...)
	}
	return append(out, '}'), sound
}

// read returns the value that a browser has sent for the field, and fills it in. Nil means that there is no answer.
func (f *field) read(sent url.Values, before json.RawMessage) json.RawMessage {
	wasText, wasPicked := f.texts(before)
	if f.Choices != nil {
		f.Picked = f.known(sent[f.ID])
		f.pick()
		if before != nil && slices.Equal(f.Picked, wasPicked) {
			return before
		}
		return f.chosen()
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(sent.Get(f.ID), "\r\n", "\n"), "\ufffd")
	if f.Value = text; text == strings.ReplaceAll(wasText, "\r\n", "\n") {
		return before
	}
	switch {
	case f.Control == "number":
		return jsonNumber(strings.TrimSpace(text))
	case f.Property.Type == "json":
		if text = strings.TrimSpace(text); text == "" {
			return nil
		}
		return json.RawMessage(text) // the check refuses it if it is no number
	case f.Format != "":
		text = strings.TrimSpace(text)
	}
	if f.Format == "date-time" {
		text = inUTC(text)
	}
	if f.Edits { // without the lines of the page, so that equal edits are equal votes
		var b bytes.Buffer
		if json.Compact(&b, []byte(text)) == nil {
			text = b.String()
		}
	}
	value := strictjson.AppendString(nil, text)
	if _, problem := f.Check(value); text == "" && (f.Default == nil || f.Required || problem != "") {
		return nil
	}
	return value
}

// known returns the names of choices that the field has, in the order of the schema.
func (f *field) known(names []string) (known []string) {
	for _, c := range f.Choices {
		if slices.Contains(names, c.Name) {
			known = append(known, c.Name)
		}
	}
	return known
}

// chosen returns the value of the choices that are picked.
func (f *field) chosen() json.RawMessage {
	var values []json.RawMessage
	for _, c := range f.Choices {
		if c.Picked && c.json != nil {
			values = append(values, c.json)
		}
	}
	if f.Control != "many" {
		if values == nil {
			return nil
		}
		return values[0]
	}
	// No choice leaves the field empty, except where it is an answer.
	if _, problem := f.Check(json.RawMessage("[]")); values == nil && !f.Required && (f.Default == nil || problem != "") {
		return nil
	}
	list := []byte{'['}
	for i, v := range values {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, v...)
	}
	return append(list, ']')
}

// numeral matches a number as people write it: its sign, its whole part without leading zeros, its fraction and its
// exponent.
var numeral = regexp.MustCompile(`^([-−+]?)(?:0*(\d+))?(\.\d+)?([eE][-+]?\d+)?\.?$`)

// jsonNumber converts a number as people write it to JSON: nil for nothing, and false, which no number is, for any
// other text.
func jsonNumber(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	m := numeral.FindStringSubmatch(s)
	if m == nil || m[2]+m[3] == "" {
		return json.RawMessage("false")
	}
	sign := ""
	if m[1] == "-" || m[1] == "−" {
		sign = "-"
	}
	return json.RawMessage(sign + cmp.Or(m[2], "0") + m[3] + m[4])
}

// inUTC adds the time zone that the page names to a date and time of a browser's picker.
func inUTC(s string) string {
	for _, layout := range []string{"2006-01-02T15:04", localLayout, "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return s
}

// About is the description of the field with the rules for an answer.
func (f *field) About() template.HTML {
	about := linked(f.Description)
	if f.Description == "" {
		about = ""
	}
	if f.Hints == nil {
		return about
	}
	rule := template.HTML(template.HTMLEscapeString(strings.Join(f.Hints, ", "))) //nolint:gosec // it is escaped
	if about == "" {
		return rule
	}
	return about + " · " + rule
}

// Described names the elements of the page that describe the control.
func (f *field) Described() string {
	var ids []string
	if f.Description != "" || f.Hints != nil {
		ids = append(ids, f.ID+"-about")
	}
	if f.Problem != "" {
		ids = append(ids, f.ID+"-problem")
	}
	return strings.Join(ids, " ")
}

// Rule is the browser's message for a text that does not fit the pattern.
func (f *field) Rule() string {
	if f.Pattern == "" {
		return ""
	}
	return strings.Join(f.Hints, ", ")
}

// Original is the text with which the arguments of the call began.
func (f *field) Original() string {
	text, _ := strictjson.String(f.Default)
	return indented(text)
}

// Differs is the value of a choice, if its title is another text.
func (c choice) Differs() string {
	if c.Title == c.Value || c.json == nil || c.json[0] != '"' {
		return ""
	}
	return c.Value
}
