package transcript

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

const (
	stepTime  = 30 * time.Second
	pollPause = 50 * time.Millisecond
)

// Play plays the parts one after the other. It stops at the first mismatch and returns it as a [*Failure]. Any other
// error says what is wrong with p, or that ctx is done.
func (t *Transcript) Play(ctx context.Context, p Player) error {
	for _, s := range t.Servers {
		if p.URLs[s.Name] == "" {
			return fmt.Errorf("there is no URL for the server %s", s.Name)
		}
	}
	if p.Client == nil {
		p.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if p.StepTime == 0 {
		p.StepTime = stepTime
	}
	if p.Report == nil {
		p.Report = func(Step) {}
	}
	played := false
	for _, part := range t.Parts {
		if p.Part != "" && p.Part != part.Title {
			continue
		}
		played = true
		c := &conversation{Player: p, transcript: t, part: part, known: make(variables)}
		if err := c.play(ctx); err != nil {
			return err
		}
	}
	if !played {
		return fmt.Errorf("there is no part %q", p.Part)
	}
	return nil
}

// conversation is a part that is being played.
type conversation struct {
	Player
	transcript *Transcript
	part       *Part
	known      variables
	streams    []*stream // those open, the newest last
}

func (c *conversation) play(ctx context.Context) error {
	defer func() {
		for len(c.streams) > 0 {
			c.pop()
		}
	}()
	for i, s := range c.part.steps {
		done := Step{Part: c.part, Number: i + 1, Server: s.server}
		var err error
		switch s.kind {
		case pause:
			done.Title = fmt.Sprintf("wait %v", s.wait)
			err = sleep(ctx, s.wait)
		case drop:
			done.Title = "drop the stream"
			err = c.drop()
		default:
			err = c.request(ctx, s, &done)
		}
		if failure, ok := err.(*Failure); ok {
			failure.File = c.transcript.Name
			failure.Line = cmp.Or(failure.Line, s.line)
			failure.Step = done
			failure.Messages = nil
		}
		if err != nil {
			return err
		}
		c.Report(done)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *conversation) drop() error {
	if len(c.streams) == 0 {
		return &Failure{Reason: "no stream is open"}
	}
	c.pop()
	return nil
}

// pop closes the newest stream.
func (c *conversation) pop() {
	last := len(c.streams) - 1
	c.streams[last].close()
	c.streams = c.streams[:last]
}

// request sends a request as often as its step says.
func (c *conversation) request(ctx context.Context, s *step, done *Step) error {
	for n := range s.times {
		done.Messages = nil // those of the last time are enough
		err := c.once(ctx, s, done)
		if failure, ok := err.(*Failure); ok && s.times > 1 {
			failure.Reason += fmt.Sprintf(" (when it was sent the %d. time of %d)", n+1, s.times)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// once sends one request, repeatedly if its expectation has a "within", and compares everything expected of it.
func (c *conversation) once(ctx context.Context, s *step, done *Step) error {
	failure := new(Failure)
	fail := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failure.Reason = err.Error()
		return failure
	}
	body := s.body
	if !s.raw {
		var err error
		if body, err = c.known.fill(s.body); err != nil {
			return fail(err)
		}
		if body != nil {
			// Fillers may have made it large, never deep or ambiguous.
			if err := strictjson.Check(body, maxDepth); err != nil {
				return fail(fmt.Errorf("what would be sent: %w", err))
			}
		}
	}
	done.Title = title(s, body)
	if s.times > 1 {
		done.Title += fmt.Sprintf(" (%d times)", s.times)
	}
	done.Messages = append(done.Messages, Message{"--> " + s.server, pretty(body)})
	failure.Sent = cut(pretty(body), maxShown)

	for _, e := range s.expect {
		var err error
		var got *reply
		switch e.kind {
		case response:
			got, err = c.answer(ctx, s, body, e)
		case event:
			got, err = c.event(e)
		default:
			err = c.end()
		}
		if err != nil {
			failure.Line, failure.Want = e.line, e.text
			if got != nil {
				failure.Got = cut(got.text(), maxShown)
			}
			return fail(err)
		}
		if got != nil {
			done.Messages = append(done.Messages, Message{"<-- " + got.head(), pretty(got.body)})
		}
	}
	return nil
}

// reply is a received message.
type reply struct {
	status int // 0 is an event
	header http.Header
	body   []byte
}

func (r *reply) head() string {
	if r.status == 0 {
		return "event"
	}
	return fmt.Sprint(r.status)
}

func (r *reply) text() string { return strings.TrimRight(r.head()+"\n"+pretty(r.body), "\n") }

// answer sends the request until the response matches.
func (c *conversation) answer(ctx context.Context, s *step, body []byte, e *expectation) (*reply, error) {
	deadline := time.Now().Add(e.within)
	for {
		got, opened, err := c.post(ctx, s, body)
		if err == nil {
			if err = c.compare(e, got); err == nil {
				if opened != nil {
					c.streams = append(c.streams, opened)
				}
				return got, nil
			}
			if opened != nil {
				opened.close()
			}
		}
		if time.Until(deadline) <= 0 {
			if e.within > 0 {
				err = fmt.Errorf("%w (and so for %v)", err, e.within)
			}
			return got, err
		}
		if err := sleep(ctx, pollPause); err != nil {
			return nil, err
		}
	}
}

// compare compares a reply with its expectation. If they match, it keeps the values that the text captures.
func (c *conversation) compare(e *expectation, got *reply) error {
	if e.kind == response && e.status != got.status {
		hint := ""
		if got.status == http.StatusNotFound && strictjson.Check(got.body, maxDepth) != nil { // nobody there speaks JSON-RPC
			hint = "; is the path of the URL right? That of askback serve is /mcp"
		}
		return fmt.Errorf("want status %d, got %d%s", e.status, got.status, hint)
	}
	known := maps.Clone(c.known)
	for _, h := range e.header {
		path := "the header " + h.name
		values := got.header[textproto.CanonicalMIMEHeaderKey(h.name)]
		if len(values) != 1 {
			return fmt.Errorf("%s: want it once, got it %d times", path, len(values))
		}
		if err := known.matchText(path, h.value, values[0]); err != nil {
			return err
		}
	}
	switch {
	case e.empty && len(got.body) > 0:
		return errors.New("want no body, got one")
	case !e.empty && len(got.body) == 0:
		return errors.New("want a body, got none")
	case !e.empty:
		if err := strictjson.Check(got.body, maxDepth); err != nil {
			return err
		}
		if err := known.match("", e.body, decode(got.body)); err != nil {
			return err
		}
	}
	c.known = known
	return nil
}

// post sends a request once. If the answer is a stream, the reply is its first message, and the stream is open.
func (c *conversation) post(ctx context.Context, s *step, body []byte) (*reply, *stream, error) {
	address, err := url.Parse(c.URLs[s.server])
	if err != nil {
		return nil, nil, fmt.Errorf("the URL of the server %s is not valid", s.server)
	}
	if c.part.Query != "" {
		if address.RawQuery != "" {
			address.RawQuery += "&"
		}
		address.RawQuery += c.part.Query
	}
	ctx, cancel := context.WithCancelCause(ctx)
	open := false
	defer func() {
		if !open {
			cancel(nil)
		}
	}()
	late := time.AfterFunc(c.StepTime, func() { cancel(errLate(c.StepTime)) })
	defer late.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("the URL of the server %s is not valid", s.server)
	}
	if err := c.setHeader(r.Header, s, body); err != nil {
		return nil, nil, err
	}
	res, err := c.Client.Do(r)
	if err != nil {
		return nil, nil, because(ctx, s.server, err)
	}
	got := &reply{status: res.StatusCode, header: res.Header}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/event-stream" {
		opened := newStream(ctx, cancel, res.Body, s.server, c.StepTime)
		if got.body, err = opened.next(); err == io.EOF {
			err = errors.New("the stream ended before its first message")
		}
		if err != nil {
			opened.close()
			return got, nil, err
		}
		open = true
		return got, opened, nil
	}
	defer res.Body.Close()
	if got.body, err = io.ReadAll(io.LimitReader(res.Body, maxMessage+1)); err != nil {
		return got, nil, because(ctx, s.server, err)
	}
	if len(got.body) > maxMessage {
		return got, nil, fmt.Errorf("the response is longer than %d bytes", maxMessage)
	}
	return got, nil, nil
}

func errLate(after time.Duration) error { return fmt.Errorf("nothing came for %v", after) }

// because explains a network error, without the URL, which may contain a password.
func because(ctx context.Context, server string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	hint := ""
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = "; does it run?"
	}
	return fmt.Errorf("speaking to the server %s: %w%s", server, err, hint)
}

// setHeader sets the headers of a request: those of every request, those that the ratified revision requires, and those
// of the step itself. An empty value in the step removes a header.
func (c *conversation) setHeader(to http.Header, s *step, body []byte) error {
	to.Set("Content-Type", "application/json")
	to.Set("Accept", "application/json, text/event-stream")
	if !s.raw {
		params := get(body, "params")
		if version, ok := strictjson.String(get(get(params, "_meta"), mcp.MetaKeyProtocolVersion)); ok {
			method, _ := strictjson.String(get(body, "method"))
			to.Set(wire.HeaderVersion, wire.EncodeHeader(version))
			to.Set(wire.HeaderMethod, wire.EncodeHeader(method))
			if name, ok := strictjson.String(get(params, nameOf(method))); ok {
				to.Set(wire.HeaderName, wire.EncodeHeader(name))
			}
		}
	}
	for _, h := range s.header {
		value, err := c.known.fillText(h.value)
		if err != nil {
			return err
		}
		if to.Set(h.name, value); value == "" {
			to.Del(h.name)
		}
	}
	return nil
}

// nameOf is the parameter that Mcp-Name repeats.
func nameOf(method string) string {
	switch {
	case method == "resources/read":
		return "uri"
	case wire.IsTask(method):
		return "taskId"
	}
	return "name"
}

// get returns a member of value, or nil if there is none or value is not an object.
func get(value []byte, name string) []byte {
	if len(value) == 0 || strictjson.TypeOf(value) != strictjson.TypeObject {
		return nil
	}
	return strictjson.Get(value, name)
}

// title describes in a few words what a step sends.
func title(s *step, body []byte) string {
	if s.raw {
		return "raw bytes"
	}
	method, ok := strictjson.String(get(body, "method"))
	if !ok {
		return "a response"
	}
	if name, ok := strictjson.String(get(get(body, "params"), "name")); ok {
		method += " " + name
	}
	return cut(method, 80)
}

// event compares the next message of the newest stream that has not ended.
func (c *conversation) event(e *expectation) (*reply, error) {
	for len(c.streams) > 0 {
		data, err := c.streams[len(c.streams)-1].next()
		if err == io.EOF {
			c.pop()
			continue
		}
		if err != nil {
			return nil, err
		}
		got := &reply{body: data}
		return got, c.compare(e, got)
	}
	return nil, errors.New("want an event, but no stream is open any more")
}

// end waits for the newest stream to end.
func (c *conversation) end() error {
	if len(c.streams) == 0 {
		return errors.New("want the end of a stream, but none is open")
	}
	data, err := c.streams[len(c.streams)-1].next()
	if err == io.EOF {
		c.pop()
		return nil
	}
	if err == nil {
		err = fmt.Errorf("want the end of the stream, got %s", cut(string(data), 200))
	}
	return err
}

// maxShown bounds a message within an error.
const maxShown = 8 << 10

// pretty indents JSON, and returns anything else as it is.
func pretty(text []byte) string {
	var b bytes.Buffer
	if len(text) > 1<<20 || strictjson.Check(text, maxDepth) != nil || json.Indent(&b, text, "", "  ") != nil {
		return cut(string(text), maxShown)
	}
	return b.String()
}

func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %s", f.File, f.Line, f.Reason)
	for _, section := range []struct{ name, text string }{{"sent", f.Sent}, {"expected", f.Want}, {"got", f.Got}} {
		if section.text != "" {
			fmt.Fprintf(&b, "\n\n%s:\n%s", section.name, section.text)
		}
	}
	return b.String()
}
