package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/state"
)

// purgeStatesEvery is after how many states that this process writes it deletes expired ones, at most twice as many.
const purgeStatesEvery = 16

// PutState keeps data under id until it expires, and now and then deletes what has expired.
// It makes the Store a state.Store. An id or call is text as PostgreSQL keeps it.
func (s *Store) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) (err error) {
	defer s.wrap(ctx, "store a state", &err)
	_, err = s.writeState(ctx, s.sql.putState, id, call, expires, data)
	return err
}

// SwapState is PutState if what is under id and has not expired is old, where nil is nothing.
func (s *Store) SwapState(
	ctx context.Context, id, call string, old, data []byte, expires time.Time,
) (swapped bool, err error) {
	defer s.wrap(ctx, "store a state", &err)
	var rows int64
	if old == nil {
		rows, err = s.writeState(ctx, s.sql.addState, id, call, expires, data)
	} else {
		rows, err = s.writeState(ctx, s.sql.swapState, id, call, expires, data, old)
	}
	return rows > 0, err
}

// writeState runs a statement that writes a state, and returns how many rows it wrote.
func (s *Store) writeState(
	ctx context.Context, statement, id, call string, expires time.Time, data []byte, more ...any,
) (int64, error) {
	if err := errors.Join(check("id", id), check("call", call)); err != nil {
		return 0, err
	}
	if s.puts.Add(1)%purgeStatesEvery == 1 {
		if _, err := s.exec(ctx, clients, s.sql.purgeStates, 2*purgeStatesEvery); err != nil {
			return 0, err
		}
	}
	return s.exec(ctx, clients, statement, append([]any{id, call, expires, data}, more...)...)
}

// GetState reads what is under id and has not expired, or nil.
func (s *Store) GetState(ctx context.Context, id string) (data []byte, err error) {
	defer s.wrap(ctx, "read a state", &err)
	err = s.queryRow(ctx, clients, []any{&data}, s.sql.getState, lookup(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return data, err
}

// FindStates reads up to limit states of a call that have not expired.
func (s *Store) FindStates(ctx context.Context, call string, limit int) (found [][]byte, err error) {
	defer s.wrap(ctx, "look up states", &err)
	return collect(ctx, s, clients, pgx.RowTo[[]byte], s.sql.findStates, lookup(call), max(limit, 0))
}

// DeleteState deletes what is under id, if anything is.
func (s *Store) DeleteState(ctx context.Context, id string) (err error) {
	defer s.wrap(ctx, "delete a state", &err)
	_, err = s.exec(ctx, clients, s.sql.deleteState, lookup(id))
	return err
}

// Guard returns a guard that lets every state be used once only, by any instance that shares the database. What it
// remembers is in a table of its own until it expires by the clock of the server.
func (s *Store) Guard() state.Guard { return guard{s} }

type guard struct{ s *Store }

// Use implements [state.Guard].
func (g guard) Use(ctx context.Context, id string, expires time.Time) (fresh bool, err error) {
	defer g.s.wrap(ctx, "use a state", &err)
	if err := check("id", id); err != nil {
		return false, err
	}
	if g.s.uses.Add(1)%purgeStatesEvery == 1 {
		if _, err := g.s.exec(ctx, clients, g.s.sql.purgeUsed, 2*purgeStatesEvery); err != nil {
			return false, err
		}
	}
	rows, err := g.s.exec(ctx, clients, g.s.sql.useState, id, expires)
	return err == nil && rows == 1, err
}
