package taskrun

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/turn"
	"github.com/askback-mcp/askback/task"
)

// Causes of the context that a [Handler] gets, when it is done.
var (
	// ErrStopped says that the task was cancelled, or that its time to live ended.
	ErrStopped = errors.New("the task was ended from outside")
	// ErrShutdown says that this process stops running tasks; another goes on.
	ErrShutdown = errors.New("this process stops running tasks")
)

// ErrElsewhere is the error of a [Handler] for a task that this process cannot run, but
// another may. This engine leaves the task alone for a moment, and the attempt does not count.
var ErrElsewhere = errors.New("this process cannot run the task")

// ErrRefused is the error of a [Handler] for a task that may not go on. The task fails, and cleans up.
var ErrRefused = errors.New("its caller is not authorized to go on")

// Handler runs a claimed task until it ends, asks, or hands over. When ctx is done it should
// return soon; what it returns then is ignored, and another run goes on from the journal. An
// error says that the attempt failed: the task is tried again after a pause.
//
// With w.Stopped the task has been ended from outside, and the handler cleans up what the
// journal says was begun. It is called again until it returns a nil error.
type Handler func(ctx context.Context, w *Work) (Verdict, error)

// Verdict is the outcome of one run of a task.
type Verdict struct {
	// Status is one of four: Completed and Failed end the task; InputRequired parks it until
	// it is given answers; Working lets it go on after Wait, here or in another process.
	Status  task.Status
	Message string
	Pending []byte
	Outcome []byte
	Round   int
	// Ask are the questions that stay open while the task is parked, and Entries what the run adds to the journal then.
	Ask     []*task.Question
	Entries [][]byte
	// TTL is how long the task must live from now at least: see [task.Update].
	TTL time.Duration
	// Wait is how long a task that is Working pauses before it continues.
	Wait time.Duration
}

// ErrTooLarge is the error of [Work.Record] for an entry with which the task would hold more than
// [task.Settings.TaskBytes]. The task then fails.
var ErrTooLarge = errors.New("the task holds too much")

// Work is a task in the hands of a worker that holds its lease. Its methods are safe for concurrent use.
type Work struct {
	Task    *task.Task // as it was claimed; read only
	Call    []byte
	Entries [][]byte
	Stopped bool

	unstored *unstored // nil if the store has the task
	store    safeStore
	lease    *lease
	limit    int64 // the bytes that the task may hold
	progress chan struct{}

	// A reported message whose write may have been made, because the store's answer was
	// lost. Only keepAlive uses these fields and, once that has ended, attempt.
	unanswered string
	inDoubt    bool

	recording turn.Lock // held while an entry is recorded
	there     int       // how many entries the journal has, as far as is known

	mu       sync.Mutex
	message  string // the last one that was reported
	recorded bool   // this attempt recorded something, and so does not count as failed
	over     bool   // the attempt has ended
	bytes    int64  // of the call and the journal
	tooLarge bool   // something would have made it more than the task may hold
}

// grow adds to the bytes of the task. The error is [ErrTooLarge] if there would be more than the task may hold. Nothing
// keeps a task from cleaning up.
func (w *Work) grow(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes+int64(n) > w.limit && !w.Stopped {
		w.tooLarge = true
	}
	if w.tooLarge {
		return ErrTooLarge
	}
	w.bytes += int64(n)
	return nil
}

// Exist makes sure that the store has the task, which it may not while the first run begins. It must be called before
// anything that must not be done again for a task which nobody has. After an error the run is over.
func (w *Work) Exist(ctx context.Context) error {
	if w.unstored == nil {
		return nil
	}
	return w.unstored.exist(context.WithoutCancel(ctx))
}

// Record adds an entry to the task's journal. A nil error means that the entry is durable, and that every later run
// will find it. While the store is out of reach Record tries again until the lease ends. The entries of a task must
// differ: when Record tries again, an entry that is in the journal already is taken for the one whose answer was
// lost. The error is [task.ErrLeaseLost] when another worker has the task or may have it, as after the handler's
// return, and [ErrTooLarge] when the task holds too much.
func (w *Work) Record(ctx context.Context, entry []byte) error {
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	if over {
		return task.ErrLeaseLost
	}
	if err := w.grow(len(entry)); err != nil {
		return err
	}
	if err := w.Exist(ctx); err != nil {
		return err
	}
	// What was done must be recorded, even if the task is interrupted at this moment.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.lease.length)
	defer cancel()
	w.recording.Lock()
	defer w.recording.Unlock()
	again := false
	err := w.store.persist(ctx, func() error {
		for {
			if again {
				if found, err := w.lookUp(ctx, entry); found || err != nil {
					return err
				}
			}
			again = true
			sent := time.Now()
			err := w.store.Append(ctx, w.Task.ID, w.Task.Claim, w.there, entry)
			if err == nil {
				w.there++
				w.lease.written(sent)
			}
			if !errors.Is(err, task.ErrConflict) { // else there is an answer, or this entry, whose response was lost
				return err
			}
		}
	})
	if err == nil {
		w.mu.Lock()
		w.recorded = true
		w.mu.Unlock()
	}
	return err
}

// lookUp reads how long the journal is, and reports whether it has an entry. The error is [task.ErrLeaseLost] if
// another worker recorded the same entry, or if the database has lost entries: what follows would stand behind a hole.
func (w *Work) lookUp(ctx context.Context, entry []byte) (found bool, err error) {
	_, entries, err := w.store.Journal(ctx, w.Task.ID, -1)
	if err != nil {
		return false, err
	}
	if len(entries) < w.there {
		return false, task.ErrLeaseLost
	}
	w.there = len(entries)
	if !slices.ContainsFunc(entries, func(e []byte) bool { return bytes.Equal(e, entry) }) {
		return false, nil
	}
	t, err := w.store.Get(ctx, w.Task.ID)
	if err == nil && t.Claim != w.Task.Claim {
		err = task.ErrLeaseLost
	}
	return true, err
}

// Outlive returns a context for what must not be cut off when this process stops: it then lasts nearly as long as a
// handler is waited for. Any other end of ctx ends it at once.
func (w *Work) Outlive(ctx context.Context) (_ context.Context, done func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	end := func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, ErrShutdown) {
			select {
			case <-time.After(w.lease.length * 3 / 4):
			case <-own.Done():
			}
		}
		cancel(cause)
	}
	stop := context.AfterFunc(ctx, end)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrShutdown) {
		cancel(context.Cause(ctx))
	}
	return own, func() { stop(); cancel(nil) }
}

// Report sets the task's message soon, without waiting for the store. A later report may
// replace the message before it is written.
func (w *Work) Report(message string) {
	w.mu.Lock()
	w.message = message
	w.mu.Unlock()
	signal(w.progress)
}

// adopt sets now to the stored row if only the message whose answer was lost differs.
func (w *Work) adopt(now, stored *task.Task) {
	if w.inDoubt && stored.Version == now.Version+1 && stored.Message == w.unanswered && stored.Claim == now.Claim &&
		stored.Status == now.Status && !stored.Stopped {
		*now = *stored
	}
	w.inDoubt = false
}
