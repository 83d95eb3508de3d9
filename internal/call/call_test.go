package call_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// run runs a handler for one round, of a call that has come as far as j.
func run(t *testing.T, s *server, j *journal.Journal, h handler) string {
	t.Helper()
	m := newMemory()
	m.Journal = j
	return ended(s.Serve(t.Context(), tool(h), m))
}

// Progress that does not grow is not sent, and a client that did not ask for it gets none.
func TestProgress(t *testing.T) {
	var sent []float64
	r := tool(func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		for _, n := range []float64{0, 1, 1, 3, 2, 4} {
			if err := c.Progress(ctx, n, 9, ""); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	if got := ended(newServer().Serve(t.Context(), r, newMemory())); got != "done" {
		t.Error(got)
	}
	r.Progress = func(_ context.Context, progress, total float64, _ string) error {
		sent = append(sent, progress)
		if progress == 4 {
			return errors.New("gone")
		}
		return nil
	}
	if got := ended(newServer().Serve(t.Context(), r, newMemory())); got != "failed: gone" {
		t.Error(got)
	}
	expect.Same(t, "sent", sent, []float64{0, 1, 3, 4})
}

// The outcome of a round says whether its handler read the ID of the call, or a key made of it, which the next round
// must have, too.
func TestTheIDIsNamed(t *testing.T) {
	for _, test := range []struct {
		want bool
		read func(*call.Call) string
	}{
		{true, func(c *call.Call) string { return c.ID() }},
		{true, func(c *call.Call) string { return c.IdempotencyKey("x") }},
		{false, func(c *call.Call) string { return c.PublicID() }},
	} {
		read := ""
		out, err := newServer().Serve(t.Context(), tool(func(_ context.Context, c *call.Call) (mcp.Result, error) {
			read = test.read(c)
			_, err := ask(c, "name")
			return nil, err
		}), newMemory())
		if err != nil || out.Named != test.want || read == "" || read == "secret" {
			t.Errorf("read %q: named %v, %v", read, out.Named, err)
		}
	}
}

// A step that fails is not recorded, and the operator is told that it failed. One that panics ends the call.
func TestStepsThatFail(t *testing.T) {
	s, j := newServer(), new(journal.Journal)
	fails := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		_, err := c.Step(ctx, "pay", func(context.Context) ([]byte, error) { return nil, errors.New("no money") })
		return nil, err
	}
	panics := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		_, err := c.Step(ctx, "pay", func(context.Context) ([]byte, error) { panic("no money") })
		return nil, err
	}
	expect.Equal(t, "run(t, s, j, fails)", run(t, s, j, fails), "failed: no money")
	expect.Equal(t, "run(t, s, j, panics)", run(t, s, j, panics), "-32603 internal error")
	if len(j.Entries) > 0 {
		t.Errorf("recorded %v", j.Entries)
	}
	s.told(t, "1 step payfailed", "1 ended failed", "1 ended failed")
	expect.Diff(t, "the value", []string{"step pay0 failed", "step pay0 failed"}, s.spans)
	// Where nobody is told, a step runs all the same, and once.
	audit, ran := s.Audit, 0
	s.Audit, s.Observer = nil, nil
	for range 2 {
		got := run(t, s, j, func(ctx context.Context, c *call.Call) (mcp.Result, error) {
			return text("paid"), step(ctx, c, "pay", &ran)
		})
		if got != "paid" || ran != 1 {
			t.Errorf("%q, ran %d times", got, ran)
		}
	}
	s.told(t)
	s.Audit = audit
	run(t, s, new(journal.Journal), fails)
	s.told(t, "1 step payfailed", "1 ended failed")
}

// A checkpoint suspends a call once. Nothing is recorded after a call's end.
func TestCheckpoints(t *testing.T) {
	s, j := newServer(), new(journal.Journal)
	h := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		return text(fmt.Sprint("round ", c.Round, " ", c.Suspended(), c.Answered())), c.Checkpoint(ctx, "here")
	}
	for _, want := range []string{"asks", "round 2 false false"} {
		expect.Equal(t, "run(t, s, j, h)", run(t, s, j, h), want)
	}
}

// The answers of a call whose home has told of them are not told again.
func TestAnswersAreToldOnce(t *testing.T) {
	q := question.Roots()
	for audited, want := range map[bool][]string{
		false: {"1 answered q", "1 ended completed"},
		true:  {"1 ended completed"},
	} {
		s, m := newServer(), newMemory()
		m.Audited = audited
		m.Journal.Entries = []journal.Entry{{Kind: journal.Unread, Key: "q", Digest: q.Digest, Value: []byte(`{"roots":[]}`)}}
		r := tool(func(_ context.Context, c *call.Call) (mcp.Result, error) {
			_, err := c.Ask("q", question.Roots())
			return text(fmt.Sprint(c.Answered())), err
		})
		r.Can |= wire.Roots
		expect.Equal(t, "ended(s.Serve(t.Context(), r, m))", ended(s.Serve(t.Context(), r, m)), "true")
		s.told(t, want...)
	}
}

// A handler that is cancelled finds its answers, and asks no more.
func TestACancelledHandlerAsksNoMore(t *testing.T) {
	s, m := newServer(), newMemory()
	m.answer = func(key string) string { return accept(key) }
	ctx, cancel := context.WithCancel(t.Context())
	out, err := s.Serve(ctx, tool(func(_ context.Context, c *call.Call) (mcp.Result, error) {
		answered := c.Round > 1
		if answered {
			cancel()
		}
		_, err := ask(c, "a")
		if err != nil {
			if answered {
				t.Errorf("an answer that is recorded: %v", err)
			}
			return nil, err
		}
		_, err = ask(c, "b")
		return nil, err
	}), m)
	expect.Equal(t, "ended(out, err)", ended(out, err), "failed: context canceled")
}

// An inline handler asks through its session, and gets an error where it asks through its call.
func TestInlineHandlers(t *testing.T) {
	got := run(t, newServer(), new(journal.Journal), func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		c.Inline = true
		if err := c.Checkpoint(ctx, "here"); err == nil {
			t.Error("a checkpoint of an inline handler")
		}
		if _, err := ask(c, "name"); err == nil {
			t.Error("a question of an inline handler")
		}
		if _, err := c.AskInline(ctx, "roots", question.Roots()); err == nil {
			t.Error("a question that the client cannot answer")
		}
		return text("done"), nil
	})
	if got != "done" {
		t.Error(got)
	}
}

// What an answer records is who gave it and when.
func TestProvenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m, booked := newServer(), newMemory(), 0
		m.answer = func(key string) string {
			time.Sleep(time.Minute)
			return accept(key)
		}
		if got := ended(s.Serve(t.Context(), tool(trip(&booked)), m)); got != "accept from, accept to" {
			t.Error(got)
		}
		given := m.Journal.Started
		for _, e := range m.Journal.Entries {
			if e.Kind != journal.Answer {
				continue
			}
			given = given.Add(time.Minute)
			if len(e.By) != 1 || e.By[0].Who != "ada" || !e.By[0].When.Equal(given) {
				t.Errorf("%q is by %+v, want one of %v", e.Key, e.By, given)
			}
		}
	})
}

// probe follows a handler for a unit test.
type probe struct{ saw []string }

func (p *probe) CallID(string) string { return "fixed" }
func (p *probe) Home(_ *call.Request, h call.Home) call.Home {
	p.saw = append(p.saw, "home")
	return h
}
func (p *probe) Handle(ctx context.Context) context.Context {
	p.saw = append(p.saw, "handle")
	return ctx
}
func (p *probe) Step(ctx context.Context, name string, _ bool, f call.Step) ([]byte, error) {
	p.saw = append(p.saw, "step "+name)
	return f(ctx)
}
func (p *probe) Encoded(string, any, []byte) {}
func (p *probe) Asked(key string, err error) {
	p.saw = append(p.saw, fmt.Sprintf("asked %s %v", key, err != nil))
}
func (p *probe) Mistaken(err error)           { p.saw = append(p.saw, err.Error()) }
func (p *probe) Panicked(v any, stack []byte) { p.saw = append(p.saw, fmt.Sprint("panicked ", v)) }

// A probe of a request sees what its handler does.
func TestProbes(t *testing.T) {
	p := new(probe)
	r := tool(func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		ran := 0
		if err := step(ctx, c, "pay", &ran); err != nil || c.IdempotencyKey("order") == "" {
			t.Errorf("%d steps: %v", ran, err)
		}
		_, _ = ask(c, "name")
		panic("over there")
	})
	out, err := newServer().Serve(call.WithProbe(t.Context(), p), r, newMemory())
	expect.Equal(t, "ended(out, err)", ended(out, err), "-32603 internal error")
	want := []string{"home", "handle", "step pay", "asked name true", "panicked over there"}
	expect.Diff(t, "the value", want, p.saw)
}

// A run of a task is followed as one, and its trace travels in the journal.
func TestRunsAreFollowed(t *testing.T) {
	s, m := newServer(), newMemory()
	m.Journal.Trace = "carried"
	var op *report.Operation
	s.Observer.Hook = func(ctx context.Context, o *report.Operation) (context.Context, func()) {
		if op = o; o.Trace != "carried" {
			t.Errorf("the trace is %q", o.Trace)
		}
		o.Trace = "begun"
		return ctx, func() {}
	}
	r := tool(func(context.Context, *call.Call) (mcp.Result, error) { return text("done"), nil })
	r.WatchRun(nil, true, 0)
	if r.Watch != nil {
		t.Error("followed for nobody")
	}
	r.WatchRun(s.Observer, true, time.Second)
	out, err := s.Serve(t.Context(), r, m)
	r.Watch.Finish(t.Context(), err)
	if ended(out, err) != "done" || op.Kind != report.OperationRun || !op.Recovered || op.Rounds != 1 ||
		op.Waited != time.Second ||
		op.Target != "deploy" || op.Outcome != "completed" || m.Journal.Trace != "begun" {
		t.Errorf("%q: %+v, and the journal has the trace %q", ended(out, err), op, m.Journal.Trace)
	}
}
