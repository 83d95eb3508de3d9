package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Questions. What keeps their lists, and withdraws them when their task ends, are triggers: see [schema].
const (
	questionColumns = `question.seq, id, question.key, principal, target, equal, people, content, asked, deadline,
		question.status, votes, voters, decision, question.version, changed`
	questionSelect = `SELECT ` + questionColumns + ` FROM question JOIN task ON task.seq = question.task`

	// '~' is after all that names are made of.
	questionsSQL = questionSelect + ` WHERE name >= ?1 AND name < ?1 || '~' ORDER BY name, asked, question.key`
	overdueSQL   = questionSelect + ` WHERE question.status = 'open' AND deadline <= ? ORDER BY deadline LIMIT ?`
	changesSQL   = questionSelect + ` WHERE people IS NOT NULL AND (changed, name, question.key) > (?, ?, ?)
		ORDER BY changed, name, question.key LIMIT ?`
	listedSQL = questionSelect + ` WHERE question.seq IN (SELECT value FROM json_each(?))`

	// A part of one list. With ?5 it is for one of those in it, which matters if the list is not the list of a name. With
	// ?9 it is of other principals.
	byAskedSQL = `SELECT question, asked, id, key FROM question_list AS l
		WHERE list = ?1 AND (asked, id, key) > (?2, ?3, ?4)` + listFilter + ` ORDER BY asked, id, key LIMIT ?8`
	newestSQL = `SELECT question, asked, id, key FROM question_list AS l
		WHERE list = ?1 AND (asked, id, key) < (?2, ?3, ?4)` + listFilter + `
		ORDER BY asked DESC, id DESC, key DESC LIMIT ?8`
	byDeadlineSQL = `SELECT question, deadline, id, key FROM question_list AS l
		WHERE list = ?1 AND deadline IS NOT NULL AND (deadline, id, key) > (?2, ?3, ?4)` + listFilter + `
		ORDER BY deadline, id, key LIMIT ?8`
	listFilter = ` AND asked < ?7 AND (?6 IS NULL OR target IN (SELECT value FROM json_each(?6)))
		AND (?5 IS NULL OR EXISTS (SELECT 1 FROM question_list AS m
			WHERE m.question = l.question AND m.list IN (SELECT '=' || value FROM json_each(?5))))
		AND (?9 IS NULL OR principal <> ?9)`

	questionSQL = `SELECT seq, task, version, status, deadline FROM question
		WHERE task = (SELECT seq FROM task WHERE id = ?) AND key = ?`
	namedSQL       = `SELECT seq, status FROM question WHERE task = ? AND key = ?`
	openSQL        = `SELECT seq, key FROM question WHERE task = ? AND status = 'open'`
	addQuestionSQL = `INSERT INTO question (task, key, name, status, version, asked, changed, deadline, remind, expired,
		equal, people, content, notice) VALUES (?1, ?2, ?3, 'open', 0, ?4, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10)`
	reopenSQL   = `UPDATE question SET status = 'open', version = version + 1, changed = ? WHERE seq = ?`
	withdrawSQL = `UPDATE question SET status = 'withdrawn', over = 1, version = version + 1, changed = ?
		WHERE seq = ? AND status = 'open'`
	changeQuestionSQL = `UPDATE question SET people = ?, deadline = ?2, remind = remind + ?2 - deadline, votes = ?,
		voters = ?, decision = ?, status = ?, expired = ?, changed = ?, version = version + 1 WHERE seq = ?`
	liveSQL      = `UPDATE task SET expires = max(expires, ?) WHERE seq = ? RETURNING expires`
	liveOnSQL    = `UPDATE task SET expires = max(expires, ? + ttl) WHERE seq = ?`
	dueAtOnceSQL = `UPDATE task SET status = 'working', due = ?1, wake = NULL, attempts = 0, version = version + 1,
		updated = ?1 WHERE seq = ?2 AND status = 'input_required'`
)

// Questions reads the questions of tasks whose names begin alike. See [task.Store].
func (s *Store) Questions(ctx context.Context, name string) (questions []*task.Question, err error) {
	defer s.wrap(ctx, "read the questions of a task", &err)
	return readQuestions(ctx, s.r[questionsSQL], name)
}

// Overdue finds open questions whose deadline has passed. See [task.Store].
func (s *Store) Overdue(ctx context.Context, limit int) (questions []*task.Question, err error) {
	defer s.wrap(ctx, "find overdue questions", &err)
	return readQuestions(ctx, s.r[overdueSQL], time.Now().UnixMilli(), max(limit, 0))
}

func readQuestions(ctx context.Context, stmt *sql.Stmt, args ...any) ([]*task.Question, error) {
	rows, err := collect(ctx, stmt, scanQuestion, args...)
	questions := make([]*task.Question, len(rows))
	for i, row := range rows {
		questions[i] = row.Question
	}
	return questions, err
}

// questionRow is a question and its place in the table.
type questionRow struct {
	*task.Question
	seq int64
}

// scanQuestion reads questionColumns.
func scanQuestion(rows *sql.Rows, to *questionRow) error {
	q := new(task.Question)
	to.Question = q
	var asked, changed int64
	var deadline sql.NullInt64
	var people, voters []byte
	if err := rows.Scan(&to.seq, &q.Task, &q.Key, &q.Principal, &q.Target, &q.Equal, &people, &q.Content,
		&asked, &deadline, &q.Status, &q.Votes, &voters, &q.Decision, &q.Version, &changed); err != nil {
		return err
	}
	q.Asked, q.Changed = timeAt(asked), timeAt(changed)
	if deadline.Valid {
		q.Deadline = timeAt(deadline.Int64)
	}
	return errors.Join(readNames(people, &q.For), readNames(voters, &q.Voters))
}

// listedQuestion is the place of a question in a list.
type listedQuestion struct {
	seq, at int64 // at is when it was asked, or its deadline
	id, key string
}

// Waiting reads open questions. See [task.Store].
func (s *Store) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) (questions []*task.Question, err error) {
	defer s.wrap(ctx, "read what waits", &err)
	return s.readLists(ctx, listsOf(&f), f, after, max(limit, 0))
}

// History reads questions of any status. See [task.Store].
func (s *Store) History(
	ctx context.Context, of task.QuestionHistory, after *task.Question, limit int,
) (questions []*task.Question, err error) {
	defer s.wrap(ctx, "read a history", &err)
	l := list{name: "!" + of.Principal}
	if of.Voter != "" {
		l.name = "+" + of.Voter
	}
	return s.readLists(ctx, []list{l}, task.QuestionFilter{Newest: true}, after, max(limit, 0))
}

// Changes reads questions in the order in which they were changed. See [task.Store].
func (s *Store) Changes(
	ctx context.Context, after *task.Question, limit int,
) (questions []*task.Question, now time.Time, err error) {
	defer s.wrap(ctx, "read what has changed", &err)
	now = timeAt(time.Now().UnixMilli())
	at, name, key := int64(math.MinInt64), "", ""
	if after != nil {
		at, key = after.Changed.UnixMilli(), after.Key
		if after.Task != "" {
			name = task.Name(after.Task)
		}
	}
	questions, err = readQuestions(ctx, s.r[changesSQL], at, name, key, max(limit, 0))
	return questions, now, err
}

// list is a list of questions, with what is to be left out of it.
type list struct {
	name   string
	people any // those for one of these, as JSON; nil is for anybody
	own    any // not of this principal; nil is of anybody
}

// listsOf returns the lists that together have each question that a filter lets pass.
func listsOf(f *task.QuestionFilter) (lists []list) {
	all := f.For == nil && f.ForOthers == nil
	switch {
	case f.Equal != "" && all:
		return []list{{name: "~" + f.Equal}}
	case f.Equal != "":
		return []list{
			{"~" + f.Equal, listOrNull(append([]string{}, f.For...)), nil},
			{"~" + f.Equal, listOrNull(append([]string{}, f.ForOthers...)), f.Own},
		}
	case !all:
		for _, who := range f.For {
			lists = append(lists, list{name: "=" + who})
		}
		for _, who := range f.ForOthers {
			lists = append(lists, list{name: "=" + who, own: f.Own})
		}
		return lists
	case f.Targets != nil:
		for _, target := range f.Targets {
			lists = append(lists, list{name: "@" + target})
		}
		return lists
	}
	return []list{{}}
}

// readLists reads the first questions of some lists, in the order of a filter.
func (s *Store) readLists(
	ctx context.Context, lists []list, f task.QuestionFilter, after *task.Question, limit int,
) (questions []*task.Question, err error) {
	// The lists and the rows are of one moment.
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	found, err := s.listed(ctx, tx, lists, f, after, limit)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	places := make(map[int64]int, len(found))
	seqs := make([]byte, 0, 8*len(found))
	for i, l := range found {
		places[l.seq] = i
		seqs = strconv.AppendInt(append(seqs, ','), l.seq, 10)
	}
	seqs[0] = '['
	rows, err := collect(ctx, tx.StmtContext(ctx, s.r[listedSQL]), scanQuestion, string(append(seqs, ']')))
	questions = make([]*task.Question, len(rows))
	for _, row := range rows {
		questions[places[row.seq]] = row.Question
	}
	return questions, err
}

// listed returns the places of the first questions of some lists.
func (s *Store) listed(
	ctx context.Context, tx *sql.Tx, lists []list, f task.QuestionFilter, after *task.Question, limit int,
) (found []listedQuestion, err error) {
	part, at, id, key, before := byAskedSQL, int64(math.MinInt64), "", "", int64(math.MaxInt64)
	order := func(a, b listedQuestion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id), cmp.Compare(a.key, b.key))
	}
	forward := order
	switch {
	case f.ByDeadline:
		part = byDeadlineSQL
	case f.Newest:
		part, at = newestSQL, math.MaxInt64
		order = func(a, b listedQuestion) int { return forward(b, a) }
	}
	if after != nil {
		at, id, key = after.Asked.UnixMilli(), after.Task, after.Key
		if f.ByDeadline {
			at = after.Deadline.UnixMilli()
		}
	}
	if !f.Before.IsZero() {
		before = f.Before.UnixMilli()
	}
	stmt := tx.StmtContext(ctx, s.r[part])
	for _, l := range lists {
		listed, err := collect(ctx, stmt, func(rows *sql.Rows, l *listedQuestion) error {
			return rows.Scan(&l.seq, &l.at, &l.id, &l.key)
		}, l.name, at, id, key, l.people, listOrNull(f.Targets), before, limit, l.own)
		if err != nil {
			return nil, err
		}
		found = append(found, listed...)
	}
	slices.SortFunc(found, order)
	found = slices.Compact(found)
	return found[:min(len(found), limit)], nil
}

// ChangeQuestion changes a question, and decides it. See [task.Store].
func (s *Store) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) (err error) {
	defer s.wrap(ctx, "change a question", &err)
	status := task.QuestionOpen
	if len(q.Decision) > 0 {
		status = task.QuestionDecided
	}
	people, voters := peopleOrNull(q.For), peopleOrNull(q.Voters)
	err = s.write(ctx, func(ctx context.Context, now int64) error {
		var seq, of, version int64
		var stored task.QuestionStatus
		var deadline sql.NullInt64
		err := s.w[questionSQL].QueryRowContext(ctx, q.Task, q.Key).Scan(&seq, &of, &version, &stored, &deadline)
		late := deadline.Valid && deadline.Int64 <= now
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return task.ErrNotFound
		case err != nil:
			return err
		case version != q.Version:
			return task.ErrConflict
		case stored != task.QuestionOpen:
			return task.ErrClosed
		case late && !expired:
			return task.ErrLate
		case expired && !late:
			return task.ErrEarly
		}
		_, err = s.w.exec(ctx, changeQuestionSQL, people, timeOrNull(q.Deadline), bytesOrNull(q.Votes),
			voters, bytesOrNull(q.Decision), string(status), expired, now, seq)
		if err == nil && !q.Deadline.IsZero() && q.Deadline.UnixMilli() != deadline.Int64 {
			_, err = s.live(ctx, of, q.Deadline.Add(task.AfterDeadline).UnixMilli())
		}
		if err != nil || status == task.QuestionOpen {
			return err
		}
		if _, err := s.w.exec(ctx, liveOnSQL, now, of); err != nil {
			return err
		}
		_, err = s.w.exec(ctx, dueAtOnceSQL, now, of)
		return err
	})
	if err != nil {
		return err
	}
	q.Version++
	q.Status = status
	return nil
}

// answered returns the open questions among those that a client has answered. Late says that one of them is no longer
// open, or that its deadline has passed.
func (s *Store) answered(
	ctx context.Context, id string, keys []string, now int64,
) (open []int64, late bool, err error) {
	for _, key := range keys {
		var seq, of, version int64
		var status task.QuestionStatus
		var deadline sql.NullInt64
		err := s.w[questionSQL].QueryRowContext(ctx, id, key).Scan(&seq, &of, &version, &status, &deadline)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, false, err
		case status != task.QuestionOpen || deadline.Valid && deadline.Int64 <= now:
			late = true
		default:
			open = append(open, seq)
		}
	}
	return open, late, nil
}

func (s *Store) withdrawAll(ctx context.Context, questions []int64, now int64) error {
	for _, seq := range questions {
		if _, err := s.w.exec(ctx, withdrawSQL, now, seq); err != nil {
			return err
		}
	}
	return nil
}

// ask sets which questions of a task are open, and returns until when the task has to live for those that are new. The
// error is [task.ErrDecided] if one of them was decided.
func (s *Store) ask(
	ctx context.Context, of int64, id string, questions []*task.Question, now int64,
) (until int64, err error) {
	asked := make(map[string]bool, len(questions))
	for _, q := range questions {
		asked[q.Key] = true
	}
	type row struct {
		seq int64
		key string
	}
	open, err := collect(ctx, s.w[openSQL], func(rows *sql.Rows, r *row) error { return rows.Scan(&r.seq, &r.key) }, of)
	if err != nil {
		return 0, err
	}
	var superfluous []int64
	for _, r := range open {
		if !asked[r.key] {
			superfluous = append(superfluous, r.seq)
		}
	}
	if err := s.withdrawAll(ctx, superfluous, now); err != nil {
		return 0, err
	}
	name := task.Name(id)
	for _, q := range questions {
		lives, err := s.askOne(ctx, of, name, q, now)
		if err != nil {
			return 0, err
		}
		until = max(until, lives)
	}
	return until, nil
}

// askOne opens a question of the task with this name, unless it is open. It returns until when the task has to live, if
// the question is new and has a deadline.
func (s *Store) askOne(
	ctx context.Context, of int64, name string, q *task.Question, now int64,
) (until int64, err error) {
	var seq int64
	var status task.QuestionStatus
	err = s.w[namedSQL].QueryRowContext(ctx, of, q.Key).Scan(&seq, &status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil || status == task.QuestionOpen:
		return 0, err
	case status == task.QuestionDecided:
		return 0, task.ErrDecided
	default:
		_, err = s.w.exec(ctx, reopenSQL, now, seq)
		return 0, err
	}
	people := peopleOrNull(q.For)
	var deadline, remind any
	if q.Within > 0 {
		deadline = now + ceil(q.Within)
		until = now + ceil(q.Within) + task.AfterDeadline.Milliseconds()
	}
	if q.Remind > 0 && deadline != nil && people != nil {
		remind = now + ceil(q.Remind)
	}
	_, err = s.w.exec(ctx, addQuestionSQL, of, q.Key, name, now, deadline, remind, q.Equal, people,
		bytesOrNull(q.Content), bytesOrNull(q.Notice))
	return until, err
}

// live makes a task live until a time at least, and returns when its time to live ends.
func (s *Store) live(ctx context.Context, seq, until int64) (expires int64, err error) {
	err = s.w[liveSQL].QueryRowContext(ctx, until, seq).Scan(&expires)
	return expires, err
}
