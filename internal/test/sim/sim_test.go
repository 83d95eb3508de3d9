package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/sim"
)

var some = sim.Chances{
	sim.LostBefore: 0.1, sim.LostAfter: 0.1, sim.Delayed: 0.1, sim.Frozen: 0.02,
	sim.KilledBefore: 0.005, sim.KilledAfter: 0.005, sim.Late: 0.02,
}

// run lets four parts do forty things each, and returns what happened, in order, and the fates.
func run(t *testing.T, seed uint64, chances sim.Chances, only []sim.Event) (happened []string, fates []sim.Event) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(seed, time.Second, only)
		s.Run(func() {
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 4 {
				part := s.Part(fmt.Sprint("part ", i), chances)
				all.Go(func() {
					for n := range 40 {
						what := fmt.Sprintf("%s does %d", part.Name, n)
						_ = part.Do(t.Context(), fmt.Sprint("thing ", n), func(context.Context) error {
							mu.Lock()
							defer mu.Unlock()
							happened = append(happened, what)
							return nil
						})
					}
				})
			}
			all.Wait()
		})
		fates = s.Events()
	})
	return happened, fates
}

// The seed decides the order and the fates, also what they are when there are fewer of them.
func TestTheSeedDecides(t *testing.T) {
	for seed := range uint64(20) {
		happened, fates := run(t, seed, some, nil)
		again, sameFates := run(t, seed, some, nil)
		if !slices.Equal(happened, again) || !slices.Equal(fates, sameFates) {
			t.Fatalf("seed %d: %q with %v, and then %q with %v", seed, happened, fates, again, sameFates)
		}
		other, _ := run(t, seed+1000, some, nil)
		if slices.Equal(happened, other) {
			t.Errorf("seed %d: another seed makes no difference", seed)
		}
		half := fates[:len(fates)/2]
		_, fewer := run(t, seed, some, half)
		for _, e := range fewer {
			if !slices.ContainsFunc(half, func(h sim.Event) bool { return h.What == e.What && h.Fate == e.Fate }) {
				t.Errorf("seed %d: with half of the fates, there is %v", seed, e)
			}
		}
	}
}

// What is lost, and who is killed, is as the fate says. What is late happens when its part has been told that it was
// lost, or is killed, and the end of a run waits for it.
func TestFates(t *testing.T) {
	for _, test := range []struct {
		fate     sim.Fate
		err      error
		happens  bool
		survives bool
	}{
		{sim.LostBefore, sim.ErrLost, false, true},
		{sim.LostAfter, sim.ErrLost, true, true},
		{sim.Delayed, nil, true, true},
		{sim.Frozen, nil, true, true},
		{sim.KilledBefore, sim.ErrDead, false, false},
		{sim.KilledAfter, sim.ErrDead, true, false},
		{sim.Late, sim.ErrLost, false, true},
		{sim.KilledLate, sim.ErrDead, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sim.New(1, time.Second, nil)
			var happened atomic.Int32
			s.Run(func() {
				part, other := s.Part("part", sim.Chances{test.fate: 1}), s.Part("other", nil)
				began := time.Now()
				act := func(context.Context) error { happened.Add(1); return nil }
				var beside time.Duration
				var both sync.WaitGroup
				both.Go(func() {
					_ = other.Do(t.Context(), "something", func(context.Context) error { beside = time.Since(began); return nil })
				})
				err := part.Do(t.Context(), "something", act)
				both.Wait()
				if !errors.Is(err, test.err) || (happened.Load() == 1) != test.happens {
					t.Errorf("%s: it happened %d times: %v", test.fate, happened.Load(), err)
				}
				if late := time.Since(began) > 0; late != (test.fate == sim.Delayed || test.fate == sim.Frozen) || beside > 0 {
					t.Errorf("%s: it took %v, and what another part did %v", test.fate, time.Since(began), beside)
				}
				part.Chances = nil
				err = part.Do(t.Context(), "something more", func(context.Context) error { return nil })
				if survives := err == nil; survives != test.survives {
					t.Errorf("%s: afterwards: %v", test.fate, err)
				}
			})
			if lost := test.fate == sim.LostBefore || test.fate == sim.KilledBefore; (happened.Load() == 0) != lost {
				t.Errorf("%s: in the end it happened %d times", test.fate, happened.Load())
			}
		})
	}
}

// A pipe carries all lines in order. Of a line that its writer does not survive, a part arrives, and nothing follows.
func TestPipe(t *testing.T) {
	for name, c := range map[string]struct {
		chances sim.Chances
		lines   int // that arrive at most
	}{
		"both live": {sim.Chances{sim.LostBefore: 0.5, sim.KilledAfter: 0.5, sim.Delayed: 0.5}, 20},
		"it dies":   {sim.Chances{sim.KilledAmid: 1, sim.Delayed: 0.5}, 0},
	} {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				s := sim.New(seed, time.Second, nil)
				s.Run(func() {
					from := s.Part("writer", c.chances)
					r, w := sim.NewPipe(from, s.Part("reader", nil))
					want := ""
					for i := range 20 {
						line := fmt.Sprintf(`{"id":%d}`+"\n", i)
						want += line
						if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
							t.Errorf("%s: writing: %d, %v", name, n, err)
						}
					}
					w.Close()
					got, err := io.ReadAll(r)
					whole := strings.Count(string(got), "\n") == c.lines
					if err != nil || !whole || !strings.HasPrefix(want, string(got)) || from.IsDead() != (c.lines == 0) {
						t.Errorf("%s, seed %d: %q, %v", name, seed, got, err)
					}
				})
			})
		}
	}
}

// What was written before a process ends comes, and each end of a pipe learns that the other one is gone.
func TestThePipesOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(1, time.Second, nil)
		s.Run(func() {
			from, to := s.Part("writer", nil), s.Part("reader", nil)
			r, w := sim.NewPipe(from, to)
			_, _ = w.Write([]byte("one\n"))
			time.Sleep(time.Second)
			from.Kill()
			if got, err := io.ReadAll(r); string(got) != "one\n" || err != nil {
				t.Errorf("of a dead writer comes %q, %v", got, err)
			}
			from = s.Part("another writer", nil)
			r, w = sim.NewPipe(from, to)
			to.Kill()
			if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, sim.ErrDead) {
				t.Errorf("a dead reader reads %d bytes, %v", n, err)
			}
			time.Sleep(time.Second)
			if n, err := w.Write([]byte("two\n")); n != 0 || err == nil {
				t.Errorf("to a dead reader goes %d bytes, %v", n, err)
			}
		})
	})
}

// What happens by chance is an event, and can be left out like a fate.
func TestHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(1, time.Second, nil)
		if happens := s.Part("part", nil).Happens("a theft", 1); !happens || len(s.Events()) != 1 {
			t.Errorf("it happens: %v, with the events %v", happens, s.Events())
		}
		s = sim.New(1, time.Second, []sim.Event{})
		if s.Part("part", nil).Happens("a theft", 1) {
			t.Error("it happens, although it was left out")
		}
	})
}

// Who waits at a seam goes away with its context.
func TestAContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(1, time.Second, nil)
		s.Run(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			began := time.Now()
			err := s.Part("part", sim.Chances{sim.Delayed: 1}).Do(ctx, "something", func(context.Context) error {
				t.Error("it happened")
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Millisecond {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	})
}

// A lock that is held at a seam stops the time of its bubble, and somebody says so.
func TestALockAcrossASeam(t *testing.T) {
	var lock sync.Mutex
	var said string
	stop := sim.Watch(func(stacks string) {
		said = stacks
		lock.Unlock()
	})
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(1, time.Second, nil)
		s.Run(func() {
			holds := make(chan struct{})
			go func() {
				lock.Lock()
				close(holds)
				_ = s.Part("part", nil).Do(t.Context(), "something", func(context.Context) error { return nil })
			}()
			<-holds
			lock.Lock()
		})
	})
	if !strings.Contains(said, "sync.Mutex") || !strings.Contains(said, "(*Part).Do") {
		t.Errorf("said is %q", said)
	}
}

// Of many fates, Shrink finds those that matter.
func TestShrink(t *testing.T) {
	_, fates := run(t, 3, some, nil)
	if len(fates) < 20 {
		t.Fatalf("%d fates", len(fates))
	}
	matter := []sim.Event{fates[3], fates[len(fates)-2]}
	runs := 0
	small := sim.Shrink(fates, func(only []sim.Event) bool {
		runs++
		return slices.Contains(only, matter[0]) && slices.Contains(only, matter[1])
	})
	if !slices.Equal(small, matter) {
		t.Errorf("%v, want %v", small, matter)
	}
	if runs > 3*len(fates) {
		t.Errorf("%d runs for %d fates", runs, len(fates))
	}
}
