package taskrun_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// unreliable is a store to which a share of all calls is lost: half of them before they have an effect, half of them
// after it. It records how each task ended.
type unreliable struct {
	task.Store
	share float64

	mu     sync.Mutex
	random *rand.Rand
	lost   int
	ended  map[string]task.Task // as each task first was in a terminal status
	bad    []string             // what must not happen
}

// lossy makes a call to the store, unless it is lost or arrives late.
func lossy[T any](u *unreliable, call func() (T, error)) (T, error) {
	u.mu.Lock()
	before, after := u.random.Float64() < u.share/2, u.random.Float64() < u.share/2
	late := time.Duration(-1)
	if u.random.IntN(2) == 0 {
		late = time.Duration(u.random.Int64N(int64(15 * time.Second)))
	}
	if before || after {
		u.lost++
	}
	u.mu.Unlock()
	var none T
	if before {
		if late >= 0 {
			time.AfterFunc(late, func() { _, _ = call() })
		}
		return none, errLost
	}
	result, err := call()
	if after && err == nil {
		return none, errLost
	}
	return result, err
}

func (u *unreliable) Get(ctx context.Context, id string) (*task.Task, error) {
	return lossy(u, func() (*task.Task, error) { return u.Store.Get(ctx, id) })
}

func (u *unreliable) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	return lossy(u, func() ([]*task.Claimed, error) {
		return u.Store.Claim(context.WithoutCancel(ctx), after, load, lease, limit)
	})
}

func (u *unreliable) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	entries, err = lossy(u, func() ([][]byte, error) {
		var err error
		call, entries, err = u.Store.Journal(ctx, id, most)
		return entries, err
	})
	return call, entries, err
}

func (u *unreliable) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	_, err := lossy(u, func() (any, error) {
		return nil, u.Store.Append(context.WithoutCancel(ctx), id, claim, there, entry)
	})
	return err
}

func (u *unreliable) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	return lossy(u, func() ([]task.Renewed, error) { return u.Store.Renew(context.WithoutCancel(ctx), leases, lease) })
}

func (u *unreliable) Expired(ctx context.Context, limit int) ([]string, error) {
	return lossy(u, func() ([]string, error) { return u.Store.Expired(ctx, limit) })
}

func (u *unreliable) Update(ctx context.Context, t *task.Task, up task.Update) error {
	written, err := lossy(u, func() (*task.Task, error) {
		written := *t
		return &written, u.write(context.WithoutCancel(ctx), &written, up)
	})
	if err == nil {
		*t = *written
	}
	return err
}

// write makes an update, and compares a task that has ended with how it ended.
func (u *unreliable) write(ctx context.Context, t *task.Task, up task.Update) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.Store.Update(ctx, t, up); err != nil || !t.Status.Terminal() {
		return err
	}
	first, known := u.ended[t.ID]
	if !known {
		u.ended[t.ID] = *t
		return nil
	}
	if first.Status != t.Status || !bytes.Equal(first.Outcome, t.Outcome) || first.Round != t.Round {
		u.bad = append(u.bad, fmt.Sprintf("%s %q became %s %q", first.Status, first.Outcome, t.Status, t.Outcome))
	}
	return nil
}

// hasEnded reports whether a task has ended. At the moment of its cancellation a run may just begin.
func (u *unreliable) hasEnded(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ended := u.ended[id]
	return ended && (t.Status != task.Cancelled || time.Since(t.Updated) > 0)
}

// raceDetector says that this is a run under the race detector, which takes eight times as long.
var raceDetector bool

// Whatever calls to the store are lost or arrive late: a task that has ended does not run again, and stays as it is; a
// question costs one round; an entry is in the journal once; and every task ends.
func TestLawOfLostCalls(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() || raceDetector {
		seeds = 2
	}
	for _, share := range []float64{0.05, 0.1, 0.2, 0.35, 0.5} {
		t.Run(fmt.Sprintf("%.0f percent", 100*share), func(t *testing.T) {
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) { loseCalls(t, share, seed) })
			}
		})
	}
}

func loseCalls(t *testing.T, share float64, seed uint64) {
	plain := new(task.MemoryStore)
	u := &unreliable{Store: plain, share: share, random: rand.New(rand.NewPCG(seed, uint64(1000*share))),
		ended: map[string]task.Task{}}
	f := &fixture{t, silent{u}}
	handler := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if w.Stopped {
			return taskrun.Verdict{}, nil
		}
		if u.hasEnded(w.Task.ID) {
			t.Errorf("seed %d: a task runs again that has ended", seed)
		}
		w.Report("working")
		for _, step := range []string{"reserve", "pay"} {
			if slices.ContainsFunc(w.Entries, func(e []byte) bool { return string(e) == step }) {
				continue
			}
			if err := w.Record(ctx, []byte(step)); err != nil {
				return taskrun.Verdict{}, err
			}
			time.Sleep(time.Second) // for reports and renewals
		}
		if !slices.ContainsFunc(w.Entries, func(e []byte) bool { return string(e) == "answer" }) {
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: w.Task.Round + 1}, nil
		}
		time.Sleep(4 * time.Second)
		return taskrun.Verdict{Status: task.Completed, Outcome: fmt.Appendf(nil, "of claim %d", w.Task.Fence),
			Round: w.Task.Round}, nil
	}
	opts := taskrun.Options{Settings: task.Settings{Workers: 2, TTL: 24 * time.Hour, Attempts: 1000}, Handler: handler,
		Look: time.Second}
	_, stop1 := f.engine(&opts)
	_, stop2 := f.engine(&opts)
	// The client loses nothing. Its tasks live beyond the end of the test, or the engines would delete them.
	client := expect.Must(taskrun.NewEngine(plain, &taskrun.Options{Look: time.Second,
		Settings: task.Settings{TTL: 24 * time.Hour, MaxAnonymousTTL: 24 * time.Hour}}))(t)

	created := make([]*task.Task, 4)
	for i := range created {
		created[i] = f.create(client, new(taskrun.New))
	}
	for i, c := range created {
		wait := func(status task.Status) *task.Task {
			for version := int64(-1); ; {
				now := expect.Must(client.Wait(t.Context(), "", c.ID, version))(t)
				if now.Status == status || now.Status.Terminal() {
					return now
				}
				version = now.Version
			}
		}
		wait(task.InputRequired)
		f.answer(client, c)
		want := task.Completed
		if i == 0 { // at any moment of the second run, even after it
			time.Sleep(time.Duration(seed) * 200 * time.Millisecond)
			if now, err := client.Cancel(t.Context(), "", c.ID); err == nil {
				u.mu.Lock()
				u.ended[c.ID] = *now
				u.mu.Unlock()
				want = task.Cancelled
			}
		}
		if now := wait(task.Completed); now.Status != want || now.Round != 1 {
			t.Errorf("seed %d: task %d is %s in round %d, want %s in round 1: %s", seed, i, now.Status, now.Round, want,
				now.Message)
		}
		if _, entries, err := plain.Journal(t.Context(), c.ID, -1); err != nil ||
			fmt.Sprintf("%q", entries) != `["reserve" "pay" "answer"]` {
			t.Errorf("seed %d: task %d recorded %q, %v", seed, i, entries, err)
		}
	}
	// Nothing is due later, either: what was written last was written with the knowledge that the tasks have ended.
	time.Sleep(time.Hour)
	stop1()
	stop2()
	if n, err := plain.Evict(t.Context(), "", 0, len(created)); n != len(created) || err != nil {
		t.Errorf("seed %d: of %d tasks, %d have ended and are not due; %v", seed, len(created), n, err)
	}
	if len(u.bad) > 0 || u.lost == 0 {
		t.Errorf("seed %d: %d calls lost; %q", seed, u.lost, u.bad)
	}
}
