package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Notices. Most are written by triggers: see [schema].
const (
	listenSQL = `INSERT INTO listening (id, until) VALUES (1, ?) ON CONFLICT (id)
		DO UPDATE SET until = max(until, excluded.until)`

	anyNoticeSQL = `SELECT EXISTS (SELECT 1 FROM notice WHERE first = 1 AND due <= ?1)
		OR EXISTS (SELECT 1 FROM question WHERE status = 'open' AND remind <= ?1)
			AND EXISTS (SELECT 1 FROM listening WHERE until > ?1)`
	remindSQL = `INSERT INTO notice (task, question, kind, written, due)
		SELECT task, question.seq, 'due_soon', ?1, ?1 FROM listening, question
		WHERE until > ?1 AND people IS NOT NULL AND question.seq IN (` + nearSQL + `) ON CONFLICT DO NOTHING`
	remindedSQL = `UPDATE question SET remind = NULL WHERE seq IN (` + nearSQL + `)
		AND EXISTS (SELECT 1 FROM listening WHERE until > ?1)`
	nearSQL = `SELECT seq FROM question WHERE status = 'open' AND remind <= ?1 ORDER BY remind, seq LIMIT ?2`

	noticesSQL = `SELECT ` + questionColumns + `, notice.seq, kind, written, notice.attempts
		FROM notice JOIN question ON question.seq = notice.question JOIN task ON task.seq = question.task
		WHERE first = 1 AND notice.due <= ? ORDER BY notice.due, notice.seq LIMIT ?`
	takeNoticeSQL = `UPDATE notice SET due = ?, attempts = attempts + 1 WHERE seq = ?`

	settleSQL = `UPDATE notice SET due = NULL, first = 0` + takenSQL
	retrySQL  = `UPDATE notice SET due = ?5` + takenSQL
	takenSQL  = ` WHERE question = (SELECT seq FROM question WHERE task = (SELECT seq FROM task WHERE id = ?1) AND key = ?2)
		AND kind = ?3 AND attempts = ?4 AND first = 1`
)

// Listen says that somebody listens for notices. See [task.Outbox].
func (s *Store) Listen(ctx context.Context, d time.Duration) (err error) {
	defer s.wrap(ctx, "listen for notices", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		_, err := s.w[listenSQL].ExecContext(ctx, now+ceil(d))
		return err
	})
}

// Notices takes notices. See [task.Outbox].
func (s *Store) Notices(ctx context.Context, lease time.Duration, limit int) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "take notices", &err)
	limit = max(limit, 0)
	var due bool
	err = s.r[anyNoticeSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&due)
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		for _, query := range []string{remindSQL, remindedSQL} {
			if _, err := s.w[query].ExecContext(ctx, now, limit); err != nil {
				return err
			}
		}
		type row struct {
			*task.Notice
			seq int64
		}
		rows, err := collect(ctx, s.w[noticesSQL], func(rows *sql.Rows, r *row) error {
			var q questionRow
			var written int64
			r.Notice = new(task.Notice)
			err := scanQuestionAnd(rows, &q, &r.seq, &r.Kind, &written, &r.Attempts)
			r.Written, r.Question = timeAt(written), q.Question
			return err
		}, now, limit)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if _, err := s.w[takeNoticeSQL].ExecContext(ctx, now+ceil(lease), r.seq); err != nil {
				return err
			}
			r.Attempts++
			notices = append(notices, r.Notice)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return notices, nil
}

// Settle deletes a notice, or lets it be taken again. See [task.Outbox].
func (s *Store) Settle(ctx context.Context, n *task.Notice, retry time.Duration) (err error) {
	defer s.wrap(ctx, "settle a notice", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		args := []any{n.Question.Task, n.Question.Key, string(n.Kind), n.Attempts}
		if retry > 0 {
			_, err := s.w[retrySQL].ExecContext(ctx, append(args, now+ceil(retry))...)
			return err
		}
		_, err := s.w[settleSQL].ExecContext(ctx, args...)
		return err
	})
}
