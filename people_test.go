package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

type deployment struct {
	Version string `json:"version"`
}

// deploy asks two of a group and, when they have not decided in time, one of another.
func deploy(within time.Duration) askback.ToolHandler[deployment, string] {
	return func(ctx context.Context, call *askback.Call, in deployment) (string, error) {
		key, message := "release", "Deploy "+in.Version+"?"
		err := askback.Approve(call, key, askback.Question{
			Message: message, For: []string{askback.Group("release")}, Votes: 2, Within: within,
		})
		if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
			key = "oncall"
			err = askback.Approve(call, key, askback.Question{
				Message: fmt.Sprintf("%s Nobody answered in %v.", message, late.Deadline.Sub(late.Asked)),
				For:     []string{askback.Group("oncall")},
			})
		}
		if no, ok := errors.AsType[*askback.DeclinedError](err); ok {
			by := call.Answers(key)
			return fmt.Sprintf("not deployed: %s: %s says %s", no.Action, by[0].Who, by[0].Why), nil
		}
		if err != nil {
			return "", err
		}
		var names []string
		for _, by := range call.Answers(key) {
			names = append(names, by.Who)
		}
		return "deployed, approved by " + strings.Join(names, " and "), nil
	}
}

func vote(t *testing.T, d *desk.Desk, key string, who desk.Person, action, reason string) error {
	t.Helper()
	var found *desk.Question
	harness.Eventually(t, key+" waits", func() bool {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			expect.Check(t, err)
			if q.Key == key {
				found = q
			}
		}
		return found != nil
	})
	_, err := d.Answer(t.Context(), found.Name, found.Key, desk.Answer{By: who, Action: action, Reason: reason})
	return err
}

// A call that waits for people ends as they decide, for a client that takes tasks and for one that cannot. Nobody else
// decides it.
func TestDeploy(t *testing.T) {
	alice := func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	release := []string{"release"}
	bob, carol := desk.Person{Name: "bob", Groups: release}, desk.Person{Name: "carol", Groups: release}
	dave := desk.Person{Name: "dave", Groups: []string{"oncall"}}
	for _, c := range []struct {
		says   string
		within time.Duration
		people func(t *testing.T, d *desk.Desk)
		want   string
	}{
		{"two approve", time.Hour, func(t *testing.T, d *desk.Desk) {
			if err := vote(t, d, "release", desk.Person{Name: "alice", Groups: release}, "accept", ""); err == nil {
				t.Error("alice approves for herself")
			}
			for _, p := range []desk.Person{bob, carol} {
				if err := vote(t, d, "release", p, "accept", ""); err != nil {
					t.Error(err)
				}
			}
		}, "deployed, approved by bob and carol"},
		{"one declines", time.Hour, func(t *testing.T, d *desk.Desk) {
			err := errors.Join(vote(t, d, "release", bob, "accept", ""), vote(t, d, "release", carol, "decline", "freeze"))
			if err != nil {
				t.Error(err)
			}
		}, "not deployed: decline: carol says freeze"},
		{"nobody answers in time", 100 * time.Millisecond, func(t *testing.T, d *desk.Desk) {
			if err := vote(t, d, "oncall", dave, "accept", ""); err != nil {
				t.Error(err)
			}
		}, "deployed, approved by dave"},
	} {
		for name, capabilities := range map[string]string{"with tasks": harness.WithExtension, "without": `{}`} {
			t.Run(c.says+", "+name, func(t *testing.T) {
				t.Parallel()
				store := new(task.MemoryStore)
				opts := &askback.Options{
					Principal: alice, Desk: &askback.DeskOptions{},
				}
				s := harness.NewTaskServerOn(t, store, opts, harness.AddTool("deploy", deploy(c.within)))
				d := expect.Must(desk.Open(store, nil))(t)
				done := make(chan struct{})
				go func() { defer close(done); c.people(t, d) }()
				result := s.Result(capabilities, "tools/call", "deploy", `"name":"deploy","arguments":{"version":"4.2"}`)
				if id, _ := result["taskId"].(string); id != "" {
					harness.Eventually(t, "the task ends", func() bool {
						now := s.Result(capabilities, "tasks/get", id, `"taskId":"`+id+`"`)
						if now["status"] != "completed" && now["status"] != "working" {
							t.Errorf("the task is %v", now)
						}
						result, _ = now["result"].(map[string]any)
						return result != nil
					})
				}
				<-done
				if got := harness.Content(result); got != c.want {
					all, _ := json.Marshal(result)
					t.Errorf("the result is %s", all)
				}
			})
		}
	}
}

// A handler that returns the error of an approval tells the model who decided, and why. The model must not believe that
// its own user did, or that nobody has voted.
func TestErrorsOfPeopleSayWhoDecided(t *testing.T) {
	accept, decline, dismiss := askbacktest.Accept(nil), askbacktest.Decline(), askbacktest.Cancel()
	for want, answer := range map[string]askbacktest.Answer{
		`bob declined the question "release", because: "It is \"Friday\"."`: askbacktest.InTurn(
			accept.By("ada", "release"), decline.By("bob", "release").Because(`It is "Friday".`)),
		`bob declined the question "release"`:                    decline.By("bob", "release"),
		`bob dismissed the question "release" without an answer`: dismiss.By("bob", "release"),
		`the question "release" was not decided within 2h0m0s`: askbacktest.InTurn(
			accept.By("ada", "release"), askbacktest.Unanswered()),
	} {
		res := askbacktest.Run(t, func(s *askback.Server) {
			type none = struct{}
			askback.AddTool(s, &mcp.Tool{Name: "deploy"}, func(_ context.Context, c *askback.Call, _ none) (string, error) {
				return "", askback.Approve(c, "release", askback.Question{
					Message: "Deploy?", For: []string{askback.Group("release")}, Votes: 2, Within: 2 * time.Hour,
				})
			})
		}, askbacktest.Call{
			Tool: "deploy", Principal: "alice", Answers: map[string]askbacktest.Answer{"release": answer},
		})
		if got, _, _ := strings.Cut(res.Text(), ", until "); got != want {
			t.Errorf("the model reads %q, want %q", got, want)
		}
	}
}

// The operator is told who was asked, what each person said through what, and what came of it, under the name of the
// task.
func TestVotesAreAudited(t *testing.T) {
	var mu sync.Mutex
	var told []string
	store := new(task.MemoryStore)
	s := harness.NewTaskServerOn(t, store, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk:      new(askback.DeskOptions),
		Audit: func(_ context.Context, e askback.AuditEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.For != "" {
				told = append(told, fmt.Sprintf("%s %s %s for %s: %s %s %s %s", e.Method, e.Target, e.Kind, e.For, e.By, e.Action,
					e.Channel, e.Why))
				if len(e.Task) != 26 || len(e.Call) != 26 || e.Principal != "alice" || e.Round < 1 {
					t.Errorf("%+v", e)
				}
			}
		},
	}, harness.AddTool("deploy", deploy(time.Hour)))
	d := expect.Must(desk.Open(store, nil))(t)
	done := make(chan error, 1)
	go func() {
		release := []string{"release"}
		done <- errors.Join(vote(t, d, "release", desk.Person{Name: "bob", Groups: release}, "accept", "tested"),
			vote(t, d, "release", desk.Person{Name: "carol", Groups: release}, "decline", "freeze"))
	}()
	s.Result(`{}`, "tools/call", "deploy", `"name":"deploy","arguments":{"version":"4.2"}`)
	expect.Check(t, <-done)
	const question = "tools/call deploy %s for group:release: %s"
	want := []string{
		fmt.Sprintf(question, "asked", "   "),
		fmt.Sprintf(question, "voted", "bob accept desk tested"),
		fmt.Sprintf(question, "voted", "carol decline desk freeze"),
		fmt.Sprintf(question, "decided", " decline  "),
	}
	mu.Lock()
	defer mu.Unlock()
	expect.Diff(t, "the value", want, told)
}

// An instance that has no desk yet, or none any more, leaves the tasks of the others alone: its handler would get an
// error from the first question for people, and end the call.
func TestAnInstanceWithoutADeskLeavesItsTasks(t *testing.T) {
	synctest.Test(t, testAnInstanceWithoutADeskLeavesItsTasks)
}

func testAnInstanceWithoutADeskLeavesItsTasks(t *testing.T) {
	store := new(task.MemoryStore)
	type lines = func(message string) []map[string]any
	instance := func(
		o *askback.DeskOptions, h askback.ToolHandler[deployment, string],
	) (*harness.TaskServer, lines) {
		logger, _, lines := harness.JSONLogs()
		opts := &askback.Options{
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
			Desk:      o, Logger: logger,
		}
		return harness.NewTaskServerOn(t, store, opts, harness.AddTask("deploy", nil, h)), lines
	}
	first, _ := instance(new(askback.DeskOptions), deploy(time.Hour))
	result := first.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy","arguments":{"version":"4.2"}`)
	d := expect.Must(desk.Open(store, nil))(t)
	expect.Check(t, vote(t, d, "release", desk.Person{Name: "bob", Groups: []string{"release"}}, "accept", ""))
	first.Stop()
	without, logged := instance(nil, func(context.Context, *askback.Call, deployment) (string, error) {
		t.Error("the handler runs without a desk")
		return "", nil
	})
	expect.Check(t, vote(t, d, "release", desk.Person{Name: "carol", Groups: []string{"release"}}, "accept", ""))
	harness.Eventually(t, "the instance without a desk leaves the task", func() bool {
		return logged("task: leaving tasks of this target to other processes") != nil
	})
	without.Stop() // it would look for the task as often as the next one
	last, _ := instance(new(askback.DeskOptions), deploy(time.Hour))
	ended := last.Get(harness.WithExtension, result["taskId"].(string), "completed")
	if got, want := harness.Content(ended["result"].(map[string]any)), "deployed, approved by bob and carol"; got != want {
		t.Errorf("the result is %q", got)
	}
}

// The operator observes how long people took to decide or did not, how long tasks waited for a worker, what the store
// and the notices took, all of one task under its name.
func TestWhatPeopleDecideIsObserved(t *testing.T) { synctest.Test(t, testWhatPeopleDecideIsObserved) }

func testWhatPeopleDecideIsObserved(t *testing.T) {
	const within = 100 * time.Millisecond
	w := new(follower)
	store := new(task.MemoryStore)
	s := harness.NewTaskServerOn(t, store, &askback.Options{
		Observe:   w.observe,
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk: &askback.DeskOptions{
			Remind: -1, Notify: func(context.Context, desk.Notice) error { return nil },
		},
	}, harness.AddTool("deploy", deploy(within)))
	seen := func(want int, what string, is func(askback.Operation) bool) {
		t.Helper()
		harness.Eventually(t, what, func() bool {
			ended := w.all()
			return len(ended)-len(slices.DeleteFunc(slices.Clone(ended), is)) == want
		})
	}
	seen(1, "a store that knows who listens", func(op askback.Operation) bool { return op.Step == "Listen" })
	d := expect.Must(desk.Open(store, nil))(t)
	done := make(chan error, 1)
	go func() {
		done <- vote(t, d, "oncall", desk.Person{Name: "dave", Groups: []string{"oncall"}}, "accept", "")
	}()
	s.Result(`{}`, "tools/call", "deploy", `"name":"deploy","arguments":{"version":"4.2"}`)
	expect.Check(t, <-done)
	seen(6, "notices", func(op askback.Operation) bool { return op.Kind == askback.OperationNotice })
	s.Stop()

	var told, delivered, names []string
	methods := make(map[string]bool)
	for _, op := range w.all() {
		if op.Task != "" && !slices.Contains(names, op.Task) {
			names = append(names, op.Task)
		}
		switch op.Kind {
		case askback.OperationQuestion:
			told = append(told, fmt.Sprintf("%s %s %v %s", op.Method, op.Target, op.Asked, op.Outcome))
			has := !op.Deadline.IsZero()
			if op.Trace != "trace 1" || len(op.Call) != 26 || op.Meta("x") != "" || op.Round < 2 ||
				has != (op.Outcome == "unanswered") || has && (op.Waited != within || !op.Began.Add(within).Equal(op.Deadline)) ||
				op.Waited < 0 || op.Waited > time.Minute {
				t.Errorf("%+v", op)
			}
		case askback.OperationRun:
			if op.Waited < 0 || op.Waited > time.Minute {
				t.Errorf("a run has waited for %v", op.Waited)
			}
		case askback.OperationStore:
			methods[op.Step] = true
			if _, is := reflect.TypeOf(store).MethodByName(op.Step); !is || op.Began.IsZero() ||
				op.Outcome != "completed" && op.Outcome != "cancelled" {
				t.Errorf("%+v", op)
			}
		case askback.OperationNotice:
			delivered = append(delivered, op.Target+" "+op.Step+" "+op.Outcome)
		}
	}
	want := []string{"tools/call deploy [release] unanswered", "tools/call deploy [oncall] accept"}
	expect.Diff(t, "questions", want, told)
	want = []string{"deploy asked completed", "deploy unanswered completed", "deploy asked completed",
		"deploy decided completed", "deploy ended completed", "deploy ended completed"}
	expect.Diff(t, "notices", want, delivered)
	for _, method := range []string{"Insert", "Update", "Overdue", "ChangeQuestion", "Questions", "Listen", "Notices",
		"Settle"} {
		if !methods[method] {
			t.Errorf("nothing is told of %s: %v", method, methods)
		}
	}
	if len(names) != 1 || len(names[0]) != 26 {
		t.Errorf("the names of the task: %q", names)
	}
}

// The page that clients are told is a URL.
func TestThePageOfADeskIsAURL(t *testing.T) {
	for _, page := range []string{"inbox.example", "/inbox", "javascript:alert(1)", "http://"} {
		_, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil), &askback.Options{
			Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Desk: &askback.DeskOptions{Page: page},
		})
		expect.Fails(t, page, err, "Options.Desk.Page is")
	}
}
