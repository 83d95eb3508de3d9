package gate

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// newSessions returns sessions of which each may have three open requests, and a caller five with 40 KiB of parameters.
func newSessions() *Sessions {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	share := func(what string, all, own int) *bound.Pool {
		return bound.NewPool(what, bound.Share{Total: all, PerPrincipal: own, Anonymous: own})
	}
	return &Sessions{
		Shares: &Shares{Sessions: share("sessions", 4, 4), Open: share("open requests", 16, 5),
			OpenBytes: share("bytes of open requests", 80<<10, 40<<10), Log: log},
		Calls: 3,
		Live:  func() iter.Seq[*mcp.ServerSession] { return slices.Values[[]*mcp.ServerSession](nil) },
	}
}

// openSessionOf opens a session of a principal.
func openSessionOf(t *testing.T, s *Sessions, id, principal string) *mcp.ServerSession {
	t.Helper()
	ss := connect(t, id)
	expect.Check(t, s.Open(t.Context(), ss, principal))
	return ss
}

// A request that is refused, and one that has ended, leaves nothing behind: no ghost of it counts in its session, in
// its caller's share or in everybody's.
func TestEndedAndRefusedRequestsLeaveNothing(t *testing.T) {
	s := newSessions()
	ss := openSessionOf(t, s, "session", "alice")
	other := openSessionOf(t, s, "other", "alice")
	bob := openSessionOf(t, s, "bob's", "bob")
	hold := func(ss *mcp.ServerSession, size int) (release func(), err error) {
		_, release, err = s.Hold(t.Context(), ss, size, nil)
		return release, err
	}
	crowded := func(err error) bool { return err != nil && strings.Contains(err.Error(), "of one session") }
	var held []func()
	releaseAll := func() {
		for _, release := range held {
			release()
		}
		held = nil
	}
	// full takes all that there is, and finds that there is no more.
	full := func(after string) {
		t.Helper()
		defer releaseAll()
		take := func(ss *mcp.ServerSession, n, size int) {
			t.Helper()
			for range n {
				release, err := hold(ss, size)
				if err != nil {
					t.Fatalf("after %s, with %d requests open: %v", after, len(held), err)
				}
				held = append(held, release)
			}
		}
		take(ss, 1, 20<<10)
		take(ss, 1, 20<<10)
		if _, err := hold(ss, 20<<10); err == nil || crowded(err) || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("after %s, a third large request: %v", after, err)
		}
		take(ss, 1, 0)
		if _, err := hold(ss, 0); !crowded(err) {
			t.Errorf("after %s, a fourth request of a session: %v", after, err)
		}
		take(other, 2, 0)
		if _, err := hold(other, 0); err == nil || crowded(err) {
			t.Errorf("after %s, a sixth request of a principal: %v", after, err)
		}
		take(bob, 3, 0)
	}

	full("the beginning")
	full("the end of all")
	for range 20 {
		if _, err := hold(ss, 50<<10); err == nil || crowded(err) {
			t.Errorf("a request that is too large: %v", err)
		}
	}
	full("refusals for bytes")
	for range 3 {
		release := expect.Must(hold(ss, 0))(t)
		held = append(held, release)
	}
	for range 20 {
		if _, err := hold(ss, 0); !crowded(err) {
			t.Errorf("a fourth request of a session: %v", err)
		}
	}
	releaseAll()
	full("refusals for the session")
	for range 20 {
		release := expect.Must(s.Announce("session", 3, nil, new(bound.Hold), nil))(t)
		if _, err := s.Announce("session", 1, nil, new(bound.Hold), nil); !crowded(err) {
			t.Errorf("a fourth announced request: %v", err)
		}
		release()
	}
	full("announcements")
	expect.Equal(t, "records are left of 3 sessions", len(s.open), 3)
	for _, id := range []string{"session", "other", "bob's"} {
		s.End(id)
	}
	expect.Equal(t, "records are left of sessions that have ended", len(s.open), 0)
}

// The context of a request ends with the request and with its session.
func TestARequestEndsWithItsSession(t *testing.T) {
	s := newSessions()
	ss := openSessionOf(t, s, "session", "alice")
	ctx, release, err := s.Hold(t.Context(), ss, 0, nil)
	expect.Check(t, err)
	s.End("session")
	expect.Is(t, "after its session has ended, the cause", context.Cause(ctx), errSessionEnded)
	release()
	expect.Equal(t, "records are left", len(s.open), 0)
}

// counts returns how many records there are, and how many sessions that clients opened.
func (s *Sessions) counts() (records, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), len(s.byID)
}

// closed reports whether an SDK's session has ended.
func closed(ss *mcp.ServerSession) bool {
	ended := make(chan struct{})
	go func() { ss.Wait(); close(ended) }()
	synctest.Wait()
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// Where there is no room for a session, one in which nothing happens gives way, and its client opens another. One
// whose calls are worked on stays, whatever else its HTTP requests do.
func TestAnIdleSessionGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		var all []*mcp.ServerSession
		for _, id := range []string{"works", "waits", "idle", "idle too"} {
			all = append(all, openSessionOf(t, s, id, "alice"))
		}
		works, releaseWork, err := s.Hold(t.Context(), all[0], 0, nil)
		expect.Check(t, err)
		waits, releaseWait, err := s.Hold(t.Context(), all[1], 0, nil)
		expect.Check(t, err)
		for _, resume := range []func() error{Waiting(works), Waiting(works)} { // two questions at once, answered
			expect.Check(t, resume())
		}
		time.Sleep(time.Second) // the idle ones have waited for longer than the one that begins to wait now
		Waiting(waits)
		all = append(all, openSessionOf(t, s, "new", "alice"))
		if synctest.Wait(); !closed(all[2]) || closed(all[3]) || closed(all[1]) {
			t.Error("the session that waited for longest did not give way, or another did")
		}
		all = append(all, openSessionOf(t, s, "newer", "alice"))
		time.Sleep(time.Hour)
		for _, id := range []string{"newest", "the last"} {
			all = append(all, openSessionOf(t, s, id, "alice"))
		}
		if synctest.Wait(); fault.Of(context.Cause(waits)) != fault.Crowded {
			t.Errorf("the call of a session that gave way ends with %v", context.Cause(waits))
		}
		if works.Err() != nil || closed(all[0]) {
			t.Errorf("a session whose call works has ended: %v", context.Cause(works))
		}
		releaseWork()
		releaseWait()
		if records, opened := s.counts(); records != 4 || opened != 4 {
			t.Errorf("%d records of %d sessions", records, opened)
		}
	})
}

// While a call waits for a person, its shares and those of its session and HTTP request are for newcomers.
func TestACallThatWaitsGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions()
		ss, other := openSessionOf(t, s, "s", "alice"), openSessionOf(t, s, "other", "alice")
		hold := func(ss *mcp.ServerSession, size int) context.Context {
			t.Helper()
			ctx, release, err := s.Hold(t.Context(), ss, size, nil)
			expect.Check(t, err)
			t.Cleanup(release)
			return ctx
		}
		first := hold(ss, 30<<10)
		resume := Waiting(first)
		again := Waiting(first) // for two questions at once
		if err := again(); err != nil {
			t.Errorf("one of two waits ends: %v", err)
		}
		time.Sleep(time.Second)
		Waiting(hold(ss, 0))
		time.Sleep(time.Second)
		hold(other, 30<<10) // needs the bytes of the first
		if cause := context.Cause(first); fault.Of(cause) != fault.Crowded || !strings.Contains(cause.Error(), "gave way") {
			t.Errorf("the first call ends with %v", cause)
		}
		if err := resume(); fault.Of(err) != fault.Crowded {
			t.Errorf("the first call resumes with %v", err)
		}
		back := hold(other, 0)
		if err := Waiting(back)(); err != nil || back.Err() != nil {
			t.Errorf("a call that resumes in time: %v", err)
		}
	})
}

// A call whose caller has other work resumes only if what is worked on for others leaves room.
func TestACallThatCannotResumeEnds(t *testing.T) {
	s := newSessions()
	hold := func(user string) context.Context {
		t.Helper()
		ctx, release, err := s.Hold(t.Context(), openSessionOf(t, s, user, user), 20<<10, nil)
		expect.Check(t, err)
		t.Cleanup(release)
		return ctx
	}
	waits := hold("alice")
	resume := Waiting(waits)
	hold("alice")
	hold("bob")
	hold("carol")
	if err := resume(); fault.Of(err) != fault.Crowded || context.Cause(waits) != err {
		t.Errorf("it resumes with %v, and ends with %v", err, context.Cause(waits))
	}
}

// gives counts how often it gave way.
type gives struct{ ways int }

func (g *gives) GiveWay(*bound.FullError) { g.ways++ }

// An HTTP request waits while each of its requests waits or has ended. If it gives way, its response is lost, but no
// call is.
func TestAnHTTPRequestOfASessionWaits(t *testing.T) {
	s := newSessions()
	ss := openSessionOf(t, s, "s", "alice")
	streams := bound.NewPool("streams", bound.Share{Total: 1, PerPrincipal: 1, Anonymous: 1})
	stream := expect.Must(streams.Take("alice", 1))(t)
	header, w := http.Header{"X": nil}, new(gives)
	release := expect.Must(s.Announce("s", 2, header, &stream, w))(t)
	taken := func() bool {
		hold, err := streams.Take("alice", 1)
		hold.Release()
		return err == nil
	}
	var resume []func() error
	var calls []context.Context
	for range 2 {
		ctx, end, err := s.Hold(t.Context(), ss, 0, header)
		expect.Check(t, err)
		defer end()
		calls = append(calls, ctx)
	}
	if taken() {
		t.Error("the stream of calls that work gave way")
	}
	resume = append(resume, Waiting(calls[0]))
	if taken() {
		t.Error("the stream of a call that works gave way")
	}
	if err := Waiting(calls[1])(); err != nil || taken() {
		t.Error("the stream of a call that works again gave way")
	}
	resume = append(resume, Waiting(calls[1]))
	if !taken() || w.ways != 1 {
		t.Error("the stream of calls that wait did not give way")
	}
	for i, f := range resume {
		if err := f(); err != nil || calls[i].Err() != nil {
			t.Errorf("a call whose response is lost: %v", err)
		}
	}
	release()
	expect.Equal(t, "an HTTP request that has ended is remembered", len(s.posts), 0)
}

// A session that the SDK has ended is forgotten when others are opened.
func TestEndedSessionsAreForgotten(t *testing.T) {
	s := newSessions()
	share := bound.Share{Total: 100, PerPrincipal: 100, Anonymous: 100}
	s.Shares.Sessions = bound.NewPool("sessions", share)
	var live []*mcp.ServerSession
	s.Live = func() iter.Seq[*mcp.ServerSession] { return slices.Values(live) }
	const few = 16
	for i := range few {
		ss := openSessionOf(t, s, fmt.Sprint(i), "alice")
		if i%4 == 0 {
			live = append(live, ss)
		}
	}
	ctx, release, err := s.Hold(t.Context(), s.byID["1"].ServerSession, 0, nil)
	expect.Check(t, err)
	openSessionOf(t, s, "one more", "alice")
	if records, opened := s.counts(); opened != 5 || records != 6 {
		t.Errorf("%d records of %d sessions, want those that live and the new one, and a call", records, opened)
	}
	expect.Is(t, "the call of a session that has ended", context.Cause(ctx), errSessionEnded)
	release()
	if records, _ := s.counts(); records != 5 {
		t.Errorf("%d records are left", records)
	}
}

// A client that initializes its session again, which the SDK refuses, holds no more for it.
func TestASessionIsCountedOnce(t *testing.T) {
	s := newSessions()
	ss := openSessionOf(t, s, "s", "alice")
	for range 5 {
		expect.Check(t, s.Open(t.Context(), ss, "alice"))
	}
	if _, err := s.Shares.Take(t.Context(), s.Shares.Sessions, "bob", 3); err != nil {
		t.Error(err)
	}
	s.End("s")
	if s.End("s"); len(s.byID) != 0 {
		t.Error("the session is left")
	}
	if !s.Owns("alice", "s") || s.Owns("bob", "s") {
		t.Error("its owner is forgotten while somebody may use its ID")
	}
}
