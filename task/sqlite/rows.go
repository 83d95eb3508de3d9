package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	columns = `id, principal, method, target, dialect, status, message, round,
		created, updated, expires, poll, stopped, attempts, version, fence, events`
	whole = columns + `, pending, outcome, nonce`
)

// scanWhole reads the columns of whole.
func scanWhole(row *sql.Row) (*task.Task, error) {
	t := new(task.Task)
	if err := scan(row, t, &t.Pending, &t.Outcome, &t.Nonce); err != nil {
		return nil, err
	}
	return t, nil
}

// scan reads columns, and those after them into more.
func scan(row interface{ Scan(...any) error }, t *task.Task, more ...any) error {
	var created, updated, expires, poll int64
	to := [20]any{&t.ID, &t.Principal, &t.Method, &t.Target, &t.Dialect, &t.Status, &t.Message, &t.Round,
		&created, &updated, &expires, &poll, &t.Stopped, &t.Attempts, &t.Version, &t.Fence,
		&t.Events}
	err := row.Scan(append(to[:17], more...)...)
	t.Created, t.Updated, t.Expires = timeAt(created), timeAt(updated), timeAt(expires)
	t.PollInterval = time.Duration(poll) * time.Millisecond
	return err
}

// collect returns what scan makes of each row of a query.
func collect[T any](
	ctx context.Context, stmt *sql.Stmt, scan func(*sql.Rows, *T) error, args ...any,
) (all []T, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	return all, nil
}

// column scans rows of one column.
func column[T any](rows *sql.Rows, to *T) error { return rows.Scan(to) }

func timeAt(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// listOrNull makes a JSON array, or NULL for nil.
func listOrNull[T ~string](list []T) any {
	if list == nil {
		return nil
	}
	data, _ := json.Marshal(list) // Strings always marshal.
	return string(data)
}

// usage scans what a principal has.
func usage(row *sql.Row) (used task.Quota, err error) {
	err = row.Scan(&used.Unfinished, &used.Kept, &used.Bytes)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return used, err
}

func size(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
}

// blob makes nil empty, as the driver takes nil for NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// bytesOrNull makes empty bytes NULL, which takes no room in the row.
func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// ceil returns a duration in milliseconds that is not shorter.
func ceil(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// schedule returns the new values of the columns due and wake.
func schedule(now int64, in time.Duration) (due, wake any) {
	switch {
	case in < 0:
		return nil, nil
	case in == 0:
		return now, nil
	default:
		return nil, now + ceil(in)
	}
}

// peopleOrNull makes a column of names.
func peopleOrNull(names []string) any {
	if len(names) == 0 {
		return nil
	}
	return listOrNull(names)
}

// readNames reads a column that is a list of names, or NULL.
func readNames(column []byte, to *[]string) error {
	if column == nil {
		return nil
	}
	return json.Unmarshal(column, to)
}

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}
