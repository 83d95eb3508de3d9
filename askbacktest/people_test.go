package askbacktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// approving is a handler that asks the group release with the question's other fields.
func approving(q askback.Question) handler {
	return func(_ context.Context, call *askback.Call) (string, error) {
		q.Message, q.For = "Deploy?", []string{askback.Group("release")}
		if err := askback.Approve(call, "approve", q); err != nil {
			return "", err
		}
		return "deployed", nil
	}
}

func byPeople(answers ...askbacktest.Answer) askbacktest.Call {
	return askbacktest.Call{Tool: "tool", Principal: "carol",
		Answers: map[string]askbacktest.Answer{"approve": askbacktest.InTurn(answers...)}}
}

var ada = askbacktest.Accept(nil).By("ada", "release")

// What a script says of people that cannot be so fails the test, with the way out.
func TestMistakesAboutPeopleAreTold(t *testing.T) {
	counter := 0
	now := func(within time.Duration) string { return time.Now().Truncate(within).String() }
	for _, c := range []struct {
		says    string
		handler handler
		call    askbacktest.Call
		want    string
	}{
		{"nobody answers", approving(askback.Question{}), askbacktest.Call{Tool: "tool", Principal: "carol"},
			`askbacktest: no answer for the question "approve" ("Deploy?"), which is for group:release: add one to ` +
				`Call.Answers`},
		{"a vote is missing", approving(askback.Question{Votes: 2}), byPeople(ada),
			`askbacktest: the question "approve" has too few votes: add them to Call.Answers["approve"], or Unanswered()`},
		{"the same vote twice", approving(askback.Question{Votes: 2}), byPeople(ada, ada), `askbacktest: the question ` +
			`"approve" has too few votes`},
		{"the client answers", approving(askback.Question{}), byPeople(askbacktest.Accept(nil)),
			`askbacktest: the question "approve" is for group:release: name with By who answers`},
		{"no deadline passes", approving(askback.Question{}), byPeople(askbacktest.Unanswered()),
			`askbacktest: the question "approve" has no deadline that could pass: set its Within`},
		{"a person answers for the client", asking(func() string { return "?" }), askbacktest.Call{Tool: "tool",
			Answers: map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"}).By("ada")}},
			`askbacktest: the question "q" is for the client: leave out By in Call.Answers["q"]`},
		{"no deadline of the client passes", asking(func() string { return "?" }), askbacktest.Call{Tool: "tool",
			Answers: map[string]askbacktest.Answer{"q": askbacktest.Unanswered()}},
			`askbacktest: the question "q" has no deadline that could pass: set its Within`},
		{"an answer does not fit", func(_ context.Context, call *askback.Call) (string, error) {
			_, err := askback.ElicitWith[name](call, "approve", askback.Question{
				Message: "Who?", For: []string{askback.Group("release")}, Schema: json.RawMessage(
					`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)})
			return "done", err
		}, byPeople(ada), `askbacktest: the answer of ada to the question "approve": the answer does not fit`},
		{"a question for people with a clock", func(ctx context.Context, call *askback.Call) (string, error) {
			return "done", askback.Approve(call, "approve", askback.Question{
				Message: "Deploy before " + now(24*time.Hour) + "?", For: []string{askback.Group("release")}})
		}, byPeople(ada), "askbacktest: the handler was replayed 7 days later, and asked something else:\n\t" +
			`question "approve": `},
		{"other people each time", func(ctx context.Context, call *askback.Call) (string, error) {
			counter++
			return "done", askback.Approve(call, "approve", askback.Question{
				Message: "Deploy?", For: []string{askback.Group(fmt.Sprint("release ", counter))}})
		}, byPeople(ada), "askbacktest: the request was sent a second time, as a client does when a response is lost, and " +
			"its outcome changed:\n\t" + `question "approve": for`},
		{"a question after a deadline with a clock", func(ctx context.Context, call *askback.Call) (string, error) {
			if _, err := approving(askback.Question{Within: time.Hour})(ctx, call); err == nil ||
				errors.Is(err, askback.ErrInputRequired) {
				return "deployed", err
			}
			return "done", askback.Approve(call, "escalate", askback.Question{
				Message: "Deploy before " + now(24*time.Hour) + "?", For: []string{askback.Group("oncall")}})
		}, byPeople(askbacktest.Unanswered()), "askbacktest: the handler was replayed 7 days later"},
	} {
		t.Run(c.says, func(t *testing.T) {
			if got := failures(t, register(c.handler), c.call); !strings.HasPrefix(got, c.want) {
				t.Errorf("failed with:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// An effect outside of a step is found between a question for people and a sleep, too.
func TestEffectsBetweenQuestionsForPeople(t *testing.T) {
	for _, where := range []string{"before", "between", "behind", ""} {
		var effects askbacktest.Effects
		effect := func(place string) {
			if place == where {
				effects.Record("mail")
			}
		}
		c := byPeople(ada)
		c.Effects = &effects
		got := failures(t, register(func(ctx context.Context, call *askback.Call) (string, error) {
			effect("before")
			if _, err := approving(askback.Question{})(ctx, call); err != nil {
				return "", err
			}
			effect("between")
			if err := call.Sleep("night", 8*time.Hour); err != nil {
				return "", err
			}
			effect("behind")
			return "done", nil
		}), c)
		if where == "" && got != "" || where != "" && !strings.Contains(got, `effect "mail" happens outside of a step`) {
			t.Errorf("%q: failed with %q", where, got)
		}
	}
}

// Only a task can sleep, as in a server.
func TestASleepOutsideOfATask(t *testing.T) {
	got := failures(t, register(func(_ context.Context, call *askback.Call) (string, error) {
		return "done", call.Sleep("night", time.Hour)
	}), askbacktest.Call{Tool: "tool"})
	if !strings.HasPrefix(got, `askbacktest: sleep "night": only a task can sleep`) {
		t.Errorf("failed with %q", got)
	}
}

// A form may be edited: the count begins anew, and all must say the same.
func TestPeopleEdit(t *testing.T) {
	window := func(hour int, who string) askbacktest.Answer {
		return askbacktest.Accept(map[string]any{"hour": hour}).By(who, "release")
	}
	handler := func(_ context.Context, call *askback.Call) (string, error) {
		at, err := askback.ElicitWith[struct{ Hour int }](call, "approve", askback.Question{
			Message: "When?", For: []string{askback.Group("release")}, Votes: 2, Schema: json.RawMessage(
				`{"type":"object","properties":{"hour":{"type":"integer"}},"required":["hour"]}`)})
		if err != nil {
			return "", err
		}
		by := call.Answers("approve")
		return fmt.Sprintf("at %d, by %s and %s", at.Hour, by[0].Who, by[1].Who), nil
	}
	res := askbacktest.Run(t, register(handler), byPeople(window(9, "ada"), window(22, "bob"), window(22, "eve")))
	expect.Equal(t, "res.Text()", res.Text(), "at 22, by bob and eve")
}

// The questions for the client come first, and each deadline passes on its own.
func TestDeadlinesOfARound(t *testing.T) {
	for _, late := range []string{"", "host", "approve", "both"} {
		handler := func(_ context.Context, call *askback.Call) (string, error) {
			_, err1 := askback.ElicitWith[name](call, "host", askback.Question{Message: "Who?", Within: time.Hour,
				Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
			err2 := askback.Approve(call, "approve", askback.Question{Message: "Deploy?", Within: 2 * time.Hour,
				For: []string{askback.User("ada")}})
			if err := errors.Join(err1, err2); errors.Is(err, askback.ErrInputRequired) {
				return "", err
			}
			var text []string
			for _, err := range []error{err1, err2} {
				if e, ok := errors.AsType[*askback.UnansweredError](err); ok {
					text = append(text, e.Key+" after "+e.Deadline.Sub(e.Asked).String())
				} else if err != nil {
					return "", err
				}
			}
			return strings.Join(text, ", "), nil
		}
		answers := map[string]askbacktest.Answer{
			"host": askbacktest.Accept(name{"x"}), "approve": askbacktest.Accept(nil).By("ada"),
		}
		var want []string
		if late == "host" || late == "both" {
			answers["host"] = askbacktest.Unanswered()
			want = append(want, "host after 1h0m0s")
		}
		if late == "approve" || late == "both" {
			answers["approve"] = askbacktest.Unanswered()
			want = append(want, "approve after 2h0m0s")
		}
		res := askbacktest.Run(t, register(handler), askbacktest.Call{Tool: "tool", Principal: "carol", Answers: answers})
		if diff := cmp.Diff(strings.Join(want, ", "), res.Text()); diff != "" {
			t.Errorf("%q late (-want +got):\n%s", late, diff)
		}
		if diff := cmp.Diff([][]string{{"host"}, {"approve"}}, res.Asked); diff != "" {
			t.Errorf("%q late: asked (-want +got):\n%s", late, diff)
		}
	}
}

// A host that cannot ask leaves the question to its user at the desk, if the operator allows it.
func TestAFallback(t *testing.T) {
	res := askbacktest.Run(t, register(asking(func() string { return "Who?" })), askbacktest.Call{
		Tool: "tool", Principal: "carol", Cannot: askback.CapabilityForm,
		Answers: map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"x"}).By("carol")},
		Options: askback.Options{Desk: &askback.DeskOptions{Fallback: true}},
	})
	expect.Equal(t, "res.Text()", res.Text(), "done")
}

// deploy is the tool of the examples: it asks two of the group release and, if they do not decide in time, somebody on
// call.
func deploy(_ context.Context, call *askback.Call) (string, error) {
	asked := "approve"
	err := askback.Approve(call, asked, askback.Question{
		Message: "Deploy?", For: []string{askback.Group("release")}, Votes: 2, Within: 4 * time.Hour,
	})
	if _, late := errors.AsType[*askback.UnansweredError](err); late {
		asked = "escalate"
		err = askback.Approve(call, asked, askback.Question{Message: "Deploy?", For: []string{askback.Group("oncall")}})
	}
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		by := call.Answers(asked)[0]
		return fmt.Sprintf("Not deployed: %s: %s.", by.Who, by.Why), nil
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Deployed, approved by %d.", len(call.Answers(asked))), nil
}

// Two must approve. The caller's own vote does not count.
func ExampleAnswer_By() {
	test(func(t testing.TB) {
		res := run(t, deploy, askbacktest.Call{
			Principal: "carol",
			Answers: map[string]askbacktest.Answer{"approve": askbacktest.InTurn(
				askbacktest.Accept(nil).By("carol", "release"),
				askbacktest.Accept(nil).By("ada", "release"),
				askbacktest.Accept(nil).By("bob", "release"),
			)},
		})
		fmt.Println(res.Text())
		fmt.Println(len(res.Refused), errors.Is(res.Refused[0], desk.ErrOwnCall))
	})
	// Output:
	// Deployed, approved by 2.
	// 1 true
}

// One who declines ends the question.
func ExampleAnswer_Because() {
	test(func(t testing.TB) {
		res := run(t, deploy, askbacktest.Call{
			Principal: "carol",
			Answers: map[string]askbacktest.Answer{"approve": askbacktest.InTurn(
				askbacktest.Accept(nil).By("ada", "release"),
				askbacktest.Decline().By("bob", "release").Because("it is Friday"),
			)},
		})
		fmt.Println(res.Text())
	})
	// Output: Not deployed: bob: it is Friday.
}

// The deadline passes after one of two votes. The other vote comes too late.
func ExampleUnanswered() {
	test(func(t testing.TB) {
		res := run(t, deploy, askbacktest.Call{
			Principal: "carol",
			Answers: map[string]askbacktest.Answer{
				"approve": askbacktest.InTurn(
					askbacktest.Accept(nil).By("ada", "release"),
					askbacktest.Unanswered(),
					askbacktest.Accept(nil).By("bob", "release"),
				),
				"escalate": askbacktest.Accept(nil).By("dora", "oncall"),
			},
		})
		fmt.Println(res.Asked)
		fmt.Println(res.Text())
		fmt.Println(len(res.Refused), errors.Is(res.Refused[0], task.ErrLate))
	})
	// Output:
	// [[approve] [escalate]]
	// Deployed, approved by 1.
	// 1 true
}

// A sleep of a task ends at once.
func ExampleRun_sleep() {
	rollOut := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		if err := call.Do(ctx, "one machine", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		if err := call.Sleep("watch it", 24*time.Hour); err != nil {
			return "", err
		}
		return "Rolled out.", call.Do(ctx, "all machines", func(context.Context) error { return nil })
	}
	test(func(t testing.TB) {
		res := askbacktest.Run(t, func(srv *askback.Server) {
			askback.AddTaskTool(srv, &mcp.Tool{Name: "roll_out"}, nil, rollOut)
		}, askbacktest.Call{Tool: "roll_out"})
		fmt.Println(res.Text())
	})
	// Output: Rolled out.
}

// A task sleeps in a test as often as in a server, and asks after it.
func TestATaskSleepsOften(t *testing.T) {
	res := askbacktest.Run(t, func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "tool"}, nil,
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				for i := range 33 {
					if err := call.Sleep(fmt.Sprint("pause ", i), time.Hour); err != nil {
						return "", err
					}
				}
				who, err := askback.Elicit[name](call, "q", "Who?")
				return who.Name, err
			})
	}, askbacktest.Call{Tool: "tool", Answers: map[string]askbacktest.Answer{"q": askbacktest.Accept(name{"Ada"})}})
	expect.Equal(t, "res.Text()", res.Text(), "Ada")
}

// A client of a test answers at once, and its user has read the question all the same.
func TestADeclineWasShown(t *testing.T) {
	res := askbacktest.Run(t, register(func(_ context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[name](call, "q", "Who?")
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
			return fmt.Sprint("not shown: ", declined.NotShown), nil
		}
		return "", err
	}), askbacktest.Call{Tool: "tool", Answers: map[string]askbacktest.Answer{"q": askbacktest.Decline()}})
	expect.Equal(t, "res.Text()", res.Text(), "not shown: false")
}
