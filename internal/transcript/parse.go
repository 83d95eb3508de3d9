package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// MaxText bounds a transcript, in bytes.
const MaxText = 4 << 20

const (
	maxMessage = 16 << 20 // that is sent or comes
	maxDepth   = 200      // of a message
	maxTime    = time.Minute
	maxTimes   = 1000 // that a step is sent
)

// Parse reads a transcript. Errors begin with name and the number of the line.
func Parse(name string, data []byte) (*Transcript, error) {
	if len(data) > MaxText {
		return nil, fmt.Errorf("%s: a transcript has at most %d bytes: split it", name, MaxText)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s: the text is not UTF-8", name)
	}
	p := &parser{name: name, lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")}
	t, err := p.transcript()
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.at, err)
	}
	return t, nil
}

type parser struct {
	name  string
	lines []string
	next  int // index of the next line
	at    int // number of the line that an error is about
	known map[string]bool
}

// marks begin the lines that structure a transcript.
var marks = []string{"-->", "<--", "---", "=="}

func mark(line string) string {
	for _, m := range marks {
		if strings.HasPrefix(line, m) {
			return m
		}
	}
	return ""
}

// take returns the next line that is neither empty nor a comment.
func (p *parser) take() (line string, ok bool) {
	for p.next < len(p.lines) {
		line = strings.TrimSpace(p.lines[p.next])
		comment := strings.HasPrefix(p.lines[p.next], "#")
		p.next++
		p.at = p.next
		if line != "" && !comment {
			return line, true
		}
	}
	return "", false
}

func (p *parser) transcript() (*Transcript, error) {
	t := &Transcript{Name: p.name}
	for line, ok := p.take(); ok; line, ok = p.take() {
		var err error
		switch mark(line) {
		case "==":
			err = p.part(t, line)
		case "-->", "---":
			err = p.step(t, line)
		case "<--":
			err = p.expectation(t, line)
		default:
			err = p.setting(t, line)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.Title == "" {
		return nil, errors.New("the header has no Title")
	}
	if len(t.Parts) == 0 {
		return nil, errors.New("there is no part: begin one with == and its title")
	}
	return t, p.finish(t)
}

// finish verifies that the last step or part is complete before another begins.
func (p *parser) finish(t *Transcript) error {
	if s := t.last(); s != nil && s.kind == request && len(s.expect) == 0 {
		p.at = s.line
		return errors.New("nothing is expected of this request: write <-- and a status below it")
	}
	if n := len(t.Parts); n > 0 && len(t.Parts[n-1].steps) == 0 {
		return fmt.Errorf("the part %q has no steps", t.Parts[n-1].Title)
	}
	return nil
}

func (t *Transcript) last() *step {
	if n := len(t.Parts); n > 0 {
		if steps := t.Parts[n-1].steps; len(steps) > 0 {
			return steps[len(steps)-1]
		}
	}
	return nil
}

var serverName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// setting reads a line of the header, or one at the beginning of a part.
func (p *parser) setting(t *Transcript, line string) error {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if len(t.Parts) > 0 {
		part := t.Parts[len(t.Parts)-1]
		if name != "Query" || len(part.steps) > 0 || part.Query != "" {
			return fmt.Errorf("unexpected %q: a step begins with -->, what is expected with <--", short(line))
		}
		part.Query = value
		return nil
	}
	var to *string
	switch name {
	case "Title":
		to = &t.Title
	case "Document":
		to = &t.Document
	case "Section":
		to = &t.Section
	case "Server":
		words := strings.Fields(value)
		if len(words) == 0 || !serverName.MatchString(words[0]) || words[0] == "raw" {
			return errors.New("a server has a name of letters and digits, and then its arguments: Server: A --ttl 1s")
		}
		if t.serves(words[0]) {
			return fmt.Errorf("there are two servers %s", words[0])
		}
		t.Servers = append(t.Servers, Server{words[0], words[1:]})
		return nil
	default:
		return fmt.Errorf("unexpected %q: the header has Title, Document, Section and Server, a part begins with ==", short(line))
	}
	if *to != "" || value == "" {
		return fmt.Errorf("%s must be there once, and not be empty", name)
	}
	*to = value
	return nil
}

func (t *Transcript) serves(name string) bool {
	return slices.ContainsFunc(t.Servers, func(s Server) bool { return s.Name == name })
}

func (p *parser) part(t *Transcript, line string) error {
	if len(t.Servers) == 0 {
		return errors.New("the header names no server: write Server: A, and its arguments")
	}
	title := strings.TrimSpace(strings.TrimPrefix(line, "=="))
	if title == "" {
		return errors.New("a part has a title: == Ratified: …")
	}
	if slices.ContainsFunc(t.Parts, func(other *Part) bool { return other.Title == title }) {
		return fmt.Errorf("there are two parts %q", title)
	}
	if err := p.finish(t); err != nil {
		return err
	}
	p.known = make(map[string]bool)
	t.Parts = append(t.Parts, &Part{Title: title})
	return nil
}

// step reads a request, or a step that sends nothing.
func (p *parser) step(t *Transcript, line string) error {
	if len(t.Parts) == 0 {
		return errors.New("a step comes before the first part: begin one with == and its title")
	}
	if t.last() != nil {
		if err := p.finish(t); err != nil {
			return err
		}
	}
	s := &step{line: p.at}
	part := t.Parts[len(t.Parts)-1]
	words := strings.Fields(line[3:])
	if strings.HasPrefix(line, "---") {
		switch {
		case len(words) == 1 && words[0] == "drop":
			s.kind = drop
		case len(words) == 2 && words[0] == "wait":
			s.kind = pause
			var err error
			if s.wait, err = duration(words[1]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unexpected %q: there are --- wait 2s and --- drop", short(line))
		}
		part.steps = append(part.steps, s)
		return nil
	}

	if len(words) > 0 && words[len(words)-1] == "raw" {
		s.raw, words = true, words[:len(words)-1]
	}
	s.times = 1
	if n := len(words); n > 1 && words[n-1] == "times" {
		var err error
		if s.times, err = strconv.Atoi(words[n-2]); err != nil || s.times < 1 || s.times > maxTimes {
			return fmt.Errorf("unexpected %q: a request is sent 1 to %d times", short(line), maxTimes)
		}
		words = words[:n-2]
	}
	switch {
	case len(words) == 0 && len(t.Servers) == 1:
		s.server = t.Servers[0].Name
	case len(words) == 1 && t.serves(words[0]):
		s.server = words[0]
	default:
		return fmt.Errorf("unexpected %q: want --> and the name of a server in the header", short(line))
	}
	s.header = p.header()
	for _, h := range s.header {
		if err := p.checkRequest(h.value); err != nil {
			return err
		}
	}
	text, first := p.body(s.raw)
	if s.body = []byte(text); text == "" {
		s.body = nil
	}
	if !s.raw && s.body != nil {
		var err error
		if s.body, err = p.checked(text, first); err != nil {
			return err
		}
		if at, err := p.checkRequestBody(s.body); err != nil {
			p.at = lineOf(s.body, at, first)
			return err
		}
	}
	part.steps = append(part.steps, s)
	return nil
}

func (p *parser) expectation(t *Transcript, line string) error {
	s := t.last()
	if s == nil || s.kind != request {
		return errors.New("nothing was sent before this: a request begins with -->")
	}
	e := &expectation{line: p.at}
	words := strings.Fields(line[3:])
	switch {
	case len(words) == 1 && words[0] == "event":
		e.kind = event
	case len(words) == 1 && words[0] == "end":
		e.kind = end
	case len(words) == 1 || len(words) == 3 && words[1] == "within":
		var err error
		if e.status, err = strconv.Atoi(words[0]); err != nil || e.status < 100 || e.status > 599 {
			return fmt.Errorf("unexpected %q: want an HTTP status, event or end", short(line))
		}
		if len(words) == 3 {
			if e.within, err = duration(words[2]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("unexpected %q: want such as <-- 200, <-- 200 within 10s, <-- event or <-- end", short(line))
	}
	if (e.kind == response) != (len(s.expect) == 0) {
		return errors.New("a request is answered by one status; what comes after it are events")
	}
	before := p.at
	if e.header = p.header(); len(e.header) > 0 && e.kind != response {
		return errors.New("only a response has headers")
	}
	known := len(p.known)
	var names []string
	for _, h := range e.header {
		found, err := p.checkExpected(h.value, false)
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	text, first := p.body(false)
	e.text = strings.TrimRight(text, "\n")
	if e.empty = strings.TrimSpace(text) == ""; e.empty {
		if e.kind == event {
			p.at = before
			return errors.New("an event has a body")
		}
	} else {
		if e.kind == end {
			return errors.New("nothing comes after the end")
		}
		body, err := p.checked(text, first)
		if err != nil {
			return err
		}
		found, at, err := p.checkExpectedBody(body)
		if err != nil {
			p.at = lineOf(body, at, first)
			return err
		}
		names = append(names, found...)
		e.body = decode(body)
	}
	// Added only now, because the text does not say which of two members is compared first.
	for _, name := range names {
		p.known[name] = true
	}
	if e.within > 0 && len(p.known) == known && e.empty {
		return errors.New("within needs a body to wait for")
	}
	s.expect = append(s.expect, e)
	return nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxTime {
		return 0, fmt.Errorf("the time %q: want such as 500ms or 10s, at most %v", short(text), maxTime)
	}
	return d, nil
}

var headerLine = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(.*)$`)

// header reads the lines right below an arrow that look like headers.
func (p *parser) header() (list []header) {
	for p.next < len(p.lines) {
		match := headerLine.FindStringSubmatch(p.lines[p.next])
		if match == nil {
			break
		}
		p.next++
		p.at = p.next
		list = append(list, header{match[1], strings.TrimSpace(match[2])})
	}
	return list
}

// body reads up to the next mark, and returns the text and the number of its first line.
func (p *parser) body(raw bool) (text string, first int) {
	for p.next < len(p.lines) && strings.TrimSpace(p.lines[p.next]) == "" {
		p.next++
	}
	first = p.next + 1
	var b strings.Builder
	for ; p.next < len(p.lines) && mark(p.lines[p.next]) == ""; p.next++ {
		line := p.lines[p.next]
		if !raw && strings.HasPrefix(line, "#") {
			line = ""
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), " \t\n"), first
}

// checked returns the JSON in text, with its comments blanked. First is the number of the text's first line.
func (p *parser) checked(text string, first int) ([]byte, error) {
	body := blankComments([]byte(text))
	if err := strictjson.Check(body, maxDepth); err != nil {
		p.at = first
		if bad, ok := errors.AsType[*strictjson.Error](err); ok {
			p.at = lineOf(body, bad.Offset, first)
		}
		return nil, fmt.Errorf("%w (of the body; a body is JSON, in which // begins a comment)", err)
	}
	return body, nil
}

// lineOf returns the line of an offset in a body. First is the number of the body's first line.
func lineOf(body []byte, offset, first int) int {
	return first + bytes.Count(body[:min(offset, len(body))], []byte("\n"))
}

// blankComments replaces comments by spaces, so that offsets stay the same.
func blankComments(text []byte) []byte {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case c == '\n':
			inString = false // a string ends within its line
		case !inString && c == '/' && i+1 < len(text) && text[i+1] == '/':
			for ; i < len(text) && text[i] != '\n'; i++ {
				text[i] = ' '
			}
		}
	}
	return text
}

// decode decodes a checked value, and keeps numbers as they are spelled.
func decode(text []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it was checked
	return value
}

// short shortens a text of the transcript for a message.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}
