package gate

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// An error says whose limit is reached, and the log says so at times.
func TestFullShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		take := func(principal string) (bound.Hold, error) {
			return g.Shares.Take(t.Context(), g.Shares.Calls, principal, 1)
		}
		var held []bound.Hold
		for _, c := range []struct {
			principal string
			class     fault.Class
			message   string
		}{
			{"alice", fault.None, ""},
			{"alice", fault.None, ""},
			{"alice", fault.Crowded, "the caller is at its limit of 2 calls that run at once: try again later"},
			{"", fault.None, ""},
			{"", fault.Crowded, "anonymous callers together are at their limit of 1 calls that run at once: try again later"},
			{"bob", fault.None, ""},
			{"carol", fault.Unavailable, "the server is at its limit of 4 calls that run at once: try again later"},
		} {
			hold, err := take(c.principal)
			if fault.Of(err) != c.class || err != nil && (err.Error() != c.message || fault.RetryAfter(err) != 1) {
				t.Errorf("%q: %v", c.principal, err)
			}
			held = append(held, hold)
		}
		if got := g.messages(); len(got) != 3 || !strings.HasSuffix(got[0], "requests=1") {
			t.Errorf("logged %q", got)
		}
		for range 7 {
			_, _ = take("alice")
		}
		time.Sleep(10 * time.Second)
		_, _ = take("alice")
		const seven = `"askback: requests were refused or handed back because of a limit" ` +
			`limit="calls that run at once" max=2 reason="the caller is at its limit" requests=8`
		if got := g.messages(); len(got) != 4 || !strings.Contains(strings.Join(got, "\n"), seven) {
			t.Errorf("logged %q", got)
		}
		if err := g.Shares.Resize(t.Context(), &held[0], 5); fault.Of(err) != fault.Crowded {
			t.Errorf("to hold more: %v", err)
		}
		if err := g.Shares.Resize(t.Context(), &held[0], 0); err != nil {
			t.Errorf("to give back: %v", err)
		}
		if _, err := take("carol"); err != nil {
			t.Errorf("after that: %v", err)
		}
		other := errors.New("of the database")
		if err := g.Shares.GaveWay(t.Context(), other); err != other || g.Shares.GaveWay(t.Context(), nil) != nil {
			t.Errorf("an error that is about no limit: %v", err)
		}
	})
}

// A call has a share of those that run at once until it ends. Where there is none it waits a moment, when its state has
// been opened, and is then handed back.
func TestACallHasAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		call := Access{Method: "tools/call", Target: "t"}
		run := func(user string, work func(p Passage)) {
			t.Helper()
			if err := g.Pass(g.Named(t.Context(), user), call, Origin{}, nil, func(_ context.Context, p Passage) error {
				work(p)
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		run("alice", func(p Passage) {
			run("alice", func(p Passage) {
				if p.Crowded != nil {
					t.Error("a second call has no share")
				}
				run("alice", func(p Passage) {
					began := time.Now()
					if p.Crowded == nil || !p.Crowded(t.Context()) || time.Since(began) != shareWait {
						t.Errorf("a third call looks for a share for %v", time.Since(began))
					}
				})
				session := openSessionOf(t, g.Sessions, "s", "alice") // has limits of its own
				for method, in := range map[string]*mcp.ServerSession{
					"tasks/get": nil, "subscriptions/listen": nil, "tools/call": session,
				} {
					a := Access{Method: method}
					err := g.Pass(g.Named(t.Context(), "alice"), a, Origin{}, in, func(_ context.Context, p Passage) error {
						if p.Crowded != nil {
							t.Errorf("%s needs a share", a.Method)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
			g.has(t, true, "handed back because of a limit")
		})
		// One that gets its share later has it until the end.
		go run("bob", func(Passage) { time.Sleep(2 * shareWait) })
		go run("bob", func(Passage) { time.Sleep(shareWait / 2) })
		synctest.Wait()
		run("bob", func(p Passage) {
			began := time.Now()
			if p.Crowded(t.Context()) || time.Since(began) < shareWait/2 || time.Since(began) > shareWait/2+shareLook {
				t.Errorf("got no share, or after %v", time.Since(began))
			}
			if _, err := g.Shares.Take(t.Context(), g.Shares.Calls, "bob", 1); err == nil {
				t.Error("the call does not hold its share")
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			run("bob", func(p Passage) {
				if !p.Crowded(gone) {
					t.Error("a share for a client that has gone")
				}
			})
		})
		time.Sleep(2 * shareWait)
		if _, err := g.Shares.Take(t.Context(), g.Shares.Calls, "bob", 2); err != nil {
			t.Errorf("a call has ended and holds its share: %v", err)
		}
	})
}

// A request that serves several rounds of a call, because its client cannot come back between them, has one share.
func TestAnUndividedRequestHasOneShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(nil)
		call := Access{Method: "tools/call", Target: "t"}
		whole, release := Undivided(g.Named(t.Context(), "alice"))
		for range 3 {
			if p, err := g.passes(whole, call); err != nil || p.Crowded != nil {
				t.Errorf("a round: %v", err)
			}
		}
		if _, err := g.Shares.Take(t.Context(), g.Shares.Calls, "alice", 2); err == nil {
			t.Error("the request holds nothing between its rounds")
		}
		if _, err := g.Shares.Take(t.Context(), g.Shares.Calls, "alice", 1); err != nil {
			t.Errorf("the request holds more than one share: %v", err)
		}
		crowded, releaseNothing := Undivided(g.Named(t.Context(), "alice"))
		began := time.Now()
		if _, err := g.passes(crowded, call); fault.Of(err) != fault.Crowded || time.Since(began) != shareWait {
			t.Errorf("without a share, after %v: %v", time.Since(began), err)
		}
		releaseNothing()
		release()
		if _, err := g.passes(crowded, call); err != nil {
			t.Errorf("when there is a share: %v", err)
		}
	})
}

// holder counts what a request waits for.
type holder struct{ waiting, left int }

func (w *holder) Wait()              { w.waiting++ }
func (w *holder) Leave(bound.Waiter) { w.left++ }
func (w *holder) Resume() error {
	w.waiting, w.left = 0, 0
	return errors.New("gave way")
}

func TestWaiting(t *testing.T) {
	h, waits := new(holder), new(Waits)
	resume := Waiting(waits.With(t.Context(), new(Shares), h, nil))
	expect.Equal(t, "how many wait", h.waiting, 1)
	if err := resume(); h.waiting != 0 || err == nil {
		t.Errorf("it has resumed with %v", err)
	}
	if err := Waiting(t.Context())(); err != nil {
		t.Errorf("a request that cannot wait: %v", err)
	}
}

// A request that waits for others than its client gives its shares back, and counts among the waits: there the largest
// holder gives way, and a second caller always has room.
func TestLeave(t *testing.T) {
	shares := &Shares{
		Waits: bound.NewPool("calls that wait for people", bound.Share{Total: 3, PerPrincipal: 2, Anonymous: 1}),
		Log:   slog.New(slog.DiscardHandler),
	}
	type left struct {
		context.Context
		*holder
		resume func()
		waits  *Waits
	}
	leave := func(principal string, answer bound.Waiter) left {
		h, waits := new(holder), new(Waits)
		ctx, resume := Leave(waits.With(t.Context(), shares, h, answer), principal)
		return left{ctx, h, resume, waits}
	}
	first, second, third := leave("alice", nil), leave("alice", nil), leave("alice", nil)
	if fault.Of(context.Cause(first)) != fault.Crowded || second.Err() != nil || third.Err() != nil || third.left != 1 {
		t.Errorf("alice's waits ended with %v, %v and %v", context.Cause(first), second.Err(), third.Err())
	}
	bob := leave("bob", nil)
	mallory := leave("", nil)
	if bob.Err() != nil || mallory.Err() != nil || fault.Of(context.Cause(second)) != fault.Unavailable {
		t.Errorf("bob: %v, an anonymous caller: %v, alice: %v", bob.Err(), mallory.Err(), context.Cause(second))
	}
	for _, l := range []left{first, second, third, bob, mallory} {
		if l.resume(); l.left != 0 {
			t.Error("a request has resumed, and its holder has not")
		}
	}
	// While the response is written, what bounds that gives way.
	answers := new(answer)
	alice := leave("alice", answers)
	alice.resume()
	_, _ = leave("alice", nil), leave("alice", nil)
	if !answers.gaveWay {
		t.Error("a response counts no more among the waits")
	}
	// A front that has gone gives back what the request takes later.
	gone := new(Waits)
	ctx := gone.With(t.Context(), shares, new(holder), answers)
	gone.Release()
	Leave(ctx, "carol")
	Leave(ctx, "carol")
	if hold, err := shares.Waits.Take("carol", 2); err != nil {
		t.Errorf("carol's share is lost: %v", err)
	} else {
		hold.Release()
	}
	if ctx, resume := Leave(t.Context(), "alice"); ctx.Err() != nil {
		t.Error("a request without shares cannot wait")
	} else {
		resume()
	}
}

type answer struct{ gaveWay bool }

func (a *answer) GiveWay(*bound.FullError) { a.gaveWay = true }
