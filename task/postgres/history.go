package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// ofPrincipal is the name of the list of a principal's questions.
func ofPrincipal(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "of " + hex.EncodeToString(sum[:])
}

// Conditions of indexes, as in sql.go.
const (
	changedQuestion = `changed > '-infinity' AND who <> '{}'`
	listedAsked     = `asked > '-infinity'`
	listedDeadline  = `deadline > '-infinity'`
)

// History implements [task.Store].
func (s *Store) History(
	ctx context.Context, of task.QuestionHistory, after *task.Question, limit int,
) (all []*task.Question, err error) {
	defer s.wrap(ctx, "read a history", &err)
	list := ofPrincipal(of.Principal)
	if of.Voter != "" {
		list = "by " + of.Voter
	}
	if check("", list) != nil {
		return nil, nil
	}
	return s.readLists(ctx, lists{names: []string{list}}, task.QuestionFilter{Newest: true}, after, limit)
}

// Changes implements [task.Store].
func (s *Store) Changes(
	ctx context.Context, after *task.Question, limit int,
) (all []*task.Question, now time.Time, err error) {
	defer s.wrap(ctx, "look for changes", &err)
	var from *time.Time
	var name, key string
	if after != nil {
		from, key = &after.Changed, fit(after.Key)
		if after.Task != "" {
			name = task.Name(after.Task)
		}
	}
	var batch pgx.Batch
	batch.Queue(s.sql.clock)
	batch.Queue(s.sql.changes, from, name, key, max(limit, 0))
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		results := conn.SendBatch(ctx, &batch)
		defer results.Close()
		if err := results.QueryRow().Scan(&now); err != nil {
			return err
		}
		rows, _ := results.Query()
		all, err = pgx.CollectRows(rows, scanQuestionRow)
		return err
	})
	return all, now.UTC(), err
}
