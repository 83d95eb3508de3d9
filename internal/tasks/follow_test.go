package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
)

// addAlways adds a tool all of whose calls become tasks at their second step. It counts how often its steps run.
func addAlways(steps *[]string) func(*askback.Server) {
	return harness.AddTask("always", &askback.TaskSupport{AtDetach: true, Always: true},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			step := func(name string) error {
				_, err := askback.Do(ctx, call, name, func(context.Context) (bool, error) {
					*steps = append(*steps, fmt.Sprint(name, call.Can(askback.CapabilityTasks)))
					return true, nil
				})
				return err
			}
			if err := step("first"); err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err
			}
			said := "hello"
			for _, key := range []string{"a", "b"} {
				l, err := askback.Elicit[harness.Login](call, key, "Who are you?")
				if err != nil {
					return "", err
				}
				if err := step(key); err != nil {
					return "", err
				}
				said += " " + l.Name
			}
			return said, nil
		})
}

// A client that cannot take a task is asked in its request what the task asks it, by retries. A retry that comes again,
// because its response was lost, is served again, also where a state may be used once; steps run once.
func TestAClientFollowsItsTask(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]askback.Options{
		"plain": {}, "once": {ReplayGuard: new(state.MemoryGuard)},
		"dual": {States: &state.Options{Mode: state.Dual, Store: new(state.MemoryStore)}},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				var steps []string
				srv, _ := deskServer(t, &opts, (*askback.Server).AddResultTool, addAlways(&steps))
				h := srv.HTTPHandler(nil)
				time.Sleep(time.Hour) // a guard in memory refuses what was sealed before it began
				round := func(responses, state string) *harness.Response {
					return harness.Request{Target: "always", Capabilities: `{"elicitation":{}}`, Responses: responses,
						State: state}.Send(t, h)
				}
				first := round("", "").Asked(t, "a")
				unfit := round(`{"a":{"action":"accept","content":{"name":7}}}`, first)
				expect.Contains(t, "the reason", unfit.Raw, "does not fit")
				second := unfit.Asked(t, "a#2")
				var third string
				for range 2 { // of which the second finds another question open
					third = round(`{"a#2":`+accepts+`}`, second).Asked(t, "b")
				}
				for range 2 {
					expect.Equal(t, "the outcome", round(`{"b":`+accepts+`}`, third).Text(t), "hello octocat octocat")
				}
				expect.Equal(t, "the steps were", fmt.Sprint(steps), "[firstfalse afalse bfalse]")
				bob := harness.Request{Target: "always", Capabilities: `{"elicitation":{}}`, State: third,
					Arguments: `{"more":1}`}.Send(t, h)
				expect.Contains(t, "the state of another call gets", bob.Raw, "requestState")
			})
		})
	}
}

// In a session the client is asked there and then.
func TestASessionFollowsItsTask(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var steps []string
		srv, _ := deskServer(t, nil, (*askback.Server).AddResultTool, addAlways(&steps))
		c := harness.Pipe(t, srv)
		c.Open(harness.Initialize)
		c.Request(2, "tools/call", `"name":"always"`, "")
		for range 2 {
			c.Answer(c.Asked(), accepts)
		}
		expect.Equal(t, "the outcome", harness.Content(c.Response(2)["result"].(map[string]any)), "hello octocat octocat")
	})
}

// A task that is kept no longer is no new call.
func TestFollowingWhatIsGone(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		var steps []string
		ring := harness.NewRing(t)
		request := harness.Request{Target: "always", Capabilities: `{"elicitation":{}}`}
		srv, _ := deskServer(t, &askback.Options{Keys: ring}, addAlways(&steps))
		request.State = request.Send(t, srv.HTTPHandler(nil)).Asked(t, "a")
		request.Responses = `{"a":` + accepts + `}`
		other, _ := deskServer(t, &askback.Options{Keys: ring}, addAlways(&steps)) // which has a store of its own
		if r := request.Send(t, other.HTTPHandler(nil)); !strings.Contains(r.Raw, "no longer kept") || len(steps) != 1 {
			t.Errorf("without its task: %s, steps %v", r.Raw, steps)
		}
	})
}
