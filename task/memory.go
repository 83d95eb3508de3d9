package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"
)

// MemoryStore is a [Store] for a service of one process, and for tests: nothing survives the process. The zero value is
// ready to use; it must not be copied.
//
// Any number of servers in the process may share a MemoryStore, as instances share a database. It is a [Watcher], so
// they learn of each other's writes at once. It holds a task with its journal until a server purges it after its time
// to live.
type MemoryStore struct {
	mu    sync.Mutex
	tasks map[string]*memoryTask
	seq   int64 // the seq of the newest task

	used map[string]Quota // by principal; without those that have nothing

	// The indexes. Each task is in list. It is in due if it is due now or later, in expiry if
	// it has not ended, and in purge if it has ended and is not due any more.
	list, due, expiry, purge memoryIndex

	waiting map[waitingKey]*waitingIndex // without those that are empty
	changes questionIndex                // the questions for people in the order of their last changes
	named   memoryIndex                  // the tasks that have questions, by name

	remembered map[string]*memoryRemembered // by Key

	outbox    memoryOutbox
	reminders questionIndex // open questions that have still to have a NoticeDueSoon

	log memoryLog

	subscriptions map[string]*Subscription // by ID

	watches map[*memoryWatch]struct{}
}

// memoryTask is a task as the store has it. The store shares none of its bytes.
type memoryTask struct {
	Task
	seq int64 // rises with each task that is created

	scheduled bool  // it is due now or later
	dueAt     int64 // the time at which it is due, in milliseconds since 1970
	leased    int64 // the length of its lease in milliseconds; 0 if it was given back
	ttl       int64 // how long it lives from when it goes on, in milliseconds

	call    []byte
	entries [][]byte
	bytes   int64 // the size of call and entries

	questions map[string]*memoryQuestion // by Key; nil if it has not asked
	logged    map[loggedEvent]bool       // its events; nil if it has none
	name      string                     // its Name; empty if it has not asked
}

// usage is the task's share of what its principal has.
func (m *memoryTask) usage() Quota {
	u := Quota{Kept: 1, Bytes: m.bytes + int64(len(m.Pending)+len(m.Outcome))}
	if !m.Status.Terminal() {
		u.Unfinished = 1
	}
	return u
}

var _ interface {
	Store
	Inserter
	Watcher
	Subscriptions
} = (*MemoryStore)(nil)

// do calls do with the store locked, for one method, and with the time of its writes.
func (s *MemoryStore) do(ctx context.Context, do func(now int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks == nil {
		s.tasks, s.used = make(map[string]*memoryTask), make(map[string]Quota)
		s.waiting, s.watches = make(map[waitingKey]*waitingIndex), make(map[*memoryWatch]struct{})
	}
	return do(time.Now().UnixMilli())
}

// doTask calls do as [MemoryStore.do] does, with a task. If claim is not nil it must be the stored one.
func (s *MemoryStore) doTask(
	ctx context.Context, id string, claim *Claim, do func(m *memoryTask, now int64) error,
) error {
	return s.do(ctx, func(now int64) error {
		m := s.tasks[id]
		switch {
		case m == nil:
			return ErrNotFound
		case claim != nil && m.Claim != *claim:
			return ErrLeaseLost
		}
		return do(m, now)
	})
}

// Create adds a task with its journal. See [Store].
func (s *MemoryStore) Create(ctx context.Context, t *Task, ttl, lease time.Duration, call []byte, entries [][]byte,
	quota Quota) error {
	added := *t
	if added.Claim, added.Version = (Claim{}), 0; lease > 0 {
		added.claim()
	}
	err := s.Insert(ctx, &added, ttl, call, Update{Lease: lease, Entries: entries}, quota)
	if err == nil {
		*t = added
	}
	return err
}

// Insert adds a task as its first run leaves it. See [Inserter].
func (s *MemoryStore) Insert(
	ctx context.Context, t *Task, ttl time.Duration, call []byte, u Update, quota Quota,
) error {
	ttl = max(ttl, cmp.Or(u.TTL, ttl))
	return s.do(ctx, func(now int64) error {
		if s.tasks[t.ID] != nil {
			return ErrExists
		}
		size := int64(len(call)+len(t.Pending)+len(t.Outcome)) + sizeOf(u.Entries)
		if err := quota.Check(s.used[t.Principal], Quota{Unfinished: 1, Kept: 1, Bytes: size}); err != nil {
			return err
		}
		t.Created, t.Updated = timeAt(now), timeAt(now)
		t.Expires = timeAt(now + ttl.Milliseconds())
		s.seq++
		m := &memoryTask{Task: *t.clone(), seq: s.seq, ttl: ttl.Milliseconds(), call: bytes.Clone(call),
			bytes: int64(len(call))}
		m.schedule(now, u)
		m.PollInterval = m.PollInterval.Truncate(time.Millisecond)
		m.add(u.Entries...)
		s.tasks[m.ID] = m
		insert(&s.list, m, newestFirst)
		s.index(m)
		s.logStatus(m, now)
		if t.Status == InputRequired {
			for _, ask := range u.Ask {
				s.ask(m, ask, now)
			}
		}
		t.Expires = m.Expires
		if m.scheduled && m.dueAt <= now {
			s.changed(m.ID, true)
		}
		return nil
	})
}

// Get reads the row of a task. See [Store].
func (s *MemoryStore) Get(ctx context.Context, id string) (t *Task, err error) {
	err = s.doTask(ctx, id, nil, func(m *memoryTask, _ int64) error {
		t = m.clone()
		return nil
	})
	return t, err
}

// List reads tasks of a principal. See [Store].
func (s *MemoryStore) List(ctx context.Context, principal, dialect string, created time.Time, id string,
	limit int) (tasks []*Task, err error) {
	err = s.do(ctx, func(int64) error {
		place := &memoryTask{Task: Task{ID: id, Principal: principal, Dialect: dialect, Created: created}}
		start := sort.Search(len(s.list), func(i int) bool {
			m := s.list[i]
			if created.IsZero() && m.Principal == principal && m.Dialect == dialect {
				return true
			}
			return newestFirst(m, place) > 0
		})
		for _, m := range s.list[start:] {
			if len(tasks) >= limit || m.Principal != principal || m.Dialect != dialect {
				break
			}
			tasks = append(tasks, m.clone())
		}
		return nil
	})
	return tasks, err
}

// Select reads tasks of all principals. See [Store].
func (s *MemoryStore) Select(ctx context.Context, f Filter, after string, limit int) (tasks []*Task, err error) {
	err = s.do(ctx, func(int64) error {
		for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
			m := s.tasks[id]
			if len(tasks) < limit && id > after && matches(f.Statuses, m.Status) && matches(f.Principals, m.Principal) &&
				matches(f.Targets, m.Target) {
				tasks = append(tasks, m.clone())
			}
		}
		return nil
	})
	return tasks, err
}

// Count counts the tasks that have not ended. See [Store].
func (s *MemoryStore) Count(ctx context.Context) (map[Status]int, error) {
	counts := make(map[Status]int)
	err := s.do(ctx, func(int64) error {
		for _, m := range s.tasks {
			if !m.Status.Terminal() {
				counts[m.Status]++
			}
		}
		return nil
	})
	return counts, err
}

// matches reports whether a field of a filter lets a value pass.
func matches[T comparable](those []T, value T) bool {
	return those == nil || slices.Contains(those, value)
}

// Versions reads the versions of tasks. See [Store].
func (s *MemoryStore) Versions(ctx context.Context, ids []string) (map[string]int64, error) {
	versions := make(map[string]int64, len(ids))
	err := s.do(ctx, func(int64) error {
		for _, id := range ids {
			if m := s.tasks[id]; m != nil {
				versions[id] = m.Version
			}
		}
		return nil
	})
	return versions, err
}

// Claim takes tasks that are due. See [Store].
func (s *MemoryStore) Claim(
	ctx context.Context, after string, running []Load, lease time.Duration, limit int,
) (claimed []*Claimed, err error) {
	counts := make(load)
	for _, l := range running {
		counts[[2]string{l.Principal, l.Target}] += l.Tasks
	}
	err = s.do(ctx, func(now int64) error {
		for free := limit; free > 0; free-- {
			m := s.due.next(now, after, counts, free)
			if m == nil {
				break
			}
			s.change(m, func() { m.lease(now, lease) })
			claimed = append(claimed, &Claimed{m.clone(), bytes.Clone(m.call), cloneAll(m.entries)})
			counts[[2]string{m.Principal, m.Target}]++
			after = m.Principal
		}
		return nil
	})
	return claimed, err
}

// Journal reads the call and the entries of a task. See [Store].
func (s *MemoryStore) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	err = s.doTask(ctx, id, nil, func(m *memoryTask, _ int64) error {
		n := len(m.entries)
		if most >= 0 {
			n = min(n, most)
		}
		call, entries = bytes.Clone(m.call), cloneAll(m.entries[:n])
		return nil
	})
	return call, entries, err
}

// Append adds an entry to the journal under a lease. See [Store].
func (s *MemoryStore) Append(ctx context.Context, id string, claim Claim, there int, entry []byte) error {
	return s.doTask(ctx, id, &claim, func(m *memoryTask, now int64) error {
		if len(m.entries) != there {
			return ErrConflict
		}
		if m.lacksLease(now) {
			s.change(m, func() { m.dueAt = now + m.leased })
		}
		m.Attempts = 0
		m.add(entry)
		used := s.used[m.Principal]
		used.Bytes += int64(len(entry))
		s.used[m.Principal] = used
		return nil
	})
}

// Renew makes leases end later. See [Store].
func (s *MemoryStore) Renew(ctx context.Context, leases []Leased, lease time.Duration) (renewed []Renewed, err error) {
	err = s.do(ctx, func(now int64) error {
		for _, l := range leases {
			m := s.tasks[l.ID]
			switch {
			case m == nil:
				renewed = append(renewed, Renewed{Err: ErrNotFound})
				continue
			case m.Claim != l.Claim:
				renewed = append(renewed, Renewed{Err: ErrLeaseLost})
				continue
			case m.scheduled:
				s.change(m, func() { m.leased, m.dueAt = roundUp(lease), now+roundUp(lease) })
			}
			renewed = append(renewed, Renewed{Version: m.Version})
		}
		return nil
	})
	return renewed, err
}

// Update writes what may change in the row of a task, and entries. See [Store].
func (s *MemoryStore) Update(ctx context.Context, t *Task, u Update) error {
	var claim *Claim
	if u.Leased {
		claim = &t.Claim
	}
	return s.doTask(ctx, t.ID, claim, func(m *memoryTask, now int64) error {
		switch {
		case m.Version != t.Version:
			return ErrConflict
		case m.Status.Terminal() && m.Status != t.Status:
			return ErrEnded
		case u.Expired && m.Expires.UnixMilli() > now:
			return ErrEarly
		}
		if err := u.Quota.Check(s.used[m.Principal], Quota{Bytes: sizeOf(u.Entries)}); err != nil {
			return err
		}
		asks, ends := u.Leased && t.Status == InputRequired, t.Status.Terminal() && !m.Status.Terminal()
		if m.questions != nil {
			if err := m.checkQuestions(u, asks, now); err != nil {
				return err
			}
		}
		t.Updated = timeAt(now)
		t.Version++
		before := m.Status
		s.change(m, func() { m.update(t, &u, now) })
		if m.Status != before {
			s.logStatus(m, now)
		}
		if m.questions != nil || asks && len(u.Ask) > 0 {
			s.updateQuestions(m, u, asks, ends, now)
		}
		t.Expires = m.Expires
		s.changed(m.ID, m.scheduled && m.dueAt <= now)
		return nil
	})
}

// update makes an update that was checked.
func (m *memoryTask) update(t *Task, u *Update, now int64) {
	if u.TTL > 0 {
		m.ttl = max(m.ttl, u.TTL.Milliseconds())
		m.live(now + u.TTL.Milliseconds())
	}
	if m.Status == InputRequired && t.Status == Working {
		m.live(now + m.ttl)
	}
	m.Status, m.Message, m.Round = t.Status, t.Message, t.Round
	m.Pending, m.Outcome = bytes.Clone(t.Pending), bytes.Clone(t.Outcome)
	m.Stopped, m.Attempts = t.Stopped, t.Attempts
	m.Updated, m.Version = t.Updated, t.Version
	switch {
	case u.Lease > 0:
		m.lease(now, u.Lease)
		t.Claim, t.Attempts = m.Claim, m.Attempts
	case !u.Keep:
		m.schedule(now, *u)
	case u.Leased && m.lacksLease(now):
		m.dueAt = now + m.leased
	}
	m.add(u.Entries...)
}

// Expired finds tasks whose time to live has ended. See [Store].
func (s *MemoryStore) Expired(ctx context.Context, limit int) (ids []string, err error) {
	err = s.do(ctx, func(now int64) error {
		for _, m := range s.expiry {
			if len(ids) >= limit || m.Expires.UnixMilli() > now {
				break
			}
			ids = append(ids, m.ID)
		}
		return nil
	})
	return ids, err
}

// Purge deletes tasks whose time to live ended long ago. See [Store].
func (s *MemoryStore) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	err = s.do(ctx, func(now int64) error {
		before := now - roundUp(grace)
		maps.DeleteFunc(s.remembered, func(_ string, r *memoryRemembered) bool { return r.Until.UnixMilli() <= now })
		for ; len(s.purge) > 0 && n < limit && s.purge[0].Expires.UnixMilli() <= before; n++ {
			s.delete(s.purge[0])
		}
		s.log.forgetOld(timeAt(now))
		return nil
	})
	return n, err
}

// Evict deletes tasks of a principal that ended long ago. See [Store].
func (s *MemoryStore) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	err = s.do(ctx, func(now int64) error {
		var ended []*memoryTask
		for _, m := range s.list[sort.Search(len(s.list), func(i int) bool { return s.list[i].Principal >= principal }):] {
			if m.Principal != principal {
				break
			}
			if m.Status.Terminal() && !m.scheduled && m.Updated.UnixMilli() < now-roundUp(age) {
				ended = append(ended, m)
			}
		}
		slices.SortFunc(ended, func(a, b *memoryTask) int { return cmp.Compare(a.seq, b.seq) })
		n = min(len(ended), max(limit, 0))
		for _, m := range ended[:n] {
			s.delete(m)
		}
		return nil
	})
	return n, err
}

func (s *MemoryStore) delete(m *memoryTask) {
	s.unindex(m)
	remove(&s.list, m, newestFirst)
	delete(s.tasks, m.ID)
	if m.questions != nil {
		s.deleteQuestions(m)
	}
	if m.Events {
		s.log.forget(m)
	}
}

// Close does nothing, so that each of several engines that share the store may close it.
func (s *MemoryStore) Close() error { return nil }

// Watch reports tasks that are created and updated. See [Watcher].
func (s *MemoryStore) Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error {
	w := &memoryWatch{ids: make(map[string]bool), news: make(chan struct{}, 1)}
	err := s.do(ctx, func(int64) error {
		s.watches[w] = struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, w)
	}()
	if ready != nil {
		ready()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.news:
		}
		s.mu.Lock()
		ids := w.ids
		w.ids = make(map[string]bool)
		s.mu.Unlock()
		for id, due := range ids {
			changed(Name(id), due)
		}
	}
}

// memoryWatch is a call of Watch with the IDs that it has yet to report, and whether they were due. A map holds each ID
// once, however slow the receiver is.
type memoryWatch struct {
	ids  map[string]bool
	news chan struct{}
}

func (s *MemoryStore) changed(id string, due bool) {
	for w := range s.watches {
		w.ids[id] = w.ids[id] || due
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

// change changes a task that is in the indexes.
func (s *MemoryStore) change(m *memoryTask, do func()) {
	s.unindex(m)
	do()
	s.index(m)
}

func (s *MemoryStore) index(m *memoryTask)   { s.eachIndex(m, insert, 1) }
func (s *MemoryStore) unindex(m *memoryTask) { s.eachIndex(m, remove, -1) }

// eachIndex calls do with each index that a task belongs to, except list, where its place
// never changes. It adds n times the task's usage to its principal's usage.
func (s *MemoryStore) eachIndex(m *memoryTask, do func(*memoryIndex, *memoryTask, func(a, b *memoryTask) int), n int) {
	if m.scheduled {
		do(&s.due, m, longestDue)
	}
	used, u := s.used[m.Principal], m.usage()
	used.Unfinished, used.Kept = used.Unfinished+n*u.Unfinished, used.Kept+n*u.Kept
	used.Bytes += int64(n) * u.Bytes
	if s.used[m.Principal] = used; used.Kept == 0 {
		delete(s.used, m.Principal)
	}
	switch {
	case !m.Status.Terminal():
		do(&s.expiry, m, firstExpired)
	case !m.scheduled:
		do(&s.purge, m, firstExpired)
	}
}

// memoryIndex holds tasks in an order.
type memoryIndex []*memoryTask

// insert adds an element to an index with this order.
func insert[X ~[]E, E any](x *X, e E, order func(a, b E) int) {
	i, _ := slices.BinarySearchFunc(*x, e, order)
	*x = slices.Insert(*x, i, e)
}

// remove removes an element from an index with this order.
func remove[X ~[]E, E any](x *X, e E, order func(a, b E) int) {
	i, _ := slices.BinarySearchFunc(*x, e, order)
	*x = slices.Delete(*x, i, i+1)
}

// load counts tasks by principal and target.
type load map[[2]string]int

// of returns how many tasks of a principal there are.
func (l load) of(principal string) (n int) {
	for key, tasks := range l {
		if key[0] == principal {
			n += tasks
		}
	}
	return n
}

// next returns the task of the index due that is to be claimed next, if so many workers are free. See [Store.Claim].
func (x memoryIndex) next(now int64, after string, counts load, free int) *memoryTask {
	start := sort.Search(len(x), func(i int) bool { return x[i].Principal > after })
	var best *memoryTask
	fewest := free
	for _, part := range []memoryIndex{x[start:], x[:start]} {
		for len(part) > 0 && fewest > 0 {
			its := part[:sort.Search(len(part), func(i int) bool { return part[i].Principal > part[0].Principal })]
			if n := counts.of(part[0].Principal); n < fewest {
				if m := its.nextTarget(now, counts); m != nil {
					best, fewest = m, n
				}
			}
			part = part[len(its):]
		}
	}
	return best
}

// nextTarget returns the task of the principal of the whole index that is to be claimed next.
func (x memoryIndex) nextTarget(now int64, counts load) (best *memoryTask) {
	fewest := 0
	for len(x) > 0 {
		m := x[0]
		if n := counts[[2]string{m.Principal, m.Target}]; m.dueAt <= now && (best == nil ||
			cmp.Or(cmp.Compare(n, fewest), cmp.Compare(m.dueAt, best.dueAt), cmp.Compare(m.seq, best.seq)) < 0) {
			best, fewest = m, n
		}
		x = x[sort.Search(len(x), func(i int) bool { return x[i].Target > m.Target }):]
	}
	return best
}

// newestFirst is the order of list.
func newestFirst(a, b *memoryTask) int {
	return cmp.Or(cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Dialect, b.Dialect),
		b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
}

// longestDue is the order of due.
func longestDue(a, b *memoryTask) int {
	return cmp.Or(cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Target, b.Target),
		cmp.Compare(a.dueAt, b.dueAt), cmp.Compare(a.seq, b.seq))
}

// firstExpired is the order of expiry and of purge.
func firstExpired(a, b *memoryTask) int {
	return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.seq, b.seq))
}

// clone returns a task that shares no bytes with t.
func (t *Task) clone() *Task {
	c := *t
	c.Pending, c.Outcome = bytes.Clone(t.Pending), bytes.Clone(t.Outcome)
	return &c
}

// lease claims the task, and makes it due again at the end of the lease.
func (m *memoryTask) lease(now int64, lease time.Duration) {
	m.schedule(now, Update{Lease: lease})
	m.claim()
}

// schedule makes the task due when its lease ends, or when the update says.
func (m *memoryTask) schedule(now int64, u Update) {
	in := cmp.Or(u.Lease, u.Due)
	m.scheduled, m.dueAt, m.leased = in >= 0, now+roundUp(in), roundUp(u.Lease)
}

// lacksLease reports whether less is left of a lease than a write under it leaves.
func (m *memoryTask) lacksLease(now int64) bool {
	return m.scheduled && m.leased > 0 && m.dueAt < now+m.leased*2/3
}

// live makes the task live until a time at least.
func (m *memoryTask) live(until int64) {
	if at := timeAt(until); at.After(m.Expires) {
		m.Expires = at
	}
}

// claim writes another claim into the row.
func (t *Task) claim() {
	t.Claim = Claim{t.Fence + 1, rand.Text()}
	t.Attempts++
}

func cloneAll(entries [][]byte) (clones [][]byte) {
	for _, entry := range entries {
		clones = append(clones, bytes.Clone(entry))
	}
	return clones
}

func (m *memoryTask) add(entries ...[]byte) {
	for _, entry := range entries {
		m.entries = append(m.entries, bytes.Clone(entry))
	}
	m.bytes += sizeOf(entries)
}

func sizeOf(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
}

func timeAt(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// roundUp returns a duration in milliseconds that is not shorter.
func roundUp(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
