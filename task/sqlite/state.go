package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// The states of package askback, in a table of their own.
const (
	putStateSQL = `INSERT INTO state (id, call, expires, data) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET call = excluded.call, expires = excluded.expires, data = excluded.data`
	deleteStateSQL = `DELETE FROM state WHERE id = ?`
	purgeStatesSQL = `DELETE FROM state WHERE rowid IN (SELECT rowid FROM state WHERE expires <= ? ORDER BY expires LIMIT ?)`

	getStateSQL   = `SELECT data FROM state WHERE id = ? AND expires > ?`
	findStatesSQL = `SELECT data FROM state WHERE call = ? AND call > '' AND expires > ? LIMIT ?`
)

// purgedStates is how many expired states a write deletes at most: more than it adds.
const purgedStates = 2

// PutState keeps data under id until it expires, and deletes some of what has expired. It
// makes the Store an state.Store.
func (s *Store) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	err := s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.purgeStates.ExecContext(ctx, now, purgedStates); err != nil {
			return err
		}
		_, err := s.w.putState.ExecContext(ctx, id, call, expires.UnixMilli(), blob(data))
		return err
	})
	if err != nil {
		return s.failed(ctx, "store a state", err)
	}
	return nil
}

// GetState reads what is under id and has not expired, or nil.
func (s *Store) GetState(ctx context.Context, id string) ([]byte, error) {
	data := []byte{}
	err := s.r.getState.QueryRowContext(ctx, id, time.Now().UnixMilli()).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "read a state", err)
	}
	return blob(data), nil
}

// FindStates reads up to limit states of a call that have not expired.
func (s *Store) FindStates(ctx context.Context, call string, limit int) (found [][]byte, err error) {
	err = each(ctx, s.r.findStates, func(rows *sql.Rows) error {
		found = append(found, nil)
		return rows.Scan(&found[len(found)-1])
	}, call, time.Now().UnixMilli(), max(limit, 0))
	if err != nil {
		return nil, s.failed(ctx, "look up states", err)
	}
	return found, nil
}

// DeleteState deletes what is under id, if anything is.
func (s *Store) DeleteState(ctx context.Context, id string) error {
	err := s.write(ctx, func(ctx context.Context, _ int64) error {
		_, err := s.w.deleteState.ExecContext(ctx, id)
		return err
	})
	if err != nil {
		return s.failed(ctx, "delete a state", err)
	}
	return nil
}
