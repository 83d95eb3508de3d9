package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/input"
)

// asker answers a server's questions: from the flags, with the sampler, or by asking the person at the terminal. A
// question that none of them answers parks the call, or makes it fail.
type asker struct {
	given   *answers
	sampler sampler
	park    bool
	person  person // nil without a terminal
	watch   *watch // of the task that the call may become
	console *console
	trace   *trace

	target  cli.Target
	called  string                  // the tool, prompt, resource or task in messages
	ready   chan struct{}           // closed once the revision is known
	session string                  // the revision of a session; empty from 2026-07-28 on
	fail    context.CancelCauseFunc // ends the call

	turns    []*turn     // of the round
	asked    atomic.Bool // the server has asked something
	answered atomic.Bool // something that it asked has an answer
	leaving  leaving

	result json.RawMessage // the final result as the server sent it
}

// person is the user in front of a terminal.
type person interface {
	Form(ctx context.Context, server, message string, schema json.RawMessage) (*mcp.ElicitResult, error)
	URL(ctx context.Context, server, message, url string, open func(url string) error) (*mcp.ElicitResult, error)
	Sample(ctx context.Context, server string,
		params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
}

// turn is the place of a question in its round. The client answers the questions of a round concurrently; turns bring
// them to the person in the server's order.
type turn struct {
	key        string
	joined     atomic.Bool
	here, done chan struct{} // closed when the question joins the person's queue, and when it leaves it
}

// joinTimeout is how long a question waits until those before it join the queue. Package client starts all questions of
// a round at once, but one of them may end before it joins.
const joinTimeout = 250 * time.Millisecond

// begin prepares for the questions of a round. It returns an error if some of them have no answer.
func (a *asker) begin(questions []*client.Question) error {
	if len(questions) == 0 {
		return nil // the turns of a session that still asks stay
	}
	a.asked.Store(true)
	a.turns = nil
	var missing []*client.Question
	for _, q := range questions {
		if a.given.has(q.Key) ||
			q.Method != input.MethodElicit && (q.Method != input.MethodCreateMessage || a.sampler != nil) {
			continue
		}
		if a.person == nil {
			missing = append(missing, q)
		}
		a.turns = append(a.turns, &turn{key: q.Key, here: make(chan struct{}), done: make(chan struct{})})
	}
	if len(missing) > 0 && !a.park {
		return a.missing(missing)
	}
	return nil
}

// missing returns the error of questions that nobody answers. The command exits with ExitWaits.
func (a *asker) missing(questions []*client.Question) error {
	var b strings.Builder
	answers := "no answer was"
	if n := len(questions); n != 1 {
		answers = fmt.Sprintf("%d answers were not", n)
	}
	fmt.Fprintf(&b, "%s asks, and %s given:\n", a.called, answers)
	for _, q := range questions {
		fmt.Fprintf(&b, "\n%s", Describe(q))
	}
	for _, q := range questions {
		if slip := a.given.misspelt(q.Key); slip != "" {
			b.WriteString("\n" + slip)
		}
	}
	switch {
	case a.session != "":
		fmt.Fprintf(&b, "\nIn sessions of revision %s calls cannot be parked. A question whose server gives\n"+
			"it no key has its method for one: answer those in the order of asking.", a.session)
	case a.watch.hasTask():
		place, command := "as above", a.watch.command()
		if strings.Contains(command, " -- ") {
			place += ", before the --"
		}
		fmt.Fprintf(&b, "\nThe task waits. Go on with '%s'\nand --answer %s.", command, place)
	default:
		b.WriteString("\nGive --answer as above, or --park FILE to go on later with 'askback resume FILE'.")
	}
	return cli.WithCode(cli.ExitWaits, errors.New(b.String()))
}

// options returns the options of the client whose questions the asker answers.
func (a *asker) options(roots []*mcp.Root) *client.Options {
	opts := &client.Options{Form: a.elicit, URL: a.elicit, Sample: a.sample, SampleTools: a.sampler != nil,
		Tasks: a.watch.dialect}
	if roots != nil {
		opts.Roots = func(context.Context) ([]*mcp.Root, error) {
			a.trace.answered("roots", "", "--root")
			return roots, nil
		}
	}
	opts.OnRound = func(_ context.Context, r *client.Round) error {
		if r.Task != nil && !a.watch.observe(r) {
			return nil
		}
		a.trace.round(r)
		a.result = r.Result
		return a.begin(r.Questions)
	}
	return opts
}

// connected sets the revision that the server speaks.
func (a *asker) connected(revision string) {
	if revision < "2026-07-28" {
		a.session = revision
	}
	close(a.ready)
}

func (a *asker) elicit(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	res, from, err := takeAnswer(ctx, a, q, answer.elicit)
	switch {
	case err != nil:
		return nil, err
	case from == "":
		from = "the terminal"
		res, err = askPerson(ctx, a, q, func(ctx context.Context) (*mcp.ElicitResult, error) {
			if q.URL != "" {
				return a.person.URL(ctx, a.server(q), q.Message, q.URL, cli.OpenPage)
			}
			return a.person.Form(ctx, a.server(q), q.Message, q.Schema)
		})
		if err != nil {
			return nil, err
		}
	case q.URL != "" && res.Action == "accept":
		a.console.line("askback: the server asks to open this page, which this command does not open: %s",
			cli.HarmlessLine(q.URL, 2000))
	}
	a.answered.Store(true)
	a.trace.answered(q.Key, res.Action, from)
	return res, nil
}

func (a *asker) sample(ctx context.Context, q *client.Question,
	params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	res, from, err := takeAnswer(ctx, a, q, answer.sample)
	switch {
	case err != nil || from != "":
	case a.sampler != nil:
		from = "--sampler"
		res, err = a.runSampler(ctx, q)
	default:
		from = "the terminal"
		res, err = askPerson(ctx, a, q, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
			return a.person.Sample(ctx, a.server(q), params)
		})
		if errors.Is(err, terminal.ErrDeclined) || errors.Is(err, terminal.ErrCanceled) {
			err = a.end(fmt.Errorf("%s asked for a model's completion (%q), and %w", a.called, q.Key, err))
		}
	}
	if err != nil {
		return nil, err
	}
	a.answered.Store(true)
	a.trace.answered(q.Key, "", from)
	return res, nil
}

// runSampler lets the sampler answer. A call that is put off does not wait for it.
func (a *asker) runSampler(ctx context.Context, q *client.Question) (*mcp.CreateMessageWithToolsResult, error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.leaving.call, cancel)()
	res, err := a.sampler.sample(running, q, a.console)
	if err != nil && ctx.Err() == nil && a.leaving.call.Err() != nil {
		return nil, client.ErrPark
	}
	return res, a.end(err)
}

// takeAnswer takes the answer to a question from the flags. From names the flag; it is empty if there is no answer.
func takeAnswer[R any](ctx context.Context, a *asker, q *client.Question,
	read func(answer, *client.Question) (R, error)) (res R, from string, err error) {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return res, "", context.Cause(ctx)
	}
	if a.session != "" { // from 2026-07-28 on the trace shows them with their round
		a.trace.line("← asks %s", Questions([]*client.Question{q}))
	}
	if answer, ok := a.given.take(q.Key); ok {
		res, err = read(answer, q)
		return res, answer.from, a.end(err)
	}
	return res, "", nil
}

// askPerson puts a question to the person when it is its turn.
func askPerson[R any](ctx context.Context, a *asker, q *client.Question,
	ask func(context.Context) (R, error)) (R, error) {
	var none R
	if slip := a.given.misspelt(q.Key); slip != "" && (a.park || a.person != nil) {
		a.console.line("askback: warning: %s", slip)
	}
	switch {
	case a.park && a.canPark():
		return none, client.ErrPark
	case a.park || a.person == nil:
		return none, a.end(a.missing([]*client.Question{q}))
	}
	leave, err := a.queue(ctx, q.Key)
	if err != nil {
		return none, err
	}
	defer leave()
	if a.leaving.call.Err() != nil {
		return none, client.ErrPark
	}
	defer a.console.ask()()
	asking, close := a.leaving.open(ctx)
	res, err := ask(asking)
	interrupted := close() || errors.Is(err, terminal.ErrInterrupted)
	switch {
	case errors.Is(err, terminal.ErrLater), interrupted && a.answered.Load() && a.canPark():
		a.leaving.putOff(interrupted)
		return none, client.ErrPark
	case interrupted:
		err = terminal.ErrInterrupted
		a.fail(err)
	}
	if err != nil && a.session != "" {
		return none, a.end(err)
	}
	return res, err
}

// canPark reports whether the question that is open now can be left for later.
func (a *asker) canPark() bool { return a.session == "" || a.watch.hasTask() }

// queue waits until the earlier questions of the round are answered. The caller leaves the queue with the function that
// it returns.
func (a *asker) queue(ctx context.Context, key string) (leave func(), err error) {
	at := slices.IndexFunc(a.turns, func(t *turn) bool { return t.key == key && t.joined.CompareAndSwap(false, true) })
	if at < 0 { // a question of a session has no turn
		return func() {}, nil
	}
	own := a.turns[at]
	close(own.here)
	joining, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for _, before := range a.turns[:at] {
		select {
		case <-before.here:
		case <-joining.Done():
		}
		if before.joined.Load() {
			select {
			case <-before.done:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			close(own.done)
			return nil, context.Cause(ctx)
		}
	}
	return func() { close(own.done) }, nil
}

// end ends the call with an error. In a session the error alone would only be reported to the server.
func (a *asker) end(err error) error {
	if err != nil && a.session != "" {
		a.fail(err)
	}
	return err
}

// server names the server for the person: the name that it gives itself, and its address.
func (a *asker) server(q *client.Question) string {
	if q.Server == nil || q.Server.Name == "" {
		return a.target.Where()
	}
	return fmt.Sprintf("%s (%s)", cli.HarmlessLine(q.Server.Name, 40), a.target.Where())
}
