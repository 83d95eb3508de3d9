package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Guard is the interface of that name in package state, which says what it promises.
type Guard interface {
	Use(ctx context.Context, id string, expires time.Time) (fresh bool, err error)
}

// RunGuard runs the suite for guards. It calls database for each test, for one that nobody else uses; what that returns
// opens a handle on it, which the test uses beside others and the caller closes. A guard that is for one handle only
// returns the same one each time.
func RunGuard(t *testing.T, database func(t *testing.T) (open func(t *testing.T) Guard)) {
	for _, test := range []struct {
		says string
		run  func(f *guards)
	}{
		{"a state is fresh once among all instances", func(f *guards) {
			for i := range f.handles {
				id := fmt.Sprint("first used at ", i)
				f.wantUse(f.handles[i], id, long, true)
				for _, g := range f.handles {
					f.wantUse(g, id, long, false)
				}
			}
		}},
		{"states are told apart by every byte", func(f *guards) {
			for _, id := range []string{"a", "A", "a ", " a", "ä", "a\u0308", "%", "_", strings.Repeat("a", 64)} {
				f.wantUse(f.handles[0], id, long, true)
			}
		}},
		{"a state that was used stays used, however many others are, until it expires", func(f *guards) {
			f.wantUse(f.handles[0], "id", long, true)
			for i := range 100 {
				f.wantUse(f.handles[i%2], fmt.Sprint("expired ", i), -time.Hour, true)
				f.wantUse(f.handles[i%2], fmt.Sprint("other ", i), long, true)
			}
			f.wantUse(f.handles[1], "id", long, false)
		}},
		{"of many who present a state at the same time exactly one passes", func(f *guards) {
			for round := range 5 {
				id := fmt.Sprint("id ", round)
				fresh := together(&f.suite, 200, func(i int, add func(int)) error {
					ok, err := f.handles[i%len(f.handles)].Use(f.ctx, id, time.Now().Add(long))
					if ok {
						add(i)
					}
					return err
				})
				f.require(len(fresh) == 1, "%d of 200 passed", len(fresh))
			}
		}},
		{"a state whose guard gave an error is fresh at most once", func(f *guards) {
			for i := range 30 {
				id := fmt.Sprint("id ", i)
				ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i)*20*time.Microsecond)
				first, err := f.handles[0].Use(ctx, id, time.Now().Add(long))
				cancel()
				f.check(err == nil || !first, "with the error %v the state is fresh", err)
				second := must(f.handles[1].Use(f.ctx, id, time.Now().Add(long)))(f, "Use")
				f.check(!first || !second, "the state is fresh twice")
			}
		}},
		{"a context that has ended ends the call, or it does no harm", func(f *guards) {
			ended, cancel := context.WithCancel(f.ctx)
			cancel()
			if fresh, err := f.handles[0].Use(ended, "id", time.Now().Add(long)); err != nil {
				f.wantError("Use", err, context.Canceled)
				f.wantUse(f.handles[1], "id", long, true)
			} else if !fresh {
				f.Error("the state is not fresh")
			}
		}},
	} {
		parallel(t, test.says, func(in suite) {
			open := database(in.T)
			test.run(&guards{in, []Guard{open(in.T), open(in.T), open(in.T)}})
		})
	}
}

// guards are three handles on one database.
type guards struct {
	suite
	handles []Guard
}

func (f *guards) wantUse(g Guard, id string, ttl time.Duration, want bool) {
	fresh, err := g.Use(f.ctx, id, time.Now().Add(ttl))
	f.ok(fmt.Sprintf("Use of %.100q", id), err)
	f.require(fresh == want, "Use of %.100q: fresh is %v, want %v", id, fresh, want)
}
