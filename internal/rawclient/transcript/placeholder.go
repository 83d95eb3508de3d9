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

	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// placeholder is {{name}}, {{name:kind}} or {{name:kind argument}}. In a request the kind may be a change of a state.
type placeholder struct{ name, kind, argument string }

// change is the change of a state that a placeholder stands for, in the words of package alter, or "".
func (ph placeholder) change() string {
	if slices.Contains([]string{"flip", "cut", "random", "set"}, ph.kind) {
		return ph.kind + " " + ph.argument
	}
	return ""
}

var (
	placeholders    = regexp.MustCompile(`\{\{[^{}]*\}\}`)
	placeholderForm = regexp.MustCompile(`^\{\{(_|[A-Za-z][A-Za-z0-9_]*)(?::([a-z]+|[0-9]+)(?: ` +
		`([^{}]+))?)?\}\}$`)
)

// anything, as the name and the value of a member, allows members beyond those written. As a name alone it adds the
// members of a placeholder's object. As the first element of an array it allows other elements, in any order.
const anything = "..."

const (
	metaName   = "meta"
	fillerName = "filler"
)

// metas are the values of {{meta}}: the _meta that the ratified revision requires of each request.
var metas = map[string]string{
	"":     metaOf(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`),
	"none": metaOf(`{}`),
	"tasks": metaOf(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}`),
}

func metaOf(capabilities string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"transcript","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// whole returns the placeholder in a text that consists of nothing else.
func whole(text string) (p placeholder, ok bool) {
	m := placeholderForm.FindStringSubmatch(text)
	if m == nil {
		return p, false
	}
	return placeholder{m[1], m[2], m[3]}, true
}

// replace replaces each placeholder in text by the value that found returns.
func replace(text string, found func(placeholder) (string, error)) (string, error) {
	var b strings.Builder
	for {
		at := placeholders.FindStringIndex(text)
		if at == nil {
			if strings.Contains(text, "{{") {
				return "", fmt.Errorf("a placeholder in %q has no end", cut(text, maxQuoted))
			}
			return b.String() + text, nil
		}
		p, ok := whole(text[at[0]:at[1]])
		if !ok {
			return "", fmt.Errorf("the placeholder %s is not such as {{state}}, {{created:time}} or {{second:not first}}",
				text[at[0]:at[1]])
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
	start, end int    // with its quotes, and with the "..." that it is the value of
	text       string // decoded
	name       bool   // it is the name of a member
	spread     bool   // it is the value of a member "..."
}

var jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// literals returns the strings of a checked JSON text, including the names of members.
func literals(text []byte) (list []literal) {
	for _, at := range jsonString.FindAllIndex(text, -1) {
		l := literal{start: at[0], end: at[1]}
		l.text, _ = strictjson.String(text[l.start:l.end])
		l.name = bytes.HasPrefix(bytes.TrimSpace(text[l.end:]), []byte(":"))
		if n := len(list) - 1; n >= 0 && list[n].text == anything &&
			string(bytes.TrimSpace(text[list[n].end:l.start])) == ":" {
			l.start, l.spread = list[n].start, true
			list = list[:n]
		}
		list = append(list, l)
	}
	return list
}

// checkPlaceholders verifies the placeholders of a body that is to be sent, or else expected. With an error it returns
// its offset.
func (p *parser) checkPlaceholders(body []byte, sent bool) (at int, err error) {
	check := p.checkExpected
	if sent {
		check = p.checkRequest
	}
	for _, l := range literals(body) {
		ph, all := whole(l.text)
		meta := all && ph.name == metaName
		more := l.spread || l.name && l.text == anything
		switch {
		case more && sent && !(l.spread && meta):
			err = errors.New(`in a request, "..." adds the members of {{meta}} and nothing else`)
		case more && !sent && !(l.spread && l.text == anything):
			err = errors.New(`what may have more members has "...": "..."`)
		case l.name && strings.Contains(l.text, "{{"):
			err = errors.New("a placeholder stands in a value, not in a name")
		case sent && !meta && strings.Contains(l.text, "{{"+metaName):
			err = errors.New("{{meta}} is an object and cannot be part of a string")
		default:
			err = check(l.text)
		}
		if err != nil {
			return l.start, err
		}
	}
	return 0, nil
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
		case ph.kind != "" && ph.change() == "":
			return "", fmt.Errorf("{{%s:%s}}: what is sent has only {{meta}}, {{meta:none}}, {{meta:tasks}}, "+
				"{{filler:N}}, and names that stood in a response, alone or with flip N, cut N, random N or set PATH VALUE",
				ph.name, ph.kind)
		case !p.known[ph.name]:
			return "", fmt.Errorf("{{%s}} stood in no response above", ph.name)
		}
		return "", nil
	})
	return err
}

// checkExpected verifies the placeholders of an expected text, and notes the name that it captures. A placeholder
// captures only if it is the whole value.
func (p *parser) checkExpected(text string) error {
	ph, all := whole(text)
	if !all {
		_, err := replace(text, func(ph placeholder) (string, error) {
			if ph.kind != "" || !p.known[ph.name] {
				return "", fmt.Errorf("in %q: within a longer text, a placeholder must have stood in a response above, "+
					"and has no kind", cut(text, maxQuoted))
			}
			return "", nil
		})
		return err
	}
	if ph.name == metaName || ph.name == fillerName {
		return fmt.Errorf("{{%s}} is for requests", ph.name)
	}
	other := ""
	switch ph.kind {
	case "", "text", "number", "time":
	case "new":
		other = ph.name
	case "not":
		other = ph.argument
	default:
		return fmt.Errorf("{{%s:%s}}: want text, number, time, new or not", ph.name, ph.kind)
	}
	if (ph.argument != "") != (ph.kind == "not") {
		return fmt.Errorf("{{%s:%s}}: want {{name:kind}} or {{name:not other}}", ph.name, ph.kind)
	}
	if other != "" && !p.known[other] {
		return fmt.Errorf("{{%s:%s}}: %s stood in no response above", ph.name, ph.kind, other)
	}
	if ph.name != "_" {
		p.captured = append(p.captured, ph.name)
	}
	return nil
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
		value := fmt.Sprint(v[ph.name])
		if how := ph.change(); how != "" {
			return alter.State(value, how)
		}
		return value, nil
	})
}

// fill puts the values of its placeholders into a request.
func (v variables) fill(text []byte) ([]byte, error) {
	var b bytes.Buffer
	from := 0
	for _, l := range literals(text) {
		if !strings.Contains(l.text, "{{") {
			continue
		}
		b.Write(text[from:l.start])
		from = l.end
		ph, all := whole(l.text)
		number, isNumber := v[ph.name].(json.Number)
		switch object := metas[ph.kind]; {
		case all && ph.name == metaName && l.spread:
			b.WriteString(object[1 : len(object)-1])
		case all && ph.name == metaName:
			b.WriteString(object)
		case all && isNumber && ph.change() == "":
			b.WriteString(number.String())
		default:
			filled, err := v.fillText(l.text)
			if err != nil {
				return nil, err
			}
			b.Write(quote(filled))
		}
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
		if len(want) > 0 && want[0] == anything {
			return v.matchAmong(path, want[1:], array)
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
	}
	if !same(want, got) {
		return differ(path, "want %s, got %s", shown(want), shown(got))
	}
	return nil
}

// matchAmong compares each expected element with the first one that matches it.
func (v variables) matchAmong(path string, want, got []any) error {
	for _, element := range want {
		var err error
		if !slices.ContainsFunc(got, func(other any) bool {
			known := maps.Clone(v)
			if err = known.match(path, element, other); err == nil {
				maps.Copy(v, known)
			}
			return err == nil
		}) {
			return differ(path, "no element is %s", shown(element))
		}
	}
	return nil
}

func (v variables) matchObject(path string, want, got map[string]any) error {
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
	_, open := want[anything]
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok && !open {
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
		if err == nil && !same(filled, got) {
			err = fmt.Errorf("want %s, got %s", shown(filled), shown(got))
		}
		if err != nil {
			return differ(path, "%w", err)
		}
		return nil
	}
	text, isText := got.(string)
	_, isNumber := got.(json.Number)
	_, noTime := time.Parse(time.RFC3339, text)
	before, known := v[ph.name]
	switch {
	case ph.kind == "text" && !isText:
		want = "a text"
	case ph.kind == "number" && !isNumber:
		want = "a number"
	case ph.kind == "time" && noTime != nil:
		want = "a time such as 2026-07-28T12:00:00Z"
	case ph.kind == "not" && same(v[ph.argument], got):
		want = fmt.Sprintf("another value than {{%s}}", ph.argument)
	case ph.name == "_":
		return nil
	case !isText && !isNumber:
		want = fmt.Sprintf("a text or a number for {{%s}}", ph.name)
	case ph.kind == "new" && same(before, got):
		want = fmt.Sprintf("another value for {{%s}}", ph.name)
	case ph.kind != "new" && known && !same(before, got):
		want = fmt.Sprintf("{{%s}}, which is %s", ph.name, shown(before))
	default:
		v[ph.name] = got
		return nil
	}
	return differ(path, "want %s, got %s", want, shown(got))
}

// same reports whether two values are equal as JSON, in which 1 and 1.0 are.
func same(a, b any) bool {
	return bytes.Equal(strictjson.AppendCanonical(nil, quote(a)), strictjson.AppendCanonical(nil, quote(b)))
}

// shown formats a value for a message.
func shown(value any) string { return cut(string(quote(value)), 200) }

// maxQuoted bounds a text of the transcript within an error.
const maxQuoted = 60

// cut shortens a text for a message.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return excerpt.Of(text, most) + fmt.Sprintf("… (%d bytes)", len(text))
}
