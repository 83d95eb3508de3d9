package desk

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Changes yields questions as they change, of all people, until ctx is done: when they are asked, answered, claimed,
// extended, decided or withdrawn. What has changed several times since it was yielded comes once, as it is by then. The
// store gets one query each interval, at least a second; zero is a second. More follow only while many questions
// change. So one Changes serves all viewers of a page: [Question.Concerns] reports who may see which.
//
// It begins with what changes after its first query. Errors of the store are yielded, without a question, and it goes
// on; what changed meanwhile comes when the store answers again. An error with a question says that not all of it can
// be read. A question whose task is deleted is not yielded.
func (d *Desk) Changes(ctx context.Context, every time.Duration) iter.Seq2[*Question, error] {
	return shown("look for changes", time.Time{}, func(yield func(*row, error) bool) {
		f := follower{engine: d.engine, seen: make(map[change]time.Time)}
		for ctx.Err() == nil {
			for r, err := range f.look(ctx) {
				if ctx.Err() != nil || !yield(r, err) {
					return
				}
			}
			select {
			case <-time.After(max(every, time.Second)):
			case <-ctx.Done():
			}
		}
	})
}

// overlap is the time for which a follower reads past changes again. A transaction that takes longer between its write
// and its end can go unseen.
const overlap = 10 * time.Second

// follower reads changes. Changes of a database can become visible in another order than their times, so it reads the
// last ones again each time, and remembers which of them it has seen.
type follower struct {
	engine *taskrun.Engine
	since  time.Time // by the clock of the store; zero before the first query
	seen   map[change]time.Time
}

// change is one state of a question.
type change struct {
	task, key string
	version   int64
}

// look yields the questions that have changed since the last time: at the first time none.
func (f *follower) look(ctx context.Context) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		begun := !f.since.IsZero()
		if !begun {
			_, now, err := f.engine.Changes(ctx, nil, 0)
			if err != nil {
				yield(nil, err)
				return
			}
			f.since = now.Add(-overlap)
		}
		var next time.Time
		for place := (&task.Question{Changed: f.since}); place != nil; {
			changed, now, err := f.engine.Changes(ctx, place, questionPage)
			if err != nil {
				yield(nil, err)
				return
			}
			if next.IsZero() {
				next = now.Add(-overlap)
			}
			place = nil
			for _, q := range changed {
				c := change{q.Task, q.Key, q.Version}
				_, known := f.seen[c]
				f.seen[c] = q.Changed
				if r := newRow(q); begun && !known && !r.isTimer() && !yield(r, nil) {
					return
				}
				place = q
			}
			if len(changed) < questionPage {
				break
			}
		}
		f.since = next
		maps.DeleteFunc(f.seen, func(_ change, at time.Time) bool { return at.Before(next) })
	}
}
