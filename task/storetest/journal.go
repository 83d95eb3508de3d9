package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

var journalTests = []test{
	{"the entries are in the order in which they were added, whoever added them", func(f *fixture) {
		handles := f.several(2)
		t := newTask("alice")
		f.create(handles[0], t, "c1", "c2")
		other := newTask("alice")
		f.create(handles[0], other, "other")
		want := []string{"c1", "c2"}
		for i := range 12 {
			s := handles[i%2]
			entry := fmt.Sprint("a", i)
			f.append(s, t.ID, 0, entry)
			f.append(s, other.ID, 0, "other")
			f.update(s, t, task.Update{Keep: true, Entries: list([]string{entry + " x", entry + " y"})})
			want = append(want, entry, entry+" x", entry+" y")
		}
		for _, s := range handles {
			f.wantJournal(s, t.ID, want...)
		}
	}},

	{"a journal has no entries until some are added", func(f *fixture) {
		s := f.open()
		f.wantJournal(s, f.add(s, "alice").ID)
	}},

	{"the journal of an id without a task is ErrNotFound", func(f *fixture) {
		s := f.open()
		f.add(s, "alice")
		_, _, err := s.Journal(f.ctx, newID())
		f.wantError("Journal", err, task.ErrNotFound)
	}},

	{"each read of a journal is the caller's own", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		f.create(s, t, "one")
		call, entries := f.journal(s, t.ID)
		call[0], entries[0][0] = 'X', 'X'
		f.wantJournal(s, t.ID, "one")
	}},

	{"Append sets Attempts to 0 and changes nothing else in the row", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		f.release(s, t.ID, f.claim(s, "", long).Fence)
		c := f.claim(s, "", long)
		if c.Attempts != 2 {
			f.Fatalf("Attempts is %d after two claims, want 2", c.Attempts)
		}
		f.tick(s, t.Created)
		for range 2 {
			f.append(s, t.ID, c.Fence, "step")
			c.Attempts = 0
			f.wantRow(s, c)
		}
		f.noneDue(s)
		f.release(s, t.ID, c.Fence)
		if c = f.claim(s, "", long); c.Attempts != 1 {
			f.Errorf("Attempts is %d after a claim, want 1", c.Attempts)
		}
	}},

	{"another handle sees the entry at once", func(f *fixture) {
		a, b := f.open(), f.another()
		t := f.add(a, "alice")
		f.append(a, t.ID, 0, "one")
		f.wantJournal(b, t.ID, "one")
	}},

	{"Append after another claim is ErrLeaseLost, and adds nothing", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		old := f.claim(handles[0], "", long)
		f.append(handles[0], t.ID, old.Fence, "mine")
		f.release(handles[0], t.ID, old.Fence)
		c := f.claim(handles[1], "", long)
		for _, fence := range []int64{old.Fence, 0, c.Fence + 1, -1} {
			f.wantError(fmt.Sprintf("Append under fence %d of %d", fence, c.Fence),
				handles[0].Append(f.ctx, t.ID, fence, []byte("not mine")), task.ErrLeaseLost)
		}
		f.wantRow(handles[0], c)
		f.wantJournal(handles[0], t.ID, "mine")
	}},

	{"Append needs but the fence: not that the lease lasts, and no status", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		f.release(s, t.ID, c.Fence)
		f.append(s, t.ID, c.Fence, "late")
		want := []string{"late"}
		for _, status := range []task.Status{task.InputRequired, task.Completed, task.Failed, task.Cancelled} {
			c.Status = status
			f.update(s, c, task.Update{Due: -1})
			f.append(s, t.ID, c.Fence, string(status))
			want = append(want, string(status))
		}
		f.noneDue(s)
		f.wantJournal(s, t.ID, want...)
		c.Status = task.Cancelled
		f.update(s, c, task.Update{Due: 0})
		f.claim(s, "", long)
		f.wantError("Append to a terminal task that another has claimed", s.Append(f.ctx, t.ID, c.Fence, []byte("no")), task.ErrLeaseLost)
	}},

	{"Append to an id without a task is ErrNotFound", func(f *fixture) {
		s := f.open()
		f.wantError("Append", s.Append(f.ctx, newID(), 0, []byte("x")), task.ErrNotFound)
	}},

	{"what the old worker appended is in the journal that the new one reads, and nothing comes after", func(f *fixture) {
		f.raceForJournal(1, 60)
	}},

	{"the same for tasks that many workers fight over", func(f *fixture) {
		f.raceForJournal(3, 40)
	}},
}

// raceForJournal lets workers claim the same tasks under leases that end at once, and
// write to them until they lose them. What the engine relies on is that a claim is a
// clear cut: before it the old worker's entries, after it none of them.
func (f *fixture) raceForJournal(tasks, claims int) {
	const workers = 6
	handles := f.several(3)
	for range tasks {
		f.add(handles[0], "alice")
	}
	type snapshot struct {
		fence   int64
		entries []string
	}
	var mu sync.Mutex
	snapshots := make(map[string][]snapshot)
	acknowledged := make(map[string]map[string]bool)
	f.together(workers, func(i int) {
		s := handles[i%len(handles)]
		for claimed := 0; claimed < claims && !f.Failed(); {
			t, err := s.Claim(f.ctx, "", time.Duration(i%2)*time.Millisecond)
			if err != nil {
				f.Errorf("Claim: %v", err)
				return
			}
			if t == nil {
				continue
			}
			claimed++
			_, entries, err := s.Journal(f.ctx, t.ID)
			if err != nil {
				f.Errorf("Journal: %v", err)
				return
			}
			snap := snapshot{fence: t.Fence}
			for _, e := range entries {
				snap.entries = append(snap.entries, string(e))
			}
			mu.Lock()
			snapshots[t.ID] = append(snapshots[t.ID], snap)
			mu.Unlock()
			for n := range 4 {
				entry := fmt.Sprintf("%06d %d", t.Fence, n)
				if n == 3 {
					// The version is that of the claim: only the holder of the lease writes.
					err = s.Update(f.ctx, t, task.Update{Leased: true, Keep: true, Entries: list([]string{entry})})
				} else {
					err = s.Append(f.ctx, t.ID, t.Fence, []byte(entry))
				}
				if errors.Is(err, task.ErrLeaseLost) {
					break
				}
				if err != nil {
					f.Errorf("writing under the lease: %v", err)
					return
				}
				mu.Lock()
				if acknowledged[t.ID] == nil {
					acknowledged[t.ID] = make(map[string]bool)
				}
				acknowledged[t.ID][entry] = true
				mu.Unlock()
			}
		}
	})
	if f.Failed() {
		return
	}
	for id, snaps := range snapshots {
		_, entries := f.journal(handles[0], id)
		var final []string
		for _, e := range entries {
			final = append(final, string(e))
		}
		if !slices.IsSorted(final) {
			f.Errorf("an entry under a lower fence came after one under a higher: %q", final)
		}
		if len(final) != len(acknowledged[id]) {
			f.Errorf("the journal has %d entries, but %d were acknowledged", len(final), len(acknowledged[id]))
		}
		for _, e := range final {
			if !acknowledged[id][e] {
				f.Errorf("entry %q is in the journal, but its writer was told that the lease is lost", e)
			}
		}
		for _, snap := range snaps {
			// It may show what came under higher fences already: its own lease was short.
			lower := 0
			for lower < len(final) && final[lower] < fmt.Sprintf("%06d ", snap.fence) {
				lower++
			}
			shown := len(snap.entries)
			if shown < lower || shown > len(final) || !slices.Equal(snap.entries, final[:shown]) {
				f.Fatalf("who claimed under fence %d read a journal of %d entries that is not the beginning of the last one with the %d of lower fences:\n%q\nlast\n%q",
					snap.fence, shown, lower, snap.entries, final)
			}
		}
	}
}
