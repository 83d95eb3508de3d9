package call_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// within runs do in a handler of a task's call on a server with a desk, and returns the outcome in words.
func within(t *testing.T, change func(s *server, r *call.Request, m *memory), do func(c *call.Call) error) string {
	t.Helper()
	return ended(serve(t, change, do))
}

func serve(
	t *testing.T, change func(s *server, r *call.Request, m *memory), do func(c *call.Call) error,
) (*call.Outcome, error) {
	t.Helper()
	s, m := newServer(), newMemory()
	s.Limits.Within, s.Engine.Desk, m.Sleeps = 24*time.Hour, &call.Desk{NotShown: time.Second}, true
	r := tool(func(_ context.Context, c *call.Call) (mcp.Result, error) { return text("done"), do(c) })
	r.Task = "the task"
	if change != nil {
		change(s, r, m)
	}
	return s.Serve(t.Context(), r, m)
}

// A question that the author addressed wrongly ends the call in words that say what to change.
func TestQuestionsThatNobodyCanAnswer(t *testing.T) {
	users := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("user:u", i))
		}
		return all
	}
	ada := []string{"user:ada"}
	for _, c := range []struct {
		says   string
		key    string
		q      question.Question // For, Votes, Within and Preview
		change func(s *server, r *call.Request, m *memory)
		want   string
	}{
		{"in the past", "k", question.Question{Within: -1}, nil, "Within of -1ns is negative"},
		{"beyond the limit", "k", question.Question{Within: 25 * time.Hour}, nil, "more than Limits.Within, 24h0m0s"},
		{"less than no votes", "k", question.Question{Votes: -1}, nil, "-1 Votes are negative"},
		{"votes of nobody", "k", question.Question{Votes: 2}, nil, "say who may answer in For"},
		{"a key of two lines", "a\nb", question.Question{For: ada}, nil, "its key of 3 bytes is stored"},
		{"two lines, with a deadline", "a\nb", question.Question{Within: time.Hour}, nil, "stored with its deadline"},
		{"too many people", "k", question.Question{For: users(65)}, nil, "65 users and groups in For, and at most 64"},
		{"neither user nor group", "k", question.Question{For: []string{"ada"}}, nil, `"ada" in For is nobody`},
		{"a name with space around it", "k", question.Question{For: []string{"user: ada"}}, nil, "no space around it"},
		{"too long", "k", question.Question{For: ada, Preview: strings.Repeat("x", 64<<10)}, nil,
			"put what is long behind a link"},
		{"more votes than people", "k", question.Question{For: ada, Votes: 2}, nil, "2 Votes of 1 users: nobody votes twice"},
		{"a group, asked by nobody", "k", question.Question{For: []string{"group:ops"}},
			func(_ *server, r *call.Request, _ *memory) { r.Principal = "" }, "the caller is anonymous"},
		{"without a desk", "k", question.Question{For: ada},
			func(s *server, _ *call.Request, _ *memory) { s.Engine.Desk = nil }, "which needs Options.Desk"},
		{"of a prompt", "k", question.Question{For: ada},
			func(_ *server, r *call.Request, _ *memory) { r.Handler.Method = wire.GetPrompt }, "only tools can wait"},
		{"without tasks", "k", question.Question{For: ada},
			func(_ *server, _ *call.Request, m *memory) { m.Sleeps = false }, "which needs Options.Tasks"},
	} {
		got := within(t, c.change, func(call *call.Call) error {
			q := *question.Roots()
			q.Within, q.Preview = c.q.Within, c.q.Preview
			if q.Address(c.q.For, c.q.Votes); len(c.q.For) == 0 {
				q.Votes = c.q.Votes
			}
			_, err := call.Ask(c.key, &q)
			return err
		})
		if !strings.Contains(got, c.want) || !strings.Contains(got, fmt.Sprintf("question %q", c.key)) {
			t.Errorf("%s: %s, want %q", c.says, got, c.want)
		}
	}
}

// Only a task sleeps, for a time that its operator allows, and each sleep has a name of its own.
func TestSleepsThatCannotBe(t *testing.T) {
	carried := func(_ *server, r *call.Request, _ *memory) { r.Task = "" }
	for _, c := range []struct {
		name   string
		d      time.Duration
		change func(*server, *call.Request, *memory)
		want   string
	}{
		{"", time.Hour, nil, "a sleep needs a name"},
		{"nap", 0, nil, "it must be more than zero"},
		{"nap", 25 * time.Hour, nil, "more than Limits.Within"},
		{"a\x00b", time.Hour, nil, "without control characters"},
		{"nap", time.Hour, carried, "only a task can sleep"},
	} {
		if got := within(t, c.change, func(call *call.Call) error { return call.Sleep(c.name, c.d) }); !strings.Contains(got,
			c.want) {
			t.Errorf("%q for %v: %s, want %q", c.name, c.d, got, c.want)
		}
	}
	var first, second error
	within(t, nil, func(call *call.Call) error {
		first, second = call.Sleep("nap", time.Hour), call.Sleep("nap", time.Minute)
		return first
	})
	if !errors.Is(first, journal.ErrInputRequired) || second == nil || !strings.Contains(second.Error(), "reached twice") {
		t.Errorf("the sleeps return %v and %v", first, second)
	}
}

// A form may go to the caller's own desk when its client has shown it to nobody, if the operator wants that and there
// is a caller with a name.
func TestAFallbackIsForTheCaller(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(s *server, r *call.Request, m *memory)
		goes   bool
	}{
		{"wanted", func(*server, *call.Request, *memory) {}, true},
		{"not wanted", func(s *server, _ *call.Request, _ *memory) { s.Engine.Desk.Fallback = false }, false},
		{"no caller", func(_ *server, r *call.Request, _ *memory) { r.Principal = "" }, false},
		{"no tasks", func(_ *server, _ *call.Request, m *memory) { m.Sleeps = false }, false},
	} {
		out, err := serve(t, func(s *server, r *call.Request, m *memory) {
			s.Engine.Desk.Fallback = true
			c.change(s, r, m)
		}, func(call *call.Call) error {
			_, err := ask(call, "who")
			return err
		})
		if err != nil || len(out.Questions) != 1 {
			t.Fatalf("%s: %v, %v", c.says, out, err)
		}
		q := out.Questions[0]
		if q.Fallback != c.goes || slices.Equal(q.For, []string{"user:ada"}) != c.goes {
			t.Errorf("%s: a fallback %v, for %q", c.says, q.Fallback, q.For)
		}
	}
}

// An answer that came faster than a person reads was shown to nobody. An accept counts all the same, and so does an
// answer whose time nobody knows.
func TestAnswersThatCameTooFast(t *testing.T) {
	form := questionForName(t)
	for _, c := range []struct {
		raw, want string
		fallback  bool
	}{
		{`{"action":"decline","after":999}`, `{"action":"decline","after":999,"shown":false}`, false},
		{`{"action":"decline","after":999}`, "not shown", true},
		{`{"action":"decline","after":1000}`, `{"action":"decline","after":1000}`, true},
		{`{"action":"cancel"}`, `{"action":"cancel"}`, true},
		{`{"action":"accept","after":1}`, `{"action":"accept"}`, true},
	} {
		within(t, nil, func(call *call.Call) error {
			q := *form
			q.Fallback = c.fallback
			action, _ := question.Action([]byte(c.raw))
			record, err := call.Screen(&q, []byte(c.raw), []byte(`{"action":"`+action+`"}`))
			got := string(record)
			if errors.Is(err, journal.ErrNotShown) {
				got = "not shown"
			}
			if got != c.want {
				t.Errorf("%s, with a fallback %v: %s, %v, want %s", c.raw, c.fallback, got, err, c.want)
			}
			return nil
		})
	}
	measured := call.Answers{Responses: map[string][]byte{"a": []byte(`{"action":"decline","after":0}`)}}
	measured.Measure(func(string) time.Duration { return time.Minute })
	expect.Equal(t, "measured", string(measured.Responses["a"]), `{"action":"decline","after":60000}`)
}

func questionForName(t *testing.T) *question.Question {
	t.Helper()
	q := expect.Must(question.ForeignForm("Who?", map[string]any{"type": "object"}))(t)
	return q
}
