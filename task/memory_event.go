package task

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"
)

// memoryLog has the events of a [MemoryStore]. The zero value is empty.
type memoryLog struct {
	position int64               // the Position of the newest event
	events   map[string][]*Event // by principal, in the order of their positions
	deleted  map[string]*Event   // by principal: the last one of those that were deleted
}

// Events reads the log. See [EventLog].
func (s *MemoryStore) Events(ctx context.Context, q EventQuery) (page *EventPage, err error) {
	err = s.do(ctx, func(now int64) error {
		page = &EventPage{Now: timeAt(now)}
		if e := s.log.deleted[q.Principal]; e != nil {
			page.Deleted = e.Position
		}
		for _, e := range s.log.events[q.Principal] {
			if q.Task != "" && q.Task != e.Task {
				continue
			}
			page.Last = e.clone()
			switch {
			case e.Position == q.After:
				page.At = e.clone()
			case e.Position > q.After && len(page.Events) < q.Limit && matches(q.Kinds, e.Kind) &&
				(q.Target == "" || q.Target == e.Target):
				page.Events = append(page.Events, e.clone())
			}
		}
		return nil
	})
	return page, err
}

func (e *Event) clone() *Event { c := *e; return &c }

// logStatus writes the event of a task that has just got its status.
func (s *MemoryStore) logStatus(m *memoryTask, now int64) {
	switch {
	case m.Status.Terminal():
		s.logEvent(m, EventEnded, "", now)
	case m.Status == InputRequired && len(m.Pending) > 0:
		s.logEvent(m, EventInput, strconv.FormatInt(m.Version, 10), now)
	}
}

// logEvent writes an event, unless the task has none.
func (s *MemoryStore) logEvent(m *memoryTask, kind EventKind, key string, now int64) {
	if !m.Events {
		return
	}
	l := &s.log
	if l.events == nil {
		l.events, l.deleted = make(map[string][]*Event), make(map[string]*Event)
	}
	l.position++
	e := &Event{Position: l.position, Kind: kind, Task: m.ID, Target: m.Target, Key: key, Written: timeAt(now)}
	if kind == EventEnded {
		e.Status = m.Status
	}
	l.events[m.Principal] = append(l.events[m.Principal], e)
	s.wakeSubscriptions(m.Principal, now)
}

// forget deletes the events of a task.
func (l *memoryLog) forget(m *memoryTask) {
	left := slices.DeleteFunc(l.events[m.Principal], func(e *Event) bool {
		if e.Task != m.ID {
			return false
		}
		if last := l.deleted[m.Principal]; last == nil || e.Position > last.Position {
			l.deleted[m.Principal] = e
		}
		return true
	})
	if l.events[m.Principal] = left; len(left) == 0 {
		delete(l.events, m.Principal)
	}
}

// forgetDeleted forgets what was deleted of events that were written long ago.
func (l *memoryLog) forgetDeleted(now time.Time) {
	maps.DeleteFunc(l.deleted, func(_ string, e *Event) bool { return now.Sub(e.Written) > EventGapsKept })
}
