package call_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// trip asks where from, books, and asks where to.
func trip(booked *int) handler {
	return func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		from, err := ask(c, "from")
		if err == nil {
			err = step(ctx, c, "book", booked)
		}
		if err != nil {
			return nil, err
		}
		to, err := ask(c, "to")
		return text(from + ", " + to), err
	}
}

// Where the client answers there and then, the call goes on in the same request. Each round runs the handler from the
// top, and no step twice.
func TestACallGoesOnWithItsAnswers(t *testing.T) {
	s, m, booked := newServer(), newMemory(), 0
	m.answer = func(key string) string { return accept("x-" + key) }
	r := tool(trip(&booked))
	r.Watch = report.Follow(s.Observer, report.Operation{Kind: "request"})
	out, err := s.Serve(t.Context(), r, m)
	r.Watch.Finish(t.Context(), err)
	if got := ended(out, err); got != "accept x-from, accept x-to" || booked != 1 {
		t.Errorf("the call ended with %q, and booked %d times", got, booked)
	}
	want := []string{"suspend from", "suspend to", "end: accept x-from, accept x-to"}
	expect.Diff(t, "the value", want, m.happened)
	s.told(t, "1 asked from", "2 answered fromaccept", "2 step bookcompleted", "2 asked to", "3 answered toaccept",
		"3 ended completed")
	expect.Diff(t, "the value", []string{"step book0 completed", "request 3 completed"}, s.spans)
	s.logged(t, "")
}

// Where the client is gone with the response, its next request brings the answers.
func TestACallGoesOnInTheNextRequest(t *testing.T) {
	s, m, booked := newServer(), newMemory(), 0
	var op *report.Operation
	s.Observer.Hook = func(ctx context.Context, o *report.Operation) (context.Context, func()) {
		if o.Kind == "request" {
			op = o
		}
		return ctx, nil
	}
	for i, want := range []string{"asks from", "asks to", "accept x, accept x"} {
		r := tool(trip(&booked))
		r.Watch = report.Follow(s.Observer, report.Operation{Kind: "request"})
		out, err := s.Serve(t.Context(), r, m)
		if got := ended(out, err); got != want {
			t.Fatalf("request %d: %q, want %q", i, got, want)
		}
		if op.Round != i+1 || op.StateBytes != len(out.State) ||
			i < 2 && (out.State == "" || op.Outcome != "input_required") {
			t.Errorf("request %d: %+v for %+v", i, op, out)
		}
		if i < 2 {
			m.Answers = call.Answers{Responses: map[string][]byte{out.Questions[0].Wire: []byte(accept("x"))}}
		}
	}
	expect.Equal(t, "booked", booked, 1)
}

// An error of a tool's handler is a result that a model reads, unless the protocol has an error for it.
func TestErrorsOfHandlers(t *testing.T) {
	for _, test := range []struct {
		says     string
		h        handler
		want     string // of a tool
		wantElse string // of a prompt or a resource; the same if empty
	}{
		{
			says: "an error",
			h:    func(context.Context, *call.Call) (mcp.Result, error) { return nil, errors.New("no room") },
			want: "failed: no room", wantElse: "-32603 no room",
		},
		{
			says: "an error of the protocol",
			h: func(context.Context, *call.Call) (mcp.Result, error) {
				return nil, fmt.Errorf("wrapped: %w", wire.Errorf(-32099, "no"))
			},
			want: "-32099 wrapped: no",
		},
		{
			says: "a panic",
			h:    func(context.Context, *call.Call) (mcp.Result, error) { panic("over there") },
			want: "-32603 internal error",
		},
		{
			says: "no result",
			h:    func(context.Context, *call.Call) (mcp.Result, error) { return nil, nil },
			want: "-32603 the handler returned no result",
		},
		{
			says:     "nothing asked",
			h:        func(context.Context, *call.Call) (mcp.Result, error) { return nil, journal.ErrInputRequired },
			want:     "failed: the handler returned ErrInputRequired without having asked anything",
			wantElse: "-32603 the handler returned ErrInputRequired without having asked anything",
		},
		{
			says: "a question that the client cannot show",
			h: func(_ context.Context, c *call.Call) (mcp.Result, error) {
				c.Can = 0
				_, err := ask(c, "name")
				return nil, err
			},
			want: "-32021 ",
		},
		{
			says: "too many questions",
			h: func(_ context.Context, c *call.Call) (mcp.Result, error) {
				var errs []error
				for i := range 4 {
					_, err := ask(c, fmt.Sprint(i))
					errs = append(errs, err)
				}
				return nil, errors.Join(errs...)
			},
			want: "-32603 ",
		},
		{
			says: "two styles",
			h: func(_ context.Context, c *call.Call) (mcp.Result, error) {
				_, _ = ask(c, "name")
				return &mcp.CallToolResult{RequestState: "s"}, nil
			},
			want: "-32603 the handler asked through its Call and returned input requests of its own: it can do one or the other",
		},
	} {
		for _, isTool := range []bool{true, false} {
			s, m, r := newServer(), newMemory(), tool(test.h)
			want := test.want
			if !isTool {
				r.Handler.Fail = nil
				if test.wantElse != "" {
					want = test.wantElse
				}
			}
			out, err := s.Serve(t.Context(), r, m)
			if got := ended(out, err); !strings.HasPrefix(got, want) {
				t.Errorf("%s, of a tool %v: %q, want %q", test.says, isTool, got, want)
			}
			if len(m.happened) != 1 || !strings.HasPrefix(m.happened[0], "end: "+want) {
				t.Errorf("%s, of a tool %v: the home saw %q", test.says, isTool, m.happened)
			}
			if panicked := strings.Contains(s.log.String(), `a handler panicked`); panicked != (test.says == "a panic") {
				t.Errorf("%s: the log is %s", test.says, &s.log)
			}
		}
	}
}

// A home may have an outcome in place of a journal, or fail.
func TestAHomeDecidesBeforeTheHandler(t *testing.T) {
	never := func(context.Context, *call.Call) (mcp.Result, error) {
		t.Error("the handler ran")
		return nil, nil
	}
	s := newServer()
	before := &memory{Opened: call.Opened{Outcome: &call.Outcome{Encoded: []byte("task")}}}
	out, err := s.Serve(t.Context(), tool(never), before)
	expect.Equal(t, "an outcome", ended(out, err), "task")
	out, err = s.Serve(t.Context(), tool(never), &memory{fail: wire.InvalidState()})
	if err == nil || out != nil || fault.Wire(err).Code != wire.InvalidState().Code {
		t.Errorf("an error: %v, %v", out, err)
	}
	s.told(t)
}

// A journal that its home cannot keep ends the call. For a tool a limit is an error of the protocol, everything else a
// result; for others it is never taken for the handler's own error.
func TestAJournalThatIsNotKept(t *testing.T) {
	asks := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		_, err := ask(c, "name")
		return nil, err
	}
	for _, test := range []struct {
		unkept     error
		isTool     bool
		want, told string
	}{
		{&fault.LimitError{Limit: "bytes", Max: 9}, true, "-32603 the limit of 9 bytes is reached", "limit"},
		{errors.New("no store"), true, "failed: no store", "failed"},
		{errors.New("no store"), false, "-32603 no store", "failed"},
	} {
		s, m, r := newServer(), newMemory(), tool(asks)
		m.unkept = test.unkept
		if !test.isTool {
			r.Handler.Fail = nil
		}
		out, err := s.Serve(t.Context(), r, m)
		expect.Equal(t, fmt.Sprint(test.unkept), ended(out, err), test.want)
		if _, ok := errors.AsType[*jsonrpc.Error](err); err != nil && !ok {
			t.Errorf("%v: the error is a %T", test.unkept, err)
		}
		expect.Diff(t, "the value", []string{"suspend name", "end: " + test.want}, m.happened)
		s.told(t, "1 asked name", "1 ended "+test.told)
	}
}

// Detach moves a call to another home if there is one, and does nothing otherwise.
func TestDetach(t *testing.T) {
	detaches := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		if _, err := ask(c, "name"); err != nil && !c.Suspended() {
			return nil, err
		}
		return text("stayed"), c.Detach()
	}
	asTask := &call.Outcome{Task: &call.Task{Task: wire.Task{ID: "7"}}}
	for _, test := range []struct {
		says string
		set  func(m *memory, r *call.Request)
		want string
		told []string
	}{
		{"no other home", func(m *memory, _ *call.Request) { m.Detach = nil }, "stayed",
			[]string{"1 asked name", "2 answered nameaccept", "2 ended completed"}},
		{"another home", func(*memory, *call.Request) {}, "task 7",
			[]string{"1 asked name", "2 answered nameaccept", "2 ended task"}},
		{"another home that fails", func(m *memory, _ *call.Request) {
			m.Detach = moves(func(*journal.Journal) (*call.Outcome, error) { return nil, wire.Errorf(-32603, "no store") })
		}, "-32603 no store", []string{"1 asked name", "2 answered nameaccept", "2 ended failed"}},
		{"a tool that cannot", func(_ *memory, r *call.Request) { r.Handler.Tasks = nil },
			"failed: Detach: the tool must be added with AddTaskTool", []string{"1 ended failed"}},
		{"at once", func(m *memory, r *call.Request) {
			m.AtOnce = true
			r.Crowded = func(context.Context) bool { return true } // it costs no share
			r.Handler.Invoke = nil
		}, "task 7", []string{"1 ended task"}},
	} {
		s, m, r := newServer(), newMemory(), tool(detaches)
		m.answer = accept
		m.Detach = moves(func(*journal.Journal) (*call.Outcome, error) { return asTask, nil })
		test.set(m, r)
		out, err := s.Serve(t.Context(), r, m)
		expect.Equal(t, test.says, ended(out, err), test.want)
		s.told(t, test.told...)
	}
}

// A call that is detached at once takes the answers with it that the client gave before.
func TestAnswersAreTakenAlong(t *testing.T) {
	s, m := newServer(), newMemory()
	m.Journal.Pending = []journal.Question{{Key: "name", Wire: "w", Digest: journal.Digest{1}}}
	m.Answers = call.Answers{Responses: map[string][]byte{"w": []byte(accept("x")), "other": []byte(`{}`)}}
	m.AtOnce = true
	m.Detach = moves(func(j *journal.Journal) (*call.Outcome, error) {
		if len(j.Entries) != 1 || j.Entries[0].Kind != journal.Unread || j.Entries[0].Key != "name" || len(j.Pending) != 0 {
			t.Errorf("the journal is %+v", j)
		}
		return &call.Outcome{Encoded: []byte("detached")}, nil
	})
	if out, err := s.Serve(t.Context(), tool(nil), m); ended(out, err) != "detached" {
		t.Error(ended(out, err))
	}
}

// A call is handed back where there is no room for it, unless its client would lose its answers or give up.
func TestCallsAreHandedBack(t *testing.T) {
	answers := map[string][]byte{"name": []byte(accept("x"))}
	for _, test := range []struct {
		says string
		set  func(m *memory)
		back bool
	}{
		{"a first round", func(*memory) {}, true},
		{"a round with answers", func(m *memory) {
			m.Journal.Pending = []journal.Question{{Key: "name", Wire: "name", Digest: journal.Digest{1}}}
			m.Answers.Responses = answers
		}, true},
		{"answers without a state", func(m *memory) { m.Answers = call.Answers{Responses: answers, Bare: true} }, false},
		{"the manual style", func(m *memory) { m.Journal.Manual = "s" }, false},
		{"the last round", func(m *memory) { m.Journal.Round = 5 }, false},
		{"for the third time", func(m *memory) { m.Journal.HandBack(nil); m.Journal.HandBack(nil) }, false},
	} {
		s, m := newServer(), newMemory()
		test.set(m)
		round, ran, looked := m.Journal.Round, false, false
		r := tool(func(context.Context, *call.Call) (mcp.Result, error) { ran = true; return text("ran"), nil })
		r.Crowded = func(context.Context) bool { looked = true; return true }
		out, err := s.Serve(t.Context(), r, m)
		if err != nil || ran == test.back || looked != test.back || out.InputRequired() != test.back {
			t.Errorf("%s: ran %v, looked for a share %v: %v, %v", test.says, ran, looked, out, err)
		}
		if !test.back {
			continue
		}
		if len(out.Questions) != 0 || out.State == "" || m.Journal.Round != round+1 || len(m.Journal.Pending) != 0 {
			t.Errorf("%s: %+v with the journal %+v", test.says, out, m.Journal)
		}
		s.told(t, fmt.Sprint(round+1, " shed"))
	}
	// A call that gets a share runs.
	r := tool(func(context.Context, *call.Call) (mcp.Result, error) { return text("ran"), nil })
	r.Crowded = func(context.Context) bool { return false }
	if out, err := newServer().Serve(t.Context(), r, newMemory()); ended(out, err) != "ran" {
		t.Error(ended(out, err))
	}
	// One whose home cannot keep it ends.
	m := newMemory()
	m.unkept = errors.New("no store")
	r.Crowded = func(context.Context) bool { return true }
	if out, err := newServer().Serve(t.Context(), r, m); ended(out, err) != "failed: no store" {
		t.Error(ended(out, err))
	}
}

// A run without an outcome is neither a result nor the end of its call, whatever its handler returned.
func TestInterruptedRuns(t *testing.T) {
	lost := errors.New("lost")
	for _, returned := range []error{lost, errors.New("other")} {
		s, m := newServer(), newMemory()
		m.Interrupted = func(err error) bool { return errors.Is(err, lost) }
		r := tool(func(context.Context, *call.Call) (mcp.Result, error) { return nil, returned })
		r.Watch = report.Follow(s.Observer, report.Operation{Kind: "run"})
		out, err := s.Serve(t.Context(), r, m)
		r.Watch.Finish(t.Context(), nil)
		if returned == lost {
			if !errors.Is(err, lost) || out != nil {
				t.Errorf("interrupted: %v, %v", out, err)
			}
			s.told(t)
			expect.Same(t, "interrupted", s.spans, []string{"run 1 interrupted"})
			continue
		}
		expect.Equal(t, "not interrupted", ended(out, err), "failed: other")
		s.told(t, "1 ended failed")
	}
}

// To clean up, the handler runs as far as it came and no further, and what it registered runs backwards.
func TestCleaningUp(t *testing.T) {
	var did []string
	h := func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		for _, name := range []string{"a", "b"} {
			c.OnCancel(func(context.Context) error { did = append(did, "undo "+name); return nil })
			_, err := c.Step(ctx, name, func(context.Context) ([]byte, error) {
				did = append(did, name)
				return []byte("1"), nil
			})
			if err != nil {
				return nil, err
			}
			if _, err := ask(c, "after "+name); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	}
	s, m := newServer(), newMemory()
	if out, err := s.Serve(t.Context(), tool(h), m); ended(out, err) != "asks after a" {
		t.Fatal(ended(out, err))
	}
	s.events = nil
	if err := s.CleanUp(t.Context(), tool(h), m, "cancelled"); err != nil {
		t.Error(err)
	}
	expect.Diff(t, "the value", []string{"a", "undo a"}, did)
	s.told(t, "2 ended cancelled")

	// What fails is to be tried again, and the call has not ended.
	failed := errors.New("cannot undo")
	for _, h := range []handler{
		func(context.Context, *call.Call) (mcp.Result, error) { return nil, failed },
		func(_ context.Context, c *call.Call) (mcp.Result, error) {
			c.OnCancel(func(context.Context) error { return failed })
			return nil, context.Canceled
		},
		func(_ context.Context, c *call.Call) (mcp.Result, error) {
			c.OnCancel(func(context.Context) error { panic(failed) })
			return nil, nil
		},
	} {
		err := s.CleanUp(t.Context(), tool(h), m, "cancelled")
		expect.Fails(t, "the error", err, "cannot undo")
	}
	if err := s.CleanUp(t.Context(), tool(h), &memory{fail: failed}, "cancelled"); !errors.Is(err, failed) {
		t.Errorf("a journal that does not open: %v", err)
	}
	s.told(t)
}

// An answer that does not fit is asked for again, with the reason. The same answer twice in a row ends the call.
func TestAnswersThatDoNotFit(t *testing.T) {
	one := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		name, err := ask(c, "name")
		return text(name), err
	}
	const wrong, worse = `{"action":"accept","content":{"name":7}}`, `{"action":"accept","content":{"name":[]}}`
	for _, test := range []struct {
		answers []string
		rounds  int
		want    string
	}{
		{[]string{wrong, accept("x")}, 5, "accept x"},
		{[]string{wrong, wrong}, 5,
			`-32602 invalid params: the answer to the question "name" does not fit, and to ask again`},
		{[]string{wrong, worse, wrong, worse}, 2,
			`-32603 the limit of 2 rounds per call is reached; the last answer to the question "name" does not fit`},
	} {
		s, m, given := newServer(), newMemory(), 0
		s.Limits.Rounds = test.rounds
		m.answer = func(string) string { given++; return test.answers[given-1] }
		out, err := s.Serve(t.Context(), tool(one), m)
		if got := ended(out, err); !strings.HasPrefix(got, test.want) {
			t.Errorf("%q: %q, want %q", test.answers, got, test.want)
		}
		s.logged(t, "an answer does not fit")
	}
	// The question says why.
	s, m := newServer(), newMemory()
	asked, _ := s.Serve(t.Context(), tool(one), m)
	m.Answers.Responses = map[string][]byte{"name": []byte(wrong)}
	again, err := s.Serve(t.Context(), tool(one), m)
	if err != nil || strings.Contains(string(asked.Questions[0].Params()), "does not fit") ||
		!strings.Contains(string(again.Questions[0].Params()), "does not fit") {
		t.Errorf("asked %s, and again %s: %v", asked.Questions[0].Params(), again.Questions[0].Params(), err)
	}
	// A question that is asked beside it does not.
	both := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		_, err1 := ask(c, "name")
		_, err2 := ask(c, "other")
		return nil, errors.Join(err1, err2)
	}
	other := newMemory()
	_, _ = s.Serve(t.Context(), tool(both), other)
	other.Answers.Responses = map[string][]byte{"other": []byte(wrong)}
	beside, err := s.Serve(t.Context(), tool(both), other)
	if err != nil || strings.Contains(string(beside.Questions[0].Params()), "does not fit") ||
		!strings.Contains(string(beside.Questions[1].Params()), "does not fit") {
		t.Errorf("asked %s and %s: %v", beside.Questions[0].Params(), beside.Questions[1].Params(), err)
	}
	// A mark that is not recorded ends the run.
	m.Answers.Responses = map[string][]byte{again.Questions[0].Wire: []byte(worse)}
	m.commit = func(context.Context, *journal.Entry) error { return errors.New("no store") }
	if out, err := s.Serve(t.Context(), tool(one), m); ended(out, err) != "failed: no store" {
		t.Error(ended(out, err))
	}
}

// A handler that breaks the rules of replay is warned of, once its mistake is certain.
func TestWarnings(t *testing.T) {
	askBoth := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		_, err1 := ask(c, "a")
		_, err2 := ask(c, "b")
		return text("done"), errors.Join(err1, err2)
	}
	drops := func(err error) handler {
		return func(_ context.Context, c *call.Call) (mcp.Result, error) {
			_, _ = ask(c, "b")
			return nil, err
		}
	}
	strays := func(_ context.Context, c *call.Call) (mcp.Result, error) {
		_, err := ask(c, "c")
		return nil, err
	}
	for _, test := range []struct {
		says   string
		answer string
		second handler
		warns  string
	}{
		{"asks again", accept("x"), askBoth, ""},
		{"drops a question", accept("x"), drops(errors.New("no")), "so that its questions are not asked"},
		{"ends because the user declined", `{"action":"decline"}`, func(_ context.Context, c *call.Call) (mcp.Result, error) {
			_, _ = ask(c, "a")
			_, _ = ask(c, "b")
			return nil, errors.New("declined")
		}, ""},
		{"ends with an error of the protocol", accept("x"), drops(wire.Errorf(-1, "no")), ""},
		{"does not ask again", accept("x"), strays, "answered=[a]"},
	} {
		s, m := newServer(), newMemory()
		expect.Must(s.Serve(t.Context(), tool(askBoth), m))(t)
		m.Answers.Responses = map[string][]byte{"a": []byte(test.answer)}
		_, _ = s.Serve(t.Context(), tool(test.second), m)
		if got := s.log.String(); test.warns == "" && got != "" || !strings.Contains(got, test.warns) {
			t.Errorf("%s: the log is %q, want %q", test.says, got, test.warns)
		}
	}
}
