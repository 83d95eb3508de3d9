package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Events. Triggers write and delete them: see [schema].
const (
	eventColumns = `event.seq, event.kind, task.id, task.target, event.key, event.outcome, event.written`
	eventSelect  = `SELECT ` + eventColumns + ` FROM event JOIN task ON task.seq = event.task `

	// ?1 is a principal, ?2 the ID of a task or NULL, ?3 a position.
	ofPrincipal = `WHERE event.principal = ?1`
	// Not by the index of the principal, who may be anonymous and have very many.
	ofTask = `WHERE +event.principal = ?1 AND event.task = (SELECT seq FROM task WHERE id = ?2)`
	pageOf = ` AND event.seq > ?3 AND (?4 IS NULL OR kind IN (SELECT value FROM json_each(?4)))
		AND (?5 = '' OR target = ?5) ORDER BY event.seq LIMIT ?6`
	atAndLast = ` AND (event.seq = ?3 OR event.seq = (SELECT max(seq) FROM event `
	inOrder   = `)) ORDER BY event.seq`

	eventsSQL     = eventSelect + ofPrincipal + pageOf
	eventEndsSQL  = eventSelect + ofPrincipal + atAndLast + ofPrincipal + inOrder
	taskEventsSQL = eventSelect + ofTask + pageOf
	taskEndsSQL   = eventSelect + ofTask + atAndLast + ofTask + inOrder

	eventsDeletedSQL = `SELECT seq FROM deleted_event WHERE principal = ?`
	forgetEventsSQL  = `DELETE FROM deleted_event WHERE written < ?`
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
	list, ends := eventsSQL, eventEndsSQL
	var of any
	if q.Task != "" {
		list, ends, of = taskEventsSQL, taskEndsSQL, q.Task
	}
	page.Events, err = collect(ctx, tx.StmtContext(ctx, s.r[list]), scanEvent, q.Principal, of, q.After,
		listOrNull(q.Kinds), q.Target, max(q.Limit, 0))
	if err != nil {
		return nil, err
	}
	found, err := collect(ctx, tx.StmtContext(ctx, s.r[ends]), scanEvent, q.Principal, of, q.After)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		if e.Position == q.After {
			page.At = e
		}
		page.Last = e
	}
	err = tx.StmtContext(ctx, s.r[eventsDeletedSQL]).QueryRowContext(ctx, q.Principal).Scan(&page.Deleted)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return page, nil
}

// scanEvent reads eventColumns.
func scanEvent(rows *sql.Rows, to **task.Event) error {
	e := new(task.Event)
	*to = e
	var written int64
	err := rows.Scan(&e.Position, &e.Kind, &e.Task, &e.Target, &e.Key, &e.Status, &written)
	e.Written = timeAt(written)
	return err
}
