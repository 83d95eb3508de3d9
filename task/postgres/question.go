package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Conditions of indexes, as in sql.go.
const (
	askedQuestion   = `asked > '-infinity'`
	openQuestion    = `status = 'open' AND task > ''`
	overdueQuestion = `status = 'open' AND deadline > '-infinity'`
)

// stopAsking is what an update sets that parks a task without a question. A trigger withdraws what is open.
const stopAsking = `, asks = least(asks, 1)`

// What a statement adds that parks a task with questions. Its arguments are in the order of askingArguments. An update
// also takes the answers of the task's client. It begins when the lock of the task is held, so the status of its
// questions stays what it sees.
const (
	askingArgs  = 8
	askingWith  = askWith + refusedWith
	refusedWith = `refused AS MATERIALIZED (
			SELECT CASE
				WHEN EXISTS (SELECT FROM unnest({answered}::text[]) AS a (key), LATERAL (
						SELECT status, deadline FROM {schema}.question WHERE task = $1 AND question.key = a.key LIMIT 1) AS q
					WHERE status <> 'open' OR deadline <= clock_timestamp()) THEN 'late'
				WHEN EXISTS (SELECT FROM unnest({keys}) AS a (key), LATERAL (
						SELECT status FROM {schema}.question WHERE task = $1 AND question.key = a.key LIMIT 1) AS q
					WHERE status = 'decided') THEN 'decided'
				ELSE '' END AS why
		), `
	askWith = `ask AS MATERIALIZED (
			SELECT * FROM unnest({keys}::text[], {equals}::text[], {whos}::text[], {contents}::bytea[], {withins}::interval[],
				{reminds}::interval[], {notices}::bytea[]) AS a (key, equal, who, content, within, remind, notice)
		), `
	askingSet   = `, asks = CASE WHEN cardinality({keys}) > 0 THEN 2 ELSE asks END`
	askingLives = `, (
			SELECT date_trunc('milliseconds', {now} + max(within)) + {after} FROM ask
			WHERE NOT EXISTS (SELECT FROM {schema}.question AS q WHERE q.task = $1 AND q.key = ask.key LIMIT 1))`
	askingWhere = ` AND (SELECT why FROM refused) = ''`
	askingMore  = `, closed AS (
			UPDATE {schema}.question SET status = 'withdrawn', over = true, version = version + 1
			WHERE task = (SELECT id FROM t) AND ` + openQuestion + `
				AND key <> ALL ({keys}) AND (cardinality({keys}) > 0 OR key = ANY ({answered}))
		), opened AS (
			UPDATE {schema}.question SET status = 'open', version = version + 1
			WHERE task = (SELECT id FROM t) AND key = ANY ({keys}) AND status = 'withdrawn'
		)` + addedMore
	addedMore = `, added AS (
			INSERT INTO {schema}.question (task, key, name, principal, target, equal, who, content, notice, asked, deadline,
				remind, status, expired, version)
			SELECT t.id, ask.key, {task}::text, t.principal, t.target, ask.equal,
				ARRAY (SELECT json_array_elements_text(ask.who::json)), coalesce(ask.content, ''), ask.notice, t.updated,
				date_trunc('milliseconds', t.updated + ask.within), date_trunc('milliseconds', t.updated + ask.remind),
				'open', false, 0
			FROM t, ask
			WHERE NOT EXISTS (SELECT FROM {schema}.question AS q WHERE q.task = $1 AND q.key = ask.key LIMIT 1)
		)`
)

// withAsking numbers the arguments of asking in SQL, from the given number. The last ones are the answered keys.
func withAsking(sql string, first int) string {
	var pairs []string
	for i, name := range [askingArgs + 1]string{
		"{keys}", "{equals}", "{whos}", "{contents}", "{withins}", "{reminds}", "{notices}", "{task}", "{answered}",
	} {
		pairs = append(pairs, name, "$"+strconv.Itoa(first+i))
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// askingArguments returns the arguments that a statement has for the questions of a task.
func askingArguments(t *task.Task, ask []*task.Question) ([]any, error) {
	n := len(ask)
	keys, equals, whos := make([]string, n), make([]string, n), make([]string, n)
	contents, withins, reminds := make([][]byte, n), make([]*time.Duration, n), make([]*time.Duration, n)
	notices := make([][]byte, n)
	for i, q := range ask {
		if err := errors.Join(check("Key", q.Key), check("Equal", q.Equal), checkFor(q)); err != nil {
			return nil, err
		}
		who, err := json.Marshal(list(q.For))
		if err != nil {
			return nil, err
		}
		keys[i], equals[i], whos[i], contents[i] = q.Key, q.Equal, string(who), q.Content
		notices[i] = q.Notice
		if q.Within > 0 {
			withins[i] = &q.Within
		}
		if q.Remind > 0 {
			reminds[i] = &q.Remind
		}
	}
	return []any{keys, equals, whos, contents, withins, reminds, notices, task.Name(t.ID)}, nil
}

// questionErrors are the errors for what a statement says of a question.
var questionErrors = map[string]error{
	"conflict": task.ErrConflict,
	"closed":   task.ErrClosed,
	"late":     task.ErrLate,
	"early":    task.ErrEarly,
	"decided":  task.ErrDecided,
}

type questionStatements struct {
	questions, asked, newest, byDeadline, clock, changes, vote, move, decide, overdue string
}

func newQuestionStatements(in func(string) string) questionStatements {
	return questionStatements{
		// '~' is after all that names are made of.
		questions: in(`
			SELECT ` + questionColumns + ` FROM {schema}.question AS q
			WHERE name >= $1 AND name < $1 || '~' AND ` + askedQuestion + ` ORDER BY name, asked, key`),

		asked:      in(listedQuestions("asked", ">", "'-infinity'", "", listedAsked)),
		newest:     in(listedQuestions("asked", "<", "'infinity'", " DESC", listedAsked)),
		byDeadline: in(listedQuestions("deadline", ">", "'-infinity'", "", listedDeadline)),

		clock: `SELECT date_trunc('milliseconds', clock_timestamp())`,
		changes: in(`
			SELECT ` + questionColumns + ` FROM {schema}.question AS q
			WHERE (changed, name, key) > (coalesce($1::timestamptz, '-infinity'), $2::text, $3::text) AND ` + changedQuestion + `
			ORDER BY changed, name, key LIMIT $4`),

		vote: in(change("WHEN deadline IS DISTINCT FROM $6 THEN 'moved'", "", "false")),

		// The lock of the task is held.
		move: in(change("", `, t AS (
				UPDATE {schema}.task SET expires = greatest(expires, $6 + {after})
				WHERE id = $1 AND (SELECT why FROM refused) = ''
			)`, "false")),
		decide: in(change("", `, t AS (
				UPDATE {schema}.task
				SET status = 'working', updated = {now}, version = version + 1, attempts = 0, due = statement_timestamp(),
					expires = greatest(expires, {now} + ttl, $6 + {after})
				WHERE id = $1 AND status = 'input_required' AND (SELECT why FROM refused) = ''
				RETURNING id
			), running AS (
				UPDATE {schema}.task SET expires = greatest(expires, {now} + ttl, $6 + {after})
				WHERE id = $1 AND status = 'working' AND (SELECT why FROM refused) = ''
			)`, "EXISTS (SELECT FROM t)")),

		overdue: in(`
			SELECT ` + questionColumns + ` FROM {schema}.question AS q
			WHERE deadline <= statement_timestamp() AND ` + overdueQuestion + `
			ORDER BY deadline LIMIT $1`),
	}
}

// change is the statement of a change of a question. It is refused, or not, when the lock of the question is held.
func change(unless, more, woken string) string {
	return `
			WITH q AS MATERIALIZED (
				SELECT version, status, deadline FROM {schema}.question WHERE task = $1 AND key = $2 FOR NO KEY UPDATE
			), refused AS MATERIALIZED (
				SELECT CASE WHEN version <> $3 THEN 'conflict'
					WHEN status <> 'open' THEN 'closed'
					WHEN NOT $4::boolean AND deadline <= clock_timestamp() THEN 'late'
					WHEN $4 AND coalesce(deadline, 'infinity') > clock_timestamp() THEN 'early'
					` + unless + ` ELSE '' END AS why
				FROM q
			), changed AS (
				UPDATE {schema}.question
				SET who = $5, deadline = $6, remind = remind + ($6 - deadline), votes = $7, decision = $8, expired = $4,
					voters = $9,
					status = CASE WHEN $8::bytea IS NULL THEN status ELSE 'decided' END, version = version + 1
				WHERE task = $1 AND key = $2 AND (SELECT why FROM refused) = ''
			)` + more + `
			SELECT why, ` + woken + ` FROM refused`
}

// listedQuestions is the query for what is in some lists, in the order of a time, which begins at start. Each list
// gives as many as are wanted, so that it does not matter how many more it has.
func listedQuestions(by, after, start, desc, condition string) string {
	order := func(of string) string {
		return of + by + desc + ", " + of + "task" + desc + ", " + of + "key" + desc
	}
	return `
			SELECT ` + questionColumns + ` FROM (
				SELECT DISTINCT w.` + by + `, w.task, w.key FROM unnest($1::text[], $9::boolean[]) AS l (list, others), LATERAL (
					SELECT ` + by + `, task, key FROM {schema}.question_list AS entry
					WHERE list = l.list
						AND (` + by + `, task, key) ` + after + ` (coalesce($2::timestamptz, ` + start + `), $3::text, $4::text)
						AND asked < coalesce($5::timestamptz, 'infinity') AND ($6::text[] IS NULL OR target = ANY ($6))
						AND (l.others IS NOT TRUE OR principal <> $10::text)
						AND (CASE WHEN l.others THEN $11::text[] ELSE $7::text[] END IS NULL OR EXISTS (
							SELECT FROM {schema}.question AS q WHERE (q.task, q.key) = (entry.task, entry.key)
								AND q.who && CASE WHEN l.others THEN $11 ELSE $7 END LIMIT 1))
						AND ` + condition + `
					ORDER BY ` + order("") + ` LIMIT $8) AS w
				ORDER BY ` + order("w.") + ` LIMIT $8
			) AS w, LATERAL (SELECT * FROM {schema}.question WHERE task = w.task AND key = w.key LIMIT 1) AS q
			ORDER BY ` + order("w.")
}

// Questions implements [task.Store].
func (s *Store) Questions(ctx context.Context, name string) (all []*task.Question, err error) {
	defer s.wrap(ctx, "read the questions of a task", &err)
	return collect(ctx, s, clients, scanQuestionRow, s.sql.questions, lookup(name))
}

// Waiting implements [task.Store].
func (s *Store) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) (all []*task.Question, err error) {
	defer s.wrap(ctx, "look for what waits", &err)
	return s.readLists(ctx, listsOf(&f), f, after, limit)
}

// lists are those that together have each question that a filter lets pass.
type lists struct {
	names  []string
	others []bool // whether what Own asks is left out of the list; nil leaves out nothing

	// For Equal: those for one of these; nil is for anybody. The second ones belong to others.
	who, whoOthers []string
}

func listsOf(f *task.QuestionFilter) (l lists) {
	add := func(name string, others bool) { l.names, l.others = append(l.names, name), append(l.others, others) }
	all := f.For == nil && f.ForOthers == nil
	switch {
	case f.Equal != "" && check("", f.Equal) != nil:
	case f.Equal != "" && all:
		add("equal "+f.Equal, false)
	case f.Equal != "":
		l.who, l.whoOthers = list(storable(f.For)), list(storable(f.ForOthers))
		add("equal "+f.Equal, false)
		add("equal "+f.Equal, true)
	case all:
		add("", false)
	default:
		for _, who := range storable(f.For) {
			add("for "+who, false)
		}
		for _, who := range storable(f.ForOthers) {
			add("for "+who, true)
		}
	}
	return l
}

// readLists reads the first questions of some lists, in the order of a filter.
func (s *Store) readLists(
	ctx context.Context, l lists, f task.QuestionFilter, after *task.Question, limit int,
) ([]*task.Question, error) {
	sql := s.sql.asked
	switch {
	case f.ByDeadline:
		sql = s.sql.byDeadline
	case f.Newest:
		sql = s.sql.newest
	}
	var from, before *time.Time
	var id, key string
	if after != nil {
		from, id, key = &after.Asked, fit(after.Task), fit(after.Key)
		if f.ByDeadline {
			from = &after.Deadline
		}
	}
	if !f.Before.IsZero() {
		before = &f.Before
	}
	return collect(ctx, s, clients, scanQuestionRow, sql, list(l.names), from, id, key, before, storable(f.Targets),
		l.who, max(limit, 0), l.others, fit(f.Own), l.whoOthers)
}

// Overdue implements [task.Store].
func (s *Store) Overdue(ctx context.Context, limit int) (all []*task.Question, err error) {
	defer s.wrap(ctx, "look for deadlines that have passed", &err)
	return collect(ctx, s, clients, scanQuestionRow, s.sql.overdue, max(limit, 0))
}

// ChangeQuestion implements [task.Store].
func (s *Store) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) (err error) {
	defer s.wrap(ctx, "change a question", &err)
	if err := checkFor(q); err != nil {
		return err
	}
	for _, voter := range q.Voters {
		if err := check("Voters", voter); err != nil {
			return err
		}
	}
	var deadline *time.Time
	if !q.Deadline.IsZero() {
		at := q.Deadline.Truncate(time.Millisecond)
		deadline = &at
	}
	args := []any{
		lookup(q.Task), lookup(q.Key), q.Version, expired, list(q.For), deadline, optional(q.Votes), optional(q.Decision),
		list(q.Voters),
	}
	var why string
	var woken bool
	decided := len(q.Decision) > 0
	locked := func(sql string) error {
		return s.write(ctx, &write{
			id: q.Task, first: true, sql: sql, args: args,
			result: func(row pgx.Row) error { return row.Scan(&why, &woken) },
		})
	}
	if decided {
		err = locked(s.sql.decide)
	} else {
		// In a transaction with other writes it would keep its lock while they wait for theirs. However many vote, workers
		// have their connections.
		err = s.queryRow(ctx, clients, []any{&why, &woken}, s.sql.vote, args...)
		if err == nil && why == "moved" { // the task has to live longer
			err = locked(s.sql.move)
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return task.ErrNotFound
	case err != nil:
		return err
	case why != "":
		return questionErrors[why]
	}
	if q.Version, q.Status = q.Version+1, task.QuestionOpen; decided {
		q.Status = task.QuestionDecided
	}
	if woken {
		s.tell(q.Task, true)
	}
	return nil
}

const questionColumns = `q.task, q.key, q.principal, q.target, q.equal, q.who, q.content, q.asked, q.deadline, q.status,
	q.votes, q.voters, q.decision, q.version, q.changed`

func scanQuestionRow(row pgx.CollectableRow) (*task.Question, error) {
	var q task.Question
	var deadline *time.Time
	err := row.Scan(&q.Task, &q.Key, &q.Principal, &q.Target, &q.Equal, &q.For, &q.Content, &q.Asked,
		&deadline, (*string)(&q.Status), &q.Votes, &q.Voters, &q.Decision, &q.Version, &q.Changed)
	if err != nil {
		return nil, fmt.Errorf("read a question: %w", err)
	}
	if q.Asked, q.Changed = q.Asked.UTC(), q.Changed.UTC(); deadline != nil {
		q.Deadline = deadline.UTC()
	}
	if len(q.For) == 0 {
		q.For = nil
	}
	if len(q.Voters) == 0 {
		q.Voters = nil
	}
	return &q, nil
}

// ofPrincipal is the name of the list of a principal's questions.
func ofPrincipal(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "of " + hex.EncodeToString(sum[:])
}

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
