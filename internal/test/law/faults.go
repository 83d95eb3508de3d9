package law

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/askback-mcp/askback/internal/stored"
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
			restore = backup(r.Store.(*task.MemoryStore))
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
			r.restored++
			return nil
		})
	}
}

// backup copies a store, and returns what puts it back. The store's own lock keeps others out meanwhile.
func backup(s *task.MemoryStore) (restore func()) {
	live := reflect.ValueOf(s).Elem()
	lock := open(live.FieldByName("mu")).Addr().Interface().(*sync.Mutex)
	saved := reflect.New(live.Type()).Elem()
	fields := func(do func(saved, live reflect.Value)) {
		lock.Lock()
		defer lock.Unlock()
		for i := range live.NumField() {
			if live.Type().Field(i).Name != "mu" {
				do(open(saved.Field(i)), open(live.Field(i)))
			}
		}
	}
	copies := make(map[unsafe.Pointer]reflect.Value)
	fields(func(saved, live reflect.Value) { duplicate(saved, live, copies) })
	return func() { fields(func(saved, live reflect.Value) { live.Set(saved) }) }
}

// duplicate copies a value with all that it refers to. Two that refer to one thing refer to one copy.
func duplicate(to, from reflect.Value, copies map[unsafe.Pointer]reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		copied, known := copies[from.UnsafePointer()]
		if !known {
			copied = reflect.New(from.Type().Elem())
			copies[from.UnsafePointer()] = copied
			duplicate(copied.Elem(), from.Elem(), copies)
		}
		to.Set(copied)
	case reflect.Struct:
		if _, is := from.Interface().(time.Time); is {
			to.Set(from)
			return
		}
		for i := range from.NumField() {
			duplicate(open(to.Field(i)), open(from.Field(i)), copies)
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			duplicate(to.Index(i), from.Index(i), copies)
		}
	case reflect.Map:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMap(from.Type()))
		for key, value := range from.Seq2() {
			held, copied := reflect.New(value.Type()).Elem(), reflect.New(value.Type()).Elem()
			held.Set(value)
			duplicate(copied, held, copies)
			to.SetMapIndex(key, copied)
		}
	default:
		to.Set(from)
	}
}

// open returns a field that can be read and set although it is not exported.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}

// rotate has the servers take on other keys: each step reaches all of them before the next.
func (r *run) rotate(ctx context.Context) {
	part := r.sim.Part("world", nil)
	for range 2 {
		part.Pause(ctx, 4)
		next, _, err := r.ring.Rotate(time.Now(), 0)
		if err != nil {
			r.violate("rotating the keys: %v", err)
			return
		}
		r.mu.Lock()
		r.ring = next
		live := maps.Clone(r.live)
		r.mu.Unlock()
		for _, place := range slices.Sorted(maps.Keys(live)) {
			if !part.Pause(ctx, 1) {
				return
			}
			_ = live[place].ring.Replace(next)
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
