package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

var rememberedTests = []test{
	{"Remember: a decision is kept, and read as it was written", func(f *fixture, s task.Store) {
		r := f.remembered(s, "key", 3)
		r.Content = everyByte
		f.ok("Remember", s.Remember(f.ctx, r))
		for _, handle := range f.instances(s, 2) {
			found := must(handle.Remembered(f.ctx, nil, nil, 10))(f, "Remembered")
			f.wantEqual("Remembered", found, []*task.Remembered{r})
		}
	}},
	{"Recall: each call takes one from Left, and takes it once", func(f *fixture, s task.Store) {
		other := f.instances(s, 2)[1]
		f.remember(s, "key", 2)
		f.wantRecall(s, "key", "call 1", 1)
		f.wantRecall(other, "key", "call 1", 1)
		f.wantRemembered(other, nil, "key 1")
		f.wantRecall(other, "key", "call 2", 0)
		f.wantRemembered(s, nil)
		f.wantNoRecall(s, "key", "call 3")
		f.wantRecall(s, "key", "call 2", 0)
	}},
	{"Recall: there is no other decision than the one with the Key", func(f *fixture, s task.Store) {
		f.remember(s, "key", 9)
		for _, key := range []string{"", "ke", "key2", "KEY", "key\x00", "\xff", "%"} {
			f.wantNoRecall(s, key, "call")
			f.wantError("Forget of "+key, s.Forget(f.ctx, key), task.ErrNotFound)
		}
		f.wantRemembered(s, nil, "key 9")
	}},
	{"Recall: of calls at once no more pass than are left, and one call takes one", func(f *fixture, s task.Store) {
		handles := f.instances(s, 4)
		f.remember(s, "key", 3)
		passed := succeed(&f.suite, 24, task.ErrNotFound, func(i int) (*task.Remembered, error) {
			return handles[i%4].Recall(f.ctx, "key", fmt.Sprint("call ", i/2))
		})
		f.check(len(passed) == 6, "%d of 24 have passed, want the two attempts of three calls", len(passed))
		f.wantRemembered(s, nil)
	}},
	{"Recall: nothing passes after Until, and Purge deletes what has ended", func(f *fixture, s task.Store) {
		now := f.now(s)
		for key, until := range map[string]time.Duration{"past": -time.Second, "soon": 200 * time.Millisecond, "late": long} {
			r := f.remembered(s, key, 9)
			r.Until = now.Add(until)
			f.ok("Remember", s.Remember(f.ctx, r))
		}
		f.wantNoRecall(s, "past", "call")
		f.eventually("a decision has ended", func() bool {
			_, err := s.Recall(f.ctx, "soon", "call")
			return errors.Is(err, task.ErrNotFound)
		})
		f.wantRemembered(s, nil, "late 9")
		f.purge(s, 0, 10, 0)
		f.wantNoRecall(s, "soon", "call")
		f.wantRecall(s, "late", "call", 8)
		// What was deleted can be decided again, and has let no call pass.
		f.remember(s, "soon", 1)
		f.wantRecall(s, "soon", "call", 0)
	}},
	{"Remember: one that is repeated changes nothing", func(f *fixture, s task.Store) {
		r := f.remember(s, "key", 2)
		f.wantRecall(s, "key", "call 1", 1)
		f.ok("Remember", s.Remember(f.ctx, r))
		earlier := f.remembered(s, "key", 9)
		earlier.Decided = r.Decided.Add(-time.Second)
		f.ok("Remember", s.Remember(f.ctx, earlier))
		f.wantRemembered(s, nil, "key 1")
	}},
	{"Remember: a later decision takes the place of the one before", func(f *fixture, s task.Store) {
		r := f.remembered(s, "key", 1)
		r.Who = []string{"user:ada", "group:release"}
		f.ok("Remember", s.Remember(f.ctx, r))
		f.wantRecall(s, "key", "call 1", 0)
		later := f.remembered(s, "key", 5)
		later.Decided, later.Who, later.Content = r.Decided.Add(time.Second), []string{"user:ada", "user:bob"}, []byte("new")
		f.ok("Remember", s.Remember(f.ctx, later))
		f.wantRecall(s, "key", "call 1", 5) // it has passed
		f.wantRecall(s, "key", "call 2", 4)
		f.wantRemembered(s, []string{"group:release"})
		f.wantRemembered(s, []string{"user:bob"}, "key 4")
		f.wantRemembered(s, []string{"user:ada"}, "key 4")
	}},
	{"Forget: nothing passes any more, and no repeated Remember brings it back", func(f *fixture, s task.Store) {
		r := f.remember(s, "key", 5)
		f.wantRecall(s, "key", "call 1", 4)
		f.ok("Forget", s.Forget(f.ctx, "key"))
		f.wantNoRecall(s, "key", "call 1")
		f.wantNoRecall(s, "key", "call 2")
		f.wantRemembered(s, nil)
		f.wantError("Forget again", s.Forget(f.ctx, "key"), task.ErrNotFound)
		f.ok("Remember", s.Remember(f.ctx, r))
		r.Decided = r.Decided.Add(time.Millisecond) // before it was forgotten
		f.ok("Remember", s.Remember(f.ctx, r))
		f.wantRemembered(s, nil)
		r.Decided = f.now(s).Add(time.Second)
		f.ok("Remember", s.Remember(f.ctx, r))
		f.wantRecall(s, "key", "call 2", 4)
	}},
	{"Remembered: the last one decided first, in pages, for those whom it concerns", func(f *fixture, s task.Store) {
		var all []string
		first := f.now(s).Add(-time.Hour)
		for i := range 7 {
			r := f.remembered(s, fmt.Sprint("key ", i), i+1)
			r.Decided = first.Add(time.Duration(i/2) * time.Second)
			r.Who = []string{fmt.Sprint("user:", i%2), "group:a"}
			f.ok("Remember", s.Remember(f.ctx, r))
		}
		for _, i := range []int{6, 4, 5, 2, 3, 0, 1} {
			all = append(all, fmt.Sprintf("key %d %d", i, i+1))
		}
		f.wantRemembered(s, nil, all...)
		f.wantRemembered(s, []string{"user:1", "group:a", "user:0"}, all...)
		f.wantRemembered(s, []string{"user:1"}, "key 5 6", "key 3 4", "key 1 2")
		f.wantRemembered(s, []string{"user:2", "group:A", "user:\x00", ""})
		f.wantRemembered(s, []string{})
		paged := readPages(&f.suite, 2, func(last *task.Remembered) ([]*task.Remembered, error) {
			if last.Key == "" {
				last = nil
			}
			return s.Remembered(f.ctx, []string{"group:a"}, last, 2)
		})
		f.wantEqual("in pages", briefly(paged), all)
	}},
}

// remembered returns a decision that people have made an hour ago.
func (f *fixture) remembered(s task.Store, key string, left int) *task.Remembered {
	now := f.now(s)
	return &task.Remembered{Key: key, Who: []string{"user:ada"}, Content: []byte("content"),
		Decided: now.Add(-time.Hour), Until: now.Add(long), Left: left}
}

func (f *fixture) remember(s task.Store, key string, left int) *task.Remembered {
	r := f.remembered(s, key, left)
	f.ok("Remember", s.Remember(f.ctx, r))
	return r
}

func (f *fixture) now(s task.Store) time.Time {
	_, now, err := s.Changes(f.ctx, nil, 0)
	f.ok("Changes", err)
	return now
}

func briefly(found []*task.Remembered) []string {
	return each(found, func(r *task.Remembered) string { return fmt.Sprint(r.Key, " ", r.Left) })
}

// wantRemembered requires these decisions for who, each by its Key and what is left of it.
func (f *fixture) wantRemembered(s task.Store, who []string, want ...string) {
	found := must(s.Remembered(f.ctx, who, nil, 100))(f, "Remembered")
	f.wantEqual(fmt.Sprintf("Remembered for %q", who), briefly(found), want)
}

func (f *fixture) wantRecall(s task.Store, key, call string, left int) {
	r := must(s.Recall(f.ctx, key, call))(f, "Recall")
	f.check(r.Key == key && r.Left == left, "Recall(%q, %q): %q with %d left, want %d", key, call, r.Key, r.Left, left)
}

func (f *fixture) wantNoRecall(s task.Store, key, call string) {
	r, err := s.Recall(f.ctx, key, call)
	f.check(errors.Is(err, task.ErrNotFound) && r == nil, "Recall(%q, %q): %v, %v, want an ErrNotFound", key, call, r, err)
}
