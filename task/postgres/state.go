package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Every so many states that this process writes it deletes expired ones, at most twice as
// many.
const purgeStatesEvery = 16

// PutState keeps data under id until it expires, and deletes what has expired now and then.
// It makes the Store an state.Store. An id or call is text as PostgreSQL keeps it.
func (s *Store) PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error {
	const what = "store a state"
	for _, text := range []struct{ name, value string }{{"id", id}, {"call", call}} {
		if err := check(text.name, text.value); err != nil {
			return fmt.Errorf("task/postgres: %s: %w", what, err)
		}
	}
	if s.puts.Add(1)%purgeStatesEvery == 1 {
		if _, err := s.pool.Exec(ctx, s.sql.purgeStates, 2*purgeStatesEvery); err != nil {
			return s.failed(ctx, "purge states", err)
		}
	}
	if _, err := s.pool.Exec(ctx, s.sql.putState, id, call, expires, data); err != nil {
		return s.failed(ctx, what, err)
	}
	return nil
}

// GetState reads what is under id and has not expired, or nil.
func (s *Store) GetState(ctx context.Context, id string) ([]byte, error) {
	if check("", id) != nil {
		return nil, nil
	}
	data := []byte{}
	err := s.pool.QueryRow(ctx, s.sql.getState, id).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "read a state", err)
	}
	return data, nil
}

// FindStates reads up to limit states of a call that have not expired.
func (s *Store) FindStates(ctx context.Context, call string, limit int) ([][]byte, error) {
	if check("", call) != nil {
		return nil, nil
	}
	rows, _ := s.pool.Query(ctx, s.sql.findStates, call, max(limit, 0))
	found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, s.failed(ctx, "look up states", err)
	}
	return found, nil
}

// DeleteState deletes what is under id, if anything is.
func (s *Store) DeleteState(ctx context.Context, id string) error {
	if check("", id) != nil {
		return nil
	}
	if _, err := s.pool.Exec(ctx, s.sql.deleteState, id); err != nil {
		return s.failed(ctx, "delete a state", err)
	}
	return nil
}
