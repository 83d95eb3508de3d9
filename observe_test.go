package askback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// follower keeps the operations that it observes.
type follower struct {
	mu     sync.Mutex
	traces int // that it has begun
	ended  []askback.Operation
}

type followedKey struct{}

func (w *follower) observe(ctx context.Context, op *askback.Operation) (context.Context, func()) {
	if op.Outcome != "" && op.Call != "" && op.Kind != askback.OperationQuestion && op.Kind != askback.OperationNotice {
		panic("a call has an outcome before it has begun: " + op.Outcome)
	}
	if op.Trace == "" && op.Call != "" {
		w.mu.Lock()
		w.traces++
		op.Trace = fmt.Sprint("trace ", w.traces)
		w.mu.Unlock()
	}
	return context.WithValue(ctx, followedKey{}, op.Kind), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = append(w.ended, *op)
	}
}

// all are the operations that have ended so far.
func (w *follower) all() []askback.Operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

// seen are the operations so far, sorted: a task runs beside requests. How often it looks into its store depends on the
// time.
func (w *follower) seen() (all []string) {
	for _, op := range w.all() {
		if op.Method == "tasks/get" || op.Kind == askback.OperationStore {
			continue
		}
		all = append(all, strings.Join(strings.Fields(fmt.Sprint(op.Kind, " ", op.Method, " ", op.Target, " ", op.Round, " ",
			op.Step, " ", op.Outcome, " ", op.Reason, " ", op.Asked)), " "))
	}
	slices.Sort(all)
	return all
}

// The operations of a call are the same by every front, and what the observer sets travels with the call.
func TestObserve(t *testing.T) {
	rounds := []string{
		"request tools/call pay 1 input_required [login]", "request tools/call pay 2 input_required [sure]",
		"request tools/call pay 3 completed []",
		"step tools/call pay 2 charge completed []",
	}
	for _, name := range []string{"HTTP", "connection"} {
		t.Run(name, func(t *testing.T) {
			w := new(follower)
			srv := harness.NewServer(t, &askback.Options{Observe: w.observe}, addPay)
			i := slices.IndexFunc(harness.Fronts, func(f harness.Front) bool { return f.Name == name })
			ask := harness.Fronts[i].Dial(t, srv, nil)
			params := `"name":"pay",` + auditArguments
			for _, key := range []string{"login", "sure"} {
				state := harness.At(ask("tools/call", params), "result", "requestState")
				params = fmt.Sprintf(`"name":"pay",%s,"inputResponses":{"%s":%s},"requestState":"%v"`, auditArguments, key,
					auditAnswer, state)
			}
			ask("tools/call", params)
			harness.Eventually(t, "end of all operations", func() bool { return len(w.seen()) >= len(rounds) })
			expect.Diff(t, "operations", rounds, w.seen())
			ended := w.all()
			for _, op := range ended {
				if op.Call == "" || op.Call != ended[0].Call || op.Trace != "trace 1" {
					t.Errorf("round %d of call %q has the trace %q", op.Round, op.Call, op.Trace)
				}
				if op.Kind == askback.OperationRequest && op.Meta("io.modelcontextprotocol/protocolVersion") != "2026-07-28" {
					t.Errorf("round %d does not see its _meta", op.Round)
				}
			}
		})
	}

	t.Run("a task", func(t *testing.T) {
		w := new(follower)
		s := harness.NewTaskServer(t, &askback.Options{Observe: w.observe}, addPay)
		id := s.Start(harness.WithExtension, `"name":"pay",`+auditArguments)
		for _, key := range []string{"login", "sure"} {
			s.Get(harness.WithExtension, id, "input_required")
			s.Answer(id, `"`+key+`":`+auditAnswer)
		}
		s.Get(harness.WithExtension, id, "completed")
		want := []string{
			"request tasks/update 0 completed []", "request tasks/update 0 completed []", "request tools/call pay 1 task []",
			"run tools/call pay 1 input_required [login]", "run tools/call pay 2 input_required [sure]",
			"run tools/call pay 3 completed []",
			"step tools/call pay 2 charge completed []",
		}
		harness.Eventually(t, "end of all operations", func() bool { return len(w.seen()) >= len(want) })
		expect.Diff(t, "operations", want, w.seen())
		for _, op := range w.all() {
			if op.Call != "" && op.Trace != "trace 1" {
				t.Errorf("%s has the trace %q", op.Kind, op.Trace)
			}
			if strings.Contains(fmt.Sprintf("%+v", op), id) {
				t.Errorf("%s holds the task's id", op.Method)
			}
		}
	})
}

// A request that is turned away before its message is read is told, too: so an operator sees that limits are too small.
func TestObserveWhoIsTurnedAway(t *testing.T) {
	send := func(h http.Handler, body io.Reader) int {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer.Code
	}
	var server *askback.Server
	serve := func(options askback.Options) (*follower, http.Handler) {
		w := new(follower)
		options.Observe = w.observe
		server = harness.NewServer(t, &options, harness.AddGreet)
		return w, server.HTTPHandler(nil)
	}
	check := func(w *follower, want string) {
		t.Helper()
		expect.Diff(t, "operations", []string{want}, w.seen())
	}

	w, h := serve(askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string, error) {
		return "",
			errors.New("not known")
	}})
	expect.Equal(t, "a caller who cannot be named gets status", send(h, strings.NewReader(`{}`)), http.StatusForbidden)
	check(w, "request 0 refused caller []")

	w, h = serve(askback.Options{Limits: askback.Limits{Requests: askback.Share{Total: 4, Anonymous: 1}}})
	working, answered := make(chan struct{}), make(chan int)
	end := make(chan struct{})
	askback.AddTool(server, &mcp.Tool{Name: "work"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		close(working)
		<-end
		return "", nil
	})
	go func() { answered <- harness.Request{Target: "work"}.Send(t, h).Status }()
	<-working
	expect.Equal(t, "a request beyond its caller's share gets status", send(h, strings.NewReader(`{}`)),
		http.StatusTooManyRequests)
	check(w, "request 0 unavailable []")
	close(end)
	<-answered
}
