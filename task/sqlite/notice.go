package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Notices. Most are written by triggers: see [schema].
const (
	listenSQL = `INSERT INTO listening (id, until, named, anonymous) VALUES (1, ?, ?, ?) ON CONFLICT (id)
		DO UPDATE SET until = max(until, excluded.until), named = excluded.named, anonymous = excluded.anonymous`

	anyNoticeSQL = `SELECT EXISTS (SELECT 1 FROM notice WHERE due IS NOT NULL)
		OR EXISTS (SELECT 1 FROM notice WHERE wake <= ?1)
		OR EXISTS (SELECT 1 FROM question WHERE status = 'open' AND remind <= ?1)
			AND EXISTS (SELECT 1 FROM listening WHERE until > ?1)`
	remindSQL = leaveNotice + `
		SELECT task.id, key, 'due_soon', principal, target, asked, deadline, ?1, people, notice
		FROM listening, question JOIN task ON task.seq = question.task
		WHERE until > ?1 AND people IS NOT NULL AND question.seq IN (` + nearSQL + `)`
	remindedSQL = `UPDATE question SET remind = NULL WHERE seq IN (` + nearSQL + `)
		AND EXISTS (SELECT 1 FROM listening WHERE until > ?1)`
	nearSQL = `SELECT seq FROM question WHERE status = 'open' AND remind <= ?1 ORDER BY remind, seq LIMIT 1000`

	wakeNoticesSQL   = `UPDATE notice SET due = wake, wake = NULL WHERE wake <= ?`
	firstNotifiedSQL = `SELECT principal FROM notice WHERE due IS NOT NULL AND written <= ? ORDER BY principal LIMIT 1`
	nextNotifiedSQL  = `SELECT principal FROM notice WHERE due IS NOT NULL AND principal > ? AND written <= ?
		ORDER BY principal LIMIT 1`
	takeNoticeSQL = `UPDATE notice SET due = NULL, wake = ?, attempts = attempts + 1 WHERE seq = (
			SELECT seq FROM notice WHERE due IS NOT NULL AND principal = ? AND written <= ? ORDER BY due, seq LIMIT 1)
		RETURNING ` + noticeColumns

	settleSQL = `DELETE FROM notice` + takenSQL
	retrySQL  = `UPDATE notice SET due = NULL, wake = ?5` + takenSQL
	takenSQL  = ` WHERE seq = (SELECT min(seq) FROM notice WHERE task = ?1 AND refused = 0)
		AND key = ?2 AND kind = ?3 AND attempts = ?4`

	anyRefusedSQL = `SELECT EXISTS (SELECT 1 FROM notice WHERE refused = 1)`
	refusedSQL    = `DELETE FROM notice WHERE seq IN (
			SELECT seq FROM notice INDEXED BY notice_refused WHERE refused = 1 ORDER BY seq LIMIT ?)
		RETURNING ` + noticeColumns

	noticeColumns = `seq, task, key, kind, principal, target, asked, deadline, written, attempts, people, notice`
)

// Listen says that somebody listens for notices. See [task.Store].
func (s *Store) Listen(ctx context.Context, d time.Duration, named, anonymous int) (err error) {
	defer s.wrap(ctx, "listen for notices", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		_, err := s.w.exec(ctx, listenSQL, now+ceil(d), named, anonymous)
		return err
	})
}

// Notices takes notices. See [task.Store].
func (s *Store) Notices(ctx context.Context, c task.NoticeClaim) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "take notices", &err)
	var due bool
	err = s.r[anyNoticeSQL].QueryRowContext(ctx, time.Now().UnixMilli()).Scan(&due)
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		for _, query := range []string{remindSQL, remindedSQL, wakeNoticesSQL} {
			if _, err := s.w.exec(ctx, query, now); err != nil {
				return err
			}
		}
		until, after, delivering := now-ceil(c.Age), c.After, make(map[string]int)
		maps.Copy(delivering, c.Delivering)
		for free := c.Free; free > 0; free-- {
			principal, err := nextPrincipal(ctx, s.w[firstNotifiedSQL], s.w[nextNotifiedSQL], after, delivering, free, until)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			taken, err := collect(ctx, s.w[takeNoticeSQL], scanNotice, now+ceil(c.Lease), principal, until)
			if err != nil {
				return err
			}
			n := taken[0].Notice
			n.Age = time.Duration(now-n.Written.UnixMilli()) * time.Millisecond
			notices = append(notices, n)
			delivering[principal]++
			after = principal
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return notices, nil
}

type noticeRow struct {
	*task.Notice
	seq int64
}

// scanNotice reads noticeColumns.
func scanNotice(rows *sql.Rows, to *noticeRow) error {
	q := new(task.Question)
	to.Notice = &task.Notice{Question: q}
	var asked, written int64
	var deadline sql.NullInt64
	var people []byte
	if err := rows.Scan(&to.seq, &q.Task, &q.Key, &to.Kind, &q.Principal, &q.Target, &asked, &deadline, &written,
		&to.Attempts, &people, &q.Notice); err != nil {
		return err
	}
	to.Written, q.Asked = timeAt(written), timeAt(asked)
	if deadline.Valid {
		q.Deadline = timeAt(deadline.Int64)
	}
	return readNames(people, &q.For)
}

// Settle deletes a notice, or lets it be taken again. See [task.Store].
func (s *Store) Settle(ctx context.Context, n *task.Notice, retry time.Duration) (err error) {
	defer s.wrap(ctx, "settle a notice", &err)
	return s.write(ctx, func(ctx context.Context, now int64) error {
		args := []any{n.Question.Task, n.Question.Key, string(n.Kind), n.Attempts}
		query := settleSQL
		if retry > 0 {
			query, args = retrySQL, append(args, now+ceil(retry))
		}
		_, err := s.w.exec(ctx, query, args...)
		return err
	})
}

// Refused returns what was refused. See [task.Store].
func (s *Store) Refused(ctx context.Context, limit int) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "read what was refused", &err)
	var some bool
	if err := s.r[anyRefusedSQL].QueryRowContext(ctx).Scan(&some); err != nil || !some {
		return nil, err
	}
	var rows []noticeRow
	err = s.write(ctx, func(ctx context.Context, _ int64) (err error) {
		rows, err = collect(ctx, s.w[refusedSQL], scanNotice, max(limit, 0))
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b noticeRow) int { return cmp.Compare(a.seq, b.seq) })
	for _, row := range rows {
		notices = append(notices, row.Notice)
	}
	return notices, nil
}
