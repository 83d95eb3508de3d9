package askback_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestLimitsNameThemselves(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits askback.Limits
		tool   askback.ToolHandler[struct{}, *mcp.CallToolResult]
	}{
		{"rounds per call", askback.Limits{Rounds: 3}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			return nil, call.Checkpoint(ctx, fmt.Sprint(call.Round()))
		}},
		{"questions per round", askback.Limits{Questions: 1}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			_, err1 := askback.Elicit[harness.Login](call, "a", "?")
			_, err2 := askback.Elicit[harness.Login](call, "b", "?")
			return nil, errors.Join(err1, err2)
		}},
		{"bytes of requestState", askback.Limits{StateBytes: 1000},
			func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
				_, err := askback.Do(ctx, call, "big", func(context.Context) (string, error) {
					return strings.Repeat("x", 2000),
						nil
				})
				if err != nil {
					return nil, err
				}
				return nil, call.Checkpoint(ctx, "c")
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := harness.NewServer(t, &askback.Options{Limits: test.limits}, harness.AddTool("t", test.tool)).HTTPHandler(nil)
			r := harness.Request{Target: "t"}
			for range 10 {
				res := r.Send(t, h)
				if res.Error == nil {
					r.State = res.Asked(t)
					continue
				}
				if res.Refused(t, 200, -32603); !strings.Contains(res.Error.Message, test.name) {
					t.Errorf("message %q", res.Error.Message)
				}
				return
			}
			t.Error("no limit was reached")
		})
	}
}

// If the time of a call ends while its handler works, the error says so.
func TestCallsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			time.Sleep(2 * time.Minute)
			return nil, call.Checkpoint(ctx, "c")
		}
		h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{CallTTL: time.Minute}},
			harness.AddTool("slow", slow)).HTTPHandler(nil)
		expect.Contains(t, "message", (harness.Request{Target: "slow"}).Send(t, h).Refused(t, 200, -32603),
			"60 seconds per call")
	})
}

func TestSharesThatFitNothing(t *testing.T) {
	for _, limits := range []askback.Limits{
		{Requests: askback.Share{Total: -1}}, {Sessions: askback.Share{PerPrincipal: -1}},
		{Streams: askback.Share{Anonymous: -1}},
		{BodyBytes: askback.Share{Total: 1 << 20}}, {BodyBytes: askback.Share{Anonymous: 1 << 20}}, {Batch: -1},
		{SessionCalls: -1}, {Rounds: -1}, {MessageBytes: -1}, {RoundTTL: -1}, {CallTTL: -1},
	} {
		if _, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test"}, nil),
			&askback.Options{Limits: limits}); err == nil {
			t.Errorf("%+v: no error", limits)
		}
	}
	for _, limits := range []askback.Limits{{MessageBytes: 1 << 62}, {BodyBytes: askback.Share{Total: 4 << 20}},
		{Requests: askback.Share{Total: 1}}} {
		srv := harness.NewServer(t, &askback.Options{Limits: limits}, harness.AddGreet)
		harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, srv.HTTPHandler(nil)).Asked(t, "login")
	}
}

// The pages for authors name the defaults that their readers meet first.
func TestDefaultsInTheDocuments(t *testing.T) {
	l, err1 := askback.Defaults()
	engine, err2 := taskrun.NewEngine(new(task.MemoryStore), new(taskrun.Options))
	expect.Check(t, errors.Join(err1, err2))
	s := engine.Settings()
	const day = 24 * time.Hour
	for page, says := range map[string][]string{
		"docs/tools.md": {
			fmt.Sprintf("| %d hour | `Limits.RoundTTL` |", l.RoundTTL/time.Hour),
			fmt.Sprintf("| %d hours | `Limits.CallTTL` |", l.CallTTL/time.Hour),
			fmt.Sprintf("| %d days; ", l.Within/day),
			fmt.Sprintf("| %d KiB | `Limits.StateBytes` |", l.StateBytes>>10),
			fmt.Sprintf("%d questions a round, %d rounds", l.Questions, l.Rounds),
		},
		"docs/tasks.md": {
			fmt.Sprintf("it sleeps for %d days at most", l.Within/day),
			fmt.Sprintf("A task has %d hours", s.TTL/time.Hour),
			fmt.Sprintf("%d days at most. An anonymous caller gets %d hour.", s.MaxTTL/day, s.MaxAnonymousTTL/time.Hour),
			fmt.Sprintf("a lease of %d seconds", s.Lease/time.Second),
			fmt.Sprintf("after %d attempts in a row", s.Attempts),
			fmt.Sprintf("%d unfinished tasks, %d in all, and %d MiB",
				s.PerPrincipal.Unfinished, s.PerPrincipal.Kept, s.PerPrincipal.Bytes>>20),
			fmt.Sprintf("%d, %d, and %d MiB", s.Anonymous.Unfinished, s.Anonymous.Kept, s.Anonymous.Bytes>>20),
			fmt.Sprintf("bounds one task: %d MiB", s.TaskBytes>>20),
			fmt.Sprintf("runs %d tasks at once", s.Workers),
		},
	} {
		text := expect.Must(os.ReadFile(page))(t)
		words := strings.Join(strings.Fields(string(text)), " ")
		for _, want := range says {
			expect.Contains(t, page+" does not say", words, want)
		}
	}
}

// docs/proof/limits.md has a row for every field of Limits.
func TestTheTableOfLimitsIsComplete(t *testing.T) {
	table := expect.Must(os.ReadFile("docs/proof/limits.md"))(t)
	for i := range reflect.TypeFor[askback.Limits]().NumField() {
		name := "`Limits." + reflect.TypeFor[askback.Limits]().Field(i).Name + "`"
		if n := strings.Count(string(table), name); n == 0 {
			t.Errorf("docs/proof/limits.md does not name %s", name)
		}
	}
}
