package law

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// Errors of a store, as a database may give them.
var (
	errLocked   = errors.New("another transaction has locked the row")
	errPoisoned = errors.New("these bytes cannot be stored")
)

// poisonous reports whether the questions of a task, and its end, cannot be written down.
func (l *law) poisonous(id string) bool {
	_, is := l.poisoned.Load(id)
	return is
}

// locked returns how long others still lock the row of a task.
func (l *law) locked(id string) time.Duration {
	until, _ := l.locks.LoadOrStore(id, time.Time{})
	return time.Until(until.(time.Time))
}

// unlocked waits until the row of a task is unlocked, but no longer than the database does.
func (l *law) unlocked(ctx context.Context, id string) error {
	left, longest := l.locked(id), 10*l.Unit
	if left <= 0 {
		return nil
	}
	select {
	case <-time.After(min(left, longest)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if left > longest {
		return errLocked
	}
	return nil
}

// lockRows is somebody who looks into the database now and then, and leaves a transaction open.
func (r *run) lockRows(ctx context.Context) {
	part := r.sim.Part("world", nil)
	for part.Pause(ctx, 3) {
		all := r.tasks(ctx)
		if len(all) > 0 && part.Happens("a row is locked", r.Locked) {
			r.locks.Store(all[part.IntN(len(all))].ID, time.Now().Add(time.Duration(5+part.IntN(55))*r.Unit))
		}
	}
}

// restore copies the store now and then, and puts it back as it was: soon after, as a replica does that was behind, or
// long after, as somebody does with a backup.
func (r *run) restore(ctx context.Context) {
	part := r.sim.Part("world", nil)
	for part.Pause(ctx, 10) {
		var restore func()
		var then memory
		_ = part.Do(ctx, "copying the store", func(context.Context) error {
			restore = harness.Backup(r.Store.(*task.MemoryStore))
			r.mu.Lock()
			defer r.mu.Unlock()
			then = r.memory.clone()
			return nil
		})
		part.Pause(ctx, []float64{0.02, 0.2, 1, 5}[part.IntN(4)])
		if restore == nil || !part.Happens("the store loses what it was told", r.Restored) {
			continue
		}
		_ = part.Do(ctx, "restoring the store", func(context.Context) error {
			restore()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.memory = then
			r.restored.Add(1)
			return nil
		})
	}
}

// rotate has the servers take on other keys: each step reaches all of them before the next.
func (r *run) rotate(ctx context.Context) {
	part := r.sim.Part("world", nil)
	for range 2 {
		part.Pause(ctx, 4)
		next, _, err := r.ring.Load().Rotate(time.Now(), 0)
		if err != nil {
			r.violate("rotating the keys: %v", err)
			return
		}
		r.ring.Store(next)
		for place := range r.Servers {
			if !part.Pause(ctx, 1) {
				return
			}
			if s, lives := r.live.Load(place); lives {
				_ = s.(*server).ring.Replace(next)
			}
		}
	}
}

// crowd lets a caller have asked very much.
func (r *run) crowd(ctx context.Context) {
	asking := &stored.Asking{Key: "crowd", Method: "elicitation/create", Votes: 1,
		Params: []byte(`{"message":"Again?","requestedSchema":{"type":"object","properties":{}}}`)}
	content, _ := stored.Encode(asking)
	notice, err := stored.Encode(asking.Announce())
	err = errors.Join(err, r.Store.Listen(ctx, 24*time.Hour, 0, 0))
	for i := range 40 {
		t := &task.Task{ID: fmt.Sprint("crowd of mallory ", i), Principal: "mallory", Target: "whole", Status: task.Working}
		err = errors.Join(err, r.Store.Create(ctx, t, 24*time.Hour, time.Hour, nil, nil, task.Quota{}))
		t.Status = task.InputRequired
		ask := &task.Question{Key: "crowd", For: []string{"group:nobody"}, Content: content, Notice: notice}
		err = errors.Join(err, r.Store.Update(ctx, t, task.Update{Leased: true, Due: -1, Ask: []*task.Question{ask}}))
	}
	if err != nil {
		r.violate("a crowd: %v", err)
	}
}
