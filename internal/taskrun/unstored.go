package taskrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/turn"
	"github.com/askback-mcp/askback/task"
)

// unstored is a task whose first run has begun although the store does not have it. Nobody else knows of it: whoever
// creates the task waits until it is added. That is one write when the run ends, and earlier if the run lasts, or needs
// the task to exist: see [Work.Exist]. Its methods are safe for concurrent use.
type unstored struct {
	insert func(ctx context.Context, t *task.Task, u task.Update) error // with the store's quota
	lease  time.Duration
	began  func(t *task.Task, sent time.Time) // called once the task is in the store, while its run goes on
	failed context.CancelCauseFunc            // ends the run

	mu    turn.Lock // also while the task is added
	ended bool      // the run has
	tried bool
	added chan struct{} // closed once it was tried
	task  *task.Task    // as it was added
	err   error
}

// errNotAdded ends the run of a task that the store has not taken.
var errNotAdded = errors.New("the task was not created")

// firstLeg is after how long a task is added while its first run goes on, or sooner if leases are short.
const firstLeg = 100 * time.Millisecond

// exist adds the task, unless the store has it, with a lease for the run that goes on.
func (u *unstored) exist(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended && !u.tried {
		return task.ErrLeaseLost
	}
	if u.tried {
		return u.err
	}
	sent := time.Now()
	if err := u.add(ctx, u.task, task.Update{Lease: u.lease}); err != nil {
		u.failed(err)
		return err
	}
	u.began(u.task, sent)
	return nil
}

// add adds the task. The lock is held.
func (u *unstored) add(ctx context.Context, t *task.Task, as task.Update) error {
	added := cloneTask(t)
	err := u.insert(ctx, added, as)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNotAdded, err)
	}
	u.tried, u.task, u.err = true, added, err
	close(u.added)
	return err
}

// end says that the run has ended. It reports whether the store has yet to get the task.
func (u *unstored) end() (pending bool) {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	return !u.tried
}

// settle adds the task as its run has left it.
func (u *unstored) settle(ctx context.Context, t *task.Task, as task.Update) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := *t
	left.Version++ // who has seen the task begin learns that it has changed
	return u.add(ctx, &left, as)
}

// abandon lets whoever creates the task go on, if the run has left nothing to add.
func (u *unstored) abandon() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.tried {
		u.tried, u.err = true, fmt.Errorf("%w: its first run came to nothing", errNotAdded)
		close(u.added)
	}
}
