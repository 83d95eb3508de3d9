package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Conditions of indexes, as in sql.go, and others.
const (
	// The row of listening is found by its index: a scan where scans are off is so dear to the planner that the server
	// compiles the statement each time.
	listens       = `EXISTS (SELECT FROM {schema}.listening WHERE one AND until > statement_timestamp())`
	dueNotice     = `due > '-infinity'`
	openNotice    = `due IS NOT NULL`
	keptNotice    = `due IS NOT NULL AND written < 'infinity'`
	refusedNotice = `due IS NULL AND written > '-infinity'`
	ownRefused    = `due IS NULL AND written < 'infinity'`
	reminded      = `status = 'open' AND who <> '{}' AND remind > '-infinity'`

	// What a turn can take of a principal, with the age of $6.
	untaken = `due <= statement_timestamp() AND ` + dueNotice + ` AND written <= statement_timestamp() - $6::interval
					AND NOT EXISTS (SELECT FROM {schema}.notice AS earlier
						WHERE earlier.task = n.task AND earlier.id < n.id AND earlier.` + openNotice + ` LIMIT 1)`

	noticeColumns = `n.task, n.key, n.kind, n.principal, n.target, n.who, n.asked, n.deadline, n.written, n.attempts,
		n.notice, CASE WHEN n.due IS NULL THEN '0s' ELSE statement_timestamp() - n.written END`
)

type noticeStatements struct{ listen, remind, notices, lockNotice, settle, retry, refused string }

func newNoticeStatements(in func(string) string) noticeStatements {
	return noticeStatements{
		listen: in(`
			INSERT INTO {schema}.listening AS l (one, until, named, anonymous)
			VALUES (true, statement_timestamp() + $1::interval, $2, $3)
			ON CONFLICT (one) DO UPDATE SET until = greatest(l.until, excluded.until), named = excluded.named,
				anonymous = excluded.anonymous`),

		// Tasks that somebody has locked are passed over.
		remind: in(`
			WITH near AS MATERIALIZED (
				SELECT q.task, q.key FROM (
					SELECT task, key, remind FROM {schema}.question
					WHERE remind <= statement_timestamp() AND ` + listens + ` AND ` + reminded + `
					ORDER BY remind LIMIT $1
				) AS q, LATERAL (
					SELECT FROM {schema}.task WHERE id = q.task LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS t
				ORDER BY q.remind
			), told AS (
				UPDATE {schema}.question AS q SET remind = NULL FROM near
				WHERE q.task = near.task AND q.key = near.key AND ` + reminded + `
				RETURNING q
			)
			SELECT {schema}.leave_notice(q, 'due_soon') FROM told`),

		// Principals take turns as in claim. A row is locked before it is changed, and rows that others have locked are
		// passed over.
		notices: in(`
			WITH RECURSIVE later (principal) AS (
				(SELECT principal FROM {schema}.notice WHERE principal > $1::text AND ` + dueNotice + `
					ORDER BY principal, due, id LIMIT 1)
				UNION ALL
				SELECT next.principal FROM later, LATERAL (
					SELECT principal FROM {schema}.notice WHERE principal > later.principal AND ` + dueNotice + `
					ORDER BY principal, due, id LIMIT 1) AS next
			), earlier (principal) AS (
				(SELECT principal FROM {schema}.notice WHERE principal <= $1::text AND ` + dueNotice + `
					ORDER BY principal, due, id LIMIT 1)
				UNION ALL
				SELECT next.principal FROM earlier, LATERAL (
					SELECT principal FROM {schema}.notice
					WHERE principal > earlier.principal AND principal <= $1::text AND ` + dueNotice + `
					ORDER BY principal, due, id LIMIT 1) AS next
			), one AS MATERIALIZED (
				SELECT t.principal, n.task, n.id
				FROM (SELECT principal FROM later UNION ALL SELECT principal FROM earlier) AS t, LATERAL (
					SELECT task, id FROM {schema}.notice AS n WHERE principal = t.principal AND ` + untaken + `
					ORDER BY principal, due, id LIMIT 1 FOR UPDATE SKIP LOCKED) AS n
				WHERE t.principal <> ALL ($2::text[])
				LIMIT $5::bigint
			), sharing (principal, first, has, most) AS (
				SELECT principal, id, 1, $5 / (1 + (SELECT count(*) FROM one)) FROM one
				UNION ALL
				SELECT principal, NULL, delivering, $5 - delivering
				FROM unnest($2::text[], $3::bigint[]) AS l (principal, delivering)
				WHERE delivering < $5 AND (SELECT count(*) FROM one) < $5
			), more AS MATERIALIZED (
				SELECT s.principal, s.has, n.task, n.id, n.due FROM sharing AS s, LATERAL (
					SELECT task, id, due FROM {schema}.notice AS n
					WHERE principal = s.principal AND id IS DISTINCT FROM s.first AND ` + untaken + `
					ORDER BY principal, due, id LIMIT s.most FOR UPDATE SKIP LOCKED) AS n
			), turns AS (
				SELECT task, id, had, row_number() OVER (ORDER BY had, principal <= $1, principal) AS turn FROM (
					SELECT task, id, principal, 0 AS had FROM one
					UNION ALL
					SELECT task, id, principal, has + row_number() OVER (PARTITION BY principal ORDER BY due, id) - 1 FROM more
				) AS candidates
			), next AS MATERIALIZED (
				SELECT turn, task, id FROM turns WHERE had < $5 - turn + 1
			), taken AS (
				UPDATE {schema}.notice AS n
				SET due = statement_timestamp() + $4::interval, attempts = attempts + CASE WHEN n.id = next.id THEN 1 ELSE 0 END
				FROM next WHERE n.task = next.task AND n.` + openNotice + `
				RETURNING n.*
			)
			SELECT ` + noticeColumns + ` FROM next JOIN taken AS n USING (id) ORDER BY turn`),

		lockNotice: in(`SELECT FROM {schema}.notice WHERE task = $1 AND ` + openNotice + ` ORDER BY id LIMIT 1 FOR UPDATE`),

		// The first notice is locked, so that all are seen that came while it was the first.
		settle: in(`
			WITH settled AS (
				DELETE FROM {schema}.notice AS n WHERE ` + thisNotice + `
				RETURNING task, id
			)
			UPDATE {schema}.notice AS n SET due = n.written FROM settled
			WHERE n.task = settled.task AND n.id > settled.id AND n.` + openNotice),

		retry: in(`
			UPDATE {schema}.notice AS later SET due = statement_timestamp() + $5::interval FROM {schema}.notice AS n
			WHERE ` + thisNotice + ` AND later.task = n.task AND later.` + openNotice),

		// Rows that somebody else deletes are passed over.
		refused: in(`
			WITH n AS (
				DELETE FROM {schema}.notice WHERE id = ANY (ARRAY (
					SELECT id FROM {schema}.notice WHERE ` + refusedNotice + ` ORDER BY written, id LIMIT $1 FOR UPDATE SKIP LOCKED))
				RETURNING *
			)
			SELECT ` + noticeColumns + ` FROM n ORDER BY written, id`),
	}
}

// thisNotice is the condition for a notice that is the first of its task, and was not taken again since.
const thisNotice = `n.id = (SELECT id FROM {schema}.notice WHERE task = $1 AND ` + openNotice + ` ORDER BY id LIMIT 1)
				AND n.key = $2 AND n.kind = $3 AND n.attempts = $4`

// remindersTogether bounds the notices of deadlines that a call of Notices leaves.
const remindersTogether = 1000

// Listen implements [task.Store].
func (s *Store) Listen(ctx context.Context, d time.Duration, named, anonymous int) (err error) {
	defer s.wrap(ctx, "listen for notices", &err)
	_, err = s.exec(ctx, clients, s.sql.listen, d, named, anonymous)
	return err
}

// Notices implements [task.Store]. It leaves the notices of 1,000 deadlines at most, and the notices of a task that is
// being written to at this moment the next time.
func (s *Store) Notices(ctx context.Context, c task.NoticeClaim) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "take notices", &err)
	principals, counts := make([]string, 0, len(c.Delivering)), make([]int64, 0, len(c.Delivering))
	for principal, n := range c.Delivering {
		principals, counts = append(principals, principal), append(counts, int64(n))
	}
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, s.sql.remind, remindersTogether); err != nil {
			return err
		}
		rows, _ := conn.Query(ctx, s.sql.notices, fit(c.After), principals, counts, c.Lease, max(c.Free, 0), c.Age)
		notices, err = pgx.CollectRows(rows, scanNotice)
		return err
	})
	return notices, err
}

// scanNotice reads noticeColumns.
func scanNotice(row pgx.CollectableRow) (*task.Notice, error) {
	q := new(task.Question)
	n := &task.Notice{Question: q}
	var deadline *time.Time
	err := row.Scan(&q.Task, &q.Key, (*string)(&n.Kind), &q.Principal, &q.Target, &q.For, &q.Asked, &deadline, &n.Written,
		&n.Attempts, &q.Notice, &n.Age)
	n.Written, q.Asked = n.Written.UTC(), q.Asked.UTC()
	if deadline != nil {
		q.Deadline = deadline.UTC()
	}
	return n, err
}

// Settle implements [task.Store].
func (s *Store) Settle(ctx context.Context, n *task.Notice, retry time.Duration) (err error) {
	defer s.wrap(ctx, "settle a notice", &err)
	id := lookup(n.Question.Task)
	args := []any{id, lookup(n.Question.Key), lookup(string(n.Kind)), n.Attempts}
	var batch pgx.Batch
	batch.Queue(s.sql.lockNotice, id)
	if retry > 0 {
		batch.Queue(s.sql.retry, append(args, retry)...)
	} else {
		batch.Queue(s.sql.settle, args...)
	}
	return s.on(ctx, clients, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}

// Refused implements [task.Store].
func (s *Store) Refused(ctx context.Context, limit int) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "read what was refused", &err)
	return collect(ctx, s, clients, scanNotice, s.sql.refused, max(limit, 0))
}
