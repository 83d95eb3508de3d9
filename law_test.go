package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// A plan is a handler made at random, as text that travels in the call's arguments: a
// letter asks that question, a capital asks it together with its neighbour, a digit is a
// step, a dot a checkpoint, and a question mark goes on only if the last answer was even.
func plans() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for i := range rapid.IntRange(0, 8).Draw(t, "length") {
			switch op := rapid.SampledFrom([]string{"ask", "together", "step", "checkpoint", "branch"}).Draw(t, "op"); op {
			case "ask":
				b.WriteByte(byte(rapid.IntRange('a', 'e').Draw(t, "key")))
			case "together":
				b.WriteByte(byte(rapid.IntRange('A', 'D').Draw(t, "key")))
			case "step":
				fmt.Fprint(&b, i) // a name of its own
			case "checkpoint":
				b.WriteByte('.')
			case "branch":
				b.WriteByte('?')
			}
		}
		return b.String()
	})
}

type planned struct {
	Plan string `json:"plan"`
}

type count struct {
	N int `json:"n"`
}

// lawful executes plans, and counts the steps that ran.
func lawful(ran *int) func(*askback.Server) {
	return func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "plan"}, executes(func(*askback.Call, rune) { *ran++ }))
	}
}

// executes is a handler that executes plans; step is told of each step that runs. In a plan
// for a task an exclamation mark is a Detach.
func executes(step func(call *askback.Call, name rune)) askback.ToolHandler[planned, string] {
	return func(ctx context.Context, call *askback.Call, in planned) (string, error) {
		said, err := follow(in.Plan, called{ctx: ctx, call: call, ran: func(name rune) { step(call, name) }})
		return said, err
	}
}

// world is what a plan is executed in.
type world interface {
	ask(letters ...rune) ([]int, error)
	step(name rune) (int, error)
	pause(mark rune, at int) error // a checkpoint or a Detach
}

// follow executes a plan: see plans.
func follow(plan string, w world) (string, error) {
	trace, last := "went ", 0
	for i, op := range plan {
		switch {
		case op >= 'A' && op <= 'Z' || op >= 'a' && op <= 'z':
			letters := []rune{op}
			if op < 'a' {
				letters = []rune{op + 32, op + 33}
			}
			answers, err := w.ask(letters...)
			if err != nil {
				return "", err
			}
			last = 0
			for _, n := range answers {
				last += n
			}
			trace += fmt.Sprint(string(op), last, " ")
		case op >= '0' && op <= '9':
			n, err := w.step(op)
			if err != nil {
				return "", err
			}
			trace += fmt.Sprint("#", n, " ")
		case op == '.' || op == '!':
			if err := w.pause(op, i); err != nil {
				return "", err
			}
		case op == '?' && last%2 == 1:
			return trace + "stopped", nil
		}
	}
	return trace, nil
}

// called is a round of a call.
type called struct {
	ctx   context.Context
	call  *askback.Call
	ran   func(step rune)
	share bool // the first question and the last, which are never asked together, have one key
}

func (w called) ask(letters ...rune) ([]int, error) {
	answers := make([]int, len(letters))
	errs := make([]error, len(letters))
	for i, l := range letters {
		key := string(l)
		if w.share && l == 'e' {
			key = "a"
		}
		var answer count
		answer, errs[i] = askback.Elicit[count](w.call, key, inquiry(l))
		answers[i] = answer.N
	}
	return answers, errors.Join(errs...)
}

func (w called) step(name rune) (int, error) {
	return askback.Do(w.ctx, w.call, string(name), func(context.Context) (int, error) { w.ran(name); return int(name), nil })
}

func (w called) pause(mark rune, at int) error {
	if mark == '!' {
		return w.call.Detach()
	}
	return w.call.Checkpoint(w.ctx, fmt.Sprint(at))
}

func inquiry(letter rune) string { return fmt.Sprintf("How many %c?", letter) }

// howMany is what the client answers: a function of the question alone.
func howMany(key string) int { return int(key[0]) * 7 % 10 }

// In every home of the journal (sealed and carried by the client from instance to
// instance, with responses lost and requests repeated; over the SDK's transports; in the
// memory of a legacy session) the result is that of running the handler once with all
// answers at hand.
func TestLawInEveryHome(t *testing.T) {
	ring := newRing(t)
	ran := 0
	instances := []http.Handler{
		newServer(t, &askback.Options{Keys: ring}, lawful(&ran)).HTTPHandler(nil),
		newServer(t, &askback.Options{Keys: ring}, lawful(&ran)).HTTPHandler(nil),
	}
	answers := func(requests map[string]json.RawMessage, pick func(string) bool) string {
		given := map[string]any{}
		for key := range requests {
			if pick(key) {
				given[key] = map[string]any{"action": "accept", "content": count{howMany(key)}}
			}
		}
		data, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	all := func(string) bool { return true }

	caller := client.New(&client.Options{
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			key := strings.TrimSuffix(strings.TrimPrefix(q.Message, "How many "), "?")
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": howMany(key)}}, nil
		},
		Limits: client.Limits{FirstPause: 1, MaxPause: 1},
	})
	sessions := map[string]*client.Session{}
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-03-26"} {
		here, there := mcp.NewInMemoryTransports()
		if _, err := newServer(t, nil, lawful(&ran)).Connect(t.Context(), there, nil); err != nil {
			t.Fatal(err)
		}
		session, err := caller.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		sessions[version] = session
	}

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		arguments := `{"plan":` + quote(plan) + `}`

		// Once through, every answer at once.
		r := request{target: "plan", arguments: arguments}
		ran = 0
		res := r.send(t, instances[0])
		for res.Result.Type != "complete" {
			r.state, r.responses = res.Result.State, answers(res.Result.Requests, all)
			res = r.send(t, instances[0])
		}
		want, steps := res.text(t), ran

		// From instance to instance, with losses.
		r = request{target: "plan", arguments: arguments}
		kept := []*response{}
		for n := 0; ; n++ {
			res := r.send(t, instances[rapid.IntRange(0, 1).Draw(rt, "instance")])
			if res.Result == nil {
				rt.Fatalf("round %d of %q: %s", n, plan, res.raw)
			}
			if res.Result.Type == "complete" {
				if got := res.text(t); got != want {
					rt.Fatalf("plan %q: got %q, want %q", plan, got, want)
				}
				break
			}
			lossy := n < 10
			if lossy && rapid.IntRange(0, 3).Draw(rt, "lost") == 0 {
				if len(kept) == 0 || rapid.Bool().Draw(rt, "repeat") {
					continue // the response was lost: the same request again
				}
				res = kept[rapid.IntRange(0, len(kept)-1).Draw(rt, "back to")]
			}
			kept = append(kept, res)
			r.state = res.Result.State
			r.responses = answers(res.Result.Requests, func(string) bool { return !lossy || rapid.IntRange(0, 3).Draw(rt, "answers") > 0 })
		}

		for version, session := range sessions {
			ran = 0
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "plan", Arguments: planned{plan}})
			if err != nil {
				rt.Fatal(err)
			}
			if got := res.Content[0].(*mcp.TextContent).Text; got != want || ran != steps {
				rt.Fatalf("plan %q in a session of %s: got %q after %d steps, want %q after %d", plan, version, got, ran, want, steps)
			}
		}
	})
}
