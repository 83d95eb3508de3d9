package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Events. Triggers write and delete them: see [schema].
const (
	eventColumns = `event.seq, event.reader, event.kind, coalesce(id, ''), coalesce(principal, ''), coalesce(target, ''),
		event.key, event.outcome, event.written`
	eventSelect = `SELECT ` + eventColumns + ` FROM event LEFT JOIN task ON task.seq = event.task `

	eventsSQL = eventSelect + `WHERE reader = ?1 AND event.seq > ?2
		AND (?3 IS NULL OR kind IN (SELECT value FROM json_each(?3)))
		AND (?4 = '' OR id = ?4) AND (?5 = '' OR target = ?5) ORDER BY event.seq LIMIT ?6`
	// The event at a position, and the last one of some readers.
	eventMarksSQL = eventSelect + `WHERE event.seq = ?1 OR event.seq = (
		SELECT max((SELECT max(seq) FROM event WHERE reader = value)) FROM json_each(?2))`
	eventsDeletedSQL = `SELECT max(seq) FROM deleted_event WHERE reader IN (SELECT value FROM json_each(?))`

	emitSQL = `INSERT OR IGNORE INTO event (task, kind, key, outcome, written, reader, expires)
		VALUES (0, 'emitted', ?, ?, ?, ?, ?)`
	trimEventsSQL = `DELETE FROM event WHERE seq IN (
		SELECT seq FROM event WHERE reader = ? ORDER BY seq DESC LIMIT 100 OFFSET ?)`
	anyExpiredSQL   = `SELECT EXISTS (SELECT 1 FROM event WHERE expires <= ?)`
	purgeEventsSQL  = `DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE expires <= ? LIMIT 1000)`
	forgetEventsSQL = `DELETE FROM deleted_event WHERE written < ?`
)

// Events reads the log. See [task.EventLog].
func (s *Store) Events(ctx context.Context, q task.EventQuery) (page *task.EventPage, err error) {
	defer s.wrap(ctx, "read events", &err)
	tx, err := s.readers.BeginTx(ctx, nil) // of one moment
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	page = &task.EventPage{Now: timeAt(time.Now().UnixMilli())}
	readers := listOrNull(q.Readers)
	marks, err := collect(ctx, tx.StmtContext(ctx, s.r[eventMarksSQL]), scanEvent, q.After, readers)
	if err != nil {
		return nil, err
	}
	for _, e := range marks {
		if e.Position == q.After {
			page.At = e
		}
		if slices.Contains(q.Readers, e.Reader) && (page.Last == nil || page.Last.Position < e.Position) {
			page.Last = e
		}
	}
	var deleted sql.NullInt64
	if err := tx.StmtContext(ctx, s.r[eventsDeletedSQL]).QueryRowContext(ctx, readers).Scan(&deleted); err != nil {
		return nil, err
	}
	page.Deleted = deleted.Int64
	for _, reader := range q.Readers {
		found, err := collect(ctx, tx.StmtContext(ctx, s.r[eventsSQL]), scanEvent, reader, q.After, listOrNull(q.Kinds),
			q.Task, q.Target, max(q.Limit, 0))
		if err != nil {
			return nil, err
		}
		page.Events = append(page.Events, found...)
	}
	slices.SortFunc(page.Events, func(a, b *task.Event) int { return cmp.Compare(a.Position, b.Position) })
	page.Events = page.Events[:min(len(page.Events), max(q.Limit, 0))]
	return page, nil
}

// Emit adds an event of an author. See [task.EventLog].
func (s *Store) Emit(ctx context.Context, e *task.Emission) (err error) {
	defer s.wrap(ctx, "emit an event", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		for _, reader := range e.Readers {
			if _, err := s.w.exec(ctx, emitSQL, e.ID, e.Payload, now, reader, now+e.Keep.Milliseconds()); err != nil {
				return err
			}
			if _, err := s.w.exec(ctx, trimEventsSQL, reader, e.Most); err != nil {
				return err
			}
		}
		return nil
	})
}

// purgeEvents deletes what was emitted long ago, if there is any.
func (s *Store) purgeEvents(ctx context.Context) error {
	var expired bool
	err := s.r[anyExpiredSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&expired)
	if err != nil || !expired {
		return err
	}
	return s.write(ctx, func(ctx context.Context, now int64) error {
		_, err := s.w.exec(ctx, purgeEventsSQL, now)
		return err
	})
}

// scanEvent reads eventColumns.
func scanEvent(rows *sql.Rows, to **task.Event) error {
	e := new(task.Event)
	*to = e
	var written int64
	err := rows.Scan(&e.Position, &e.Reader, &e.Kind, &e.Task, &e.Principal, &e.Target, &e.Key, &e.Status, &written)
	if e.Written = timeAt(written); e.Kind == task.EventEmitted {
		e.Payload, e.Status = string(e.Status), ""
	}
	return err
}
