package askback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// An operator who wants it is asked again before a call goes on with what other people have decided. A refusal ends the
// call before its handler runs, and it cleans up; who cannot tell is asked again.
func TestAuthorizeContinues(t *testing.T) {
	busy, gone := fmt.Errorf("the directory is away: %w", askback.ErrUndecided), errors.New("carol has left")
	for _, tt := range []struct {
		says    string
		wants   bool
		by      string
		answers []error // of Authorize
		want    string
		effects int32
	}{
		{says: "she may", wants: true, by: "bob", answers: []error{nil}, want: "done", effects: 1},
		{says: "nobody can tell at first", wants: true, by: "bob", answers: []error{busy, busy, nil}, want: "done",
			effects: 1},
		{says: "she may not", wants: true, by: "bob", answers: []error{gone}, want: "not authorized to go on"},
		{says: "she decides herself", wants: true, by: "carol", want: "done", effects: 1},
		{says: "the operator does not want it", by: "bob", want: "done", effects: 1},
	} {
		t.Run(tt.says, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				var asked, effects, cleaned atomic.Int32
				store := new(task.MemoryStore)
				people := expect.Must(desk.Open(store, nil))(t)
				s := harness.NewTaskServerOn(t, store, &askback.Options{
					Principal:          func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
					Desk:               new(askback.DeskOptions),
					AuthorizeContinues: tt.wants,
					Authorize: func(_ context.Context, a askback.Access) error {
						if !a.Continues {
							return nil
						}
						if a.Extra != nil || a.Principal != "carol" || a.Method != "tools/call" || a.Target != "deploy" {
							t.Errorf("it is asked of %+v", a)
						}
						if n := int(asked.Add(1)); n <= len(tt.answers) {
							return tt.answers[n-1]
						}
						return errors.New("it is asked too often")
					},
				}, harness.AddTask("deploy", nil, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
					call.OnCancel(func(context.Context) error { cleaned.Add(1); return nil })
					q := askback.Question{Message: "Deploy?", For: []string{askback.User("bob"), askback.User("carol")}}
					if err := askback.Approve(call, "release", q); err != nil {
						return "", err
					}
					return "done", call.Do(ctx, "deploy", func(context.Context) error { effects.Add(1); return nil })
				}))
				id := s.Start(harness.WithExtension, `"name":"deploy"`)
				expect.Check(t, vote(t, people, "release", desk.Person{Name: tt.by}, "accept", ""))
				status := "failed"
				if tt.want == "done" {
					status = "completed"
				}
				ended := fmt.Sprint(s.Get(harness.WithExtension, id, status))
				if !strings.Contains(ended, tt.want) || int(asked.Load()) != len(tt.answers) || effects.Load() != tt.effects {
					t.Errorf("it is asked %d times, and %d effects later the task is %s", asked.Load(), effects.Load(), ended)
				}
				if status == "failed" {
					harness.Eventually(t, "it cleans up", func() bool { return cleaned.Load() > 0 })
				}
			})
		})
	}
}

// A request of which nobody can tell whether it is authorized can be sent again.
func TestAuthorizeCannotTell(t *testing.T) {
	srv := harness.NewServer(t, &askback.Options{Authorize: func(context.Context, askback.Access) error {
		return fmt.Errorf("the directory is away: %w", askback.ErrUndecided)
	}}, harness.AddGreet)
	res := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, srv.HTTPHandler(nil))
	if res.Status != 503 || strings.Contains(res.Raw, "directory") {
		t.Errorf("status %d: %s", res.Status, res.Raw)
	}
}

// What others decide while a run goes on that began for another reason is looked at, too.
func TestAuthorizeContinuesInTheMiddleOfARun(t *testing.T) {
	var asked, runs, effects atomic.Int32
	again, goOn := make(chan struct{}), make(chan struct{})
	store := new(task.MemoryStore)
	people := expect.Must(desk.Open(store, nil))(t)
	s := harness.NewTaskServerOn(t, store, &askback.Options{
		Principal:          func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Desk:               new(askback.DeskOptions),
		AuthorizeContinues: true,
		Authorize: func(_ context.Context, a askback.Access) error {
			if a.Continues {
				asked.Add(1)
				return errors.New("carol has left")
			}
			return nil
		},
	}, harness.AddTask("deploy", nil, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		if runs.Add(1) == 2 {
			close(again)
			<-goOn
		}
		own := askback.Approve(call, "own", askback.Question{Message: "?", For: []string{askback.User("carol")}})
		other := askback.Approve(call, "other", askback.Question{Message: "?", For: []string{askback.User("bob")}})
		if err := errors.Join(own, other); errors.Is(err, askback.ErrInputRequired) {
			return "", err
		} // a handler that goes on in spite of any other error
		_ = call.Do(ctx, "deploy", func(context.Context) error { effects.Add(1); return nil })
		return "done", nil
	}))
	id := s.Start(harness.WithExtension, `"name":"deploy"`)
	expect.Check(t, vote(t, people, "own", desk.Person{Name: "carol"}, "accept", ""))
	<-again
	expect.Check(t, vote(t, people, "other", desk.Person{Name: "bob"}, "accept", ""))
	close(goOn)
	s.Get(harness.WithExtension, id, "failed")
	if asked.Load() != 1 || effects.Load() != 0 {
		t.Errorf("it is asked %d times, with %d effects", asked.Load(), effects.Load())
	}
}
