package drafts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
	keys "github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// echoCall is a call in a session whose questions carry a state: a step of so many bytes, and
// as many names as it asks for.
type echoCall struct {
	carrier *home.Carrier
	size    int
	names   int
	// answer answers a question in the session; the states are those that it and those before
	// it carry.
	answer func(states []string) (*mcp.ElicitResult, error)

	states []string // that the questions carried, or ""
}

func newEchoCall(t *testing.T) *echoCall {
	t.Helper()
	ring := expect.Must(keys.NewRing(keys.NewKey(time.Now())))(t)
	limits := bound.Limits{Rounds: 4, Questions: 4, StateBytes: 64 << 10, StoredBytes: 1 << 20, RoundTTL: time.Hour,
		CallTTL: 24 * time.Hour}
	return &echoCall{names: 1, answer: accepting,
		carrier: &home.Carrier{Keys: ring, Limits: limits, Log: slog.New(slog.DiscardHandler)}}
}

func accepting([]string) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
}

const echoParams = `{"name":"x","arguments":{}}`

// request is the call as a front brings it, in a session or with a state.
func (c *echoCall) request(params *wire.Params) *call.Request {
	return &call.Request{Params: params, Raw: []byte(echoParams), Can: wire.Form, Principal: "alice",
		Handler: &call.Handler{
			Method: "tools/call",
			Invoke: func(ctx context.Context, cl *call.Call, _ *wire.Params) (mcp.Result, error) {
				made, err := cl.Step(ctx, "make", func(context.Context) ([]byte, error) { return make([]byte, c.size), nil })
				heard := fmt.Sprint(len(made))
				for range c.names {
					if err != nil {
						return nil, err
					}
					var q *question.Question
					if q, err = question.FormOf("Who? "+heard, reflect.TypeFor[struct {
						Name string `json:"name"`
					}]()); err != nil {
						return nil, err
					}
					var record []byte
					if record, err = cl.Ask("name", q); err == nil {
						action, _ := question.Action(record)
						name, _ := strictjson.String(strictjson.Get(strictjson.Get(record, "content"), "name"))
						heard += " " + action + " " + name
					}
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: heard}}}, err
			},
		}}
}

func (c *echoCall) serve(ctx context.Context, r *call.Request, at call.Home) string {
	out, err := (&call.Engine{Limits: c.carrier.Limits, Log: c.carrier.Log}).Serve(ctx, r, at)
	switch {
	case err != nil:
		return "error: " + fault.Wire(err).Message
	case out.InputRequired():
		return "asks " + out.Questions[0].Wire
	}
	return out.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
}

// inSession serves the call in a session.
func (c *echoCall) inSession(t *testing.T) string {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	session, err := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil).Connect(t.Context(), there, nil)
	expect.Check(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil },
	})
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "elicitation/create" {
				return next(ctx, method, req)
			}
			state, _ := req.GetParams().GetMeta()[MetaState].(string)
			c.states = append(c.states, state)
			return c.answer(c.states) // unchecked
		}
	})
	connected, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	expect.Check(t, err)
	defer connected.Close()
	r := c.request(&wire.Params{Target: "x", Arguments: []byte("{}")})
	r.InSession = true
	at := expect.Must(Echo(r, c.carrier.Held(r, session), []byte("9")))(t)
	return c.serve(t.Context(), r, at)
}

// elsewhere serves the round that goes on from the state of a question, in another process.
func (c *echoCall) elsewhere(t *testing.T, state string) string {
	t.Helper()
	e, fault := decodeEnvelope(quote(state), 16)
	if fault != nil || len(e.Keys) != 1 {
		t.Fatalf("%q: %v", state, fault)
	}
	r := c.request(&wire.Params{Target: "x", Arguments: []byte("{}"), State: e.State, HasState: true,
		Responses: map[string][]byte{e.Keys[0]: []byte(`{"action":"accept","content":{"name":"hubot"}}`)}})
	return c.serve(t.Context(), r, c.carrier.Home(r))
}

// Each question in a session carries the state of its round, from which another process can go
// on, and what that has to know of the call.
func TestQuestionsOfACallCarryItsState(t *testing.T) {
	c := newEchoCall(t)
	c.names = 2
	if got := c.inSession(t); got != "0 accept octocat accept octocat" || len(c.states) != 2 {
		t.Fatalf("got %q after %d questions", got, len(c.states))
	}
	for i, want := range []string{"asks name#", "0 accept octocat accept hubot"} {
		e, fault := decodeEnvelope(quote(c.states[i]), 16)
		if fault != nil {
			t.Fatal(fault)
		}
		e.State = ""
		capabilities := decoded(t, string(e.Call.Capabilities)).(map[string]any)
		if e.Call.Capabilities = nil; capabilities["elicitation"] == nil {
			t.Errorf("the client's capabilities are %v", capabilities)
		}
		for i, key := range e.Keys { // each question has its own
			e.Keys[i], _, _ = strings.Cut(key, "#")
		}
		if diff := cmp.Diff(&envelope{Keys: []string{"name"},
			Call: &Call{ID: json.RawMessage("9"), Method: "tools/call", Params: json.RawMessage(echoParams)}}, e); diff != "" {
			t.Errorf("question %d (-want +got):\n%s", i, diff)
		}
		if got := c.elsewhere(t, c.states[i]); !strings.HasPrefix(got, want) {
			t.Errorf("question %d, elsewhere: got %q, want %q", i, got, want)
		}
	}
}

// The state is stored where states are, and goes when the call ends, however it does. One that
// is too large, or cannot be stored, stops no call: its questions carry none.
func TestStatesOfACallInASession(t *testing.T) {
	declining := func([]string) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "decline"}, nil }
	broken := func([]string) (*mcp.ElicitResult, error) { return nil, errors.New("no display") }
	unfit := func([]string) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}, nil
	}
	for _, test := range []struct {
		says     string
		answer   func([]string) (*mcp.ElicitResult, error)
		size     int
		overflow int
		fails    error
		want     string
		states   bool // the questions carry one
	}{
		{says: "accepted", size: 10, want: "10 accept octocat", states: true},
		{says: "declined", answer: declining, size: 10, want: "10 decline ", states: true},
		{says: "broken", answer: broken, size: 10, want: "no display", states: true},
		{says: "never fit", answer: unfit, size: 10, want: "to ask again would not help", states: true},
		{says: "large, and stored", size: 100_000, overflow: 1000, want: "100000 accept octocat", states: true},
		{says: "too large to travel", size: 100_000, want: "100000 accept octocat"},
		{says: "too large to seal", size: 2_000_000, want: "2000000 accept octocat"},
		{says: "too large to store", size: 2_000_000, overflow: 1000, want: "2000000 accept octocat"},
		{says: "with a store that fails", size: 100_000, overflow: 1000, fails: errors.New("no connection"),
			want: "100000 accept octocat"},
	} {
		t.Run(test.says, func(t *testing.T) {
			c := newEchoCall(t)
			c.size = test.size
			if test.answer != nil {
				c.answer = test.answer
			}
			store := &failingStore{err: test.fails}
			expect.Check(t, c.carrier.UseStates(state.Options{Store: store, Mode: state.Dual, Overflow: test.overflow},
				true))
			answer := c.answer
			c.answer = func(states []string) (*mcp.ElicitResult, error) {
				expect.Equal(t, "stored while it is asked", store.Len() > 0, test.states)
				return answer(states)
			}
			expect.Contains(t, "c.inSession(t)", c.inSession(t), test.want)
			if carried := len(c.states) > 0 && c.states[0] != ""; carried != test.states {
				t.Errorf("the questions carried %.50q", c.states)
			}
			left := 0
			if test.overflow > 0 && test.states {
				left = 1 // what overflowed stays until it expires
			}
			expect.Equal(t, "states are left", store.Len(), left)
		})
	}
}

// failingStore is a store that keeps nothing while it has an error.
type failingStore struct {
	state.MemoryStore
	err     error
	deletes int
}

func (s *failingStore) DeleteState(ctx context.Context, id string) error {
	s.deletes++
	return s.MemoryStore.DeleteState(ctx, id)
}

func (s *failingStore) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	if s.err != nil {
		return s.err
	}
	return s.MemoryStore.PutState(ctx, id, call, data, expires)
}

func (s *failingStore) SwapState(
	ctx context.Context, id, call string, old, data []byte, expires time.Time,
) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	return s.MemoryStore.SwapState(ctx, id, call, old, data, expires)
}

// A call that asks nothing has no state, and nothing to delete.
func TestACallInASessionThatAsksNothing(t *testing.T) {
	c := newEchoCall(t)
	c.names = 0
	store := new(failingStore)
	expect.Check(t, c.carrier.UseStates(state.Options{Store: store, Mode: state.Dual}, true))
	if got := c.inSession(t); got != "0" || store.deletes != 0 {
		t.Errorf("got %q, and %d states were deleted", got, store.deletes)
	}
}

// Where a state may be used once, an answer in the session uses it as well.
func TestAStateIsSpentInItsSession(t *testing.T) {
	const refused = "error: Invalid or expired requestState"
	c := newEchoCall(t)
	c.carrier.Guard = new(state.MemoryGuard)
	expect.Equal(t, "in the session", c.inSession(t), "0 accept octocat")
	expect.Equal(t, "and then elsewhere", c.elsewhere(t, c.states[0]), refused)
	c.states = nil
	c.answer = func(states []string) (*mcp.ElicitResult, error) {
		expect.Equal(t, "elsewhere", c.elsewhere(t, states[0]), "0 accept hubot")
		return accepting(states)
	}
	expect.Equal(t, "and then in the session", c.inSession(t), refused)
}
