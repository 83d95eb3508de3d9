package legacy

import (
	"context"
	"errors"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// An open call outlives the runs of its handler: a run enters it, and leaves it when something has to be asked.

// enter begins a run of the handler. The progress of the run is the progress of the call. It returns how to end it.
func (c *openCall) enter(call *askback.Call, h *taskrun.Holder) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.last = call, call.Nonce()
	if h != nil {
		c.name = h.Name()
		c.once.Do(func() { c.watch(h) })
	}
	return func() {
		c.mu.Lock()
		c.run = nil
		c.mu.Unlock()
		c.reports.Wait()
	}
}

// Progress passes on how far the call is, while its handler runs. A host that is slow to read it delays nothing else.
func (c *openCall) Progress(ctx context.Context, progress, total float64, message string) error {
	c.mu.Lock()
	run := c.run
	if run != nil {
		c.reports.Add(1)
	}
	c.mu.Unlock()
	if run == nil {
		return nil
	}
	defer c.reports.Done()
	return run.Progress(ctx, progress, total, message)
}

// watch ends the call when its task has ended, and makes the task run here when the server did something, or when
// another process has left the task to this one.
func (c *openCall) watch(h *taskrun.Holder) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.stops() {
		return
	}
	c.all.work.Go(func() {
		ticker := time.NewTicker(c.all.watch)
		defer ticker.Stop()
		var version int64 // of the task, at the last look
		for over := false; !over; {
			select {
			case <-c.news():
			case <-ticker.C:
			case <-c.all.stopped:
			}
			over = c.look(h, &version)
		}
	})
}

// news returns what is closed at the next change, or nil if there was one that no run has seen: then it is not yet time
// for the next run.
func (c *openCall) news() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != c.seen {
		return nil
	}
	return c.changed
}

// look looks at the task once, whose version was this at the last look, and reports whether the watch is over.
func (c *openCall) look(h *taskrun.Holder, version *int64) (over bool) {
	ctx, cancel := context.WithTimeout(context.Background(), rowTime)
	defer cancel()
	t, err := h.Row(ctx)
	if errors.Is(err, task.ErrNotFound) || err == nil && t.Status.Terminal() {
		c.forget(errCancelled)
		return true
	}
	stops := c.all.stops()
	if err != nil {
		return stops
	}
	c.mu.Lock()
	runs, news, last := c.run != nil, c.changes != c.seen, c.last
	c.mu.Unlock()
	parked := t.Status == task.InputRequired
	left := t.Nonce != last && t.Version == *version
	*version = t.Version
	if !runs && (left || parked && (news || stops)) {
		_ = h.Wake(ctx) // or at the next look
	}
	return stops
}

// rowTime bounds one look at a task.
const rowTime = 5 * time.Second

// expectTask ends the call if its task does not run here within a time.
func (c *openCall) expectTask(d time.Duration) {
	time.AfterFunc(d, func() {
		c.mu.Lock()
		ran := c.last != ""
		c.mu.Unlock()
		if !ran {
			c.forget(errOrphaned)
		}
	})
}
