package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// An author's mistake is an error at the ask that says what to write instead. It ends the call, also while another
// question is open, and nothing is sent.
func TestMistakesInQuestions(t *testing.T) {
	release := []string{askback.Group("release")}
	named := func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	for _, c := range []struct {
		says string
		q    askback.Question
		key  string // empty is "key"
		opts askback.Options
		want string // behind the key
	}{
		{says: "no prefix", q: askback.Question{For: []string{"bob"}},
			want: `"bob" in For is nobody: write askback.User(name) or askback.Group(name)`},
		{says: "another prefix", q: askback.Question{For: []string{"role:release"}},
			want: `"role:release" in For is nobody`},
		{says: "no name", q: askback.Question{For: []string{askback.Group("")}},
			want: `"group:" in For: a name has 1 to 256`},
		{says: "a line break in a name", q: askback.Question{For: []string{askback.User("a\nb")}},
			want: `"user:a\nb" in For: a name has`},
		{says: "a name that is no text", q: askback.Question{For: []string{askback.User("\xff")}},
			want: `"user:\xff" in For: a name has`},
		{says: "a long name", q: askback.Question{For: []string{askback.User(strings.Repeat("x", 257))}},
			want: `a name has 1 to 256 bytes`},
		{says: "more votes than users", q: askback.Question{For: []string{askback.User("a"), askback.User("b")}, Votes: 3},
			want: `3 Votes of 2 users: nobody votes twice`},
		{says: "one user twice", q: askback.Question{For: []string{askback.User("a"), askback.User("a")}, Votes: 2},
			want: `2 Votes of 1 users: nobody votes twice`},
		{says: "negative votes", q: askback.Question{For: release, Votes: -1}, want: `-1 Votes are negative`},
		{says: "votes of nobody", q: askback.Question{Votes: 2}, want: `2 Votes, but nobody to give them`},
		{says: "a negative time", q: askback.Question{Within: -time.Second}, want: `its Within of -1s is negative`},
		{says: "more time than the operator allows", q: askback.Question{Within: 2 * time.Hour},
			opts: askback.Options{Limits: askback.Limits{Within: time.Hour}},
			want: `its Within of 2h0m0s is more than Limits.Within, 1h0m0s`},
		{says: "more time than the default", q: askback.Question{Within: 31 * 24 * time.Hour},
			want: `more than Limits.Within, 720h`},
		{says: "a key that a store cannot keep", q: askback.Question{For: release}, key: strings.Repeat("k", 257),
			want: `its key of 257 bytes`},
		{says: "a key that is no text", q: askback.Question{For: release}, key: "k\x00", want: `its key of 2 bytes`},
		{says: "no desk", q: askback.Question{For: release}, want: `which needs Options.Desk`},
		{says: "an anonymous caller with a group", q: askback.Question{For: release},
			opts: askback.Options{Principal: nobody},
			want: `the caller is anonymous, and an anonymous caller's question cannot go to a group`},
	} {
		opts := c.opts
		if opts.Principal == nil {
			opts.Principal = named
		}
		if c.key == "" {
			c.key = "key"
		}
		c.q.Message = "Sure?"
		h := harness.NewServer(t, &opts, harness.AddTool("ask", func(ctx context.Context, call *askback.Call,
			_ struct{}) (string, error) {
			_, open := askback.Elicit[harness.Login](call, "open", "Who?")
			return "asked", errors.Join(open, askback.Approve(call, c.key, c.q))
		})).HTTPHandler(nil)
		res := harness.Request{Target: "ask"}.Send(t, h)
		if res.Result == nil || !res.Result.IsError || len(res.Result.Requests) > 0 || res.Result.State != "" {
			t.Errorf("%s: %s", c.says, res.Raw)
			continue
		}
		text := res.Text(t)
		if !strings.Contains(text, c.want) || !strings.Contains(text, `question "k`) {
			t.Errorf("%s: %s", c.says, text)
		}
	}
}

// A mistake is a line of the log for each handler, and not for each request. A client that can make ever new ones of a
// kind hides no mistake of another kind, nor of another handler.
func TestMistakesAreLoggedOnce(t *testing.T) {
	out := new(harness.Log)
	type args struct {
		Who   string `json:"who,omitempty"`
		Empty bool   `json:"empty,omitempty"`
	}
	ask := func(_ context.Context, call *askback.Call, in args) (string, error) {
		if in.Empty {
			_, err := askback.Elicit[harness.Login](call, "", "Who?")
			return "", fmt.Errorf("in vain: %v", err)
		}
		return "", askback.Approve(call, "approve", askback.Question{Message: "Sure?", For: []string{in.Who}})
	}
	h := harness.NewServer(t, &askback.Options{Logger: slog.New(slog.NewTextHandler(out, nil))}, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "one"}, ask)
		askback.AddTool(s, &mcp.Tool{Name: "other"}, ask)
	}).HTTPHandler(nil)
	call := func(target, arguments string) {
		if text := (harness.Request{Target: target, Arguments: arguments}).Send(t, h).Text(t); text == "" {
			t.Errorf("%s: the client is told nothing", target)
		}
	}
	logged := func(what string) int { return strings.Count(out.String(), what) }
	for range 3 {
		call("one", `{"who":"ada"}`)
	}
	if n := logged(`mistake="question \"approve\": \"ada\" in For is nobody`); n != 1 {
		t.Fatalf("one mistake in three calls is logged %d times:\n%s", n, out)
	}
	for i := range 100 {
		call("one", fmt.Sprintf(`{"who":"%d"}`, i))
	}
	if n := logged("in For is nobody"); n != 8 || logged("further mistakes of this kind are not logged") != 1 {
		t.Errorf("a hundred mistakes of one kind are logged %d times:\n%s", n, out)
	}
	call("one", `{"empty":true}`)
	call("other", `{"who":"ada"}`)
	if logged("a question needs a key") != 1 || logged("target=other") != 1 {
		t.Errorf("a mistake of another kind, or of another handler, is not logged:\n%s", out)
	}
	if n := logged("\n"); n != 10 {
		t.Errorf("the log has %d lines:\n%s", n, out)
	}
}

func nobody(context.Context, *mcp.RequestExtra) (string, error) { return "", nil }

// Only tools can wait for people.
func TestOnlyToolsWaitForPeople(t *testing.T) {
	opts := &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)}, Desk: &askback.DeskOptions{Fallback: true},
	}
	approve := func(call *askback.Call) error {
		return askback.Approve(call, "key", askback.Question{Message: "Sure?", For: []string{askback.User("bob")}})
	}
	h := harness.NewServer(t, opts, func(s *askback.Server) {
		s.AddPrompt(&mcp.Prompt{Name: "p"}, func(_ context.Context, call *askback.Call,
			_ map[string]string) (*mcp.GetPromptResult, error) {
			return new(mcp.GetPromptResult), approve(call)
		})
		s.AddResource(&mcp.Resource{Name: "r", URI: "doc://r"}, func(_ context.Context, call *askback.Call,
			_ string) (*mcp.ReadResourceResult, error) {
			return new(mcp.ReadResourceResult), approve(call)
		})
		s.AddPrompt(&mcp.Prompt{Name: "fallback"}, func(_ context.Context, call *askback.Call,
			_ map[string]string) (*mcp.GetPromptResult, error) {
			_, err := askback.Elicit[harness.Login](call, "login", "Who?")
			return new(mcp.GetPromptResult), err
		})
	}).HTTPHandler(nil)
	for _, r := range []harness.Request{
		{Method: "prompts/get", Target: "p"}, {Method: "resources/read", Target: "doc://r"},
	} {
		if res := r.Send(t, h); res.Error == nil || !strings.Contains(res.Error.Message, "only tools can wait for that") {
			t.Errorf("%s: %s", r.Method, res.Raw)
		}
	}
	// Nor do they fall back to people.
	res := harness.Request{Method: "prompts/get", Target: "fallback", Capabilities: `{}`}.Send(t, h)
	if res.Error == nil || res.Error.Code != -32021 {
		t.Errorf("a prompt whose client cannot be asked: %s", res.Raw)
	}
}

// A sleep that cannot be is an error that says why.
func TestMistakesInSleeps(t *testing.T) {
	for _, c := range []struct {
		says, want string
		sleep      func(ctx context.Context, call *askback.Call) error
		detach     bool
	}{
		{says: "outside of a task", want: "only a task can sleep: call Detach before it",
			sleep: func(_ context.Context, call *askback.Call) error { return call.Sleep("nap", time.Second) }},
		{says: "without a name", want: "a sleep needs a name", detach: true,
			sleep: func(_ context.Context, call *askback.Call) error { return call.Sleep("", time.Second) }},
		{says: "a name that is no text", want: "the name of a sleep has 1 to", detach: true,
			sleep: func(_ context.Context, call *askback.Call) error { return call.Sleep("\xff", time.Second) }},
		{says: "no time", want: "must be more than zero", detach: true,
			sleep: func(_ context.Context, call *askback.Call) error { return call.Sleep("nap", 0) }},
		{says: "more time than the operator allows",
			want: `sleep "nap": 721h0m0s is more than Limits.Within`, detach: true,
			sleep: func(_ context.Context, call *askback.Call) error { return call.Sleep("nap", 721*time.Hour) }},
		{says: "twice", want: `the sleep "nap" is reached twice in one run: give each its own name`, detach: true,
			sleep: func(_ context.Context, call *askback.Call) error {
				return errors.Join(call.Sleep("nap", time.Second), call.Sleep("nap", time.Second))
			}},
		{says: "in a step", want: "a step cannot ask", detach: true,
			sleep: func(ctx context.Context, call *askback.Call) error {
				return call.Do(ctx, "step", func(context.Context) error { return call.Sleep("nap", time.Second) })
			}},
	} {
		t.Run(c.says, func(t *testing.T) {
			s := harness.NewTaskServer(t, nil, harness.AddText("sleep", &askback.TaskSupport{AtDetach: true},
				func(ctx context.Context, call *askback.Call) (string, error) {
					if c.detach {
						if err := call.Detach(); err != nil {
							return "", err
						}
					}
					return "slept", c.sleep(ctx, call)
				}))
			result := s.Result(harness.WithExtension, "tools/call", "sleep", `"name":"sleep"`)
			if id, ok := result["taskId"].(string); ok {
				result, _ = s.Get(harness.WithExtension, id, "completed")["result"].(map[string]any)
			}
			if text, _ := harness.Content(result).(string); result["isError"] != true || !strings.Contains(text, c.want) {
				t.Errorf("%v", result)
			}
		})
	}
}
