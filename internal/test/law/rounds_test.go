package law

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/seal"
)

// position is how far a call has come: a requestState, and what was given and done until it was sealed.
type position struct {
	state   string
	asked   []string // keys as they travel
	answers map[string]string
	steps   map[string]int64 // the numbers of their runs
}

// authorKey returns the key of a question that is asked under a fresh one when it is asked again.
func authorKey(wire string) string {
	key, _, _ := strings.Cut(wire, "#")
	return key
}

// calls follows calls of one program, and checks each request and each end.
type calls struct {
	t         *testing.T
	program   program.Program
	instances []http.Handler
	rings     []*seal.Ring
}

// send goes on from a position with these answers, and returns the next one. At the end of the call that is nil, as it
// is where the call cannot go on: the keys of the state are forgotten, or an answer that does not fit was given again.
func (c *calls) send(
	at *position, instance, client int, given map[string]bool,
) (next *position, ended bool, err error) {
	next = &position{answers: maps.Clone(at.answers), steps: maps.Clone(at.steps)}
	parts := []string{`"unasked":{"action":"accept","content":{"n":1}}`}
	for wire, fits := range given {
		key := authorKey(wire)
		seen, travels := reply(client, key)
		if !fits {
			travels = unfit(key)
		} else {
			next.answers[key] = seen
		}
		parts = append(parts, harness.Quote(wire)+":"+travels)
	}
	ran := new(program.Runs)
	r := harness.Request{Target: "program", Arguments: arguments{Program: c.program.String()}.String(), State: at.state,
		Context: func(r *http.Request) *http.Request {
			return r.WithContext(context.WithValue(r.Context(), runsKey{}, ran))
		}}
	if at.state != "" {
		r.Responses = "{" + strings.Join(parts, ",") + "}"
	}
	res := r.Send(c.t, c.instances[instance])
	if res.Error != nil && res.Error.Code == -32602 && c.forgotten(at.state, instance) {
		return nil, false, nil
	}
	if res.Error != nil && res.Error.Code == -32602 && strings.Contains(res.Error.Message, "would not help") &&
		slices.Contains(slices.Collect(maps.Values(given)), false) {
		return nil, false, nil // an answer that nobody can correct ends the call
	}
	if res.Result == nil {
		return nil, false, fmt.Errorf("the response is %s", res.Raw)
	}

	unrecorded := make(map[string]bool)
	if ahead := ran.Ahead(); len(ahead) > 0 {
		return nil, false, fmt.Errorf("the steps %q ran while a question was open", ahead)
	}
	for step, numbers := range ran.Numbers() {
		if !c.program.Records(step) {
			// The handler runs once, and again after each checkpoint that needs no round of its own.
			if unrecorded[step] = true; len(numbers) > 1+c.program.Checkpoints() {
				return nil, false, fmt.Errorf("the step %s was tried %d times in one request", step, len(numbers))
			}
			continue
		}
		if before, ok := at.steps[step]; ok {
			return nil, false, fmt.Errorf("the step %s ran again, which the state has recorded as run %d", step, before)
		}
		if len(numbers) != 1 {
			return nil, false, fmt.Errorf("the step %s ran %d times in one request", step, len(numbers))
		}
		next.steps[step] = numbers[0]
	}
	if res.Result.Type == "complete" {
		return nil, true, compare(c.program, res.Result.Content[0].Text, next, unrecorded)
	}
	next.state, next.asked = res.Result.State, slices.Sorted(maps.Keys(res.Result.Requests))
	return next, false, nil
}

// forgotten reports whether an instance has forgotten the key of a state.
func (c *calls) forgotten(state string, instance int) bool {
	return !slices.ContainsFunc(c.rings[instance].Keys(), func(k seal.Key) bool {
		return strings.HasPrefix(state, "ab1."+k.ID()+".")
	})
}

// compare compares the end of a call with what is expected of its answers.
func compare(p program.Program, text string, end *position, unrecorded map[string]bool) error {
	want, err := p.Expect(end.answers)
	if err != nil {
		return fmt.Errorf("it ended with %q, but %v", text, err)
	}
	if diff := cmp.Diff(strings.Join(want.Trace(end.steps), "\n"), text); diff != "" {
		return fmt.Errorf("the result differs from the program run once (-want +got):\n%s", diff)
	}
	if done := slices.Sorted(maps.Keys(end.steps)); !slices.Equal(done, slices.Sorted(slices.Values(want.Steps))) {
		return fmt.Errorf("the steps %q were done, want %q", done, want.Steps)
	}
	if tried := slices.Sorted(maps.Keys(unrecorded)); !slices.Equal(tried,
		slices.Sorted(slices.Values(want.Unrecorded))) {
		return fmt.Errorf("the last run tried %q, want %q", tried, want.Unrecorded)
	}
	return nil
}

// Two clients that have one call answer its rounds, each in its own way, on two instances: one after the other or at
// once, with answers that are missing, unfit or unasked for, responses that are lost, requests that are repeated,
// earlier states, and a rotation of keys in the middle. Each end is the end of the program run once with the answers
// behind its state. A step that a state has recorded does not run under it, any other step runs once at most in a
// request, and a step that fails or panics once in each run of the handler.
func TestRounds(t *testing.T) {
	rings := []*seal.Ring{harness.NewRing(t), harness.NewRing(t)}
	register := func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "program"},
			func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
				return in.run(ctx, world{call}, nil)
			})
	}
	var instances []http.Handler
	for _, ring := range rings {
		instances = append(instances, harness.NewServer(t, &askback.Options{Keys: ring}, register).HTTPHandler(nil))
	}
	forks, refused, rotations := 0, 0, 0
	law := func(rt *rapid.T) {
		c := &calls{t, programs(2).Draw(rt, "program"), instances, rings}
		fresh := harness.NewRing(t)
		for _, ring := range rings {
			expect.Check(t, ring.Replace(fresh))
		}
		var rolling []*seal.Ring // the next keys of each instance
		begin := &position{answers: map[string]string{}, steps: map[string]int64{}}
		known := []*position{begin}
		now := []*position{begin, nil} // the second client has not got hold of the call yet
		for n := 0; now[0] != nil || now[1] != nil; n++ {
			if n > 300 {
				rt.Fatalf("%s does not end", c.program)
			}
			lossy := n < 16
			oneIn := func(k int, what string) bool { return lossy && rapid.IntRange(1, k).Draw(rt, what) == k }
			if oneIn(4, "rotate") {
				if rolling == nil {
					next, _, err := rings[0].Rotate(time.Now(), 0)
					expect.Check(t, err)
					rolling = []*seal.Ring{next, next}
					rotations++
				}
				at := len(rolling) - 1
				expect.Check(t, rings[at].Replace(rolling[at]))
				if rolling = rolling[:at]; at == 0 {
					rolling = nil
				}
			}
			client := rapid.IntRange(0, 1).Draw(rt, "client")
			if now[client] == nil {
				client = 1 - client
			}
			if now[client] == nil {
				break
			}
			at := now[client]
			if oneIn(4, "another state") {
				at = rapid.SampledFrom(known).Draw(rt, "back to")
			}
			given := make(map[string]bool)
			for _, wire := range at.asked {
				switch {
				case !oneIn(4, "no answer"):
					given[wire] = true
				case unfit(authorKey(wire)) != "" && rapid.Bool().Draw(rt, "unfit"):
					given[wire] = false
				}
			}
			type answer struct {
				client, instance int
				next             *position
				ended            bool
				err              error
			}
			all := []*answer{{client: client, instance: rapid.IntRange(0, 1).Draw(rt, "instance")}}
			if oneIn(5, "at once") { // the other client answers the same round at the same time
				forks++
				all = append(all, &answer{client: 1 - client, instance: 1 - all[0].instance})
			}
			var sending sync.WaitGroup
			for _, a := range all {
				sending.Go(func() { a.next, a.ended, a.err = c.send(at, a.instance, a.client, given) })
			}
			sending.Wait()
			for _, a := range all {
				switch {
				case a.err != nil:
					rt.Fatalf("%s: %v", c.program, a.err)
				case a.ended:
					now[a.client] = nil
				case a.next == nil:
					refused++
					now[a.client] = begin
				case oneIn(4, "lost"):
				default:
					known = append(known, a.next)
					now[a.client] = a.next
					if now[1-a.client] == nil && oneIn(3, "join") {
						now[1-a.client] = rapid.SampledFrom(known).Draw(rt, "joins at")
					}
				}
			}
		}
	}
	for range 5 { // each with 100 programs, in half a second
		rapid.Check(t, law)
	}
	t.Logf("%d rounds were answered by two at once, %d steps of a rotation taken, and %d calls could not go on",
		forks, rotations, refused)
	if forks == 0 || rotations == 0 {
		t.Error("the law was not tried")
	}
}
