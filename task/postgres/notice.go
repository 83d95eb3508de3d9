package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// leaveNotices is the beginning of a statement that leaves notices: from rows n with a task, a key and a kind.
const leaveNotices = `INSERT INTO {schema}.notice (task, key, kind, written, due)
			SELECT n.task, n.key, n.kind, now, greatest(now, (
				SELECT due FROM {schema}.notice AS first WHERE first.task = n.task AND first.` + openNotice + `
				ORDER BY id LIMIT 1 FOR SHARE))
			FROM date_trunc('milliseconds', statement_timestamp()) AS now, `

// Conditions. The row of listening is found by its index: a scan where scans are off is so dear to the planner that the
// server compiles the statement each time.
const (
	listens    = `EXISTS (SELECT FROM {schema}.listening WHERE one AND until > statement_timestamp())`
	dueNotice  = `due > '-infinity'`
	openNotice = `due IS NOT NULL`
	reminded   = `status = 'open' AND who <> '{}' AND remind > '-infinity'`
)

type noticeStatements struct{ listen, remind, notices, lockNotice, settle string }

func newNoticeStatements(in func(string) string) noticeStatements {
	return noticeStatements{
		listen: in(`
			INSERT INTO {schema}.listening AS l (one, until) VALUES (true, statement_timestamp() + $1::interval)
			ON CONFLICT (one) DO UPDATE SET until = greatest(l.until, excluded.until)`),

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
				RETURNING q.task, q.key, 'due_soon' AS kind
			)
			` + leaveNotices + `told AS n ON CONFLICT (task, key, kind) DO NOTHING`),

		notices: in(`
			WITH next AS MATERIALIZED (
				SELECT task, id, due FROM {schema}.notice AS n
				WHERE due <= statement_timestamp() AND ` + dueNotice + ` AND NOT EXISTS (
					SELECT FROM {schema}.notice AS earlier
					WHERE earlier.task = n.task AND earlier.id < n.id AND earlier.` + openNotice + ` LIMIT 1)
				ORDER BY due, id LIMIT $2 FOR UPDATE SKIP LOCKED
			), taken AS (
				UPDATE {schema}.notice AS n
				SET due = statement_timestamp() + $1::interval, attempts = attempts + CASE WHEN n.id = next.id THEN 1 ELSE 0 END
				FROM next WHERE n.task = next.task AND n.` + openNotice + `
				RETURNING n.*
			)
			SELECT ` + questionColumns + `, n.kind, n.written, n.attempts
			FROM next JOIN taken AS n USING (id), LATERAL (
				SELECT * FROM {schema}.question WHERE task = n.task AND key = n.key LIMIT 1) AS q
			ORDER BY next.due, next.id`),

		lockNotice: in(`SELECT FROM {schema}.notice WHERE task = $1 AND key = $2 AND kind = $3 FOR UPDATE`),

		// The notice is locked, so that all are seen that came while it was the first.
		settle: in(`
			WITH settled AS (
				UPDATE {schema}.notice SET due = statement_timestamp() + $5::interval
				WHERE task = $1 AND key = $2 AND kind = $3 AND attempts = $4 AND coalesce(due, '-infinity') > '-infinity'
				RETURNING task, id, due
			)
			UPDATE {schema}.notice AS n SET due = coalesce(settled.due, n.written) FROM settled
			WHERE n.task = settled.task AND n.id > settled.id AND n.` + openNotice + `
			`),
	}
}

// remindersTogether bounds the notices of deadlines that a call of Notices leaves.
const remindersTogether = 1000

// Listen implements [task.Outbox].
func (s *Store) Listen(ctx context.Context, d time.Duration) (err error) {
	defer s.wrap(ctx, "listen for notices", &err)
	_, err = s.exec(ctx, clients, s.sql.listen, d)
	return err
}

// Notices implements [task.Outbox]. It leaves the notices of 1,000 deadlines at most, and the notices of a task that is
// being written to at this moment the next time.
func (s *Store) Notices(ctx context.Context, lease time.Duration, limit int) (notices []*task.Notice, err error) {
	defer s.wrap(ctx, "take notices", &err)
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, s.sql.remind, remindersTogether); err != nil {
			return err
		}
		rows, _ := conn.Query(ctx, s.sql.notices, lease, max(limit, 0))
		notices, err = pgx.CollectRows(rows, scanNotice)
		return err
	})
	return notices, err
}

func scanNotice(row pgx.CollectableRow) (*task.Notice, error) {
	var n task.Notice
	var err error
	n.Question, err = scanQuestion(row, (*string)(&n.Kind), &n.Written, &n.Attempts)
	n.Written = n.Written.UTC()
	return &n, err
}

// Settle implements [task.Outbox].
func (s *Store) Settle(ctx context.Context, n *task.Notice, retry time.Duration) (err error) {
	defer s.wrap(ctx, "settle a notice", &err)
	var due *time.Duration
	if retry > 0 {
		due = &retry
	}
	id, key, kind := lookup(n.Question.Task), lookup(n.Question.Key), lookup(string(n.Kind))
	var batch pgx.Batch
	batch.Queue(s.sql.lockNotice, id, key, kind)
	batch.Queue(s.sql.settle, id, key, kind, n.Attempts, due)
	return s.on(ctx, clients, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}
