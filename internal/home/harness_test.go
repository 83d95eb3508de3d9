package home_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// spyStore is a store that tests look into and break.
type spyStore struct {
	state.MemoryStore
	mu            sync.Mutex
	used, finds   int      // calls of any method, and of FindStates
	ids           []string // of all puts
	last          put
	fail, failPut error
	panics        bool
	alter         func([]byte) []byte // what is read
}

// put is a call of PutState or SwapState.
type put struct {
	ctx     context.Context
	size    int
	expires time.Time
}

func (s *spyStore) call(ctx context.Context, more error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used++; s.panics {
		panic("no store")
	}
	return errors.Join(ctx.Err(), s.fail, more)
}

func (s *spyStore) read(data []byte) []byte {
	if s.alter != nil && data != nil {
		return s.alter(data)
	}
	return data
}

func (s *spyStore) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	if err := s.call(ctx, s.failPut); err != nil {
		return err
	}
	s.ids, s.last = append(s.ids, id), put{ctx, len(data), expires}
	return s.MemoryStore.PutState(ctx, id, call, data, expires)
}

func (s *spyStore) SwapState(ctx context.Context, id, call string, old, data []byte, expires time.Time) (bool, error) {
	if err := s.call(ctx, s.failPut); err != nil {
		return false, err
	}
	s.ids, s.last = append(s.ids, id), put{ctx, len(data), expires}
	return s.MemoryStore.SwapState(ctx, id, call, old, data, expires)
}

func (s *spyStore) GetState(ctx context.Context, id string) ([]byte, error) {
	failed := s.call(ctx, nil)
	data, err := s.MemoryStore.GetState(ctx, id)
	return s.read(data), errors.Join(failed, err) // a store that fails may return something all the same
}

func (s *spyStore) FindStates(ctx context.Context, call string, limit int) ([][]byte, error) {
	s.finds++
	failed := s.call(ctx, nil)
	found, err := s.MemoryStore.FindStates(ctx, call, limit)
	for i := range found {
		found[i] = s.read(found[i])
	}
	return found, errors.Join(failed, err)
}

func (s *spyStore) DeleteState(ctx context.Context, id string) error {
	if err := s.call(context.WithoutCancel(ctx), nil); err != nil { // a store may delete all the same
		return err
	}
	return s.MemoryStore.DeleteState(ctx, id)
}

// forget deletes what was put under an id that fits.
func (s *spyStore) forget(fits func(id string) bool) {
	for _, id := range s.ids {
		if fits(id) {
			_ = s.MemoryStore.DeleteState(context.Background(), id) // which cannot fail
		}
	}
}

func (s *spyStore) clear() { s.forget(func(string) bool { return true }) }

// fleet are the instances of one service, and what is observed of them. Its fields are what
// the next instance is made with.
type fleet struct {
	t        *testing.T
	store    *spyStore
	outcomes []string
	reasons  []string
	steps    []string // that ran, by the call's ID
	step     func()   // in each
	logged   *bytes.Buffer
	limits   bound.Limits
	carrier  home.Carrier
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, store: new(spyStore), logged: new(bytes.Buffer), step: func() {}}
	f.limits = bound.Limits{Rounds: 9, Questions: 9, StateBytes: 64 << 10, StoredBytes: 16 << 20, RoundTTL: time.Hour,
		CallTTL: 24 * time.Hour}
	f.carrier = home.Carrier{Keys: newRing(t), Audience: "service",
		Log: slog.New(slog.NewTextHandler(io.Writer(f.logged), nil))}
	return f
}

func newRing(t *testing.T) *seal.Ring {
	t.Helper()
	ring := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	return ring
}

// instance is one process: the home under test, and the engine that calls it.
type instance struct {
	t       *testing.T
	engine  *call.Engine
	carrier *home.Carrier
	handler handler
}

type handler func(context.Context, *call.Call) (mcp.Result, error)

// plain starts an instance without a store.
func (f *fleet) plain(h handler) *instance {
	carrier := f.carrier
	carrier.Limits = f.limits
	carrier.Audit = &report.Audit{Log: carrier.Log, Hook: func(_ context.Context, e report.AuditEvent) {
		expect.Equal(f.t, "the method", e.Method, "tools/call")
		if e.Kind == report.AuditRefused {
			f.reasons = append(f.reasons, e.Reason)
		} else {
			f.outcomes = append(f.outcomes, e.Reason)
		}
	}}
	return &instance{f.t, &call.Engine{Limits: f.limits, Log: carrier.Log}, &carrier, h}
}

// instance starts an instance with the store, in this phase.
func (f *fleet) instance(mode state.Mode, overflow int, h handler) *instance {
	f.t.Helper()
	i := f.plain(h)
	if err := i.carrier.UseStates(state.Options{Store: f.store, Mode: mode, Overflow: overflow}, true); err != nil {
		f.t.Fatal(err)
	}
	return i
}

// observed checks the outcomes since it was called last.
func (f *fleet) observed(want ...string) {
	f.t.Helper()
	expect.Same(f.t, "observed", f.outcomes, want)
	f.outcomes = nil
}

// refused checks the reasons since it was called last.
func (f *fleet) refused(want ...string) {
	f.t.Helper()
	expect.Same(f.t, "refused for", f.reasons, want)
	f.reasons = nil
}

// request is one that a client sends.
type request struct {
	user      string
	target    string
	arguments string // none if empty
	state     string // none if empty
	answers   string // a JSON object; none if empty
	ctx       context.Context
}

// asCall is the request as a front brings it to the engine.
func (i *instance) asCall(r request) *call.Request {
	params := &wire.Params{Target: r.target, State: r.state, HasState: r.state != ""}
	if r.arguments != "" {
		params.Arguments = []byte(r.arguments)
	}
	if r.answers != "" {
		params.Responses = make(map[string][]byte)
		for key, answer := range strictjson.Members([]byte(r.answers)) {
			params.Responses[string(key)] = answer
		}
	}
	q := &call.Request{
		Params: params, Principal: r.user, Can: wire.Form,
		As: func(m call.Manual) mcp.Request {
			return call.View("tools/call", []byte(`{}`), nil, nil, m)
		},
	}
	q.Handler = &call.Handler{
		Method: "tools/call",
		Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) { return i.handler(ctx, c) },
	}
	return q
}

// send serves one request. What comes of it is the text of the call's result, "asks" and the
// keys, "refused", or the error's code and message. It returns the state as well.
func (i *instance) send(r request) (got, requestState string) {
	ctx := r.ctx
	if ctx == nil {
		ctx = i.t.Context()
	}
	q := i.asCall(r)
	out, err := i.engine.Serve(ctx, q, i.carrier.Home(q))
	if err != nil {
		sent := fault.Wire(err)
		if invalid := wire.InvalidState(); sent.Code == invalid.Code && sent.Message == invalid.Message && sent.Data == nil {
			return "refused", ""
		}
		return fmt.Sprint(sent.Code, " ", sent.Message), ""
	}
	if !out.InputRequired() {
		if out.Result == nil {
			return string(out.Encoded), ""
		}
		return out.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, ""
	}
	keys := slices.Sorted(maps.Keys(out.Typed()))
	return strings.Join(append([]string{"asks"}, keys...), " "), out.State
}

// want sends a request, checks what comes of it, and returns the state.
func (i *instance) want(want string, r request) (requestState string) {
	i.t.Helper()
	got, requestState := i.send(r)
	if got != want {
		i.t.Fatalf("got %q, want %q", got, want)
	}
	return requestState
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

type name struct {
	Name string `json:"name"`
}

// ask asks for a name.
func ask(c *call.Call, key, message string) (string, error) {
	q, err := question.FormOf(message, reflect.TypeFor[name]())
	if err != nil {
		return "", err
	}
	record, err := c.Ask(key, q)
	if err != nil {
		return "", err
	}
	if action, _ := question.Action(record); action != "accept" {
		return "", &jsonrpc.Error{Code: 1, Message: "declined"}
	}
	var n name
	err = json.Unmarshal(strictjson.Get(record, "content"), &n)
	return n.Name, err
}

func answer(key, name string) string {
	return fmt.Sprintf(`{%q:{"action":"accept","content":{"name":%q}}}`, key, name)
}

// trip asks, does, asks.
func (f *fleet) trip(ctx context.Context, c *call.Call) (mcp.Result, error) {
	from, err := ask(c, "from", "From where?")
	if err != nil {
		return nil, err
	}
	seat, err := c.Step(ctx, "seat", func(context.Context) ([]byte, error) {
		f.step()
		f.steps = append(f.steps, c.ID())
		return fmt.Append(nil, len(f.steps)), nil
	})
	if err != nil {
		return nil, err
	}
	to, err := ask(c, "to", "To where?")
	if err != nil {
		return nil, err
	}
	return text(fmt.Sprintf("%s to %s, seat %s", from, to, seat)), nil
}

// confirm asks two questions under one key.
func confirm(_ context.Context, c *call.Call) (mcp.Result, error) {
	var heard []string
	for _, what := range []string{"the copy", "the original"} {
		ok, err := ask(c, "sure", "Delete "+what+"?")
		if err != nil {
			return nil, err
		}
		heard = append(heard, ok)
	}
	return text(strings.Join(heard, ", ")), nil
}

// manual asks twice under one key, in the SDK's manual style.
func manual(_ context.Context, c *call.Call) (mcp.Result, error) {
	p := c.View().(*mcp.CallToolRequest).Params
	heard := ""
	if r, ok := p.InputResponses["q"].(*mcp.ElicitResult); ok {
		heard = fmt.Sprint(r.Content["name"])
	}
	n := len(p.RequestState)
	if heard != "" && n == 2 {
		return text(p.RequestState + heard), nil
	}
	state := p.RequestState
	if heard != "" || n == 0 {
		state += string("ab"[min(n, 1)])
	}
	return &mcp.CallToolResult{RequestState: state,
		InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: state}}}, nil
}

// blob records a step of so many bytes before it asks.
func blob(size int) handler {
	return func(ctx context.Context, c *call.Call) (mcp.Result, error) {
		made, err := c.Step(ctx, "make",
			func(context.Context) ([]byte, error) { return bytes.Repeat([]byte("x"), size), nil })
		if err != nil {
			return nil, err
		}
		n, err := ask(c, "login", "Who are you?")
		return text(fmt.Sprint(len(made), " for ", n)), err
	}
}
