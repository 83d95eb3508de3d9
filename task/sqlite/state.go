package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/askback-mcp/askback/state"
)

// States, which have a table of their own, and nothing to do with tasks.
const (
	putStateSQL = `INSERT INTO state (id, call, expires, data) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET call = excluded.call, expires = excluded.expires, data = excluded.data`
	addStateSQL    = putStateSQL + ` WHERE state.expires <= ?`
	swapStateSQL   = `UPDATE state SET call = ?2, expires = ?3, data = ?4 WHERE id = ?1 AND expires > ?5 AND data = ?6`
	deleteStateSQL = `DELETE FROM state WHERE id = ?`
	purgeStatesSQL = `DELETE FROM state WHERE rowid IN (
		SELECT rowid FROM state WHERE expires <= ? ORDER BY expires LIMIT ?)`

	useStateSQL  = `INSERT INTO used_state (id, expires) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`
	purgeUsedSQL = `DELETE FROM used_state WHERE rowid IN (
		SELECT rowid FROM used_state WHERE expires <= ? ORDER BY expires LIMIT ?)`

	getStateSQL   = `SELECT data FROM state WHERE id = ? AND expires > ?`
	findStatesSQL = `SELECT data FROM state WHERE call = ? AND call > '' AND expires > ? LIMIT ?`
)

// purgedStates is how many expired states a write deletes at most: more than it adds.
const purgedStates = 2

// PutState keeps data under id until it expires, and deletes some of what has expired. It
// makes the Store a state.Store.
func (s *Store) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) (err error) {
	defer s.wrap(ctx, "store a state", &err)
	_, err = s.writeState(ctx, purgeStatesSQL, putStateSQL, func(int64) []any {
		return []any{id, call, expires.UnixMilli(), blob(data)}
	})
	return err
}

// SwapState is PutState if what is under id and has not expired is old, where nil is nothing.
func (s *Store) SwapState(
	ctx context.Context, id, call string, old, data []byte, expires time.Time,
) (swapped bool, err error) {
	defer s.wrap(ctx, "store a state", &err)
	query := addStateSQL
	if old != nil {
		query = swapStateSQL
	}
	return s.writeState(ctx, purgeStatesSQL, query, func(now int64) []any {
		args := []any{id, call, expires.UnixMilli(), blob(data), now}
		if old != nil {
			args = append(args, old)
		}
		return args
	})
}

// writeState runs a statement that writes a state, after one that deletes some of what has expired. It reports whether
// a row was written.
func (s *Store) writeState(
	ctx context.Context, purge, query string, args func(now int64) []any,
) (written bool, err error) {
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		if _, err := s.w.exec(ctx, purge, now, purgedStates); err != nil {
			return err
		}
		rows, err := s.w.exec(ctx, query, args(now)...)
		written = rows > 0
		return err
	})
	return written && err == nil, err
}

// GetState reads what is under id and has not expired, or nil.
func (s *Store) GetState(ctx context.Context, id string) (data []byte, err error) {
	defer s.wrap(ctx, "read a state", &err)
	err = s.r[getStateSQL].QueryRowContext(ctx, id, time.Now().UnixMilli()).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return blob(data), err
}

// FindStates reads up to limit states of a call that have not expired.
func (s *Store) FindStates(ctx context.Context, call string, limit int) (found [][]byte, err error) {
	defer s.wrap(ctx, "look up states", &err)
	return collect(ctx, s.r[findStatesSQL], column[[]byte], call, time.Now().UnixMilli(), max(limit, 0))
}

// DeleteState deletes what is under id, if anything is.
func (s *Store) DeleteState(ctx context.Context, id string) (err error) {
	defer s.wrap(ctx, "delete a state", &err)
	return s.write(ctx, func(ctx context.Context, _ int64) error {
		_, err := s.w.exec(ctx, deleteStateSQL, id)
		return err
	})
}

// Guard returns a guard that lets every state be used once only, by any process that has this file open. What it
// remembers is in the file, in a table of its own, until it expires.
func (s *Store) Guard() state.Guard { return guard{s} }

type guard struct{ s *Store }

// Use implements [state.Guard].
func (g guard) Use(ctx context.Context, id string, expires time.Time) (fresh bool, err error) {
	defer g.s.wrap(ctx, "use a state", &err)
	return g.s.writeState(ctx, purgeUsedSQL, useStateSQL, func(int64) []any { return []any{id, expires.UnixMilli()} })
}
