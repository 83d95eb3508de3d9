package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// placeholder is {{name}}, {{name:kind}} or {{name:kind argument}}.
type placeholder struct{ name, kind, argument string }

var (
	placeholders    = regexp.MustCompile(`\{\{[^{}]*\}\}`)
	placeholderForm = regexp.MustCompile(`^\{\{(_|[A-Za-z][A-Za-z0-9_]*)(?::([a-z]+|[0-9]+)(?: ([A-Za-z][A-Za-z0-9_]*))?)?\}\}$`)
)

// anything, as the name and the value of a member, allows members beyond those written. As a name alone it adds the
// members of a placeholder's object.
const anything = "..."

const (
	metaName   = "meta"
	fillerName = "filler"
)

// metas are the values of {{meta}}: the _meta that the ratified revision requires of each request.
var metas = map[string]string{
	"":      metaOf(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`),
	"none":  metaOf(`{}`),
	"tasks": metaOf(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`),
}

func metaOf(capabilities string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"transcript","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

func parsePlaceholder(text string) (placeholder, error) {
	m := placeholderForm.FindStringSubmatch(text)
	if m == nil {
		return placeholder{}, fmt.Errorf("the placeholder %s is not such as {{state}}, {{created:time}} or {{second:not first}}", short(text))
	}
	return placeholder{m[1], m[2], m[3]}, nil
}

// whole returns the placeholder in a text that consists of nothing else.
func whole(text string) (placeholder, bool) {
	p, err := parsePlaceholder(text)
	return p, err == nil
}

// replace replaces each placeholder in text by the value that found returns.
func replace(text string, found func(placeholder) (string, error)) (string, error) {
	var b strings.Builder
	for {
		at := placeholders.FindStringIndex(text)
		if at == nil {
			if strings.Contains(text, "{{") {
				return "", fmt.Errorf("a placeholder in %q has no end", short(text))
			}
			return b.String() + text, nil
		}
		p, err := parsePlaceholder(text[at[0]:at[1]])
		if err != nil {
			return "", err
		}
		value, err := found(p)
		if err != nil {
			return "", err
		}
		if b.WriteString(text[:at[0]] + value); b.Len() > maxMessage {
			return "", errTooLong
		}
		text = text[at[1]:]
	}
}

// literal is a string in a JSON text.
type literal struct {
	start, end int // with its quotes
	name       bool
	of         byte   // what the value of the name begins with
	text       string // decoded
}

const space = " \t\r\n"

// literals returns the strings of a checked JSON text, including the names of members.
func literals(text []byte) (list []literal) {
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		start := i
		for i++; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		end := min(i+1, len(text))
		decoded, _ := strictjson.String(text[start:end])
		l := literal{start: start, end: end, text: decoded}
		if after, ok := bytes.CutPrefix(bytes.TrimLeft(text[end:], space), []byte(":")); ok {
			l.name = true
			if after = bytes.TrimLeft(after, space); len(after) > 0 {
				l.of = after[0]
			}
		}
		list = append(list, l)
		i = end - 1
	}
	return list
}

// checkRequest verifies that every placeholder in a text to be sent has a value.
func (p *parser) checkRequest(text string) error {
	_, err := replace(text, func(ph placeholder) (string, error) {
		switch {
		case ph.name == metaName && ph.argument == "" && metas[ph.kind] != "":
			return "", nil
		case ph.name == fillerName && ph.argument == "":
			if n, err := strconv.Atoi(ph.kind); err != nil || n > maxMessage {
				return "", fmt.Errorf("{{filler:N}} stands for N characters, at most %d", maxMessage)
			}
			return "", nil
		case ph.kind != "":
			return "", fmt.Errorf("{{%s:%s}}: what is sent has only {{meta}}, {{meta:none}}, {{meta:tasks}}, {{filler:N}} and names that stood in a response", ph.name, ph.kind)
		case !p.known[ph.name]:
			return "", fmt.Errorf("{{%s}} stood in no response above", ph.name)
		}
		return "", nil
	})
	return err
}

// checkRequestBody verifies the placeholders of a request's body. With an error it returns its offset.
func (p *parser) checkRequestBody(text []byte) (at int, err error) {
	spread := false
	for _, l := range literals(text) {
		ph, all := whole(l.text)
		meta := all && ph.name == metaName
		switch {
		case l.name && l.text == anything && l.of == '"':
			spread = true
			continue
		case l.name && l.text == anything, spread && !meta:
			return l.start, errors.New(`in a request, "..." adds the members of {{meta}} and nothing else`)
		case l.name && strings.Contains(l.text, "{{"):
			return l.start, errors.New("a placeholder stands in a value, not in a name")
		case !meta && strings.Contains(l.text, "{{"+metaName):
			return l.start, errors.New("{{meta}} is an object and cannot be part of a string")
		}
		spread = false
		if err := p.checkRequest(l.text); err != nil {
			return l.start, err
		}
	}
	return 0, nil
}

// checkExpected verifies the placeholders of an expected text, and returns the names that it captures. A placeholder
// captures only if it is the whole value.
func (p *parser) checkExpected(text string, body bool) (names []string, err error) {
	ph, all := whole(text)
	if !all {
		_, err = replace(text, func(ph placeholder) (string, error) {
			if ph.kind != "" || !p.known[ph.name] {
				return "", fmt.Errorf("in %q: within a longer text, a placeholder must have stood in a response above, and has no kind", short(text))
			}
			return "", nil
		})
		return nil, err
	}
	if ph.name == metaName || ph.name == fillerName {
		return nil, fmt.Errorf("{{%s}} is for requests", ph.name)
	}
	switch ph.kind {
	case "", "text", "time":
	case "new":
		if !p.known[ph.name] {
			return nil, fmt.Errorf("{{%s:new}}: %s stood in no response above", ph.name, ph.name)
		}
	case "number":
		if !body {
			return nil, errors.New("a header is never a number")
		}
	case "not":
		if !p.known[ph.argument] {
			return nil, fmt.Errorf("{{%s:not %s}}: %s stood in no response above", ph.name, ph.argument, ph.argument)
		}
	default:
		return nil, fmt.Errorf("{{%s:%s}}: want text, number, time, new or not", ph.name, ph.kind)
	}
	if (ph.argument != "") != (ph.kind == "not") {
		return nil, fmt.Errorf("{{%s:%s}}: want {{name:kind}} or {{name:not other}}", ph.name, ph.kind)
	}
	if ph.name == "_" {
		return nil, nil
	}
	return []string{ph.name}, nil
}

// checkExpectedBody returns the names that an expected body captures, or an error and its offset.
func (p *parser) checkExpectedBody(text []byte) (names []string, at int, err error) {
	spread := false
	for _, l := range literals(text) {
		switch {
		case l.name && l.text == anything && l.of == '"':
			spread = true
			continue
		case l.name && l.text == anything, spread && l.text != anything:
			return nil, l.start, errors.New(`what may have more members has "...": "..."`)
		case l.name && strings.Contains(l.text, "{{"):
			return nil, l.start, errors.New("a placeholder stands in a value, not in a name")
		}
		spread = false
		found, err := p.checkExpected(l.text, true)
		if err != nil {
			return nil, l.start, err
		}
		names = append(names, found...)
	}
	return names, 0, nil
}

// variables are the values of placeholders: strings, and numbers as json.Number.
type variables map[string]any

var errTooLong = fmt.Errorf("the message would be longer than %d bytes", maxMessage)

// fillText puts the values of its placeholders into a text.
func (v variables) fillText(text string) (string, error) {
	return replace(text, func(ph placeholder) (string, error) {
		if ph.name == fillerName {
			n, _ := strconv.Atoi(ph.kind) // it was checked
			return strings.Repeat("x", n), nil
		}
		return fmt.Sprint(v[ph.name]), nil
	})
}

// fill puts the values of its placeholders into a request.
func (v variables) fill(text []byte) ([]byte, error) {
	var b bytes.Buffer
	from := 0
	spread := false
	for _, l := range literals(text) {
		if l.name && l.text == anything {
			b.Write(text[from:l.start])
			from = l.end
			spread = true
			continue
		}
		if !strings.Contains(l.text, "{{") {
			continue
		}
		if !spread { // otherwise only a colon stands between
			b.Write(text[from:l.start])
		}
		from = l.end
		ph, all := whole(l.text)
		number, isNumber := v[ph.name].(json.Number)
		switch {
		case all && ph.name == metaName:
			object := metas[ph.kind]
			if spread {
				object = object[1 : len(object)-1]
			}
			b.WriteString(object)
		case all && isNumber:
			b.WriteString(number.String())
		default:
			filled, err := v.fillText(l.text)
			if err != nil {
				return nil, err
			}
			b.Write(quote(filled))
		}
		spread = false
		if b.Len() > maxMessage {
			return nil, errTooLong
		}
	}
	b.Write(text[from:])
	return b.Bytes(), nil
}

// quote encodes a value as JSON, with every character as itself.
func quote(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // decoded JSON, into memory
	return bytes.TrimRight(b.Bytes(), "\n")
}

// differ returns the error that a value differs from the expected one. The path is empty for the whole value.
func differ(path, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(path, "."), err)
}

// match compares a received value with an expected one, and adds the values that placeholders capture to v. It returns
// the first difference, or nil. Members are compared in the order of their names.
func (v variables) match(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return differ(path, "want an object, got %s", shown(got))
		}
		return v.matchObject(path, want, object)
	case []any:
		array, ok := got.([]any)
		if !ok {
			return differ(path, "want an array, got %s", shown(got))
		}
		for i := range min(len(want), len(array)) {
			if d := v.match(fmt.Sprintf("%s[%d]", path, i), want[i], array[i]); d != nil {
				return d
			}
		}
		if len(want) != len(array) {
			return differ(path, "want %d elements, got %d", len(want), len(array))
		}
		return nil
	case string:
		return v.matchText(path, want, got)
	case json.Number:
		number, ok := got.(json.Number)
		if !ok || !sameNumber(want, number) {
			return differ(path, "want %s, got %s", want, shown(got))
		}
		return nil
	}
	if want != got { // true, false and null
		return differ(path, "want %s, got %s", shown(want), shown(got))
	}
	return nil
}

func (v variables) matchObject(path string, want, got map[string]any) error {
	_, open := want[anything]
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if name == anything {
			continue
		}
		value, ok := got[name]
		if !ok {
			return differ(path+member(name), "is missing, want %s", shown(want[name]))
		}
		if d := v.match(path+member(name), want[name], value); d != nil {
			return d
		}
	}
	if open {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			return differ(path+member(name), "was not expected: %s", shown(got[name]))
		}
	}
	return nil
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// member returns the segment of a path that leads to a member.
func member(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}

func (v variables) matchText(path, want string, got any) error {
	ph, all := whole(want)
	if !all {
		filled, err := v.fillText(want)
		if err != nil {
			return differ(path, "%w", err)
		}
		if got != any(filled) {
			return differ(path, "want %s, got %s", shown(filled), shown(got))
		}
		return nil
	}

	text, isText := got.(string)
	number, isNumber := got.(json.Number)
	switch ph.kind {
	case "text":
		if !isText {
			return differ(path, "want a text, got %s", shown(got))
		}
	case "number":
		if !isNumber {
			return differ(path, "want a number, got %s", shown(got))
		}
	case "time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return differ(path, "want a time such as 2026-07-28T12:00:00Z, got %s", shown(got))
		}
	case "not":
		if same(v[ph.argument], got) {
			return differ(path, "want another value than {{%s}}, got it again: %s", ph.argument, shown(got))
		}
	}
	if ph.name == "_" {
		return nil
	}
	if !isText && !isNumber {
		return differ(path, "want a text or a number for {{%s}}, got %s", ph.name, shown(got))
	}
	before, known := v[ph.name]
	if ph.kind == "new" {
		if same(before, got) {
			return differ(path, "want another value for {{%s}}, got it again: %s", ph.name, shown(got))
		}
		known = false
	}
	if known && !same(before, got) {
		return differ(path, "want {{%s}}, which is %s, got %s", ph.name, shown(before), shown(got))
	}
	if isNumber {
		v[ph.name] = number
	} else {
		v[ph.name] = text
	}
	return nil
}

// same reports whether two scalars are equal.
func same(a, b any) bool {
	x, ok := a.(json.Number)
	y, both := b.(json.Number)
	if ok && both {
		return sameNumber(x, y)
	}
	return scalar(a) && scalar(b) && a == b
}

func scalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func sameNumber(a, b json.Number) bool {
	return bytes.Equal(strictjson.AppendCanonical(nil, []byte(a)), strictjson.AppendCanonical(nil, []byte(b)))
}

// shown formats a value for a message.
func shown(value any) string { return cut(string(quote(value)), 200) }

// cut shortens a text for a message.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("… (%d bytes)", len(text))
}
