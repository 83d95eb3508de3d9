package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Claim implements [task.Store]. Principals are in the order of their bytes. A task that is being written to at this
// moment is not claimed.
func (s *Store) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	defer s.wrap(ctx, "claim tasks", &err)
	type turn struct {
		n, entries int // entries says how many there are
		*task.Claimed
	}
	principals, targets, counts := []string{}, []string{}, []int{}
	for _, l := range load {
		if check("", l.Principal) == nil { // otherwise nobody has it
			principals, targets, counts = append(principals, l.Principal), append(targets, fit(l.Target)),
				append(counts, l.Tasks)
		}
	}
	read := func(row pgx.CollectableRow) (t turn, err error) {
		t.Claimed = new(task.Claimed)
		t.Task, err = scan(row, &t.n, &t.entries, &t.Entries)
		return t, err
	}
	var turns []turn
	var batch pgx.Batch
	batch.Queue(s.sql.uncompiled) // also where a pooler lends out sessions
	batch.Queue(s.sql.claim, fit(after), principals, targets, counts, lease, max(limit, 0), rand.Text()).Query(
		func(rows pgx.Rows) (err error) {
			turns, err = pgx.CollectRows(rows, read)
			return err
		})
	err = s.on(ctx, workers, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.n, b.n) })
	for _, t := range turns {
		// Entries that came in between are read by the engine, if there are any.
		if len(t.Entries) == 1+t.entries {
			t.Call, t.Entries = t.Entries[0], t.Entries[1:]
		} else {
			t.Entries = nil
		}
		claimed = append(claimed, t.Claimed)
	}
	return claimed, nil
}
