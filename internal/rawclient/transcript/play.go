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
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// pollPause is the time between two attempts of a request with a "within".
const pollPause = 50 * time.Millisecond

var httpClient = rawclient.Direct(0) // each step has a limit of its own

// Play plays the parts one after the other. It stops at the first mismatch and returns it as a [*Failure]. Any other
// error says what is wrong with p, or that ctx is done.
func (t *Transcript) Play(ctx context.Context, p Player) error {
	for _, s := range t.Servers {
		if p.URLs[s.Name] == "" {
			return fmt.Errorf("there is no URL for the server %s", s.Name)
		}
	}
	p.stepTime = cmp.Or(p.stepTime, 30*time.Second)
	for _, part := range t.Parts {
		if p.Second == nil && slices.ContainsFunc(part.steps, func(s *step) bool { return s.as == "second" }) {
			return fmt.Errorf("the part %q needs the headers of a second identity", part.Title)
		}
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
			if len(c.streams) == 0 {
				err = &Failure{Reason: "no stream is open"}
			} else {
				c.pop()
			}
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
		if c.Report != nil {
			c.Report(done)
		}
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

// pop closes the newest stream.
func (c *conversation) pop() {
	last := len(c.streams) - 1
	c.streams[last].drop()
	c.streams = c.streams[:last]
}

// request sends a request as often as its step says.
func (c *conversation) request(ctx context.Context, s *step, done *Step) error {
	for n := range s.times {
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
	body := s.body
	if !s.raw && body != nil {
		var err error
		if body, err = c.known.fill(s.body); err != nil {
			return &Failure{Reason: err.Error()}
		}
		// Values may have made it large, and {{meta}} may repeat a member.
		if err := strictjson.Check(body, maxDepth); err != nil {
			return &Failure{Reason: fmt.Sprintf("what would be sent: %v", err)}
		}
	}
	done.Title = title(s, body)
	if s.times > 1 {
		done.Title += fmt.Sprintf(" (%d times)", s.times)
	}
	done.Messages = []Message{{"--> " + s.server, pretty(body)}} // without the ones of an earlier time
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
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failure := &Failure{Line: e.line, Reason: err.Error(), Sent: cut(pretty(body), maxShown), Want: e.text}
			if got != nil {
				failure.Got = cut(strings.TrimRight(got.head()+"\n"+pretty(got.body), "\n"), maxShown)
			}
			return failure
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
	stream *stream // body is its first message; nil if the response is not a stream
}

func (r *reply) head() string {
	if r.status == 0 {
		return "event"
	}
	return strconv.Itoa(r.status)
}

// answer sends the request until the response matches.
func (c *conversation) answer(ctx context.Context, s *step, body []byte, e *expectation) (*reply, error) {
	deadline := time.Now().Add(e.within)
	for {
		got, err := c.post(ctx, s, body)
		if err == nil {
			err = c.compare(e, got)
		}
		if got != nil && got.stream != nil {
			if err != nil {
				got.stream.drop()
			} else {
				c.streams = append(c.streams, got.stream)
			}
		}
		if err == nil {
			return got, nil
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
			hint = "; is the path of the URL right? The path of askback serve is /mcp"
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

// post sends a request once. If the response is a stream, the reply has its first message.
func (c *conversation) post(ctx context.Context, s *step, body []byte) (got *reply, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		if got == nil || got.stream == nil {
			cancel(nil)
		}
	}()
	late := time.AfterFunc(c.stepTime, func() { cancel(errLate(c.stepTime)) })
	defer late.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URLs[s.server], bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the URL of the server %s is not valid", s.server)
	}
	if c.part.Query != "" {
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+c.part.Query, "&")
	}
	identity := c.First
	if s.as == "second" {
		identity = c.Second
	}
	maps.Copy(r.Header, identity)
	if err := c.setHeader(r.Header, s, body); err != nil {
		return nil, err
	}
	r.Host = r.Header.Get("Host") // which Go sends in place of a header; empty is the host of the URL
	res, err := httpClient.Do(r)
	if err != nil {
		return nil, because(ctx, s.server, err)
	}
	in := &stream{rawclient.NewStream(res, maxMessage), ctx, cancel, s.server, c.stepTime}
	got = &reply{status: res.StatusCode, header: res.Header}
	got.body, err = in.next()
	if !in.Events {
		defer in.Close()
		if err == io.EOF { // it has no body
			err = nil
		}
		return got, err
	}
	got.stream = in
	if err == io.EOF {
		err = errors.New("the stream ended before its first message")
	}
	return got, err
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

// setHeader sets the headers of a request: first the headers of every request, then the headers that the ratified
// revision requires, and then the headers of the step. An empty value in the step removes a header.
func (c *conversation) setHeader(to http.Header, s *step, body []byte) error {
	to.Set("Content-Type", "application/json")
	to.Set("Accept", "application/json, text/event-stream")
	if !s.raw {
		params := strictjson.Get(body, "params")
		if version, ok := strictjson.String(strictjson.Get(strictjson.Get(params, "_meta"), mcp.MetaKeyProtocolVersion)); ok {
			method, _ := strictjson.String(strictjson.Get(body, "method"))
			to.Set(wire.HeaderVersion, wire.EncodeHeader(version))
			to.Set(wire.HeaderMethod, wire.EncodeHeader(method))
			target := wire.TargetMember(method)
			if wire.IsTask(method) {
				target = "taskId"
			}
			if name, ok := strictjson.String(strictjson.Get(params, target)); ok {
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

// title describes in a few words what a step sends.
func title(s *step, body []byte) string {
	if s.raw {
		return "raw bytes"
	}
	method, ok := strictjson.String(strictjson.Get(body, "method"))
	if !ok {
		return "a response"
	}
	if name, ok := strictjson.String(strictjson.Get(strictjson.Get(body, "params"), "name")); ok {
		method += " " + name
	}
	return cut(method, 80)
}

// next returns the next message of the newest stream. It closes a stream that has ended, and returns io.EOF.
func (c *conversation) next(want string) ([]byte, error) {
	if len(c.streams) == 0 {
		return nil, fmt.Errorf("want %s, but no stream is open any more", want)
	}
	data, err := c.streams[len(c.streams)-1].next()
	if err == io.EOF {
		c.pop()
	}
	return data, err
}

// event compares the next message of the newest stream that has not ended.
func (c *conversation) event(e *expectation) (*reply, error) {
	data, err := c.next("an event")
	for err == io.EOF {
		data, err = c.next("an event")
	}
	if err != nil {
		return nil, err
	}
	got := &reply{body: data}
	return got, c.compare(e, got)
}

// end waits for the newest stream to end.
func (c *conversation) end() error {
	data, err := c.next("the end of a stream")
	switch err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("want the end of the stream, got %s", cut(string(data), 200))
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

// stream is a response, which may have several messages.
type stream struct {
	*rawclient.Stream
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	server string
	time   time.Duration // for each message
}

func (s *stream) drop() {
	s.cancel(errors.New("the stream was dropped"))
	_ = s.Close() // nobody reads on
}

// next returns the next message, or io.EOF.
func (s *stream) next() ([]byte, error) {
	late := time.AfterFunc(s.time, func() { s.cancel(errLate(s.time)) })
	defer late.Stop()
	data, err := s.NextBytes()
	if _, tooLarge := errors.AsType[*rawclient.TooLargeError](err); err == nil || err == io.EOF || tooLarge {
		return data, err
	}
	return nil, because(s.ctx, s.server, err)
}
