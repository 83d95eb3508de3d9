package bridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// A tool that is gone ends its calls in words, whether it went while the bridge ran or while none did.
func TestAToolThatIsGoneEndsItsCalls(t *testing.T) {
	for _, restart := range []bool{false, true} {
		behind := newBehind(t)
		front := newFront(t, behind.url)
		s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
		expect.Contains(t, "the words", waits(t, s, "order", map[string]any{"item": "hat"}), "user:ada")
		behind.RemoveTools("order")
		if restart {
			front.stop()
			front = newFront(t, behind.url, after(front))
			s = host(t, front.url, "", client.Options{Tasks: client.TasksOff})
		}
		eventually(t, "the tool is not listed", func() bool { return !slices.Contains(toolNames(t, s), "order") })
		q := front.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"red"}`)})
		want := `The server no longer offers the tool "order". Round 2 of this call was not sent.`
		if text := fetch(t, s, q.Name); text != want {
			t.Errorf("restarted %v: the result is %q", restart, text)
		}
	}
}

// What the journal has of one server never goes to another one: a bridge in front of it leaves the call alone.
func TestACallStaysWithItsServer(t *testing.T) {
	t.Parallel()
	shop, other := newBehind(t), newBehind(t)
	named := func(name string) func(*bridge.Options) {
		return func(o *bridge.Options) { o.Servers[0].Identity = name }
	}
	front := newFront(t, shop.url, named("shop"))
	s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
	waits(t, s, "order", map[string]any{"item": "hat"})
	front.stop()
	wrong := newFront(t, other.url, named("other"), after(front))
	q := wrong.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"red"}`)})
	eventually(t, "the other bridge leaves the call", func() bool {
		rows, err := front.store.Select(t.Context(), task.Filter{}, "", 10)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		return strings.Contains(rows[0].Message, "a bridge in front of the server that it is for")
	})
	wrong.stop() // chance decides which of two bridges looks at a call
	right := newFront(t, shop.url, named("shop"), after(front))
	right.answer(t, "ada", desk.Answer{Action: "accept"})
	plain := host(t, right.url, "", client.Options{Tasks: client.TasksOff})
	expect.Equal(t, "the result", fetch(t, plain, q.Name), "red hat ordered")
	expect.Equal(t, "the other server got calls", other.count("order"), 0)
}

// A result that is too large to keep ends the call in words that say that the tool ran. Passed on without being kept,
// it is no trouble.
func TestALargeResultIsPassedButNotKept(t *testing.T) {
	behind := newBehind(t)
	large := strings.Repeat("x", 3<<20)
	for _, name := range []string{"large", "large_later"} {
		askback.AddTool(behind.Server, &mcp.Tool{Name: name},
			func(_ context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
				if name == "large_later" {
					if err := sure(call); err != nil {
						return nil, err
					}
				}
				// Twice, so that it is more than a task keeps and less than a message has.
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: large[:len(large)/2]}}}, nil
			})
	}
	front := newFront(t, behind.url, func(o *bridge.Options) { o.Server.Tasks.TaskBytes = 2 << 20 })
	s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
	if text, _ := call(t, s, "large", nil); len(text) != len(large)/2 {
		t.Errorf("%d bytes came", len(text))
	}
	call(t, s, "large_later", nil)
	q := front.answer(t, "ada", desk.Answer{Action: "accept"})
	expect.Contains(t, "the result", fetch(t, s, q.Name), "ran, but its result of")
}

// A bridge that is stopped waits for a round that it has sent, and records the result. The next one has it.
func TestABridgeThatIsStoppedEndsItsRound(t *testing.T) {
	behind := newBehind(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	askback.AddTool(behind.Server, &mcp.Tool{Name: "slow"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := sure(call); err != nil {
				return "", err
			}
			close(arrived)
			select {
			case <-release:
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	front := newFront(t, behind.url)
	call(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "slow", nil)
	q := front.answer(t, "ada", desk.Answer{Action: "accept"})
	<-arrived
	stopped := make(chan struct{})
	go func() {
		front.stop()
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("it did not wait for the round")
	case <-time.After(200 * time.Millisecond):
	}
	close(release)
	<-stopped
	next := newFront(t, behind.url, after(front))
	expect.Equal(t, "the result", fetch(t, host(t, next.url, "", client.Options{Tasks: client.TasksOff}), q.Name),
		"done")
}

// A round that may be sent again, and was on its way when the bridge stopped, may have run, whatever comes of it then.
func TestARoundThatIsSentAgainMayHaveRun(t *testing.T) {
	for gone, want := range map[bool]string{
		false: "may have run: the outcome of round 2 of the call is unknown. When it was sent again, it did not run",
		true:  "The outcome of this call is unknown: round 2 of the tool \"slow\" was sent to the server",
	} {
		behind := newBehind(t)
		arrived := make(chan struct{})
		askback.AddTool(behind.Server, &mcp.Tool{Name: "slow", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				if err := sure(call); err != nil {
					return "", err
				}
				close(arrived)
				<-ctx.Done()
				return "", ctx.Err()
			})
		cut := &cutter{Handler: behind.HTTPHandler(nil)}
		web := harness.Serve(t, cut)
		front := newFront(t, web.URL)
		call(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "slow", nil)
		q := front.answer(t, "ada", desk.Answer{Action: "accept"})
		<-arrived
		front.stop()
		if gone {
			behind.RemoveTools("slow")
		} else {
			cut.status.Store(http.StatusUnauthorized)
		}
		next := newFront(t, web.URL, after(front))
		text := fetch(t, host(t, next.url, "", client.Options{Tasks: client.TasksOff}), q.Name)
		if !strings.Contains(text, want) {
			t.Errorf("gone %v: the result is %q", gone, text)
		}
	}
}

// A round that a person has sent again, and whose tool is gone by then, may have run the first time.
func TestAToolThatIsGoneWhenItIsCalledAgain(t *testing.T) {
	behind := newBehind(t)
	cut := &cutter{Handler: behind.HTTPHandler(nil)}
	web := harness.Serve(t, cut)
	front := newFront(t, web.URL)
	s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
	waits(t, s, "order", map[string]any{"item": "hat"})
	cut.cuts.Store(true)
	front.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"red"}`)})
	behind.RemoveTools("order")
	eventually(t, "the tool is not listed", func() bool { return !slices.Contains(toolNames(t, s), "order") })
	q := front.answer(t, "ada", desk.Answer{Action: "accept"})
	const want = `The tool "order" may have run: the outcome of round 2 of the call is unknown. When it was sent again, ` +
		`it did not run: the server no longer offers it.`
	expect.Equal(t, "the result", fetch(t, s, q.Name), want)
}

// A call whose states would be too large for its host to carry goes on in the store.
func TestLargeStatesAreNotCarried(t *testing.T) {
	behind := newBehind(t)
	askback.AddTool(behind.Server, &mcp.Tool{Name: "large", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			for _, key := range []string{"one", "two", "three"} {
				if _, err := askback.Do(ctx, call, key, func(context.Context) (string, error) {
					return strings.Repeat("x", 10_000), nil
				}); err != nil {
					return "", err
				}
				if err := askback.Approve(call, "sure "+key, askback.Question{Message: "Sure?"}); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	front := newFront(t, behind.url, patient)
	for _, version := range revisions {
		returns(t, host(t, front.url, version, able()), "large", nil, "done")
	}
}

// cutter is a proxy that cuts connections instead of passing on what the server answers to a call, or refuses calls.
type cutter struct {
	http.Handler
	cuts   atomic.Bool
	status atomic.Int64
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := int(c.status.Load()); status != 0 && r.Header.Get("Mcp-Method") == "tools/call" {
		http.Error(w, http.StatusText(status), status)
		return
	}
	if c.cuts.Load() && r.Header.Get("Mcp-Method") == "tools/call" {
		panic(http.ErrAbortHandler)
	}
	c.Handler.ServeHTTP(w, r)
}

// A call whose connection broke may have run, and the host is told so. A call that could not be sent has not.
func TestABrokenConnection(t *testing.T) {
	behind := newBehind(t)
	cut := &cutter{Handler: behind.HTTPHandler(nil)}
	web := harness.Serve(t, cut)
	front := newFront(t, web.URL)
	s := host(t, front.url, "", able())
	cut.status.Store(http.StatusUnauthorized)
	refuses(t, s, "order", map[string]any{"item": "hat"},
		`The server of the tool "order" refused the call, which did not run`)
	cut.status.Store(http.StatusRequestTimeout) // which a proxy sends when the server takes too long
	refuses(t, s, "order", map[string]any{"item": "hat"}, "The outcome of this call is unknown")
	cut.status.Store(0)
	cut.cuts.Store(true)
	refuses(t, s, "order", map[string]any{"item": "hat"}, "The outcome of this call is unknown")
	if text, failed := call(t, s, "reserve", map[string]any{"item": "hat"}); !failed ||
		!strings.HasPrefix(text, `The connection to the server of "reserve" failed`) {
		t.Errorf("an idempotent call, cut off: %q", text)
	}
	web.Listener.Close()
	web.CloseClientConnections()
	refuses(t, s, "order", map[string]any{"item": "hat"}, "cannot be reached, and the call was not sent")
	expect.Equal(t, "ordered times", behind.count("order"), 0)
}

// A round that must not be sent twice stays so, also if the server says by then that its tool is idempotent.
func TestAToolThatTurnsIdempotent(t *testing.T) {
	behind := newBehind(t)
	var runs atomic.Int32
	pay := func(idempotent bool) {
		askback.AddTool(behind.Server, &mcp.Tool{Name: "pay", Annotations: &mcp.ToolAnnotations{IdempotentHint: idempotent}},
			func(context.Context, *askback.Call, struct{}) (string, error) { runs.Add(1); return "paid", nil })
	}
	pay(false)
	cut := &cutter{Handler: behind.HTTPHandler(nil)}
	web := harness.Serve(t, cut)
	approvals := approving(bridge.Approval{Tools: []string{"pay"}, For: []string{askback.User("ada")}})
	front := newFront(t, web.URL, approvals)
	call(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "pay", nil)
	cut.cuts.Store(true)
	front.answer(t, "ada", desk.Answer{Action: "accept"})
	eventually(t, "somebody is asked whether it is sent again", func() bool {
		for q := range front.desk.Waiting(t.Context(), desk.Waiting{As: &desk.Person{Name: "ada"}}) {
			return strings.Contains(q.Message, "Call it again?")
		}
		return false
	})
	front.stop()
	pay(true)
	cut.cuts.Store(false)
	next := newFront(t, web.URL, approvals, after(front))
	s := host(t, next.url, "", client.Options{Tasks: client.TasksOff})
	q := next.answer(t, "ada", desk.Answer{Action: "decline"})
	if text := fetch(t, s, q.Name); !strings.Contains(text, "The outcome of this call is unknown") || runs.Load() != 0 {
		t.Errorf("%d runs, and the result is %q", runs.Load(), text)
	}
}
