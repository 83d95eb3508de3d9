package task

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// memoryNotice is a notice as the store has it. Its Question is nil: a reader gets the question as it is then.
type memoryNotice struct {
	Notice
	of    *memoryQuestion
	seq   int64 // rises with each notice that is written
	dueAt int64 // the time at which it can be taken, in milliseconds since 1970
}

// Listen says that somebody listens for notices. See [Outbox].
func (s *MemoryStore) Listen(ctx context.Context, d time.Duration) error {
	return s.do(ctx, func(now int64) error {
		s.listening = max(s.listening, now+roundUp(d))
		return nil
	})
}

// Notices takes notices. See [Outbox].
func (s *MemoryStore) Notices(ctx context.Context, lease time.Duration, limit int) (notices []*Notice, err error) {
	err = s.do(ctx, func(now int64) error {
		for len(s.reminders) > 0 && s.reminders[0].remindAt <= now && now < s.listening {
			q := s.reminders[0]
			s.reminders = slices.Delete(s.reminders, 0, 1)
			q.remindAt = 0
			s.notify(s.tasks[q.Task], q, NoticeDueSoon, now)
		}
		due := 0
		for due < len(s.outbox) && due < limit && s.outbox[due].dueAt <= now {
			due++
		}
		for _, n := range slices.Clone(s.outbox[:due]) {
			n.Attempts++
			s.postpone(n, now+roundUp(lease))
			taken := n.Notice
			taken.Question = n.of.clone()
			notices = append(notices, &taken)
		}
		return nil
	})
	return notices, err
}

// Settle deletes a notice, or lets it be taken again. See [Outbox].
func (s *MemoryStore) Settle(ctx context.Context, n *Notice, retry time.Duration) error {
	return s.do(ctx, func(now int64) error {
		m := s.tasks[n.Question.Task]
		if m == nil || len(m.notices) == 0 {
			return nil
		}
		first := m.notices[0] // no other one of its task was ever taken
		if first.Kind != n.Kind || first.of.Key != n.Question.Key || first.Attempts != n.Attempts {
			return nil
		}
		if retry > 0 {
			s.postpone(first, now+roundUp(retry))
			return nil
		}
		remove(&s.outbox, first, longestUntaken)
		if m.notices = slices.Delete(m.notices, 0, 1); len(m.notices) > 0 {
			insert(&s.outbox, m.notices[0], longestUntaken)
		}
		return nil
	})
}

// notify leaves a notice of a question while somebody listens, unless the question has had one of its kind.
func (s *MemoryStore) notify(m *memoryTask, q *memoryQuestion, kind NoticeKind, now int64) {
	if now >= s.listening || len(q.For) == 0 || slices.Contains(q.told, kind) {
		return
	}
	q.told = append(q.told, kind)
	s.noticeSeq++
	n := &memoryNotice{Notice: Notice{Kind: kind, Written: timeAt(now)}, of: q, seq: s.noticeSeq, dueAt: now}
	if m.notices = append(m.notices, n); len(m.notices) == 1 {
		insert(&s.outbox, n, longestUntaken)
	}
}

// postpone makes a notice that is in the outbox due at another time.
func (s *MemoryStore) postpone(n *memoryNotice, dueAt int64) {
	remove(&s.outbox, n, longestUntaken)
	n.dueAt = dueAt
	insert(&s.outbox, n, longestUntaken)
}

// moveReminder moves the notice that the deadline is near with the deadline.
func (q *memoryQuestion) moveReminder(deadline time.Time) {
	switch {
	case q.remindAt == 0:
	case q.Deadline.IsZero() || deadline.IsZero():
		q.remindAt = 0
	default:
		q.remindAt += deadline.UnixMilli() - q.Deadline.UnixMilli()
	}
}

// longestUntaken is the order of the outbox.
func longestUntaken(a, b *memoryNotice) int {
	return cmp.Or(cmp.Compare(a.dueAt, b.dueAt), cmp.Compare(a.seq, b.seq))
}

// remindedFirst is the order of reminders.
func remindedFirst(a, b *memoryQuestion) int {
	return cmp.Or(cmp.Compare(a.remindAt, b.remindAt), dueFirst(a, b))
}
