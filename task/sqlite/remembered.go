package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Remembered decisions.
const (
	rememberSQL = `INSERT INTO remembered (key, who, content, decided, until, uses) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET who = excluded.who, content = excluded.content, decided = excluded.decided,
			until = excluded.until, uses = excluded.uses, forgotten = NULL
		WHERE decided < excluded.decided AND coalesce(forgotten, 0) < excluded.decided`
	recallableSQL = `SELECT who, content, decided, until, uses,
			EXISTS (SELECT 1 FROM recalled WHERE recalled.key = ?1 AND call = ?2)
		FROM remembered WHERE key = ?1 AND forgotten IS NULL AND until > ?3`
	recallSQL     = `INSERT INTO recalled (key, call) VALUES (?, ?)`
	spendSQL      = `UPDATE remembered SET uses = uses - 1 WHERE key = ?`
	rememberedSQL = `SELECT key, who, content, decided, until, uses FROM remembered
		WHERE (decided < ?1 OR decided = ?1 AND key > ?2) AND forgotten IS NULL AND until > ?3 AND uses > 0
			AND (?4 IS NULL OR key IN (SELECT key FROM remembered_who WHERE who IN (SELECT value FROM json_each(?4))))
		ORDER BY decided DESC, key LIMIT ?5`
	forgetSQL = `UPDATE remembered SET forgotten = ?1 WHERE key = ?2 AND forgotten IS NULL AND until > ?1`

	anyEndedSQL        = `SELECT EXISTS (SELECT 1 FROM remembered WHERE until <= ?)`
	purgeRememberedSQL = `DELETE FROM remembered WHERE until <= ?`
)

// Remember keeps a decision. See [task.Store].
func (s *Store) Remember(ctx context.Context, r *task.Remembered) (err error) {
	defer s.wrap(ctx, "remember a decision", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		if r.Until.UnixMilli() <= now {
			return nil
		}
		_, err := s.w.exec(ctx, rememberSQL, r.Key, listOrNull(append([]string{}, r.Who...)), blob(r.Content),
			r.Decided.UnixMilli(), r.Until.UnixMilli(), r.Left)
		return err
	})
}

// Recall lets a call pass by a decision. See [task.Store].
func (s *Store) Recall(ctx context.Context, key, call string) (r *task.Remembered, err error) {
	defer s.wrap(ctx, "recall a decision", &err)
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		var passed bool
		r = &task.Remembered{Key: key}
		err := scanRemembered(s.w[recallableSQL].QueryRowContext(ctx, key, call, now).Scan, r, nil, &passed)
		switch {
		case errors.Is(err, sql.ErrNoRows), err == nil && !passed && r.Left <= 0:
			return task.ErrNotFound
		case err != nil || passed:
			return err
		}
		if _, err := s.w.exec(ctx, recallSQL, key, call); err != nil {
			return err
		}
		_, err = s.w.exec(ctx, spendSQL, key)
		r.Left--
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Remembered reads decisions that let calls pass. See [task.Store].
func (s *Store) Remembered(
	ctx context.Context, who []string, after *task.Remembered, limit int,
) (found []*task.Remembered, err error) {
	defer s.wrap(ctx, "read remembered decisions", &err)
	decided, key := int64(math.MaxInt64), ""
	if after != nil {
		decided, key = after.Decided.UnixMilli(), after.Key
	}
	return collect(ctx, s.r[rememberedSQL], func(rows *sql.Rows, r **task.Remembered) error {
		*r = new(task.Remembered)
		return scanRemembered(rows.Scan, *r, &(*r).Key, nil)
	}, decided, key, time.Now().UnixMilli(), listOrNull(who), max(limit, 0))
}

// scanRemembered reads a decision, behind its key and before what else there is, if they are not nil.
func scanRemembered(scan func(...any) error, r *task.Remembered, key *string, passed *bool) error {
	var who []byte
	var decided, until int64
	to := []any{&who, &r.Content, &decided, &until, &r.Left}
	if key != nil {
		to = append([]any{key}, to...)
	}
	if passed != nil {
		to = append(to, passed)
	}
	if err := scan(to...); err != nil {
		return err
	}
	r.Decided, r.Until = timeAt(decided), timeAt(until)
	return readNames(who, &r.Who)
}

// Forget ends a decision. See [task.Store].
func (s *Store) Forget(ctx context.Context, key string) (err error) {
	defer s.wrap(ctx, "forget a decision", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		return s.wrote(ctx, task.ErrNotFound, forgetSQL, now, key)
	})
}

// purgeRemembered deletes decisions that have ended. It looks before it writes, because there is seldom something to
// do.
func (s *Store) purgeRemembered(ctx context.Context) error {
	var ended bool
	now := time.Now().UnixMilli()
	if err := s.r[anyEndedSQL].QueryRowContext(ctx, now).Scan(&ended); err != nil || !ended {
		return err
	}
	return s.write(ctx, func(ctx context.Context, now int64) error {
		_, err := s.w.exec(ctx, purgeRememberedSQL, now)
		return err
	})
}
