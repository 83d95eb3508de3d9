package storetest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

// everyByte has each byte once: no text in any encoding.
var everyByte = func() (b []byte) {
	for i := range 256 {
		b = append(b, byte(i))
	}
	return b
}()

// texts are strings that stores have been known to change.
var texts = []string{
	"", " ", "a ", " a", "A", "a", "ä", "a\u0308", "日本語", "\U0001F600", "\u202e", "\ufffd", "\U0010FFFF",
	"'", `"`, `\`, "%", "_", ";", "--", "NULL", "0", "1e3", "\t\r\n\x01\x7f", strings.Repeat("long ", 1000),
}

// byID compares tasks without their order.
var byID = cmpopts.SortSlices(func(a, b *task.Task) bool { return a.ID < b.ID })

var createTests = []test{
	{"under a lease it is claimed: Fence and Attempts are one higher, and it is due when the lease ends",
		func(f *fixture, s task.Store) {
			for _, quota := range []task.Quota{{}, {Unfinished: 100, Kept: 100, Bytes: 1 << 20}} {
				t := newTask("alice")
				t.Attempts = 2
				f.ok("Create", s.Create(f.ctx, t, long, long, []byte("call"), list("one"), quota))
				f.check(t.Fence == 1 && t.Attempts == 3 && t.Version == 0, "not 1, 3 and 0: %+v", t)
				f.wantClaimed(s, t, "one")
			}
			const lease = 60 * time.Millisecond
			t, start := newTask("alice"), time.Now()
			f.ok("Create", s.Create(f.ctx, t, long, lease, nil, nil, task.Quota{}))
			f.claimNext(s)
			f.wantPassed(start, lease)
		}},
	{"a new task has its times, Version and Fence 0, and no Nonce", func(f *fixture, s task.Store) {
		for _, ttl := range []time.Duration{time.Millisecond, 90 * time.Minute, 10 * 365 * 24 * time.Hour} {
			t := newTask("alice")
			t.Created, t.Updated, t.Expires = time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
			t.Version, t.Claim = 7, task.Claim{Fence: 8, Nonce: "of another"}
			f.ok("Create", s.Create(f.ctx, t, ttl, 0, nil, nil, task.Quota{}))
			// The clock is the store's, so it may well differ from this machine's clock.
			f.check(time.Since(t.Created).Abs() <= 24*time.Hour, "Created is %v, a day or more from now", t.Created)
			want := clone(t)
			want.Updated, want.Expires, want.Version, want.Claim = t.Created, t.Created.Add(ttl), 0, task.Claim{}
			f.wantSame(t, want)
			f.wantRow(s, want)
		}
	}},
	{"numbers and every string come back as they were", func(f *fixture, s task.Store) {
		for _, text := range texts {
			t := newTask(text)
			t.Method, t.Target, t.Dialect, t.Message = text, text, text, text
			t.Status, t.PollInterval = task.InputRequired, 250*time.Millisecond
			t.Round, t.Attempts, t.Stopped = 3, 4, true
			f.create(s, t)
			f.wantRow(s, t)
			c := f.claim(s, "", long)
			t.Claim, t.Attempts = task.Claim{Fence: 1, Nonce: c.Nonce}, 5
			f.wantSame(c, t)
		}
	}},
	{"all bytes come back as they were", func(f *fixture, s task.Store) {
		big := make([]byte, 1<<20)
		rand.Read(big)
		for name, b := range map[string][]byte{
			"nil":             nil,
			"empty":           {},
			"a zero":          {0},
			"zeros":           make([]byte, 5000),
			"every byte":      everyByte,
			"no UTF-8":        {0xff, 0xfe, 0x80, 0xc0, 0xed, 0xa0, 0x80},
			"JSON":            []byte(`{"b": 1.0,  "a":"\u0000\ud800" }`),
			"an escape":       []byte(`\x00`),
			"a megabyte":      big,
			"a megabyte of 0": make([]byte, 1<<20),
		} {
			t := newTask("alice")
			t.Pending, t.Outcome = b, b
			between := []byte("between")
			f.ok("Create with "+name, s.Create(f.ctx, t, long, 0, b, [][]byte{b, between, b}, task.Quota{}))
			f.wantBytes(s, name, t.ID, b, b, between, b)
			f.ok("Update with "+name, s.Update(f.ctx, t, task.Update{Keep: true, Entries: [][]byte{b}}))
			f.ok("Append of "+name, s.Append(f.ctx, t.ID, t.Claim, 4, b))
			f.wantBytes(s, name, t.ID, b, b, between, b, b, b)
		}
	}},
	{"the store keeps what it was given, and each read is the caller's own", func(f *fixture, s task.Store) {
		t := newTask("alice")
		t.Pending = []byte("pending")
		call, entry := []byte("call"), []byte("entry")
		f.ok("Create", s.Create(f.ctx, t, long, 0, call, [][]byte{entry}, task.Quota{}))
		want := clone(t)
		want.Pending = []byte("pending")
		t.Message, t.Pending[0], call[0], entry[0] = "changed", 'X', 'X', 'X'
		f.wantRow(s, want)
		f.get(s, t.ID).Pending[0] = 'X'
		f.wantRow(s, want)
		read, entries, err := s.Journal(f.ctx, t.ID, -1)
		f.ok("Journal", err)
		read[0], entries[0][0] = 'X', 'X'
		f.wantJournal(s, t.ID, "entry")
		given := clone(want)
		f.update(s, given, task.Update{})
		want = clone(given)
		want.Pending = []byte("pending")
		given.Pending[0] = 'X'
		f.wantRow(s, want)
	}},
	{"an id that is taken is ErrExists, and the task that has it stays as it is", func(f *fixture, s task.Store) {
		t := f.create(s, newTask("alice"), "one")
		for _, principal := range []string{"alice", "mallory"} {
			other := newTask(principal)
			other.ID, other.Message = t.ID, "mine now"
			f.wantError("Create", s.Create(f.ctx, other, long, long, []byte("other"), list("other"), task.Quota{}),
				task.ErrExists)
			f.check(other.Claim == (task.Claim{}) && other.Attempts == 0, "the given task became %+v", other)
		}
		f.wantRow(s, t)
		f.wantJournal(s, t.ID, "one")
		f.wantListed(s, "mallory", 0)
		f.claimThis(s, t.ID, long)
	}},
	{"of instances that create a task with the same id at the same time one succeeds", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		for range 10 {
			id := newID()
			created := succeed(&f.suite, 6, task.ErrExists, func(i int) (*task.Task, error) {
				t := newTask(fmt.Sprint(i))
				t.ID = id
				return t, handles[i%2].Create(f.ctx, t, long, 0, []byte("call"), list(t.Principal), task.Quota{})
			})
			f.require(len(created) == 1, "%d of them succeeded", len(created))
			f.wantRow(s, created[0])
			f.wantJournal(handles[1], id, created[0].Principal)
		}
	}},
}

var readTests = []test{
	{"of an id without a task nothing can be read or written: ErrNotFound", func(f *fixture, s task.Store) {
		t := newTask("alice")
		t.ID = "abc" + t.ID
		f.create(s, t)
		for _, id := range []string{"", newID(), strings.ToUpper(t.ID), t.ID + " ", t.ID[:20], "%", "' OR ''='"} {
			got, err := s.Get(f.ctx, id)
			f.check(got == nil, "Get of %q gave the task %+v", id, got)
			f.wantError(fmt.Sprintf("Get of %q", id), err, task.ErrNotFound)
		}
		f.wantGone(s, newID())
		f.wantAppend(s, newID(), task.Claim{}, 0, task.ErrNotFound)
		for _, u := range []task.Update{{}, {Leased: true}, {Keep: true, Entries: list("x")}} {
			f.wantUpdate(s, newTask("alice"), u, task.ErrNotFound)
		}
	}},
	{"Versions has the version of each task that exists", func(f *fixture, s task.Store) {
		other := f.instances(s, 2)[1]
		want := map[string]int64{}
		ids := []string{"", newID(), "' OR ''='", "\xff", "a\x00"}
		for i := range 700 {
			t := f.addParked(s, "alice")
			if i%100 == 0 {
				f.update(s, t, task.Update{Keep: true})
				f.append(s, t.ID, t.Claim, "changes no version")
			}
			if i%2 == 0 {
				want[t.ID] = t.Version
				ids = append(ids, t.ID, t.ID)
			}
		}
		for _, s := range []task.Store{s, other} {
			got := must(s.Versions(f.ctx, ids))(f, "Versions")
			f.wantEqual("Versions", got, want)
			none := must(s.Versions(f.ctx, nil))(f, "Versions")
			f.check(len(none) == 0, "of no tasks there are the versions %v", none)
		}
	}},
	{"List has the tasks of this principal in this dialect, in every status, and no others",
		func(f *fixture, s task.Store) {
			type whose struct{ principal, dialect string }
			want := make(map[whose][]*task.Task)
			for _, principal := range []string{"alice", "Alice", "alice ", "", "al%", "ali", "á", "a\u0301"} {
				for _, dialect := range []string{"proposal", "Proposal", "", "extension"} {
					w := whose{principal, dialect}
					for _, status := range statuses {
						t := newTask(principal)
						t.Dialect, t.Status = dialect, status
						f.create(s, t)
						want[w] = append(want[w], t)
					}
				}
			}
			for w, ts := range want {
				f.wantEqual(fmt.Sprintf("the list of %+v", w), f.list(s, w.principal, w.dialect, 100), ts, byID)
			}
		}},
	{"List shows what the row holds now, perhaps without Outcome and Nonce, Pending cut", func(f *fixture, s task.Store) {
		c := f.addLeased(s)
		c.Status, c.Message, c.Round, c.Attempts, c.Stopped = task.InputRequired, "waiting", 2, 5, true
		c.Pending, c.Outcome = []byte("pending"), []byte("outcome")
		f.update(s, c, task.Update{Due: -1})
		got := f.list(s, "alice", "proposal", 1)
		f.require(len(got) == 1, "List gave %d tasks, want the one", len(got))
		c.Pending, c.Outcome = c.Pending[:max(1, len(got[0].Pending))], c.Outcome[:len(got[0].Outcome)]
		c.Nonce = c.Nonce[:len(got[0].Nonce)]
		f.wantSame(got[0], c)
	}},
	{"List goes from the newest to the oldest, ties by id, in pages of any size", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		const n = 60
		together(&f.suite, 4, func(i int, _ func(any)) error {
			for range n / 4 {
				if err := handles[i%2].Create(f.ctx, newTask("alice"), long, 0, nil, nil, task.Quota{}); err != nil {
					return err
				}
			}
			return nil
		})
		all := f.list(s, "alice", "proposal", n+1)
		f.require(len(all) == n, "List gave %d tasks, want %d", len(all), n)
		f.check(slices.IsSortedFunc(all, func(a, b *task.Task) int {
			return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID))
		}), "List is not sorted, the newest first and ties by id, descending")
		for _, size := range []int{1, 2, 7, n - 1, n, n + 1} {
			paged := readPages(&f.suite, size, func(last *task.Task) ([]*task.Task, error) {
				return s.List(f.ctx, "alice", "proposal", last.Created, last.ID, size)
			})
			f.wantEqual(fmt.Sprintf("pages of %d", size), ids(paged), ids(all))
		}
	}},
	{"a page of List begins after a place, whether a task is there or not", func(f *fixture, s task.Store) {
		inTurn := f.addInTurn(s, "alice", 3)
		all := ids(inTurn)
		slices.Reverse(all)
		mid, old := inTurn[1], inTurn[0]
		for _, c := range []struct {
			says    string
			created time.Time
			id      string
			want    []string
		}{
			{"the start", time.Time{}, "", all},
			{"a task", mid.Created, mid.ID, all[2:]},
			{"the place before a task with its time", mid.Created, mid.ID + "0", all[1:]},
			{"the place after a task with its time", mid.Created, mid.ID[:len(mid.ID)-1], all[2:]},
			{"a later time and a lower id", mid.Created.Add(time.Millisecond), "0", all[1:]},
			{"an earlier time and a higher id", mid.Created.Add(-time.Millisecond), "zzz", all[2:]},
			{"the end", old.Created, old.ID, nil},
		} {
			got := must(s.List(f.ctx, "alice", "proposal", c.created, c.id, 10))(f, "List")
			f.wantEqual("after "+c.says, ids(got), c.want)
		}
	}},
	{"Select finds tasks of everybody, with what they ask, in pages of any size", func(f *fixture, s task.Store) {
		var all []*task.Task
		for i, principal := range []string{"alice", "bob", "", "alice", "café"} {
			for _, dialect := range []string{"proposal", "extension"} {
				t := newTask(principal)
				t.Dialect, t.Target = dialect, fmt.Sprint("tool", i%2)
				f.create(s, t)
				t.Status, t.Pending = statuses[len(all)%len(statuses)], []byte("asks "+t.ID)
				f.update(s, t, task.Update{Due: -1})
				all = append(all, t)
			}
		}
		for _, filter := range []task.Filter{
			{},
			{Statuses: []task.Status{task.InputRequired}},
			{Statuses: []task.Status{task.Failed, task.Working}},
			{Statuses: []task.Status{}},
			{Principals: []string{"alice"}},
			{Principals: []string{""}},
			{Principals: []string{"caf\xe9", "café"}},
			{Principals: []string{"al"}},
			{Targets: []string{"tool1"}},
			{Principals: []string{"alice", "bob"}, Targets: []string{"tool0"},
				Statuses: []task.Status{task.Working, task.Completed}},
		} {
			want := slices.DeleteFunc(slices.Clone(all), func(t *task.Task) bool {
				return filter.Statuses != nil && !slices.Contains(filter.Statuses, t.Status) ||
					filter.Principals != nil && !slices.Contains(filter.Principals, t.Principal) ||
					filter.Targets != nil && !slices.Contains(filter.Targets, t.Target)
			})
			for _, size := range []int{1, 3, 100} {
				got := readPages(&f.suite, size, func(last *task.Task) ([]*task.Task, error) {
					return s.Select(f.ctx, filter, last.ID, size)
				})
				f.wantEqual(fmt.Sprintf("%+v in pages of %d", filter, size), got, want, byID)
			}
		}
		page, err := s.Select(f.ctx, task.Filter{}, "", -1)
		f.check(err == nil && len(page) == 0, "with a negative limit: %d tasks, %v", len(page), err)
	}},
	{"Count counts what has not ended, of everybody in each dialect, by status", func(f *fixture, s task.Store) {
		want := make(map[task.Status]int)
		for i, principal := range []string{"alice", "bob", "", "alice", "café"} {
			for j, dialect := range []string{"proposal", "extension"} {
				t := newTask(principal)
				t.Dialect, t.Status = dialect, statuses[(2*i+j)%len(statuses)]
				f.create(s, t)
				if !t.Status.Terminal() {
					want[t.Status]++
				}
			}
		}
		got := must(s.Count(f.ctx))(f, "Count")
		f.require(len(got) == 2, "Count gave %v, want two statuses", got)
		f.wantEqual("Count", got, want)
	}},
}

// wantBytes requires these bytes for the call, Pending and Outcome of a task, and these entries.
func (f *fixture) wantBytes(s task.Store, name, id string, want []byte, entries ...[]byte) {
	t := f.get(s, id)
	call, got, err := s.Journal(f.ctx, id, -1)
	f.ok("Journal", err)
	f.check(slices.EqualFunc(append(got, t.Pending, t.Outcome, call), append(entries, want, want, want), bytes.Equal),
		"bytes that are %s did not come back", name)
}
