package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// ttl is the time to live of the tasks of [anHour].
const ttl = time.Hour

func anHour() *askback.Options {
	return &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore), Settings: task.Settings{TTL: ttl}}}
}

// addWork adds tools that ask, and then work for most of an hour.
func addWork(srv *askback.Server) {
	work := func(call *askback.Call) (string, error) {
		err := call.Do(context.Background(), "work", func(ctx context.Context) error {
			select {
			case <-time.After(ttl - 10*time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		return "worked", err
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "people"}, nil,
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			err := askback.Approve(call, "release", askback.Question{
				Message: "Go?", For: []string{askback.Group("release")}, Votes: 2,
			})
			if err != nil {
				return "", err
			}
			return work(call)
		})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "client"}, nil,
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			if _, err := askback.Elicit[harness.Login](call, "login", "Who are you?"); err != nil {
				return "", err
			}
			return work(call)
		})
}

// An answer that was acknowledged in the last second of a task leaves the work its whole time, whoever gave it, and
// however little time the client wanted.
func TestAnAnswerLeavesTheWorkItsTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ says, tool, members string }{
		{"people", "people", ``},
		{"people, and the client wanted a minute", "people", `,"task":{"ttl":60000}`},
		{"the client", "client", ``},
	} {
		t.Run(c.says, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				b := newBubble(t, anHour(), addWork)
				capabilities := harness.WithExtension
				if c.members != "" {
					capabilities = harness.ProposalOnly
				}
				created := b.result("tools/call", c.tool, `"name":"`+c.tool+`"`+c.members, capabilities)
				id, _ := harness.At(created, "taskId").(string)
				if c.members != "" {
					id, _ = harness.At(created, "task", "taskId").(string)
				}
				synctest.Wait()
				time.Sleep(ttl - time.Second)
				if c.tool == "people" {
					approve(t, b.desk, task.Name(id))
				} else {
					b.result("tasks/update", id, `"taskId":"`+id+`","inputResponses":{"login":`+accepts+`}`, capabilities)
				}
				time.Sleep(ttl - time.Minute)
				synctest.Wait()
				target := id
				if c.members != "" {
					target = ""
				}
				harness.Want(t, "it", b.result("tasks/get", target, `"taskId":"`+id+`"`, capabilities), "completed", "status")
			})
		})
	}
}

// A task that nobody answers ends in its time, and one that is cancelled after a decision stays cancelled.
func TestWhatIsNotAnsweredEndsInItsTime(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, anHour(), addWork)
		create := func() string {
			id, _ := b.result("tools/call", "people", `"name":"people"`, harness.WithExtension)["taskId"].(string)
			return id
		}
		late, cancelled := create(), create()
		synctest.Wait()
		time.Sleep(ttl - time.Second)
		approve(t, b.desk, task.Name(cancelled))
		b.result("tasks/cancel", cancelled, `"taskId":"`+cancelled+`"`, harness.WithExtension)
		time.Sleep(ttl)
		synctest.Wait()
		for id, want := range map[string]string{late: "failed", cancelled: "cancelled"} {
			harness.Want(t, "it", b.result("tasks/get", id, `"taskId":"`+id+`"`, harness.WithExtension), want, "status")
		}
	})
}

// A deadline, and the time that a task lives beyond it, are the store's to count: an instance whose clock is off asks
// as any other does.
func TestAnInstanceWithAnotherClockAsks(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			opts := anHour()
			opts.Tasks.TTL, opts.Desk = time.Minute, new(askback.DeskOptions)
			srv := harness.NewServer(t, opts, harness.AddTask("ask", nil,
				func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
					err := askback.Approve(call, "ask", askback.Question{
						Message: "?", For: []string{askback.User("bob")}, Within: 20 * time.Minute,
					})
					late, ok := errors.AsType[*askback.UnansweredError](err)
					if !ok {
						return "", err
					}
					err = call.Do(ctx, "escalate", func(context.Context) error { time.Sleep(30 * time.Second); return nil })
					return "unanswered after " + late.Deadline.Sub(began).String(), err
				}))
			ctx, stop := context.WithCancel(clock.WithOff(context.Background(), func() time.Duration { return off }))
			go srv.RunTasks(ctx)
			b := &bubble{t: t, Handler: srv.HTTPHandler(nil)}
			id, _ := b.result("tools/call", "ask", `"name":"ask"`, harness.WithExtension)["taskId"].(string)
			time.Sleep(21 * time.Minute)
			result := b.result("tasks/get", id, `"taskId":"`+id+`"`, harness.WithExtension)["result"]
			if got := fmt.Sprint(result); !strings.Contains(got, "unanswered after 20m0s") {
				t.Errorf("off by %v: it ended with %s", off, got)
			}
			stop()
			time.Sleep(time.Minute)
		})
	}
}
