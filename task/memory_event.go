package task

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// memoryLog has the events of a [MemoryStore]. The zero value is empty.
type memoryLog struct {
	position int64               // the Position of the newest event
	events   map[string][]*Event // by reader, in the order of their positions
	at       map[int64]*Event    // by position
	deleted  map[string]*Event   // by reader: the last one of those that were deleted
	expires  map[int64]int64     // by position: when what was emitted is deleted, in milliseconds since 1970
}

// add writes an event, which gets its position.
func (l *memoryLog) add(e Event) *Event {
	if l.events == nil {
		l.events, l.at, l.deleted = make(map[string][]*Event), make(map[int64]*Event), make(map[string]*Event)
		l.expires = make(map[int64]int64)
	}
	l.position++
	e.Position = l.position
	l.events[e.Reader], l.at[e.Position] = append(l.events[e.Reader], &e), &e
	return &e
}

// remove deletes the events of a reader for which gone is true.
func (l *memoryLog) remove(reader string, gone func(*Event) bool) {
	left := slices.DeleteFunc(l.events[reader], func(e *Event) bool {
		if !gone(e) {
			return false
		}
		if last := l.deleted[reader]; (last == nil || e.Position > last.Position) && !strings.HasPrefix(reader, "task:") {
			l.deleted[reader] = e
		}
		delete(l.at, e.Position)
		delete(l.expires, e.Position)
		return true
	})
	if l.events[reader] = left; len(left) == 0 {
		delete(l.events, reader)
	}
}

// Emit adds an event of an author. See [EventLog].
func (s *MemoryStore) Emit(ctx context.Context, e *Emission) error {
	return s.do(ctx, func(now int64) error {
		l := &s.log
		for _, reader := range e.Readers {
			if slices.ContainsFunc(l.events[reader], func(there *Event) bool { return there.Key == e.ID }) {
				continue
			}
			added := l.add(Event{Reader: reader, Kind: EventEmitted, Key: e.ID, Payload: e.Payload, Written: timeAt(now)})
			l.expires[added.Position] = now + e.Keep.Milliseconds()
			all := l.events[reader]
			oldest := all[max(0, len(all)-e.Most)].Position
			l.remove(reader, func(e *Event) bool { return e.Position < oldest })
			s.wakeSubscriptions(reader, now)
		}
		return nil
	})
}

// loggedEvent tells an event of a task from its others.
type loggedEvent struct {
	reader string
	kind   EventKind
	key    string
}

// Events reads the log. See [EventLog].
func (s *MemoryStore) Events(ctx context.Context, q EventQuery) (page *EventPage, err error) {
	err = s.do(ctx, func(now int64) error {
		page = &EventPage{At: s.log.at[q.After].clone(), Now: timeAt(now)}
		for _, reader := range q.Readers {
			if e := s.log.deleted[reader]; e != nil {
				page.Deleted = max(page.Deleted, e.Position)
			}
			for _, e := range s.log.events[reader] {
				if page.Last == nil || page.Last.Position < e.Position {
					page.Last = e.clone()
				}
				if e.Position > q.After && matches(q.Kinds, e.Kind) && (q.Task == "" || q.Task == e.Task) &&
					(q.Target == "" || q.Target == e.Target) {
					page.Events = append(page.Events, e.clone())
				}
			}
		}
		slices.SortFunc(page.Events, func(a, b *Event) int { return cmp.Compare(a.Position, b.Position) })
		page.Events = page.Events[:min(len(page.Events), max(q.Limit, 0))]
		return nil
	})
	return page, err
}

// clone returns a copy of an event, or nil.
func (e *Event) clone() *Event {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}

// logStatus writes the event of a task that has just got its status.
func (s *MemoryStore) logStatus(m *memoryTask, now int64) {
	switch {
	case m.Status.Terminal():
		s.logEvent(m, EventEnded, "", now, nil)
	case m.Status == InputRequired && len(m.Pending) > 0:
		s.logEvent(m, EventInput, strconv.FormatInt(m.Version, 10), now, nil)
	}
}

// logEvent writes an event for the caller, and for people, who have not had it. Some tasks have no events.
func (s *MemoryStore) logEvent(m *memoryTask, kind EventKind, key string, now int64, people []string) {
	if !m.Events {
		return
	}
	for _, reader := range append([]string{CallerReader(m.Principal, m.ID)}, people...) {
		one := loggedEvent{reader, kind, key}
		if m.logged[one] {
			continue
		}
		e := Event{Reader: reader, Kind: kind, Task: m.ID, Principal: m.Principal, Target: m.Target, Key: key,
			Written: timeAt(now)}
		if kind == EventEnded {
			e.Status = m.Status
		}
		s.log.add(e)
		if m.logged == nil {
			m.logged = make(map[loggedEvent]bool)
		}
		m.logged[one] = true
		s.wakeSubscriptions(reader, now)
	}
}

// forget deletes the events of a task.
func (l *memoryLog) forget(m *memoryTask) {
	for one := range m.logged {
		l.remove(one.reader, func(e *Event) bool { return e.Task == m.ID })
	}
}

// forgetOld deletes what was emitted long ago, and forgets what was deleted of events that were written long ago.
func (l *memoryLog) forgetOld(now time.Time) {
	for position, expires := range l.expires {
		if e := l.at[position]; expires <= now.UnixMilli() {
			l.remove(e.Reader, func(one *Event) bool { return one == e })
		}
	}
	maps.DeleteFunc(l.deleted, func(_ string, e *Event) bool { return now.Sub(e.Written) > EventGapsKept })
}
