package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// answer gives a parked task the answers to its open questions:
//
//  1. An answer to no open question is ignored.
//  2. An answer that does not fit its question uses up the question's key, and the question is
//     asked again under another key.
//  3. When no question is left, the task goes on, unless it runs already.
//  4. An answer that comes after the deadline of its question does not count, but the others do. The result has the
//     keys of such questions on the wire.
//
// The error of allowed ends it. Measured says that the responses tell how long after their questions they came.
func (s *Service) answer(
	ctx context.Context, principal, id string, allowed func(*task.Task) error, responses map[string][]byte,
	measured bool,
) (missed []string, err error) {
	var a *answering
	var late []string
	answer := func() (*task.Task, error) {
		return s.Engine.Change(ctx, principal, id, func(t *task.Task) (*task.Update, error) {
			a = &answering{Service: s, task: t, update: &task.Update{Keep: true}, round: t.Round + 1, late: late}
			if err := allowed(t); err != nil {
				return nil, err
			}
			return a.take(ctx, responses, measured)
		})
	}
	t, err := answer()
	for errors.Is(err, task.ErrLate) {
		var more []string
		if more, err = a.lateRows(ctx, id); err == nil {
			late = append(late, more...)
			t, err = answer()
		}
	}
	if err != nil {
		return nil, err
	}
	if len(a.taken) > 0 && s.Calls.Audit != nil {
		a.tell(ctx, t)
	}
	if err := a.findMissed(ctx, id, responses); err != nil {
		return nil, err
	}
	if len(a.reasons) == 0 && len(a.missed) == 0 {
		return nil, nil
	}
	callID := a.callID(ctx, t)
	for _, r := range a.reasons {
		call.LogRefused(ctx, s.Log, callID, t.Method, t.Target, a.round, r)
	}
	for _, q := range a.missed {
		call.LogLate(ctx, s.Log, callID, t.Method, t.Target, a.round, q.Key)
		s.Calls.Audit.Tell(ctx, report.AuditEvent{
			Kind: report.AuditRefused, Principal: t.Principal, Method: t.Method, Target: t.Target,
			Call: callID, Task: task.Name(t.ID), Round: a.round, Key: q.Key, Reason: report.Late,
		})
		missed = append(missed, q.Wire)
	}
	return missed, nil
}

// findMissed finds the answers to questions of the client that are no longer among the open ones, because their
// deadline has passed.
func (a *answering) findMissed(ctx context.Context, id string, responses map[string][]byte) error {
	closed := func(wire string) bool {
		return !slices.ContainsFunc(a.open, func(q stored.Question) bool { return q.Wire == wire })
	}
	unknown := false
	for wire := range responses {
		unknown = unknown || closed(wire)
	}
	if !unknown {
		return nil
	}
	rows, err := a.Engine.Questions(ctx, task.Name(id))
	for _, q := range rows {
		if responses[q.Key] == nil || !closed(q.Key) || len(q.For) > 0 || q.Status != task.QuestionDecided {
			continue
		}
		if about, err := stored.DecodeAsking(q.Content); err == nil {
			a.missed = append(a.missed, stored.Question{Wire: q.Key, Key: about.Key})
		}
	}
	return err
}

// lateRows returns the rows of what was answered that are closed, or past their deadline by the clock of the store.
func (a *answering) lateRows(ctx context.Context, id string) (late []string, err error) {
	keys := a.update.Answered
	rows, err := a.Engine.Questions(ctx, task.Name(id))
	if err != nil {
		return nil, err
	}
	now, err := a.Engine.Now(ctx)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(q *task.Question) bool { return !slices.Contains(keys, q.Key) })
	for _, q := range rows {
		if q.Status != task.QuestionOpen || !q.Deadline.IsZero() && !now.Before(q.Deadline) {
			late = append(late, q.Key)
		}
	}
	if len(rows) == 0 { // the task was deleted meanwhile, which the next attempt finds out
		return keys, nil
	}
	return late, nil
}

// answering is one attempt to give a parked task its answers.
type answering struct {
	*Service
	task    *task.Task
	update  *task.Update
	round   int              // of the answers
	journal *journal.Journal // of the task, once it is needed

	now           time.Time // by the clock of the store, once there is an answer
	late          []string  // the rows of questions whose deadline has passed
	open          []stored.Question
	left, refused []stored.Question // have no answer; are asked again
	missed        []stored.Question // have an answer that came too late
	taken         []journal.Entry
	reasons       []journal.Refusal // of the answers that do not fit
}

// take returns the update that the answers make, or nil if there are none.
func (a *answering) take(ctx context.Context, responses map[string][]byte, measured bool) (*task.Update, error) {
	open, err := stored.DecodeQuestions(a.task.Pending)
	if err != nil {
		return nil, a.unreadable(ctx, err)
	}
	a.open = open
	for _, q := range open {
		raw, ok := responses[q.Wire]
		isLate := q.Row != "" && slices.Contains(a.late, q.Row)
		if ok && isLate {
			a.missed = append(a.missed, q)
		}
		if !ok || isLate {
			a.left = append(a.left, q)
			continue
		}
		if a.now.IsZero() {
			if a.now, err = a.Engine.Now(ctx); err != nil {
				return nil, err
			}
		}
		if !measured {
			raw = question.WithAfter(raw, a.since(&q))
		}
		if final, err := a.read(ctx, q, raw); final != nil || err != nil {
			return final, err
		}
	}
	if len(a.left) == len(open) {
		return nil, nil
	}
	if len(a.refused) > 0 {
		// Each costs a round, so that nobody can make a journal grow without end.
		a.task.Round++
		j, err := a.journalOf(ctx, a.task, a.update.Entries)
		if err != nil {
			return nil, err
		}
		if j.Counted() > a.Calls.Limits.Rounds {
			limit := &fault.LimitError{Limit: "rounds per call", Max: int64(a.Calls.Limits.Rounds)}
			return fail(a.task, a.reasons[len(a.reasons)-1].LimitReached(limit)), nil
		}
		askAgain(j, a.left, a.refused)
	}
	if left := append(a.left, a.refused...); len(left) > 0 {
		a.task.Pending, err = stored.EncodeQuestions(left)
		return a.update, err
	}
	// A task that works has a worker, whose outcome is refused now, or soon will have one.
	a.update.Keep = a.task.Status == task.Working
	a.task.Status, a.task.Pending = task.Working, nil
	return a.update, nil
}

// since returns how long ago a question was asked. Less than zero means that nobody knows.
func (a *answering) since(q *stored.Question) time.Duration {
	if a.Desk == nil || q.Asked == 0 {
		return -1
	}
	return a.now.Sub(q.AskedAt())
}

// read records the answer to a question, or that it does not fit. If the task fails because of that, it returns the
// final update.
func (a *answering) read(ctx context.Context, q stored.Question, raw []byte) (final *task.Update, err error) {
	check, err := question.AcceptFor(q.Method, q.Params)
	if err != nil {
		return nil, a.unreadable(ctx, fmt.Errorf("a stored question: %w", err))
	}
	digest := journal.Digest(q.Digest)
	if _, unfit := check(raw); unfit != nil {
		if a.journal == nil {
			if a.journal, err = a.journalOf(ctx, a.task, a.update.Entries); err != nil {
				return nil, err
			}
		}
		reason, mark := a.journal.Refuse(q.Key, digest, raw, question.Correctable(q.Method), unfit)
		if a.reasons = append(a.reasons, reason); reason.Final {
			return fail(a.task, call.Unanswerable(&reason)), nil
		}
		a.record(mark)
		if q.Method == input.MethodElicit {
			q.Params = question.AskAgain(q.Params, unfit)
		}
		a.refused = append(a.refused, q)
	} else {
		answer := journal.Entry{
			Kind: journal.Unread, Key: q.Key, Digest: digest, Value: raw, By: call.Provenance(a.task.Principal, a.now),
		}
		a.record(answer)
		if q.Row != "" {
			a.update.Answered = append(a.update.Answered, q.Row)
		}
		a.taken = append(a.taken, answer)
	}
	a.record(journal.Entry{Kind: journal.Delivered, Key: q.Wire})
	return nil, nil
}

func (a *answering) record(e journal.Entry) {
	a.update.Entries = append(a.update.Entries, e.Append(nil))
}

// callID returns the public ID of a task's call, or "" if it cannot be read, which the task's next run reports.
func (a *answering) callID(ctx context.Context, t *task.Task) string {
	data, _, err := a.Engine.Journal(ctx, t.ID, 0)
	if err != nil {
		return ""
	}
	began, err := stored.DecodeCall(data)
	if err != nil {
		return ""
	}
	return journal.Derived("call", began.ID)
}

// tell tells the operator of the answers that a task has got.
func (a *answering) tell(ctx context.Context, t *task.Task) {
	callID := a.callID(ctx, t)
	for _, taken := range a.taken {
		e := call.Answered(taken.Key, taken.Digest, taken.Value)
		e.Principal, e.Method, e.Target = t.Principal, t.Method, t.Target
		e.Call, e.Task, e.Round = callID, task.Name(t.ID), a.round
		a.Calls.Audit.Tell(ctx, e)
	}
}

// fail fails a parked task, whose handler then cleans up.
func fail(t *task.Task, err error) *task.Update {
	sent := fault.Wire(err)
	u := &task.Update{Keep: t.Status == task.Working} // then it has a worker, or soon will have one
	t.Status, t.Message, t.Pending, t.Outcome = task.Failed, sent.Message, nil, stored.EncodeFault(sent)
	t.Stopped, t.Attempts = true, 0
	return u
}

// journalOf returns the journal of a task, with more entries.
func (a *answering) journalOf(ctx context.Context, t *task.Task, more [][]byte) (*journal.Journal, error) {
	_, entries, err := a.Engine.Journal(ctx, t.ID, -1)
	if err != nil {
		return nil, err
	}
	j, err := stored.DecodeJournal("", t.Round, slices.Concat(entries, more))
	if err != nil {
		return nil, a.unreadable(ctx, err)
	}
	return j, nil
}

// askAgain gives refused questions keys that were never used in their task, whose journal is j.
func askAgain(j *journal.Journal, left, refused []stored.Question) {
	for _, q := range left {
		j.Pending = append(j.Pending, journal.Question{Wire: q.Wire})
	}
	for i := range refused {
		refused[i].Wire = j.WireKey(refused[i].Key)
		j.Pending = append(j.Pending, journal.Question{Wire: refused[i].Wire})
	}
}
