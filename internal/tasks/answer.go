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
	var taken []journal.Entry
	var reasons []journal.Refusal
	var round int
	t, err := s.Engine.Change(ctx, principal, id, func(t *task.Task) (*task.Update, error) {
		if err := allowed(t); err != nil {
			return nil, err
		}
		open, err := stored.DecodeQuestions(t.Pending)
		if err != nil {
			return nil, s.unreadable(ctx, err)
		}
		u := &task.Update{Keep: true}
		taken, reasons, round = nil, nil, t.Round+1
		var left, refused []stored.Question
		var j *journal.Journal // of the task, once it is needed
		for _, q := range open {
			raw, ok := responses[q.Wire]
			if !ok {
				left = append(left, q)
				continue
			}
			check, err := question.AcceptFor(q.Method, q.Params)
			if err != nil {
				return nil, s.unreadable(ctx, fmt.Errorf("a stored question: %w", err))
			}
			if _, unfit := check(raw); unfit != nil {
				if j == nil {
					if j, err = s.journalOf(ctx, t, u.Entries); err != nil {
						return nil, err
					}
				}
				digest := journal.Digest(q.Digest)
				reason, mark := j.Refuse(q.Key, digest, raw, question.Correctable(q.Method), unfit)
				if reasons = append(reasons, reason); reason.Final {
					return s.fail(t, call.Unanswerable(&reason)), nil
				}
				u.Entries = append(u.Entries, mark.Append(nil))
				if q.Method == input.MethodElicit {
					q.Params = question.AskAgain(q.Params, unfit)
				}
				refused = append(refused, q)
			} else {
				answer := journal.Entry{
					Kind: journal.Unread, Key: q.Key, Digest: journal.Digest(q.Digest), Value: raw,
					By: s.Calls.Provenance(t.Principal),
				}
				u.Entries = append(u.Entries, answer.Append(nil))
				taken = append(taken, answer)
			}
			delivered := journal.Entry{Kind: journal.Delivered, Key: q.Wire}
			u.Entries = append(u.Entries, delivered.Append(nil))
		}
		if len(left) == len(open) {
			return nil, nil
		}
		if len(refused) > 0 {
			// Each costs a round, so that nobody can make a journal grow without end.
			if t.Round++; t.Round > s.Calls.Limits.Rounds {
				limit := &fault.LimitError{Limit: "rounds per call", Max: int64(s.Calls.Limits.Rounds)}
				return s.fail(t, reasons[len(reasons)-1].LimitReached(limit)), nil
			}
			if refused, err = s.askAgain(ctx, t, left, refused, u.Entries); err != nil {
				return nil, err
			}
		}
		if left = append(left, refused...); len(left) > 0 {
			t.Pending, err = stored.EncodeQuestions(left)
			return u, err
		}
		t.Status, t.Pending = task.Working, nil
		u.Keep, u.Due = false, 0
		return u, nil
	})
	if err == nil && len(taken) > 0 && s.Calls.Audit != nil {
		s.tellAnswered(ctx, t, round, taken)
	}
	if err == nil && len(reasons) > 0 {
		callID := s.callID(ctx, t)
		for _, r := range reasons {
			call.LogRefused(ctx, s.Log, callID, t.Method, t.Target, round, r)
		}
	}
	return err
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
