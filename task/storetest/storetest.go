// Package storetest is the suite that every [task.Store] must pass: what the comments of
// the interface promise, each as a test with that sentence for a name.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) func(t *testing.T) task.Store {
//			path := filepath.Join(t.TempDir(), "tasks.db")
//			return func(t *testing.T) task.Store {
//				s, err := mystore.Open(t.Context(), path)
//				if err != nil {
//					t.Fatal(err)
//				}
//				return s
//			}
//		})
//	}
//
// [RunLostCommits] is the suite of what a store does when its database has lost commits. It needs a way to save and
// restore the database. [RunStates] and [RunGuard] are the suites of two other interfaces, state.Store and state.Guard.
// A database may serve them beside tasks.
//
// It takes no notice of how a store does what it does, and asks nothing of the speed of the machine: where a time has
// to pass, it passes in the store, and the suite waits for what comes of it.
package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

// Run runs the suite. The tests of Watch are skipped if the store is no [task.Watcher], the tests of Insert if it is no
// [task.Inserter], the tests of events if it is no [task.EventLog], and the tests of subscriptions if it is no
// [task.Subscriptions]; the log of the test says so. The tests run in parallel.
//
// Run calls database for each test, for a database without tasks that nobody else uses. What database returns opens a
// handle on it; the suite opens several to play several instances, uses them at the same time, and closes them. A store
// that is for one handle only returns nil for all but the first: then the tests of several instances are skipped, and
// the tests of concurrency use the one handle.
func Run(t *testing.T, database func(t *testing.T) (open func(t *testing.T) task.Store)) {
	for _, chapter := range []struct {
		name  string
		tests []test
	}{
		{"Create", createTests},
		{"Insert", insertTests},
		{"Get, Versions, List, Select and Count", readTests},
		{"Claim", claimTests},
		{"Journal and Append", journalTests},
		{"Renew", renewTests},
		{"Update", updateTests},
		{"Expired", expiredTests},
		{"Purge", purgeTests},
		{"Time to live", liveTests},
		{"Writes under a lease", prolongTests},
		{"Handles and contexts", handleTests},
		{"Quotas", quotaTests},
		{"Watch", watchTests},
		{"Questions", questionTests},
		{"Outbox", noticeTests},
		{"Remembered decisions", rememberedTests},
		{"Events", eventTests},
		{"Subscriptions", subscriptionTests},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range chapter.tests {
				parallel(t, test.says, func(in suite) {
					f := &fixture{suite: in, database: database(in.T), ttl: long}
					var s task.Store
					if s, f.closeFirst = f.tryOpen(); s == nil {
						in.Fatal("the database gave no handle")
					}
					test.run(f, s)
				})
			}
		})
	}
}

// needs skips tests for a store that is no T.
func needs[T any](tests []test) []test {
	for i, test := range tests {
		tests[i].run = func(f *fixture, s task.Store) {
			if _, ok := s.(T); !ok {
				f.Skipf("not tested: this store is no %v", reflect.TypeFor[T]())
			}
			test.run(f, s)
		}
	}
	return tests
}

// A test shows that a store does what the test says. It gets the first handle on a database.
type test struct {
	says string
	run  func(f *fixture, s task.Store)
}

// A suite is what the tests of all suites need. Its methods end the test, except check.
type suite struct {
	*testing.T
	ctx context.Context
}

// parallel runs a test beside the others, for as long as none should take.
func parallel(t *testing.T, says string, run func(suite)) {
	t.Run(says, func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		run(suite{t, ctx})
	})
}

// A fixture is one database, and what the tests do with it. Its methods end the test if the store gives an error.
type fixture struct {
	suite
	database   func(*testing.T) task.Store
	closeFirst func() error  // closes the first handle, which otherwise is closed at the end
	ttl        time.Duration // of the tasks that are created
}

// patience is how long to wait for what should be so in a moment.
const patience = 30 * time.Second

// long is a lease, a delay or a time to live that does not end during a test.
const long = time.Hour

var (
	terminal = []task.Status{task.Completed, task.Failed, task.Cancelled}
	statuses = append([]task.Status{task.Working, task.InputRequired}, terminal...)
)

// another returns one more handle, or skips the test if there is only one.
func (f *fixture) another() task.Store {
	s, _ := f.tryOpen()
	if s == nil {
		f.Skip("this store is for one handle only")
	}
	return s
}

// instances returns n handles, s and others, or n times s if there is only one.
func (f *fixture) instances(s task.Store, n int) []task.Store {
	handles := []task.Store{s}
	for len(handles) < n {
		next, _ := f.tryOpen()
		if next == nil {
			next = s
		}
		handles = append(handles, next)
	}
	return handles
}

func (f *fixture) tryOpen() (s task.Store, closeOnce func() error) {
	if s = f.database(f.T); s == nil {
		return nil, nil
	}
	closeOnce = sync.OnceValue(s.Close)
	f.Cleanup(func() {
		err := closeOnce()
		f.check(err == nil, "Close: %v", err)
	})
	return s, closeOnce
}

// newID returns an id that any collation orders as its bytes.
func newID() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// newTask returns a task to create.
func newTask(principal string) *task.Task {
	return &task.Task{
		ID:           newID(),
		Principal:    principal,
		Method:       "tools/call",
		Target:       "deploy",
		Dialect:      "proposal",
		Status:       task.Working,
		PollInterval: 1500 * time.Millisecond,
	}
}

// add creates a task of this principal with a journal that holds only the call.
func (f *fixture) add(s task.Store, principal string) *task.Task {
	return f.create(s, newTask(principal))
}

func (f *fixture) create(s task.Store, t *task.Task, entries ...string) *task.Task {
	return f.createWith(s, t, 0, entries...)
}

// createWith creates a task under a lease, if that is not zero.
func (f *fixture) createWith(s task.Store, t *task.Task, lease time.Duration, entries ...string) *task.Task {
	f.ok("Create", s.Create(f.ctx, t, f.ttl, lease, []byte("call"), list(entries...), task.Quota{}))
	return t
}

// addInTurn creates n tasks of this principal, each later than the one before.
func (f *fixture) addInTurn(s task.Store, principal string, n int) (tasks []*task.Task) {
	for range n {
		t := f.add(s, principal)
		f.tick(s, t.Created)
		tasks = append(tasks, t)
	}
	return tasks
}

// addParked creates a task that is not due.
func (f *fixture) addParked(s task.Store, principal string) *task.Task {
	t := f.add(s, principal)
	f.update(s, t, task.Update{Due: -1})
	return t
}

// addLeased creates a task and claims it. No other task may be due.
func (f *fixture) addLeased(s task.Store) *task.Task {
	return f.claimThis(s, f.add(s, "alice").ID, long)
}

// loseLease creates a task that s has claimed first, and other after it.
func (f *fixture) loseLease(s, other task.Store) (lost, current *task.Task) {
	lost = f.addLeased(s)
	f.release(s, lost)
	return lost, f.claimThis(other, lost.ID, long)
}

// others returns claims that are not the current one of a task.
func others(lost, current *task.Task) []task.Claim {
	return []task.Claim{
		lost.Claim, {}, {Fence: current.Fence + 1, Nonce: current.Nonce}, {Fence: -1, Nonce: current.Nonce},
		// as two that have one number after a failover
		{Fence: lost.Fence, Nonce: current.Nonce}, {Fence: current.Fence, Nonce: lost.Nonce},
		{Fence: current.Fence}, {Fence: current.Fence, Nonce: current.Nonce + "x"},
	}
}

func (f *fixture) get(s task.Store, id string) *task.Task {
	return must(s.Get(f.ctx, id))(f, "Get")
}

// claim claims a task, which must be due.
func (f *fixture) claim(s task.Store, after string, lease time.Duration) *task.Task {
	t := f.tryClaim(s, after, lease)
	f.require(t != nil, "Claim(after %q) found no task that is due", after)
	return t
}

// claimThis claims a task, which must be due and the one that comes first.
func (f *fixture) claimThis(s task.Store, id string, lease time.Duration) *task.Task {
	t := f.claim(s, "", lease)
	f.require(t.ID == id, "Claim took task %s, want %s", t.ID, id)
	return t
}

// claimNext waits until a task is due, and claims it.
func (f *fixture) claimNext(s task.Store) (t *task.Task) {
	f.eventually("a task is due", func() bool {
		t = f.tryClaim(s, "", long)
		return t != nil
	})
	return t
}

func (f *fixture) tryClaim(s task.Store, after string, lease time.Duration) *task.Task {
	return must(claimOne(s, f.ctx, after, nil, lease))(f, "Claim")
}

// noneDue requires that there is nothing to claim.
func (f *fixture) noneDue(s task.Store) {
	t := f.tryClaim(s, "", long)
	f.require(t == nil, "Claim took a task that is not due: %+v", t)
}

// renew renews the lease of a claimed task, whose Version must be the stored one.
func (f *fixture) renew(s task.Store, claimed *task.Task, lease time.Duration) {
	version := must(renewOne(s, f.ctx, claimed.ID, claimed.Claim, lease))(f, "Renew")
	f.check(version == claimed.Version, "Renew returned version %d, want %d", version, claimed.Version)
}

// wantRenew requires that the end of a lease gives an error.
func (f *fixture) wantRenew(s task.Store, id string, claim task.Claim, want error) {
	_, err := renewOne(s, f.ctx, id, claim, 0)
	f.wantError(fmt.Sprintf("Renew under %v", claim), err, want)
}

// release ends the lease of a claimed task now.
func (f *fixture) release(s task.Store, claimed *task.Task) {
	f.renew(s, claimed, 0)
}

func (f *fixture) append(s task.Store, id string, claim task.Claim, entry string) {
	f.ok("Append", s.Append(f.ctx, id, claim, len(f.entries(s, id)), []byte(entry)))
}

// wantAppend requires that an Append behind so many entries gives an error.
func (f *fixture) wantAppend(s task.Store, id string, claim task.Claim, there int, want error) {
	what := fmt.Sprintf("Append under %v behind %d entries", claim, there)
	f.wantError(what, s.Append(f.ctx, id, claim, there, []byte("refused")), want)
}

func (f *fixture) update(s task.Store, t *task.Task, u task.Update) {
	f.ok("Update", s.Update(f.ctx, t, u))
}

// wantUpdate requires that an update gives an error, and leaves the task in the caller's hands as it was.
func (f *fixture) wantUpdate(s task.Store, t *task.Task, u task.Update, want error) {
	before := clone(t)
	f.wantError(fmt.Sprintf("Update of version %d under %v with %+v", t.Version, t.Claim, u), s.Update(f.ctx, t, u), want)
	f.wantSame(t, before)
}

// updateStatus gives a task this status with an update.
func (f *fixture) updateStatus(s task.Store, t *task.Task, status task.Status, u task.Update) {
	t.Status = status
	f.update(s, t, u)
}

func (f *fixture) journal(s task.Store, id string) (call string, entries []string) {
	b, all, err := s.Journal(f.ctx, id, -1)
	f.ok("Journal", err)
	return string(b), each(all, func(entry []byte) string { return string(entry) })
}

func (f *fixture) entries(s task.Store, id string) []string {
	_, entries := f.journal(s, id)
	return entries
}

// list lists the tasks of a principal from the start.
func (f *fixture) list(s task.Store, principal, dialect string, limit int) []*task.Task {
	return must(s.List(f.ctx, principal, dialect, time.Time{}, "", limit))(f, "List")
}

// wantListed requires that List has so many tasks of a principal.
func (f *fixture) wantListed(s task.Store, principal string, want int) {
	n := len(f.list(s, principal, "proposal", 100))
	f.check(n == want, "List has %d tasks of %q, want %d", n, principal, want)
}

// wantRow requires that the row which another reads is want.
func (f *fixture) wantRow(s task.Store, want *task.Task) {
	f.wantSame(f.get(s, want.ID), want)
}

// wantGone requires that nothing is left of a task.
func (f *fixture) wantGone(s task.Store, id string) {
	_, err := s.Get(f.ctx, id)
	f.wantError("Get of a task that is gone", err, task.ErrNotFound)
	_, _, err = s.Journal(f.ctx, id, -1)
	f.wantError("Journal of a task that is gone", err, task.ErrNotFound)
}

// wantSame compares two rows. Bytes that are nil and those that are empty are the same.
func (f *fixture) wantSame(got, want *task.Task) {
	f.wantEqual("the task", got, want)
}

// wantJournal requires that the journal holds these entries after the call that create gives it.
func (f *fixture) wantJournal(s task.Store, id string, entries ...string) {
	call, got := f.journal(s, id)
	f.wantEqual("the journal", append([]string{call}, got...), append([]string{"call"}, entries...))
}

// Errorf and Fatalf name the lines of the tests that led to an error, the innermost first. So no helper calls Helper.
func (f *suite) Errorf(format string, args ...any) { f.T.Error(place() + fmt.Sprintf(format, args...)) }

func (f *suite) Fatalf(format string, args ...any) { f.T.Fatal(place() + fmt.Sprintf(format, args...)) }

func place() (lines string) {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if dir, file := path.Split(frame.File); strings.HasSuffix(dir, "/storetest/") && file != "storetest.go" {
			lines += fmt.Sprintf("%s:%d: ", file, frame.Line)
		}
	}
	return lines
}

// check requires what holds; require also ends the test without it.
func (f *suite) check(holds bool, format string, args ...any) {
	if !holds {
		f.Errorf(format, args...)
	}
}

func (f *suite) require(holds bool, format string, args ...any) {
	if !holds {
		f.Fatalf(format, args...)
	}
}

// wantEqual compares values. Without elements they are equal, nil or not.
func (f *suite) wantEqual(what string, got, want any, as ...cmp.Option) {
	if diff := cmp.Diff(want, got, append(as, cmpopts.EquateEmpty())...); diff != "" {
		f.Fatalf("%s: not as it should be (-want +got):\n%s", what, diff)
	}
}

// must returns a value, or ends the test with its error.
func must[T any](v T, err error) func(f interface{ ok(what string, err error) }, what string) T {
	return func(f interface{ ok(what string, err error) }, what string) T {
		f.ok(what, err)
		return v
	}
}

func (f *suite) ok(what string, err error) {
	f.wantError(what, err, nil)
}

// wantError requires an error that is want; nil is success.
func (f *suite) wantError(what string, err, want error) {
	f.require(errors.Is(err, want), "%s: the error is %v, want %v", what, err, want)
}

// eventually waits until what has become true.
func (f *suite) eventually(what string, true func() bool) {
	for deadline := time.Now().Add(patience); !true(); time.Sleep(2 * time.Millisecond) {
		f.require(!time.Now().After(deadline), "after %v it is still not so that %s", patience, what)
	}
}

// wantPassed requires that a time of the store's has passed since start. A millisecond is what
// times are rounded to, at both ends.
func (f *fixture) wantPassed(start time.Time, want time.Duration) {
	took := time.Since(start)
	f.check(took >= want-2*time.Millisecond, "it came after %v, before the time of %v had passed", took, want)
}

// tick waits until the store's clock shows a later time than t, so that what happens next happens later, for any
// resolution of that clock.
func (f *fixture) tick(s task.Store, t time.Time) {
	f.eventually("the store's clock has moved on", func() bool {
		probe := newTask("the clock of " + newID())
		probe.Status = task.Completed
		f.create(s, probe)
		f.update(s, probe, task.Update{Due: -1})
		return probe.Created.After(t)
	})
}

// together calls do in n goroutines at once, waits for them, and returns what they gave to add.
func together[T any](f *suite, n int, do func(i int, add func(T)) error) (all []T) {
	var mu sync.Mutex
	add := func(one T) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i, add); err != nil {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	if f.Failed() {
		f.FailNow()
	}
	return all
}

// readPages reads page after page of at most this size, each after the last of the page before, which is zero at first.
func readPages[T any](f *suite, size int, read func(last *T) ([]*T, error)) (all []*T) {
	last := new(T)
	for range 1000 {
		page := must(read(last))(f, "a page")
		f.require(len(page) <= size, "a page has %d, more than the limit, which is %d", len(page), size)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		last = page[len(page)-1]
	}
	f.Fatalf("there are pages of %d without end", size)
	return nil
}

// succeed calls do in n goroutines at once, and returns the results of the calls without an error. Others end the test,
// except one that may happen.
func succeed[T any](f *suite, n int, may error, do func(i int) (T, error)) []T {
	return together(f, n, func(i int, add func(T)) error {
		result, err := do(i)
		if err == nil {
			add(result)
		}
		return except(may, err)
	})
}

// except returns err, or nil if it is the one that may happen.
func except(may, err error) error {
	if errors.Is(err, may) {
		return nil
	}
	return err
}

// second returns the error of two results.
func second[T any](_ T, err error) error { return err }

// each returns what say says of all.
func each[T any](all []T, say func(T) string) (said []string) {
	for _, one := range all {
		said = append(said, say(one))
	}
	return said
}

func list(entries ...string) [][]byte {
	var l [][]byte
	for _, e := range entries {
		l = append(l, []byte(e))
	}
	return l
}

func ids(tasks []*task.Task) []string {
	return each(tasks, func(t *task.Task) string { return t.ID })
}

func clone(t *task.Task) *task.Task {
	c := *t
	return &c
}

// claimOne claims one task. Without one that is due both results are nil.
func claimOne(s task.Store, ctx context.Context, after string, skip []string, lease time.Duration) (*task.Task, error) {
	var load []task.Load
	for _, p := range skip { // each has its share of one worker
		load = append(load, task.Load{Principal: p, Tasks: 1})
	}
	claimed, err := s.Claim(ctx, after, load, lease, 1)
	if len(claimed) == 0 || err != nil {
		return nil, err
	}
	return claimed[0].Task, nil
}

// renewOne renews one lease.
func renewOne(
	s task.Store, ctx context.Context, id string, claim task.Claim, lease time.Duration,
) (version int64, err error) {
	renewed, err := s.Renew(ctx, []task.Leased{{ID: id, Claim: claim}}, lease)
	if err != nil {
		return 0, err
	}
	if len(renewed) != 1 {
		return 0, fmt.Errorf("the answer is for %d leases, want 1", len(renewed))
	}
	return renewed[0].Version, renewed[0].Err
}
