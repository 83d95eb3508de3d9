package transcript

import (
	"bytes"
	"encoding/hex"
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
	p := &parser{
		Transcript: &Transcript{Name: name},
		lines:      strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"),
	}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.at, err)
	}
	return p.Transcript, nil
}

type parser struct {
	*Transcript
	lines []string
	next  int   // index of the next line
	at    int   // number of the line that an error is about
	part  *Part // the one that is being read; nil in the header
	last  *step // of part

	known    map[string]bool // names that stood in a response of the part
	captured []string        // names in the response that is being read
}

// mark returns the beginning of a line that structures a transcript, and "" for any other line.
func mark(line string) string {
	for _, m := range []string{"-->", "<--", "---", "=="} {
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

func (p *parser) parse() error {
	for line, ok := p.take(); ok; line, ok = p.take() {
		var err error
		switch mark(line) {
		case "==":
			err = p.beginPart(line)
		case "-->", "---":
			err = p.step(line)
		case "<--":
			err = p.expectation(line)
		default:
			err = p.setting(line)
		}
		if err != nil {
			return err
		}
	}
	if p.Title == "" {
		return errors.New("the header has no Title")
	}
	if p.part == nil {
		return errors.New("there is no part: begin one with == and its title")
	}
	return p.finish()
}

// finish verifies that the last step is complete, and that the part has one.
func (p *parser) finish() error {
	switch {
	case p.part == nil:
		return nil
	case p.last == nil:
		return fmt.Errorf("the part %q has no steps", p.part.Title)
	case p.last.kind == request && len(p.last.expect) == 0:
		p.at = p.last.line
		return errors.New("nothing is expected of this request: write <-- and a status below it")
	}
	return nil
}

var serverName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// setting reads a line of the header, or one at the beginning of a part.
func (p *parser) setting(line string) error {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if p.part != nil {
		if name != "Query" || p.last != nil || p.part.Query != "" {
			return fmt.Errorf("unexpected %q: a step begins with -->, what is expected with <--", cut(line, maxQuoted))
		}
		p.part.Query = value
		return nil
	}
	if name == "Server" {
		words := strings.Fields(value)
		if len(words) == 0 || !serverName.MatchString(words[0]) || words[0] == "raw" || words[0] == "hex" {
			return errors.New("a server has a name of letters and digits, and then its arguments: Server: A --ttl 1s")
		}
		if p.serves(words[0]) {
			return fmt.Errorf("there are two servers %s", words[0])
		}
		p.Servers = append(p.Servers, Server{words[0], words[1:]})
		return nil
	}
	to := map[string]*string{"Title": &p.Title, "Document": &p.Document, "Section": &p.Section}[name]
	if to == nil {
		return fmt.Errorf("unexpected %q: the header has Title, Document, Section and Server, a part begins with ==",
			cut(line, maxQuoted))
	}
	if *to != "" || value == "" {
		return fmt.Errorf("%s must be there once, and not be empty", name)
	}
	*to = value
	return nil
}

func (p *parser) serves(name string) bool {
	return slices.ContainsFunc(p.Servers, func(s Server) bool { return s.Name == name })
}

func (p *parser) beginPart(line string) error {
	if len(p.Servers) == 0 {
		return errors.New("the header names no server: write Server: A, and its arguments")
	}
	title := strings.TrimSpace(strings.TrimPrefix(line, "=="))
	if title == "" {
		return errors.New("a part has a title: == Ratified: …")
	}
	if slices.ContainsFunc(p.Parts, func(other *Part) bool { return other.Title == title }) {
		return fmt.Errorf("there are two parts %q", title)
	}
	if err := p.finish(); err != nil {
		return err
	}
	p.known = make(map[string]bool)
	p.part, p.last = &Part{Title: title}, nil
	p.Parts = append(p.Parts, p.part)
	return nil
}

// step reads a request, or a step that sends nothing.
func (p *parser) step(line string) (err error) {
	if p.part == nil {
		return errors.New("a step comes before the first part: begin one with == and its title")
	}
	if p.last != nil {
		if err := p.finish(); err != nil {
			return err
		}
	}
	s := &step{line: p.at}
	words := strings.Fields(line[3:])
	switch {
	case mark(line) == "-->":
		err = p.request(s, line, words)
	case len(words) == 1 && words[0] == "drop":
		s.kind = drop
	case len(words) == 2 && words[0] == "wait":
		s.kind = pause
		s.wait, err = duration(words[1])
	default:
		err = fmt.Errorf("unexpected %q: there are --- wait 2s and --- drop", cut(line, maxQuoted))
	}
	p.last = s
	p.part.steps = append(p.part.steps, s)
	return err
}

func (p *parser) request(s *step, line string, words []string) (err error) {
	digits := false
	if n := len(words); n > 0 && (words[n-1] == "raw" || words[n-1] == "hex") {
		s.raw, digits, words = true, words[n-1] == "hex", words[:n-1]
	}
	s.times = 1
	if n := len(words); n > 1 && words[n-1] == "times" {
		if s.times, err = strconv.Atoi(words[n-2]); err != nil || s.times < 1 || s.times > maxTimes {
			return fmt.Errorf("unexpected %q: a request is sent 1 to %d times", cut(line, maxQuoted), maxTimes)
		}
		words = words[:n-2]
	}
	switch {
	case len(words) == 0 && len(p.Servers) == 1:
		s.server = p.Servers[0].Name
	case len(words) == 1 && p.serves(words[0]):
		s.server = words[0]
	default:
		return fmt.Errorf("unexpected %q: want --> and the name of a server in the header", cut(line, maxQuoted))
	}
	for _, h := range p.header() {
		if h.name == "As" {
			if s.as = h.value; s.as != "second" {
				return fmt.Errorf("the identity %q is not known: want As: second", cut(h.value, maxQuoted))
			}
			continue
		}
		if err := p.checkRequest(h.value); err != nil {
			return err
		}
		s.header = append(s.header, h)
	}
	text, first := p.body(s.raw)
	switch {
	case text == "":
	case digits:
		if s.body, err = hex.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			err = fmt.Errorf("the bytes are not hexadecimal digits: %w", err)
		}
	case s.raw:
		s.body = []byte(text)
	default:
		s.body, err = p.json(text, first, true)
	}
	return err
}

func (p *parser) expectation(line string) error {
	s := p.last
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
			return fmt.Errorf("unexpected %q: want an HTTP status, event or end", cut(line, maxQuoted))
		}
		if len(words) == 3 {
			if e.within, err = duration(words[2]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("unexpected %q: want such as <-- 200, <-- 200 within 10s, <-- event or <-- end",
			cut(line, maxQuoted))
	}
	if (e.kind == response) != (len(s.expect) == 0) {
		return errors.New("a request is answered by one status; what comes after it are events")
	}
	p.captured = nil
	e.header = p.header()
	for _, h := range e.header {
		if ph, _ := whole(h.value); ph.kind == "number" {
			return errors.New("a header is never a number")
		}
		if err := p.checkExpected(h.value); err != nil {
			return err
		}
	}
	text, first := p.body(false)
	e.text, e.empty = text, text == ""
	switch {
	case len(e.header) > 0 && e.kind != response:
		return errors.New("only a response has headers")
	case e.empty && e.kind == event:
		return errors.New("an event has a body")
	case !e.empty && e.kind == end:
		return errors.New("nothing comes after the end")
	case !e.empty:
		body, err := p.json(text, first, false)
		if err != nil {
			return err
		}
		e.body = decode(body)
	case e.within > 0 && len(p.captured) == 0:
		return errors.New("within needs a body to wait for")
	}
	// Known only from here on, because the text does not say which of two members is compared first.
	for _, name := range p.captured {
		p.known[name] = true
	}
	s.expect = append(s.expect, e)
	return nil
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxTime {
		return 0, fmt.Errorf("the time %q: want such as 500ms or 10s, at most %v", cut(text, maxQuoted), maxTime)
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

// json returns the JSON in text, with its comments blanked and its placeholders checked. First is the number of the
// text's first line.
func (p *parser) json(text string, first int, sent bool) ([]byte, error) {
	body := blankComments(text)
	at, err := 0, strictjson.Check(body, maxDepth)
	if bad, ok := errors.AsType[*strictjson.Error](err); ok {
		at, err = bad.Offset, fmt.Errorf("%w (of the body; a body is JSON, in which // begins a comment)", err)
	} else {
		at, err = p.checkPlaceholders(body, sent)
	}
	if err != nil {
		p.at = first + bytes.Count(body[:min(at, len(body))], []byte("\n"))
	}
	return body, err
}

var stringOrComment = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"?|//.*`)

// blankComments replaces comments by spaces, so that offsets stay the same.
func blankComments(text string) []byte {
	return stringOrComment.ReplaceAllFunc([]byte(text), func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return bytes.Repeat([]byte(" "), len(found))
	})
}

// decode decodes a checked value, and keeps numbers as they are spelled.
func decode(text []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it was checked
	return value
}
