package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/task"
)

// columns are those that scan reads, with these expressions for the two that may be large.
func columns(pending, outcome string) string {
	return `t.id, t.principal, t.method, t.target, t.dialect, t.status, t.message, ` + pending + `, ` + outcome +
		`, t.round,
		t.created, t.updated, t.expires, t.poll_interval, t.stopped, t.attempts, t.version, t.fence, t.nonce,
		t.events`
}

// scan reads columns, and those after them into more.
func scan(row pgx.Row, more ...any) (*task.Task, error) {
	var t task.Task
	err := row.Scan(append([]any{&t.ID, &t.Principal, &t.Method, &t.Target, &t.Dialect, (*string)(&t.Status), &t.Message,
		&t.Pending, &t.Outcome, &t.Round,
		&t.Created, &t.Updated, &t.Expires, (*int64)(&t.PollInterval), &t.Stopped, &t.Attempts, &t.Version, &t.Fence,
		&t.Nonce, &t.Events}, more...)...)
	if err != nil {
		return nil, err
	}
	for _, at := range []*time.Time{&t.Created, &t.Updated, &t.Expires} {
		*at = at.UTC()
	}
	return &t, nil
}

func scanRow(row pgx.CollectableRow) (*task.Task, error) { return scan(row) }
