package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
)

// asker answers what a server asks: with the answers that were given, with the sampler, or by asking the person at the
// terminal. Where none of them has an answer, the call is parked or fails.
type asker struct {
	given   *answers
	sampler []string
	park    bool
	person  person // nil without a terminal
	console *console
	trace   *trace

	target  target
	called  string                  // the tool, prompt or resource
	ready   chan struct{}           // closed when it is known how the server asks
	session string                  // the revision, if questions come inside a session
	fail    context.CancelCauseFunc // ends the call

	turns []*turn // of the round

	result json.RawMessage // the final one, as it came
}

// person is asked at a terminal.
type person interface {
	Form(ctx context.Context, server, message string, schema json.RawMessage) (*mcp.ElicitResult, error)
	URL(ctx context.Context, server, message, url string, open func(url string) error) (*mcp.ElicitResult, error)
	Sample(ctx context.Context, server string, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
}

// turn lets questions of one round, which are answered concurrently, reach the person in the server's order.
type turn struct {
	key        string
	once       sync.Once
	here, done chan struct{} // closed when the question reaches the person's queue, and when it leaves it
}

// patience is how long a question waits for those before it to come. Package client hands on all questions of a round
// at once, but one may end before it comes here.
const patience = 250 * time.Millisecond

const sampling, elicitation = "sampling/createMessage", "elicitation/create"

// begin prepares for the questions of a round. The error is a *missingError if they cannot all be answered.
func (a *asker) begin(questions []*client.Question) error {
	if len(questions) == 0 {
		return nil // a session may still be asking
	}
	a.turns = nil
	missing := &missingError{target: a.called}
	for _, q := range questions {
		if a.given.has(q.Key) || q.Method != elicitation && (q.Method != sampling || a.sampler != nil) {
			continue
		}
		if a.person == nil {
			missing.questions = append(missing.questions, q)
		}
		a.turns = append(a.turns, &turn{key: q.Key, here: make(chan struct{}), done: make(chan struct{})})
	}
	if len(missing.questions) > 0 && !a.park {
		return missing
	}
	return nil
}

// options are those of the client that a answers for.
func (a *asker) options(roots []*mcp.Root) *client.Options {
	opts := &client.Options{Form: a.form, URL: a.page, Sample: a.sample, SampleTools: a.sampler != nil}
	if roots != nil {
		opts.Roots = func(context.Context) ([]*mcp.Root, error) {
			a.trace.answered("roots", "", "--root")
			return roots, nil
		}
	}
	opts.Observe = func(_ context.Context, r *client.Round) error {
		a.trace.round(r)
		a.result = r.Result
		return a.begin(r.Questions)
	}
	return opts
}

// connected is told which revision the server speaks.
func (a *asker) connected(revision string) {
	if revision < "2026-07-28" {
		a.session = revision
	}
	close(a.ready)
}

// asks begins with a question.
func (a *asker) asks(ctx context.Context, q *client.Question) error {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.trace.inSession(a.session, q)
	return nil
}

func (a *asker) form(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	return a.elicit(ctx, q, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return a.person.Form(ctx, a.server(q), q.Message, q.Schema)
	})
}

func (a *asker) page(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	return a.elicit(ctx, q, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return a.person.URL(ctx, a.server(q), q.Message, q.URL, openPage)
	})
}

func (a *asker) elicit(ctx context.Context, q *client.Question, ask func(context.Context) (*mcp.ElicitResult, error)) (*mcp.ElicitResult, error) {
	if err := a.asks(ctx, q); err != nil {
		return nil, err
	}
	from := "the terminal"
	res, err := (*mcp.ElicitResult)(nil), error(nil)
	if given, ok := a.given.take(q.Key); ok {
		from = given.from
		if res, err = given.elicit(q); err != nil {
			return nil, a.end(err)
		}
		if q.URL != "" && res.Action == "accept" {
			a.console.line("askback: the server asks to open this page, which was not done here: %s", harmlessLine(q.URL, 2000))
		}
	} else if res, err = asked(ctx, a, q, ask); err != nil {
		return nil, err
	}
	a.trace.answered(q.Key, res.Action, from)
	return res, nil
}

func (a *asker) sample(ctx context.Context, q *client.Question, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	if err := a.asks(ctx, q); err != nil {
		return nil, err
	}
	from := "the terminal"
	res, err := (*mcp.CreateMessageWithToolsResult)(nil), error(nil)
	if given, ok := a.given.take(q.Key); ok {
		from = given.from
		if res, err = given.sample(q); err != nil {
			return nil, a.end(err)
		}
	} else if a.sampler != nil {
		from = "--sampler"
		if res, err = a.runSampler(ctx, q); err != nil {
			return nil, a.end(err)
		}
	} else {
		res, err = asked(ctx, a, q, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
			return a.person.Sample(ctx, a.server(q), params)
		})
		if errors.Is(err, terminal.ErrDeclined) || errors.Is(err, terminal.ErrCanceled) {
			return nil, a.end(fmt.Errorf("%s asked for the text of a model (%q), and %w", a.called, q.Key, err))
		}
		if err != nil {
			return nil, err
		}
	}
	a.trace.answered(q.Key, "", from)
	return res, nil
}

// asked puts a question to the person when it is its turn.
func asked[R any](ctx context.Context, a *asker, q *client.Question, ask func(context.Context) (R, error)) (R, error) {
	var none R
	switch {
	case a.park && a.session == "":
		return none, client.ErrPark
	case a.park || a.person == nil:
		return none, a.end(&missingError{a.called, []*client.Question{q}, a.session})
	}
	leave, err := a.queue(ctx, q.Key)
	if err != nil {
		return none, err
	}
	defer leave()
	defer a.console.ask()()
	res, err := ask(ctx)
	if errors.Is(err, terminal.ErrInterrupted) {
		a.fail(err)
	}
	if err != nil && a.session != "" {
		return none, a.end(err)
	}
	return res, err
}

// queue waits until the questions of the round that stand before this one are answered. It must be left.
func (a *asker) queue(ctx context.Context, key string) (leave func(), err error) {
	at := slices.IndexFunc(a.turns, func(t *turn) bool { return t.key == key })
	first := false
	if at >= 0 {
		a.turns[at].once.Do(func() { first = true })
	}
	if !first { // a question of a session
		return func() {}, nil
	}
	own := a.turns[at]
	close(own.here)
	late := time.NewTimer(patience)
	defer late.Stop()
	impatient := false
	for _, before := range a.turns[:at] {
		if !impatient {
			select {
			case <-before.here:
			case <-late.C:
				impatient = true
			case <-ctx.Done():
			}
		}
		select {
		case <-before.here:
			select {
			case <-before.done:
			case <-ctx.Done():
			}
		default: // it does not come
		}
		if ctx.Err() != nil {
			close(own.done)
			return nil, context.Cause(ctx)
		}
	}
	return func() { close(own.done) }, nil
}

// end makes the call end with this error. Inside a session it would otherwise only be the server's to know.
func (a *asker) end(err error) error {
	if a.session != "" {
		a.fail(err)
	}
	return err
}

// server says who asks: the name that the server gives itself, and where it is.
func (a *asker) server(q *client.Question) string {
	if q.Server == nil || q.Server.Name == "" {
		return a.target.where()
	}
	return fmt.Sprintf("%s (%s)", harmlessLine(q.Server.Name, 40), a.target.where())
}

const maxSample = 4 << 20 // bytes

// runSampler has a program complete a message: it reads the parameters of the request and prints a text or a result.
func (a *asker) runSampler(ctx context.Context, q *client.Question) (*mcp.CreateMessageWithToolsResult, error) {
	cmd := exec.CommandContext(ctx, a.sampler[0], a.sampler[1:]...)
	cmd.Stdin = bytes.NewReader(q.Params)
	complaints := &lineWriter{each: func(line string) { a.console.line("%s", line) }}
	cmd.Stderr = complaints
	cmd.WaitDelay = time.Second
	out := &limitedBuffer{most: maxSample}
	cmd.Stdout = out
	err := cmd.Run()
	complaints.flush()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.full:
		return nil, fmt.Errorf("the sampler %s printed more than %d bytes", a.sampler[0], maxSample)
	case err != nil:
		return nil, fmt.Errorf("the sampler %s failed for %q: %w", a.sampler[0], q.Key, err)
	}
	res, err := parseSample(strings.TrimRight(out.String(), "\r\n"), filepath.Base(a.sampler[0]))
	if err != nil {
		return nil, fmt.Errorf("the sampler %s, for %q: %w", a.sampler[0], q.Key, err)
	}
	return res, nil
}

// limitedBuffer fails when it would hold more than most bytes.
type limitedBuffer struct {
	bytes.Buffer
	most int
	full bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}

// openPage opens a page in the user's browser.
func openPage(address string) error {
	page, err := url.Parse(address)
	if err != nil || page.Scheme != "https" && page.Scheme != "http" || page.Host == "" {
		return errors.New("only pages at http:// and https:// are opened")
	}
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.Command(command[0], slices.Concat(command[1:], []string{page.String()})...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening the page: %w", err)
	}
	return cmd.Process.Release() // it may run for as long as the browser does
}

// parseRoots makes roots of paths and file URIs; nil for none.
func parseRoots(flags []string) ([]*mcp.Root, error) {
	var roots []*mcp.Root
	for _, flag := range flags {
		if scheme, _, ok := strings.Cut(flag, "://"); ok {
			if scheme != "file" {
				return nil, usagef("--root %s: want a path, or a URI that begins with file://", flag)
			}
			roots = append(roots, &mcp.Root{URI: flag})
			continue
		}
		path, err := filepath.Abs(flag)
		if err != nil {
			return nil, usagef("--root %s: %w", flag, err)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, usagef("--root %s does not exist", flag)
		}
		slashed := filepath.ToSlash(path)
		if !strings.HasPrefix(slashed, "/") {
			slashed = "/" + slashed // C:/…
		}
		roots = append(roots, &mcp.Root{URI: (&url.URL{Scheme: "file", Path: slashed}).String(), Name: filepath.Base(path)})
	}
	return roots, nil
}
