package home

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// putApart adds to the verdict of a run the questions that wait for people or for a time. The questions to the client
// come first: as long as there are any, no further question is put to people. A time begins to pass at once.
func (s *Stored) putApart(j *journal.Journal, out *call.Outcome, v *taskrun.Verdict) error {
	var awaited []string
	for i, q := range out.Questions {
		if q.Within == 0 {
			continue
		}
		p := &j.Pending[i]
		if err := s.put(v, p, &stored.Asking{}, q, nil); err != nil {
			return err
		}
	}
	for i, q := range out.Apart {
		p := &j.Apart[i]
		if len(out.Questions) > 0 && len(q.For) > 0 && !p.Known {
			continue
		}
		about := &stored.Asking{Method: q.Method, Params: q.Params(), Votes: q.Votes, Preview: q.Preview,
			Markdown: q.Markdown, Fallback: q.Fallback, Call: journal.Derived("call", j.ID)}
		if len(q.For) > 0 {
			if err := about.SetShown(s.request.Params.Arguments, q.For, s.request.Handler.Tool); err != nil {
				return fmt.Errorf("question %q: %w", p.Key, err)
			}
		}
		if err := s.put(v, p, about, q, q.For); err != nil {
			return err
		}
		if len(q.For) > 0 {
			awaited = append(awaited, s.waitsFor(q, p))
		}
	}
	if v.Ask == nil {
		return nil
	}
	if j.Asleep {
		slept := journal.Entry{Kind: journal.Slept}
		v.Entries = append(v.Entries, slept.Append(nil))
	}
	v.Status = task.InputRequired
	if v.Message = ""; len(out.Questions) == 0 && len(awaited) > 0 {
		slices.Sort(awaited)
		v.Message = question.Waits + strings.Join(slices.Compact(awaited), " and for ") + "."
	}
	if len(awaited) > 0 && s.work.Task.Principal != "" {
		v.TTL = s.desk.Keeps
	}
	return nil
}

// put adds a question to what is open while the task is parked.
func (s *Stored) put(
	v *taskrun.Verdict, p *journal.Question, about *stored.Asking, q *question.Question, to []string,
) error {
	about.Key, about.Digest = p.Key, p.Digest[:]
	content, err := stored.Encode(about)
	if err != nil {
		return fmt.Errorf("question %q: %w", p.Key, err)
	}
	row := &task.Question{
		Key: p.Row, For: to, Content: content, Within: q.Within,
		Remind: time.Duration(float64(q.Within) * s.desk.Remind),
	}
	if len(to) > 0 {
		if row.Notice, err = stored.Encode(about.Announce()); err != nil {
			return fmt.Errorf("question %q: %w", p.Key, err)
		}
		row.Equal = equalCalls(s.work.Task.Principal, s.work.Task.Target, s.request.Params.Arguments)
	}
	v.Ask = append(v.Ask, row)
	if !p.Known {
		mark := p.Put()
		v.Entries = append(v.Entries, mark.Append(nil))
	}
	return nil
}

// now reads the clock of the store, once. The zero time is nobody's.
func (s *Stored) now() time.Time {
	if s.asks.IsZero() {
		s.asks, _ = s.desk.Now(s.ctx)
	}
	return s.asks
}

// waitsFor says who is awaited, how many of them, and until when.
func (s *Stored) waitsFor(q *question.Question, p *journal.Question) string {
	var deadline time.Time
	if row := s.rows[p.Row]; row != nil { // it may have been extended
		deadline = row.Deadline
	} else if q.Within > 0 {
		now := s.now()
		if now.IsZero() { // these are words, and the deadline is the store's
			now = clock.Now(s.ctx)
		}
		deadline = now.Add(q.Within)
	}
	who := question.Awaited(q.For, q.Votes, deadline)
	if q.Fallback {
		who += question.AtDesk
	}
	return who
}

// equalCalls identifies the calls of a principal that are equal. It is empty for anonymous callers, who must not learn
// of each other's.
func equalCalls(principal, target string, arguments []byte) string {
	if principal == "" {
		return ""
	}
	if arguments == nil {
		arguments = []byte("{}")
	}
	digest := strictjson.Digest(arguments)
	key := []byte("askback equal call")
	for _, field := range []string{principal, target, string(digest[:])} {
		key = append(binary.AppendUvarint(key, uint64(len(field))), field...)
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// decided returns the entry that settles a question which an earlier run has put apart from the client's, or nil.
func (s *Stored) decided(key, row string, d journal.Digest) (*journal.Entry, error) {
	e, err := s.findDecision(key, row, d)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = err
	}
	return e, err
}

func (s *Stored) findDecision(key, row string, d journal.Digest) (*journal.Entry, error) {
	if s.rows == nil { // once in a run: what is decided meanwhile keeps the task from being parked
		rows, err := s.desk.Questions(s.ctx, task.Name(s.work.Task.ID))
		if err != nil {
			return nil, fmt.Errorf("reading the questions of the task: %w", err)
		}
		s.rows = make(map[string]*task.Question, len(rows))
		for _, q := range rows {
			s.rows[q.Key] = q
		}
	}
	q := s.rows[row]
	if q == nil || q.Status != task.QuestionDecided {
		return nil, nil
	}
	made, err := stored.DecodeDecision(q.Decision)
	if err != nil {
		return nil, err
	}
	others := func(by input.Provenance) bool { return by.Who != s.work.Task.Principal }
	if s.desk.Continues != nil && slices.ContainsFunc(made.By, others) {
		if err := s.desk.Continues(s.ctx); err != nil {
			return nil, err
		}
	}
	e := Settled(key, d, q, made)
	if s.desk.Receipts != nil && e.Kind == journal.Answer && len(q.For) > 0 {
		if e.Receipt, err = s.sign(key, q, made); err != nil {
			return nil, err
		}
	}
	s.tellDecided(key, d, q, made)
	return e, nil
}

// Settled returns the entry that records the decision of a question, with the key and the digest that its handler
// knows.
func Settled(key string, d journal.Digest, q *task.Question, made *stored.Decision) *journal.Entry {
	if made.Action == stored.Unanswered {
		e := (&journal.Question{Key: key, Digest: d, Asked: q.Asked, Deadline: q.Deadline}).Unanswered()
		return &e
	}
	value := fmt.Appendf(nil, `{"action":%q}`, made.Action)
	if made.Content != nil {
		value = slices.Concat([]byte(`{"action":"accept","content":`), made.Content, []byte("}"))
	}
	return &journal.Entry{Kind: journal.Answer, Key: key, Digest: d, Value: value, By: made.By}
}

// tellDecided tells the operator how a question was decided, and what each person answered.
func (s *Stored) tellDecided(key string, d journal.Digest, q *task.Question, made *stored.Decision) {
	if d == question.TimerDigest {
		return
	}
	s.request.Watch.Question(s.ctx, key, made.Action, q.Asked, made.When, q.Deadline)
	if s.desk.Tell == nil {
		return
	}
	event := report.AuditEvent{Key: key, Digest: d.String(), For: strings.Join(q.For, ",")}
	if ballot, err := stored.DecodeBallot(q.Votes); err == nil { // the decision is told in any case
		for _, v := range ballot.Votes {
			vote := event
			vote.Kind, vote.By, vote.Channel, vote.Why, vote.Action = report.AuditVoted, v.Who, v.Channel, v.Why, v.Action
			s.desk.Tell(vote)
		}
	}
	if event.Kind, event.Action = report.AuditDecided, made.Action; made.Action == stored.Unanswered {
		event.Kind, event.Action = report.AuditUnanswered, ""
	}
	s.desk.Tell(event)
}
