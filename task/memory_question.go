package task

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"
)

// memoryQuestion is a question as the store has it. The store shares none of its bytes.
type memoryQuestion struct {
	Question
	remindAt int64 // when the deadline is near, in milliseconds since 1970; 0 if nobody is to be told
	over     bool  // it was withdrawn once, or its task has ended
	notice   []byte
}

// clone returns a question that shares nothing with q.
func (q *Question) clone() *Question {
	c := *q
	c.For, c.Voters = slices.Clone(q.For), slices.Clone(q.Voters)
	c.Content, c.Notice = bytes.Clone(q.Content), bytes.Clone(q.Notice)
	c.Votes, c.Decision = bytes.Clone(q.Votes), bytes.Clone(q.Decision)
	return &c
}

// late reports whether the deadline has passed, or is now.
func (q *Question) late(now int64) bool {
	return !q.Deadline.IsZero() && q.Deadline.UnixMilli() <= now
}

// inTurn returns the questions of the task in the order in which they were asked.
func (m *memoryTask) inTurn() (questions []*memoryQuestion) {
	for _, q := range m.questions {
		questions = append(questions, q)
	}
	slices.SortFunc(questions, askedFirst)
	return questions
}

// Questions reads the questions of tasks whose names begin alike. See [Store].
func (s *MemoryStore) Questions(ctx context.Context, name string) (questions []*Question, err error) {
	err = s.do(ctx, func(int64) error {
		i, _ := slices.BinarySearchFunc(s.named, &memoryTask{name: name}, firstNamed)
		for ; i < len(s.named) && strings.HasPrefix(s.named[i].name, name); i++ {
			for _, q := range s.named[i].inTurn() {
				questions = append(questions, q.clone())
			}
		}
		return nil
	})
	return questions, err
}

// Waiting reads open questions. See [Store].
func (s *MemoryStore) Waiting(
	ctx context.Context, f QuestionFilter, after *Question, limit int,
) (questions []*Question, err error) {
	order := askedFirst
	switch {
	case f.ByDeadline:
		order = dueFirst
	case f.Newest:
		order = newestAsked
	}
	err = s.do(ctx, func(int64) error {
		var found []*memoryQuestion // the first ones of each index
		for _, key := range f.keys() {
			n := 0
			for q := range s.waiting[key].in(f.ByDeadline).after(after, order, f.Newest && !f.ByDeadline) {
				if n >= limit {
					break
				}
				if f.matches(q) {
					found = append(found, q)
					n++
				}
			}
		}
		slices.SortFunc(found, order)
		questions = clones(slices.Compact(found), limit)
		return nil
	})
	return questions, err
}

// clones returns copies of up to limit questions.
func clones(found []*memoryQuestion, limit int) (questions []*Question) {
	for _, q := range found[:min(len(found), max(limit, 0))] {
		questions = append(questions, q.clone())
	}
	return questions
}

// History reads questions of a history. See [Store].
func (s *MemoryStore) History(
	ctx context.Context, of QuestionHistory, after *Question, limit int,
) (questions []*Question, err error) {
	key := waitingKey{byPrincipal, of.Principal}
	if of.Voter != "" {
		key = waitingKey{byVoter, of.Voter}
	}
	err = s.do(ctx, func(int64) error {
		for q := range s.waiting[key].in(false).after(after, newestAsked, true) {
			if len(questions) >= limit {
				break
			}
			questions = append(questions, q.clone())
		}
		return nil
	})
	return questions, err
}

// Changes reads questions in the order in which they were changed. See [Store].
func (s *MemoryStore) Changes(
	ctx context.Context, after *Question, limit int,
) (questions []*Question, now time.Time, err error) {
	err = s.do(ctx, func(at int64) error {
		now = timeAt(at)
		for q := range s.changes.after(after, changedFirst, false) {
			if len(questions) >= limit {
				break
			}
			questions = append(questions, q.clone())
		}
		return nil
	})
	return questions, now, err
}

// after yields the questions of an index that come after a place in an order; nil is the start. The index has the
// order, or its reverse.
func (x questionIndex) after(
	place *Question, order func(a, b *memoryQuestion) int, reverse bool,
) iter.Seq[*memoryQuestion] {
	n := len(x)
	from := 0
	if place != nil {
		p := &memoryQuestion{Question: *place}
		from = sort.Search(n, func(i int) bool {
			if reverse {
				i = n - 1 - i
			}
			return order(x[i], p) > 0
		})
	}
	return func(yield func(*memoryQuestion) bool) {
		for i := from; i < n; i++ {
			q := x[i]
			if reverse {
				q = x[n-1-i]
			}
			if !yield(q) {
				return
			}
		}
	}
}

// keys returns the indexes that together have each question that the filter lets pass.
func (f *QuestionFilter) keys() (keys []waitingKey) {
	switch {
	case f.Equal != "":
		return []waitingKey{{byEqual, f.Equal}}
	case f.For != nil || f.ForOthers != nil:
		for _, name := range slices.Concat(f.For, f.ForOthers) {
			keys = append(keys, waitingKey{byName, name})
		}
		return keys
	case f.Targets != nil:
		for _, target := range f.Targets {
			keys = append(keys, waitingKey{byTarget, target})
		}
		return keys
	}
	return []waitingKey{{index: forPeople}}
}

// matches reports whether the filter lets a question pass that is in one of its indexes.
func (f *QuestionFilter) matches(q *memoryQuestion) bool {
	isFor := func(names []string) bool {
		return slices.ContainsFunc(q.For, func(name string) bool { return slices.Contains(names, name) })
	}
	return (f.For == nil && f.ForOthers == nil || isFor(f.For) || q.Principal != f.Own && isFor(f.ForOthers)) &&
		matches(f.Targets, q.Target) && (f.Before.IsZero() || q.Asked.Before(f.Before))
}

// Overdue reads open questions whose deadline has passed. See [Store].
func (s *MemoryStore) Overdue(ctx context.Context, limit int) (questions []*Question, err error) {
	err = s.do(ctx, func(now int64) error {
		for _, q := range s.waiting[waitingKey{}].in(true) {
			if len(questions) >= limit || !q.late(now) {
				break
			}
			questions = append(questions, q.clone())
		}
		return nil
	})
	return questions, err
}

// ChangeQuestion changes a question, and decides it. See [Store].
func (s *MemoryStore) ChangeQuestion(ctx context.Context, q *Question, expired bool) error {
	return s.doTask(ctx, q.Task, nil, func(m *memoryTask, now int64) error {
		stored := m.questions[q.Key]
		switch {
		case stored == nil:
			return ErrNotFound
		case stored.Version != q.Version:
			return ErrConflict
		case stored.Status != QuestionOpen:
			return ErrClosed
		case stored.late(now) && !expired:
			return ErrLate
		case !stored.late(now) && expired:
			return ErrEarly
		}
		given, before := q.clone(), stored.For
		if !given.Deadline.IsZero() {
			given.Deadline = timeAt(given.Deadline.UnixMilli())
		}
		s.moveQuestion(stored, now, func() {
			stored.moveReminder(given.Deadline)
			stored.For, stored.Deadline = given.For, given.Deadline
			stored.Votes, stored.Voters, stored.Decision = given.Votes, given.Voters, given.Decision
			if len(given.Decision) > 0 {
				stored.Status = QuestionDecided
			}
		})
		q.Version, q.Status = stored.Version, stored.Status
		s.change(m, func() {
			m.outlive(stored)
			if stored.Status == QuestionDecided {
				m.live(now + m.ttl)
			}
		})
		if stored.Status != QuestionDecided {
			if !slices.Equal(before, stored.For) && len(stored.For) > 0 {
				s.logEvent(m, EventAsked, stored.Key, now, stored.For)
			}
			return nil
		}
		kind, event := NoticeDecided, EventDecided
		if expired {
			kind, event = NoticeUnanswered, EventUnanswered
		}
		s.notify(stored, kind, now)
		if len(stored.For) > 0 {
			s.logEvent(m, event, stored.Key, now, stored.For)
		}
		if m.Status == InputRequired {
			s.change(m, func() {
				m.Status, m.Attempts = Working, 0
				m.Updated, m.Version = timeAt(now), m.Version+1
				m.scheduled, m.dueAt = true, now
			})
			s.changed(m.ID, true)
		}
		return nil
	})
}

// checkQuestions returns the error that the questions of a task have for an update. If it asks, its Ask counts.
func (m *memoryTask) checkQuestions(u Update, asks bool, now int64) error {
	for _, key := range u.Answered {
		if q := m.questions[key]; q != nil && (q.Status != QuestionOpen || q.late(now)) {
			return ErrLate
		}
	}
	if !asks {
		return nil
	}
	for _, ask := range u.Ask {
		if q := m.questions[ask.Key]; q != nil && q.Status == QuestionDecided {
			return ErrDecided
		}
	}
	return nil
}

// updateQuestions does with the questions of a task what an update of it does. If it asks, its Ask counts; ends says
// that it ends the task.
func (s *MemoryStore) updateQuestions(m *memoryTask, u Update, asks, ends bool, now int64) {
	for _, key := range u.Answered {
		if q := m.questions[key]; q != nil {
			s.withdraw(q, now)
		}
	}
	switch {
	case asks:
		asked := make(map[string]bool, len(u.Ask))
		for _, ask := range u.Ask {
			asked[ask.Key] = true
			s.ask(m, ask, now)
		}
		for _, q := range m.inTurn() {
			if !asked[q.Key] {
				s.withdraw(q, now)
			}
		}
	case ends:
		for _, q := range m.inTurn() {
			s.withdraw(q, now)
			s.notify(q, NoticeEnded, now)
		}
	}
}

// ask opens a question of a task, unless it is open.
func (s *MemoryStore) ask(m *memoryTask, ask *Question, now int64) {
	q := m.questions[ask.Key]
	switch {
	case q == nil:
	case q.Status == QuestionWithdrawn:
		s.moveQuestion(q, now, func() { q.Status = QuestionOpen })
		return
	default:
		return
	}
	q = &memoryQuestion{Question: *ask.clone()}
	q.notice, q.Notice = q.Notice, nil
	q.Task, q.Principal, q.Target = m.ID, m.Principal, m.Target
	q.Status, q.Votes, q.Voters, q.Decision, q.Version = QuestionOpen, nil, nil, nil, 0
	q.Asked, q.Changed, q.Deadline = timeAt(now), timeAt(now), time.Time{}
	if q.Within > 0 {
		q.Deadline = timeAt(now + roundUp(q.Within))
		if q.Remind > 0 {
			q.remindAt = now + roundUp(q.Remind)
		}
	}
	q.Within, q.Remind = 0, 0
	if m.questions == nil {
		m.questions, m.name = make(map[string]*memoryQuestion), Name(m.ID)
		insert(&s.named, m, firstNamed)
	}
	m.questions[q.Key] = q
	s.eachQuestionIndex(q, insert)
	s.change(m, func() { m.outlive(q) })
	s.notify(q, NoticeAsked, now)
	if len(q.For) > 0 {
		s.logEvent(m, EventAsked, q.Key, now, q.For)
	}
}

// outlive makes the task outlive the deadline of a question.
func (m *memoryTask) outlive(q *memoryQuestion) {
	if !q.Deadline.IsZero() {
		m.live(q.Deadline.Add(AfterDeadline).UnixMilli())
	}
}

// withdraw withdraws a question of a task if it is open.
func (s *MemoryStore) withdraw(q *memoryQuestion, now int64) {
	if q.Status == QuestionOpen {
		s.moveQuestion(q, now, func() { q.Status = QuestionWithdrawn })
		s.notify(q, NoticeEnded, now)
	}
}

// moveQuestion changes a question, which gets another Version and another place in the indexes.
func (s *MemoryStore) moveQuestion(q *memoryQuestion, now int64, change func()) {
	s.eachQuestionIndex(q, remove)
	change()
	q.Version++
	q.Changed = timeAt(now)
	s.eachQuestionIndex(q, insert)
}

// deleteQuestions deletes the questions of a task that has ended.
func (s *MemoryStore) deleteQuestions(m *memoryTask) {
	for _, q := range m.questions {
		s.eachQuestionIndex(q, remove)
	}
	remove(&s.named, m, firstNamed)
}

// firstNamed is the order of names.
func firstNamed(a, b *memoryTask) int { return cmp.Compare(a.name, b.name) }

// waitingIndex holds questions: all in the order in which they were asked, and those with a deadline in the order of
// that.
type waitingIndex struct{ asked, due questionIndex }

// in returns the questions in an order. A nil waitingIndex has none.
func (x *waitingIndex) in(byDeadline bool) questionIndex {
	switch {
	case x == nil:
		return nil
	case byDeadline:
		return x.due
	}
	return x.asked
}

// questionIndex holds questions in an order.
type questionIndex []*memoryQuestion

// waitingKey names a waitingIndex. The zero value names the list of all open questions.
type waitingKey struct{ index, value string }

// The indexes of questions for people. The first ones have the open ones only.
const (
	forPeople = "all"
	byName    = "for"
	byTarget  = "target"
	byEqual   = "equal"

	// Questions of any status.
	byVoter     = "voter"
	byPrincipal = "principal"
)

// eachQuestionIndex calls do with each index that a question belongs to.
func (s *MemoryStore) eachQuestionIndex(
	q *memoryQuestion, do func(*questionIndex, *memoryQuestion, func(a, b *memoryQuestion) int),
) {
	open, forPerson := q.Status == QuestionOpen, len(q.For) > 0
	var keys []waitingKey
	add := func(index, value string) { keys = append(keys, waitingKey{index, value}) }
	if open {
		add("", "")
	}
	if open && forPerson {
		add(forPeople, "")
		add(byTarget, q.Target)
		if q.Equal != "" {
			add(byEqual, q.Equal)
		}
		for _, name := range q.For {
			add(byName, name)
		}
	}
	if forPerson {
		add(byPrincipal, q.Principal)
		for _, name := range q.Voters {
			add(byVoter, name)
		}
		do(&s.changes, q, changedFirst)
	}
	for _, key := range keys {
		x := s.waiting[key]
		if x == nil {
			x = new(waitingIndex)
			s.waiting[key] = x
		}
		do(&x.asked, q, askedFirst)
		if !q.Deadline.IsZero() {
			do(&x.due, q, dueFirst)
		}
		if len(x.asked) == 0 {
			delete(s.waiting, key)
		}
	}
	if open && q.remindAt != 0 {
		do(&s.reminders, q, remindedFirst)
	}
}

// askedFirst is the order in which questions were asked.
func askedFirst(a, b *memoryQuestion) int {
	return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Key, b.Key))
}

// newestAsked is the reverse of askedFirst.
func newestAsked(a, b *memoryQuestion) int { return askedFirst(b, a) }

// changedFirst is the order of the last changes.
func changedFirst(a, b *memoryQuestion) int {
	if c := a.Changed.Compare(b.Changed); c != 0 || a.Task == b.Task {
		return cmp.Or(c, cmp.Compare(a.Key, b.Key))
	}
	return cmp.Compare(placeOf(a.Task), placeOf(b.Task))
}

// placeOf returns the name of a task. Without a task it is before all names.
func placeOf(id string) string {
	if id == "" {
		return ""
	}
	return Name(id)
}

// dueFirst is the order of deadlines.
func dueFirst(a, b *memoryQuestion) int {
	return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Key, b.Key))
}
