package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestTasksOfAskback(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, dialect := range []client.TaskDialect{client.TasksAuto, client.TasksProposal, client.TasksOff} {
			for name, transport := range map[string]func(*testing.T, *askback.Server) mcp.Transport{
				"http": func(t *testing.T, srv *askback.Server) mcp.Transport { return web(t, srv) }, "memory": memory,
			} {
				t.Run(fmt.Sprint(version, " ", dialect, " ", name), func(t *testing.T) {
					t.Parallel()
					srv := newTaskServer(t)
					opts := answers()
					opts.Tasks = dialect
					var asked []string
					form := opts.Form
					opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
						asked = append(asked, q.Message)
						return form(ctx, q)
					}
					session := connect(t, opts, transport(t, srv), version)
					for _, tool := range []string{"work", "detach", "only"} {
						res, err := called(t, session, tool)
						if tool == "only" && dialect == client.TasksOff {
							if err == nil {
								t.Error("a call that can only be a task was none")
							}
							continue
						}
						if got := said(t, res, err); got != worked || len(asked) != 1 {
							t.Errorf("%s: got %q, asked %q", tool, got, asked)
						}
						asked = nil
					}
					res, err := called(t, session, "fails")
					if got := said(t, res, err); !res.IsError || !strings.Contains(got, "no luck") {
						t.Errorf("fails: %v", got)
					}
					if dialect == client.TasksOff {
						return
					}

					started, res, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "work"}, time.Minute)
					if err != nil || res != nil || started.Ended() {
						t.Fatalf("started %v, %v, %v", started, res, err)
					}
					if extension := version == "2026-07-28" && dialect == client.TasksAuto; extension == (started.TTL == time.Minute) {
						t.Errorf("started %+v", started)
					}
					expect.Equal(t, "the result", textOf(expect.Must(session.WaitTask(t.Context(), started.ID))(t)), worked)
					expect.Equal(t, "the result", expect.Must(session.GetTask(t.Context(), started.ID))(t).Status, "completed")

					long := start(t, session, "long", 0)
					if err := session.CancelTask(t.Context(), long.ID); err != nil {
						t.Error(err)
					}
					expect.Is(t, "cancelled", expect.Err(session.WaitTask(t.Context(), long.ID)), client.ErrTaskCancelled)
					list, next, err := session.ListTasks(t.Context(), "")
					if version == "2026-07-28" && dialect == client.TasksAuto {
						if err == nil {
							t.Error("the extension has a list")
						}
					} else if err != nil || next != "" || !slices.ContainsFunc(list, func(x *client.Task) bool {
						return x.ID == long.ID && x.Status == "cancelled"
					}) {
						t.Errorf("list %v, %q, %v", list, next, err)
					}
				})
			}
		}
	}
}

// A person answers later, from another process, maybe in another dialect.
func TestTasksOfAskbackWait(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, dialect := range []client.TaskDialect{client.TasksAuto, client.TasksProposal} {
			t.Run(fmt.Sprint(version, " ", dialect), func(t *testing.T) {
				t.Parallel()
				transport := web(t, newTaskServer(t))
				opts := answers()
				opts.Tasks, opts.Form = dialect, park
				first := connect(t, opts, transport, version)
				_, err := called(t, first, "only")
				pending, ok := parked(err)
				if !ok || pending.TaskID == "" {
					t.Fatalf("got %v", err)
				}
				first.Close()
				opts.Form = answers().Form
				if version == "2026-07-28" { // other questions of the round were answered, and their answers are in the Pending
					opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, errors.New("asked again") }
				}
				expect.Equal(t, "the result",
					textOf(expect.Must(connect(t, opts, transport, version).Resume(t.Context(), stored(t, pending)))(t)), worked)
			})
		}
	}
}

func TestTasksOfAskbackAreAnsweredByTheirIDs(t *testing.T) {
	t.Parallel()
	for _, dialect := range []client.TaskDialect{client.TasksAuto, client.TasksProposal} {
		opts := answers()
		opts.Tasks = dialect
		session := connect(t, opts, web(t, newTaskServer(t)), "")
		started := start(t, session, "work", 0)
		var now *client.Task
		for now = started; len(now.Questions) == 0; time.Sleep(5 * time.Millisecond) {
			now = expect.Must(session.GetTask(t.Context(), started.ID))(t)
		}
		if len(now.Questions) != 2 || now.Questions[0].Message != "Who are you?" {
			t.Errorf("asks %v", now.Questions)
		}
		expect.Check(t, session.AnswerTask(t.Context(), started.ID,
			map[string]any{now.Questions[0].Key: &mcp.ElicitResult{Action: "accept",
				Content: map[string]any{"zip": "0150", "name": "octocat"}}}))
		// The handlers answer the rest.
		expect.Equal(t, "the result", textOf(expect.Must(session.WaitTask(t.Context(), started.ID))(t)), worked)
	}
}

// Each change is observed once, and waiting takes few status requests.
func TestTasksOfAskbackAreObserved(t *testing.T) {
	srv := newTaskServer(t)
	for name, transport := range map[string]mcp.Transport{"http": web(t, srv), "memory": memory(t, srv)} {
		opts := answers()
		seen := observed(&opts)
		session := connect(t, opts, transport, "")
		expect.Must(called(t, session, "detach"))(t)
		var steps []string
		for _, line := range *seen {
			line, _, _ = strings.Cut(line, " final")
			line = strings.NewReplacer("tasks/get", "told", "notifications/tasks", "told").Replace(line)
			if !strings.Contains(line, "told working") { // a status that passes quickly
				steps = append(steps, line)
			}
		}
		want := []string{
			`1 tools/call asks who asks roots`,
			`2 tools/call working "The operation is now in progress." answers 2`,
			`3 told input_required "" asks model`,
			`3 tasks/update input_required "" answers 1`,
			`3 told completed ""`,
		}
		expect.Diff(t, name, want, steps)
	}
}
