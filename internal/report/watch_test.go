package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

type observedKey struct{}

// follower is an operator who follows operations, and sets a trace where there is none.
type follower struct{ begun, ended []Operation }

func (f *follower) observer() *Observer {
	hook := func(ctx context.Context, op *Operation) (context.Context, func()) {
		f.begun = append(f.begun, *op)
		if op.Trace == "" {
			op.Trace = "trace"
		}
		return context.WithValue(ctx, observedKey{}, true), func() { f.ended = append(f.ended, *op) }
	}
	return &Observer{Hook: hook, Log: slog.New(slog.DiscardHandler)}
}

// The operator is told when the call of a request is known, and how the request ended.
func TestAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f follower
		w := Follow(f.observer(), Operation{Kind: OperationRequest, Method: "tools/call"})
		began := time.Now()
		w.InSession("s")
		ctx, trace := w.Begin(t.Context(), "c", 2, "")
		if ctx.Value(observedKey{}) != true || trace != "trace" {
			t.Errorf("the call continues with the trace %q in %v", trace, ctx)
		}
		w.Round(2, "input_required", []string{"k"})
		w.Round(3, "completed", nil)
		w.SetStateBytes(7)
		w.Finish(ctx, nil)
		first := Operation{Kind: OperationRequest, Began: began, Method: "tools/call", Session: "s", Call: "c", Round: 2}
		last := first
		last.Trace, last.Outcome, last.Round, last.Rounds, last.StateBytes = "trace", "completed", 3, 2, 7
		want := [2][]Operation{{first}, {last}}
		expect.Equal(t, "told", fmt.Sprintf("%+v", [2][]Operation{f.begun, f.ended}), fmt.Sprintf("%+v", want))
	})
}

// A trace that began elsewhere travels on, and a request whose call is never known is told at its end.
func TestATraceOfACall(t *testing.T) {
	var f follower
	if _, trace := Follow(f.observer(), Operation{}).Begin(t.Context(), "c", 1, "old"); trace != "old" {
		t.Errorf("the trace is %q", trace)
	}
	f = follower{}
	Follow(f.observer(), Operation{}).Finish(t.Context(), nil)
	if len(f.begun) != 1 || len(f.ended) != 1 || f.begun[0].Outcome != "completed" || f.ended[0].Trace != "trace" {
		t.Errorf("told %+v, %+v", f.begun, f.ended)
	}
}

// TestOutcomes has how a request ends for the operator.
func TestOutcomes(t *testing.T) {
	noted := func(outcome string) func(w *Watch) { return func(w *Watch) { w.Round(1, outcome, []string{"k"}) } }
	nothing := func(*Watch) {}
	failed := errors.New("the tracker is down")
	gate := &fault.RefusedError{Fault: wire.Errorf(jsonrpc.CodeInvalidRequest, "no"), Reason: "session"}
	away := &fault.UnavailableError{Reason: "stopping"}
	for _, c := range []struct {
		name            string
		note            func(w *Watch)
		err             error
		outcome, reason string
		code            int64
	}{
		{"nothing", nothing, nil, "completed", "", 0},
		{"a round", noted("input_required"), nil, "input_required", "", 0},
		{"a call that is handed back", func(w *Watch) { w.SetOutcome("shed") }, nil, "shed", "", 0},
		{"an error", nothing, failed, "failed", "", jsonrpc.CodeInternalError},
		{"an error of the handler", noted("capability"), wire.MissingCapability(wire.Form), "capability", "", -32021},
		{"an error after the handler", noted("completed"), failed, "failed", "", jsonrpc.CodeInternalError},
		{"an error after the questions", noted("input_required"), failed, "failed", "", jsonrpc.CodeInternalError},
		{"the gate", nothing, gate, "refused", "session", jsonrpc.CodeInvalidRequest},
		{"the gate, whatever was noted", noted("completed"), gate, "refused", "session", jsonrpc.CodeInvalidRequest},
		{"no room", noted("failed"), away, "unavailable", "", jsonrpc.CodeInternalError},
		{"no room of the caller's own", nothing, &fault.CrowdedError{UnavailableError: away}, "unavailable", "",
			jsonrpc.CodeInternalError},
		{"a state", func(w *Watch) { w.RefusedState("expired") }, wire.InvalidState(), "refused", "expired",
			jsonrpc.CodeInvalidParams},
		{"a state, after which another was found", func(w *Watch) { w.RefusedState("expired") }, nil, "completed", "", 0},
	} {
		var f follower
		w := Follow(f.observer(), Operation{})
		c.note(w)
		w.Finish(t.Context(), c.err)
		if op := f.ended[0]; op.Outcome != c.outcome || op.Reason != c.reason || op.Code != c.code {
			t.Errorf("%s: %q, reason %q, code %d; want %q, %q, %d", c.name, op.Outcome, op.Reason, op.Code, c.outcome, c.reason,
				c.code)
		}
	}
}

// Nobody follows: the request is served as it would be.
func TestNobodyFollows(t *testing.T) {
	var w *Watch
	w.InSession("s")
	w.RefusedState("expired")
	w.Round(1, "completed", nil)
	w.SetOutcome("shed")
	w.SetStateBytes(1)
	if ctx, trace := w.Begin(t.Context(), "c", 1, "trace"); ctx != t.Context() || trace != "trace" {
		t.Errorf("continues with %q in %v", trace, ctx)
	}
	w.Finish(t.Context(), nil)
}

// An observer that panics, or returns nothing, changes nothing for the operation.
func TestAnObserverThatPanics(t *testing.T) {
	for says, hook := range map[string]func(context.Context, *Operation) (context.Context, func()){
		"at the beginning": func(context.Context, *Operation) (context.Context, func()) { panic("no collector") },
		"at the end": func(ctx context.Context, _ *Operation) (context.Context, func()) {
			return ctx, func() { panic("no collector") }
		},
		"": func(context.Context, *Operation) (context.Context, func()) { return nil, nil },
	} {
		log, lines := logger()
		w := Follow(&Observer{Hook: hook, Log: log}, Operation{})
		ctx, _ := w.Begin(t.Context(), "c", 1, "")
		expect.Equal(t, says+": the operation happens", ctx, t.Context())
		w.Finish(ctx, nil)
		for _, part := range []string{"ERROR", "Options.Observe", "no collector"} {
			if strings.Contains(lines.String(), part) != (says != "") {
				t.Errorf("an observer that panics %s: %s", says, lines)
			}
		}
	}
}

type texts map[string]string

func (t texts) Text(name string) string { return t[name] }

// What an operator reads of a request's _meta is short, and a string.
func TestMeta(t *testing.T) {
	long := strings.Repeat("x", 8<<10)
	meta := MetaOf(texts{"traceparent": "00-1", "long": long, "longer": long + "x"})
	if meta("traceparent") != "00-1" || meta("long") != long || meta("longer") != "" || meta("none") != "" {
		t.Error("wrong texts")
	}
	if meta := MetaOf(MetaTexts{"a": "b", "n": 7}); meta("a") != "b" || meta("n") != "" || meta("none") != "" {
		t.Error("wrong texts of the SDK's form")
	}
	expect.Equal(t, "a text of nothing", MetaOf(nil)("a"), "")
}

// A request whose handler did not run has one line in the log.
func TestTheLineOfARequest(t *testing.T) {
	log, lines := logger()
	w := Follow(nil, Operation{Method: "tasks/get"})
	w.Finish(t.Context(), nil)
	w.Log(t.Context(), log)
	w = Follow(nil, Operation{Method: "tools/call", Target: "greet"})
	w.Begin(t.Context(), "c", 1, "")
	w.RefusedState("expired")
	w.Finish(t.Context(), wire.InvalidState())
	w.Log(t.Context(), log)
	w = Follow(nil, Operation{Method: "prompts/get"})
	w.Round(1, "completed", nil) // it has a line already
	w.Log(t.Context(), log)
	w = Follow(nil, Operation{})
	w.Log(t.Context(), slog.New(slog.DiscardHandler))
	want := [][]string{
		{"level=DEBUG", "msg=\"askback: a request\"", "method=tasks/get", "outcome=completed", "duration="},
		{"level=DEBUG", "msg=\"askback: a request\"", "method=tools/call", "outcome=refused", "duration=", "target=greet",
			"call=c", "reason=expired", "code=-32602"},
	}
	got := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("logged %q", got)
	}
	for i, parts := range want {
		rest := got[i][strings.Index(got[i], "level="):]
		for _, part := range parts {
			if !strings.Contains(rest, part) {
				t.Errorf("%q is not in %s", part, rest)
			}
		}
		if n := strings.Count(strings.ReplaceAll(rest, `"askback: a request"`, "x"), "="); n != len(parts) {
			t.Errorf("%d attributes, want %d: %s", n, len(parts), rest)
		}
	}
}
