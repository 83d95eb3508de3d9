package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// testGate is a gate with room for few, and what its operator is told.
type testGate struct {
	*Gate
	log *bytes.Buffer

	mu     sync.Mutex
	events []report.AuditEvent
	ops    []report.Operation
}

// newGate returns a gate that lets a principal make two calls at once, and everybody four.
func newGate(change func(g *Gate)) *testGate {
	g := &testGate{log: new(bytes.Buffer)}
	log := slog.New(slog.NewTextHandler(g.log, nil))
	shares := &Shares{
		Calls: bound.NewPool("calls that run at once", bound.Share{Total: 4, PerPrincipal: 2, Anonymous: 1}), Log: log,
	}
	g.Gate = &Gate{
		Limits: bound.Limits{RoundTTL: time.Minute, CallTTL: time.Hour}, Shares: shares, Sessions: newSessions(), Log: log,
		Audit: &report.Audit{Log: log, Hook: func(_ context.Context, e report.AuditEvent) { g.events = append(g.events, e) }},
		Observer: &report.Observer{Log: log, Hook: func(_ context.Context, op *report.Operation) (context.Context, func()) {
			return nil, func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.ops = append(g.ops, *op)
			}
		}},
	}
	if change != nil {
		change(g.Gate)
	}
	return g
}

// passes makes a request outside of sessions, and returns its passage.
func (g *testGate) passes(ctx context.Context, a Access) (p Passage, err error) {
	err = g.Pass(ctx, a, Origin{}, nil, func(_ context.Context, through Passage) error { p = through; return nil })
	return p, err
}

// refused checks the error of a request that the gate refused for a reason, and that its operator was told.
func (g *testGate) refused(t *testing.T, a Access, err error, reason, message string) {
	t.Helper()
	if fault.Of(err) != fault.Refused || fault.Wire(err).Message != message {
		t.Errorf("%+v: got %v, want the refusal %q", a, err, message)
	}
	want := report.AuditEvent{
		Kind: report.AuditRefused, Principal: a.Principal, Method: a.Method, Target: a.Target, Reason: reason,
	}
	if strings.HasPrefix(a.Method, "tasks/") {
		want.Target, want.Task = "", task.Name(a.Target)
	}
	if len(g.events) != 1 || g.events[0] != want {
		t.Errorf("audited %+v, want %+v", g.events, want)
	}
	if len(g.ops) != 1 || g.ops[0].Outcome != "refused" || g.ops[0].Reason != reason ||
		g.ops[0].Task != want.Task {
		t.Errorf("observed %+v", g.ops)
	}
	g.events, g.ops = nil, nil
}

// has checks that the log has all of these, or none.
func (g *testGate) has(t *testing.T, want bool, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(g.log.String(), part) != want {
			t.Errorf("%q in the log: %t\n%s", part, !want, g.log)
		}
	}
}

func token(user string) *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: user}}
}

// TestWhoTheCallerIs has who makes a request, by its token and by what the operator says.
func TestWhoTheCallerIs(t *testing.T) {
	says := func(name string, err error) func(context.Context, *mcp.RequestExtra) (string, error) {
		return func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			if extra == nil {
				return "", errors.New("nothing of the caller")
			}
			return name, err
		}
	}
	panics := func(context.Context, *mcp.RequestExtra) (string, error) { panic("no such tenant") }
	nobody := "a verified token names nobody"
	for _, c := range []struct {
		name      string
		principal func(context.Context, *mcp.RequestExtra) (string, error)
		anonymous bool
		extra     *mcp.RequestExtra
		want      string
		log       string // of a refusal
	}{
		{"no token", nil, false, nil, "", ""},
		{"nothing in the token's place", nil, false, new(mcp.RequestExtra), "", ""},
		{"a token", nil, false, token("alice"), "alice", ""},
		{"a token of nobody", nil, false, token(""), "", nobody},
		{"a token of nobody, allowed", nil, true, token(""), "", ""},
		{"named", says("bob", nil), false, nil, "bob", ""},
		{"named otherwise than the token", says("bob", nil), false, token("alice"), "bob", ""},
		{"a token of nobody, named", says("bob", nil), false, token(""), "bob", ""},
		{"a token of somebody, named nobody", says("", nil), false, token("alice"), "", nobody},
		{"nobody's name", says("", nil), false, nil, "", ""},
		{"not known", says("bob", errors.New("not known here")), false, nil, "", "not known here"},
		{"a panic", panics, false, nil, "", "no such tenant"},
	} {
		g := newGate(func(g *Gate) { g.Name, g.AnonymousTokens = c.principal, c.anonymous })
		a := Access{Method: "tools/call", Target: "t", Extra: c.extra}
		p, err := g.passes(t.Context(), a)
		if c.log != "" {
			g.refused(t, a, err, "caller", "the caller could not be identified")
			g.has(t, true, "level=WARN", c.log)
			continue
		}
		if err != nil || p.Principal != c.want {
			t.Errorf("%s: %q, %v", c.name, p.Principal, err)
		}
	}
}

// A front that has named the caller saves the operator from naming it again.
func TestACallerIsNamedOnce(t *testing.T) {
	g := newGate(func(g *Gate) {
		g.Name = func(context.Context, *mcp.RequestExtra) (string, error) { panic("again") }
	})
	a := Access{Method: "tools/call", Target: "t"}
	if p, err := g.passes(g.Named(t.Context(), "alice"), a); err != nil || p.Principal != "alice" {
		t.Errorf("named in the context: %q, %v", p.Principal, err)
	}
	other := newGate(nil) // of another server, to which the handler connects with its context
	if p, err := other.passes(g.Named(t.Context(), "alice"), a); err != nil || p.Principal != "" {
		t.Errorf("named by another gate: %q, %v", p.Principal, err)
	}
	expect.Equal(t, "anonymous in the context", expect.Must(g.passes(g.Named(t.Context(), ""), a))(t).Principal, "")
	a.Principal = "bob"
	err := g.Pass(t.Context(), a, Origin{Named: true}, nil, func(_ context.Context, p Passage) error {
		if p.Principal != "bob" || p.InSession {
			t.Errorf("passes as %+v", p)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAuthorization has what the client is told when the operator says no, and what only the log has.
func TestAuthorization(t *testing.T) {
	const unauthorized = "the caller is not authorized for this request"
	var nothing *jsonrpc.Error
	for _, c := range []struct {
		authorize func() error
		message   string
		log       string
	}{
		{func() error { return errors.New("alice must not") }, unauthorized, "alice must not"},
		{func() error { return &jsonrpc.Error{Code: -32099, Message: "not today"} }, "not today", "not today"},
		{func() error { return fmt.Errorf("policy: %w", &jsonrpc.Error{Message: "not today"}) }, "not today", "policy"},
		{func() error { return fmt.Errorf("policy: %w", nothing) }, unauthorized, "policy"},
		{func() error { panic("no policy") }, unauthorized, "no policy"},
	} {
		for _, a := range []Access{
			{"alice", "tools/call", "greet", nil}, {"alice", "tasks/get", "the-secret-id", token("alice")},
		} {
			var asked []Access
			g := newGate(func(g *Gate) {
				g.Authorize = func(_ context.Context, a Access) error { asked = append(asked, a); return c.authorize() }
			})
			_, err := g.passes(g.Named(t.Context(), "alice"), a)
			g.refused(t, a, err, "authorize", c.message)
			if len(asked) != 1 || asked[0] != a {
				t.Errorf("asked about %+v, want %+v", asked, a)
			}
			g.has(t, true, "level=WARN", c.log, "method="+a.Method)
			g.has(t, a.Method == "tools/call", "target="+a.Target)
			g.has(t, false, "the-secret-id")
		}
	}
	g := newGate(func(g *Gate) { g.Authorize = func(context.Context, Access) error { return nil } })
	p, err := g.passes(g.Named(t.Context(), "alice"), Access{Method: "tools/call"})
	if err != nil || p.Principal != "alice" {
		t.Errorf("allowed: %+v, %v", p, err)
	}
}

// A session is that of who opened it, until the SDK forgets it.
func TestASessionBelongsToWhoOpenedIt(t *testing.T) {
	g := newGate(nil)
	ss := openSessionOf(t, g.Sessions, "s", "alice")
	other := connect(t, "other")
	in := func(session *mcp.ServerSession, user string) (observed string, err error) {
		a, ctx := Access{Method: "tools/call", Target: "t"}, g.Named(t.Context(), user)
		err = g.Pass(ctx, a, Origin{}, session, func(_ context.Context, p Passage) error {
			if !p.InSession || p.Crowded != nil {
				t.Errorf("passes as %+v", p)
			}
			return nil
		})
		return g.ops[len(g.ops)-1].Session, err
	}
	expect.Equal(t, "alice", expect.Must(in(ss, "alice"))(t), "s")
	for _, user := range []string{"bob", ""} {
		g.ops = nil
		_, err := in(ss, user)
		g.refused(t, Access{user, "tools/call", "t", nil}, err, "session", "the session belongs to another caller")
	}
	if _, err := in(other, "bob"); err != nil { // the SDK decides about it
		t.Errorf("a session that nobody opened here: %v", err)
	}
	if id, err := in(openSessionOf(t, g.Sessions, "anonymous", ""), ""); id != "" || err != nil {
		t.Errorf("the session of an anonymous caller: %q, %v", id, err) // its ID is all that protects it
	}
}

// Opening a session names its caller, except where the connection is the session.
func TestOpeningASession(t *testing.T) {
	g := newGate(func(g *Gate) {
		g.Name = func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			if extra.TokenInfo == nil {
				return "", errors.New("nobody")
			}
			return "alice", nil
		}
	})
	if err := g.Opened(t.Context(), connect(t, "s"), token("x")); err != nil || g.Sessions.Owns("bob", "s") {
		t.Errorf("opened: %v", err)
	}
	if err := g.Opened(t.Context(), connect(t, "t"), nil); fault.Of(err) != fault.Refused || !g.Sessions.Owns("bob", "t") {
		t.Errorf("opened by nobody: %v", err)
	}
	if err := g.Opened(t.Context(), connect(t, ""), nil); err != nil || !g.Sessions.Owns("bob", "") {
		t.Errorf("a connection: %v", err)
	}
	for i := range 10 {
		ss := connect(t, fmt.Sprint("busy", i))
		err := g.Opened(t.Context(), ss, token("x"))
		if err == nil {
			_, _, err = g.Sessions.Hold(t.Context(), ss, 0, nil)
		}
		if err != nil && (i < 3 || fault.Of(err) != fault.Crowded) {
			t.Errorf("session %d: %v", i, err)
		}
	}
}

// What a client calls its target is repeated in the log and in every event: it is short.
func TestLongTargets(t *testing.T) {
	for _, c := range []struct {
		method string
		size   int
		passes bool
	}{
		{"tools/call", 1 << 10, true},
		{"tools/call", 1<<10 + 1, false},
		{"tasks/get", 1<<10 + 1, false},
		{"resources/read", 8 << 10, true},
		{"resources/read", 8<<10 + 1, false},
	} {
		g := newGate(nil)
		a := Access{Method: c.method, Target: strings.Repeat("x", c.size)}
		if _, err := g.passes(t.Context(), a); (err == nil) != c.passes || err != nil && fault.Wire(err).Code != -32602 {
			t.Errorf("%s of %d bytes: %v", c.method, c.size, err)
		}
		if told := g.ops[0].Target; !c.passes && len(told) > 200 || c.passes && told != a.Target {
			t.Errorf("%s of %d bytes: the operator is told %d", c.method, c.size, len(told))
		}
	}
}

// The operator follows each request: how it came, and how it ended.
func TestARequestIsObserved(t *testing.T) {
	g := newGate(nil)
	from := Origin{ID: []byte("7"), Version: "2026-07-28", Transport: report.TransportHTTP,
		Meta: report.MetaTexts{"traceparent": "00-1"}}
	serve := func(err error) ServeFunc { return func(context.Context, Passage) error { return err } }
	for _, c := range []struct {
		access  Access
		serve   ServeFunc
		target  string
		outcome string
	}{
		{Access{Method: "tools/call", Target: "greet"}, serve(nil), "greet", "completed"},
		{Access{Method: "tasks/get", Target: "the-secret-id"}, serve(nil), "", "completed"},
		{Access{Method: "prompts/get", Target: "p"}, serve(errors.New("no")), "p", "failed"},
		{Access{Method: "prompts/get", Target: "p"}, func(_ context.Context, p Passage) error {
			p.Watch.SetOutcome("limit")
			return errors.New("no")
		}, "p", "limit"},
		{Access{Method: "tools/call", Target: "panics"}, func(context.Context, Passage) error { panic("middleware") },
			"panics", "failed"},
	} {
		g.ops = nil
		recovered := fault.Safely(func() error { return g.Pass(t.Context(), c.access, from, nil, c.serve) })
		if len(g.ops) != 1 {
			t.Fatalf("%s: observed %+v", c.access.Target, g.ops)
		}
		op := g.ops[0]
		got := []any{op.Kind, op.Method, op.Target, op.Outcome, op.Protocol, op.Transport, op.Meta("traceparent"), op.Request}
		want := []any{report.OperationRequest, c.access.Method, c.target, c.outcome, "2026-07-28", "http", "00-1", "7"}
		expect.Same(t, "observed", got, want)
		if c.access.Target == "panics" && (!strings.Contains(recovered.Error(), "middleware") || op.Code != -32603) {
			t.Errorf("a panic becomes %v, code %d", recovered, op.Code)
		}
	}
	g.ops = nil
	g.TurnAway(t.Context(), Origin{Transport: report.TransportHTTP}, &fault.UnavailableError{Reason: "no room"})
	if len(g.ops) != 1 || g.ops[0].Outcome != "unavailable" || g.ops[0].Method != "" || g.ops[0].Transport != "http" {
		t.Errorf("observed of who was turned away: %+v", g.ops)
	}
	g.has(t, false, "msg=\"askback: a request\"")
}

// Without an observer a request is followed only where the log wants to know of it.
func TestARequestIsLogged(t *testing.T) {
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		g := newGate(func(g *Gate) { g.Observer = nil })
		g.Log = slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: level}))
		p, err := g.passes(t.Context(), Access{Method: "tools/call", Target: "greet"})
		logged := strings.Count(g.log.String(), `msg="askback: a request" method=tools/call outcome=completed`)
		if err != nil || logged != lines || (p.Watch != nil) != (lines > 0) {
			t.Errorf("at level %v: %v, %s", level, err, g.log)
		}
	}
}

// TestTimesToLive has what bounds the time of a request.
func TestTimesToLive(t *testing.T) {
	expires := &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "alice"}}
	for _, c := range []struct {
		name   string
		access Access
		inside bool // a session
		after  time.Duration
		want   string
	}{
		{"a call", Access{Method: "tools/call"}, false, 0, ""},
		{"a call in a session", Access{Method: "tools/call"}, true, time.Hour,
			"the limit of 3600 seconds per call is reached"},
		{"waiting for a result", Access{Method: "tasks/result"}, false, 0, ""},
		{"waiting for a result with a token", Access{Method: "tasks/result", Extra: expires}, false, 10 * time.Minute,
			"the caller's token has expired: send the request again"},
		{"a call with a token", Access{Method: "tools/call", Extra: expires}, false, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(nil)
				began := time.Now()
				expires.TokenInfo.Expiration = began.Add(10 * time.Minute)
				var session *mcp.ServerSession
				if c.inside {
					session = openSessionOf(t, g.Sessions, "s", "")
				}
				err := g.Pass(t.Context(), c.access, Origin{}, session, func(ctx context.Context, _ Passage) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(24 * time.Hour):
						return nil
					}
				})
				want, after := cmp.Or(c.want, "<nil>"), cmp.Or(c.after, 24*time.Hour)
				if took := time.Since(began); fmt.Sprint(err) != want || took != after {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := newGate(nil).Asking(t.Context())
		defer cancel()
		began := time.Now()
		<-ctx.Done()
		const want = "the limit of 60 seconds per round is reached"
		if took, cause := time.Since(began), context.Cause(ctx); took != time.Minute || cause.Error() != want {
			t.Errorf("asking ends after %v: %v", took, cause)
		}
	})
}

// A result that came in time is one, even if the time ends with it.
func TestAResultInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		ss := openSessionOf(t, g.Sessions, "s", "")
		err := g.Pass(t.Context(), Access{Method: "tools/call"}, Origin{}, ss, func(context.Context, Passage) error {
			time.Sleep(2 * time.Hour)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// connect returns a session of an SDK's server that nobody has opened.
func connect(t *testing.T, id string) *mcp.ServerSession {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	ss := expect.Must(m.Connect(t.Context(), &mcp.StreamableServerTransport{SessionID: id}, nil))(t)
	t.Cleanup(func() { ss.Close() })
	return ss
}

// messages are the texts of log lines, sorted.
func (g *testGate) messages() (all []string) {
	for line := range strings.Lines(g.log.String()) {
		_, message, _ := strings.Cut(line, "msg=")
		all = append(all, strings.TrimSpace(message))
	}
	slices.Sort(all)
	return all
}
