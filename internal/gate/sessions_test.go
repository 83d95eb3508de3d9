package gate

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
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
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	ss, err := m.Connect(t.Context(), &mcp.StreamableServerTransport{SessionID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ss.Close() })
	if err := s.Open(t.Context(), ss, principal); err != nil {
		t.Fatal(err)
	}
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
		release, err := hold(ss, 0)
		if err != nil {
			t.Fatal(err)
		}
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
		release, err := s.Announce("session", 3, nil, new(bound.Hold), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Announce("session", 1, nil, new(bound.Hold), nil); !crowded(err) {
			t.Errorf("a fourth announced request: %v", err)
		}
		release()
	}
	full("announcements")
	if open := len(s.open); open != 3 {
		t.Errorf("%d records are left of 3 sessions", open)
	}
	for _, id := range []string{"session", "other", "bob's"} {
		s.End(id)
	}
	if open := len(s.open); open != 0 {
		t.Errorf("%d records are left of sessions that have ended", open)
	}
}

// The context of a request ends with the request and with its session.
func TestARequestEndsWithItsSession(t *testing.T) {
	s := newSessions()
	ss := openSessionOf(t, s, "session", "alice")
	ctx, release, err := s.Hold(t.Context(), ss, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.End("session")
	if !errors.Is(context.Cause(ctx), errSessionEnded) {
		t.Errorf("after its session has ended, the cause is %v", context.Cause(ctx))
	}
	release()
	if open := len(s.open); open != 0 {
		t.Errorf("%d records are left", open)
	}
}
