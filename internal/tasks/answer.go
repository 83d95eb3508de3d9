package tasks

import (
	"context"
	"fmt"
	"slices"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// answer gives a parked task the answers to its open questions:
//
//  1. An answer to no open question is ignored.
//  2. An answer that does not fit its question uses up the question's key, and the question is
//     asked again under another key.
//  3. When no question is left, the task goes on.
//
// The error of allowed ends it.
func (s *Service) answer(
	ctx context.Context, principal, id string, allowed func(*task.Task) error, responses map[string][]byte,
) error {
	var a *answering
	t, err := s.Engine.Change(ctx, principal, id, func(t *task.Task) (*task.Update, error) {
		a = &answering{Service: s, task: t, update: &task.Update{Keep: true}, round: t.Round + 1}
		if err := allowed(t); err != nil {
			return nil, err
		}
		return a.take(ctx, responses)
	})
	if err != nil {
		return err
	}
	if len(a.taken) > 0 && s.Calls.Audit != nil {
		s.tellAnswered(ctx, t, a.round, a.taken)
	}
	if len(a.reasons) > 0 {
		callID := s.callID(ctx, t)
		for _, r := range a.reasons {
			call.LogRefused(ctx, s.Log, callID, t.Method, t.Target, a.round, r)
		}
	}
	return nil
}

// answering is one attempt to give a parked task its answers.
type answering struct {
	*Service
	task    *task.Task
	update  *task.Update
	round   int              // of the answers
	journal *journal.Journal // of the task, once it is needed

	left, refused []stored.Question // have no answer; are asked again
	taken         []journal.Entry
	reasons       []journal.Refusal // of the answers that do not fit
}

// take returns the update that the answers make, or nil if there are none.
func (a *answering) take(ctx context.Context, responses map[string][]byte) (*task.Update, error) {
	open, err := stored.DecodeQuestions(a.task.Pending)
	if err != nil {
		return nil, a.unreadable(ctx, err)
	}
	for _, q := range open {
		raw, ok := responses[q.Wire]
		if !ok {
			a.left = append(a.left, q)
			continue
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
		if a.task.Round++; a.task.Round > a.Calls.Limits.Rounds {
			limit := &fault.LimitError{Limit: "rounds per call", Max: int64(a.Calls.Limits.Rounds)}
			return a.fail(a.task, a.reasons[len(a.reasons)-1].LimitReached(limit)), nil
		}
		if a.refused, err = a.askAgain(ctx, a.task, a.left, a.refused, a.update.Entries); err != nil {
			return nil, err
		}
	}
	if left := append(a.left, a.refused...); len(left) > 0 {
		a.task.Pending, err = stored.EncodeQuestions(left)
		return a.update, err
	}
	a.task.Status, a.task.Pending = task.Working, nil
	a.update.Keep, a.update.Due = false, 0
	return a.update, nil
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
			return a.fail(a.task, call.Unanswerable(&reason)), nil
		}
		a.record(mark)
		if q.Method == input.MethodElicit {
			q.Params = question.AskAgain(q.Params, unfit)
		}
		a.refused = append(a.refused, q)
	} else {
		answer := journal.Entry{
			Kind: journal.Unread, Key: q.Key, Digest: digest, Value: raw, By: a.Calls.Provenance(a.task.Principal),
		}
		a.record(answer)
		a.taken = append(a.taken, answer)
	}
	a.record(journal.Entry{Kind: journal.Delivered, Key: q.Wire})
	return nil, nil
}

func (a *answering) record(e journal.Entry) {
	a.update.Entries = append(a.update.Entries, e.Append(nil))
}

// callID returns the public ID of a task's call, or "" if it cannot be read, which the task's next run reports.
func (s *Service) callID(ctx context.Context, t *task.Task) string {
	data, _, err := s.Engine.Journal(ctx, t.ID)
	if err != nil {
		return ""
	}
	began, err := stored.DecodeCall(data)
	if err != nil {
		return ""
	}
	return journal.Derived("call", began.ID)
}

// tellAnswered tells the operator of the answers that a task has got.
func (s *Service) tellAnswered(ctx context.Context, t *task.Task, round int, answers []journal.Entry) {
	callID := s.callID(ctx, t)
	for _, a := range answers {
		e := call.Answered(a.Key, a.Digest, a.Value)
		e.Principal, e.Method, e.Target = t.Principal, t.Method, t.Target
		e.Call, e.Task, e.Round = callID, task.Name(t.ID), round
		s.Calls.Audit.Tell(ctx, e)
	}
}

// fail fails a parked task, whose handler then cleans up.
func (s *Service) fail(t *task.Task, err error) *task.Update {
	sent := fault.Wire(err)
	t.Status, t.Message, t.Pending, t.Outcome = task.Failed, sent.Message, nil, stored.EncodeFault(sent)
	t.Stopped, t.Attempts = true, 0
	return &task.Update{}
}

// journalOf returns the journal of a task, with more entries.
func (s *Service) journalOf(ctx context.Context, t *task.Task, more [][]byte) (*journal.Journal, error) {
	_, entries, err := s.Engine.Journal(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	j, err := stored.DecodeJournal("", t.Round, slices.Concat(entries, more))
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	return j, nil
}

// askAgain gives refused questions keys that were never used in their task.
func (s *Service) askAgain(
	ctx context.Context, t *task.Task, left, refused []stored.Question, more [][]byte,
) ([]stored.Question, error) {
	j, err := s.journalOf(ctx, t, more)
	if err != nil {
		return nil, err
	}
	for _, q := range left {
		j.Pending = append(j.Pending, journal.Question{Wire: q.Wire})
	}
	for i := range refused {
		refused[i].Wire = j.WireKey(refused[i].Key)
		j.Pending = append(j.Pending, journal.Question{Wire: refused[i].Wire})
	}
	return refused, nil
}
