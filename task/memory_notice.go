package task

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"
)

// memoryOutbox has the notices of a [MemoryStore]. The zero value is empty.
type memoryOutbox struct {
	listening        int64 // until when somebody listens, in milliseconds since 1970
	named, anonymous int   // how many a principal may have; 0 is any number
	seq              int64 // the seq of the newest notice

	tasks   map[string][]*memoryNotice // by the ID of the task, in the order in which they were written
	turns   []*memoryNotice            // the first one of each task, by principal
	refused []*Notice
	counts  map[string]noticeCount // by principal
}

// noticeCount is how many notices of a principal there are.
type noticeCount struct{ kept, refused int }

// memoryNotice is a notice as the store has it. The store shares none of its bytes.
type memoryNotice struct {
	Notice
	seq   int64 // rises with each notice that is written
	dueAt int64 // the time at which it can be taken, in milliseconds since 1970
}

// Listen says that somebody listens for notices. See [Store].
func (s *MemoryStore) Listen(ctx context.Context, d time.Duration, named, anonymous int) error {
	return s.do(ctx, func(now int64) error {
		s.outbox.listening = max(s.outbox.listening, now+roundUp(d))
		s.outbox.named, s.outbox.anonymous = named, anonymous
		return nil
	})
}

// Notices takes notices. See [Store].
func (s *MemoryStore) Notices(ctx context.Context, c NoticeClaim) (notices []*Notice, err error) {
	err = s.do(ctx, func(now int64) error {
		for len(s.reminders) > 0 && s.reminders[0].remindAt <= now && now < s.outbox.listening {
			q := s.reminders[0]
			s.reminders = slices.Delete(s.reminders, 0, 1)
			q.remindAt = 0
			s.notify(q, NoticeDueSoon, now)
		}
		delivering := make(map[string]int)
		for principal, n := range c.Delivering {
			delivering[principal] = n
		}
		after := c.After
		for free := c.Free; free > 0; free-- {
			n := s.outbox.next(now, now-roundUp(c.Age), after, delivering, free)
			if n == nil {
				break
			}
			n.Attempts++
			s.outbox.postpone(n, now+roundUp(c.Lease))
			taken := n.Notice.clone()
			taken.Age = time.Duration(now-n.Written.UnixMilli()) * time.Millisecond
			notices = append(notices, taken)
			after = n.Question.Principal
			delivering[after]++
		}
		return nil
	})
	return notices, err
}

// next returns the notice that is to be taken next, if so many deliveries are free, of those that were written until a
// time.
func (o *memoryOutbox) next(now, until int64, after string, delivering map[string]int, free int) *memoryNotice {
	start := sort.Search(len(o.turns), func(i int) bool { return o.turns[i].Question.Principal > after })
	var best *memoryNotice
	fewest := free
	for _, part := range [][]*memoryNotice{o.turns[start:], o.turns[:start]} {
		for len(part) > 0 && fewest > 0 {
			principal := part[0].Question.Principal
			its := part[:sort.Search(len(part), func(i int) bool { return part[i].Question.Principal > principal })]
			if n := delivering[principal]; n < fewest {
				due := its[:sort.Search(len(its), func(i int) bool { return its[i].dueAt > now })]
				if i := slices.IndexFunc(due, func(n *memoryNotice) bool { return n.Written.UnixMilli() <= until }); i >= 0 {
					best, fewest = due[i], n
				}
			}
			part = part[len(its):]
		}
	}
	return best
}

// Settle deletes a notice, or lets it be taken again. See [Store].
func (s *MemoryStore) Settle(ctx context.Context, n *Notice, retry time.Duration) error {
	return s.do(ctx, func(now int64) error {
		o, id := &s.outbox, n.Question.Task
		its := o.tasks[id]
		if len(its) == 0 {
			return nil
		}
		first := its[0] // no other one of its task was ever taken
		if first.Kind != n.Kind || first.Question.Key != n.Question.Key || first.Attempts != n.Attempts {
			return nil
		}
		if retry > 0 {
			o.postpone(first, now+roundUp(retry))
			return nil
		}
		remove(&o.turns, first, longestUntaken)
		if its = slices.Delete(its, 0, 1); len(its) > 0 {
			o.tasks[id] = its
			insert(&o.turns, its[0], longestUntaken)
		} else {
			delete(o.tasks, id)
		}
		o.count(first.Question.Principal, -1, 0)
		return nil
	})
}

// Refused returns what was refused. See [Store].
func (s *MemoryStore) Refused(ctx context.Context, limit int) (notices []*Notice, err error) {
	err = s.do(ctx, func(int64) error {
		o := &s.outbox
		n := min(max(limit, 0), len(o.refused))
		notices = slices.Clone(o.refused[:n])
		o.refused = slices.Delete(o.refused, 0, n)
		for _, n := range notices {
			o.count(n.Question.Principal, 0, -1)
		}
		return nil
	})
	return notices, err
}

// notify leaves a notice of a question while somebody listens.
func (s *MemoryStore) notify(q *memoryQuestion, kind NoticeKind, now int64) {
	o, told := &s.outbox, kind == NoticeEnded && q.over
	q.over = q.over || kind == NoticeEnded
	if now >= o.listening || len(q.For) == 0 || told {
		return
	}
	n := &memoryNotice{Notice: *(&Notice{Kind: kind, Written: timeAt(now), Question: &Question{
		Task: q.Task, Key: q.Key, Principal: q.Principal, Target: q.Target, For: q.For, Notice: q.notice, Asked: q.Asked,
		Deadline: q.Deadline,
	}}).clone(), dueAt: now}
	most := o.named
	if q.Principal == "" {
		most = o.anonymous
	}
	switch has := o.count(q.Principal, 0, 0); {
	case most <= 0 || has.kept < most:
		o.count(q.Principal, 1, 0)
	case has.refused < RefusedKept:
		o.count(q.Principal, 0, 1)
		n.Question.Notice = nil
		o.refused = append(o.refused, &n.Notice)
		return
	default:
		return
	}
	o.seq++
	n.seq = o.seq
	if o.tasks == nil {
		o.tasks = make(map[string][]*memoryNotice)
	}
	its := append(o.tasks[q.Task], n)
	if o.tasks[q.Task] = its; len(its) == 1 {
		insert(&o.turns, n, longestUntaken)
	}
}

// count adds to what a principal has, and returns it.
func (o *memoryOutbox) count(principal string, kept, refused int) noticeCount {
	c := o.counts[principal]
	c.kept, c.refused = c.kept+kept, c.refused+refused
	switch {
	case c == noticeCount{}:
		delete(o.counts, principal)
	case o.counts == nil:
		o.counts = map[string]noticeCount{principal: c}
	default:
		o.counts[principal] = c
	}
	return c
}

// postpone makes a notice that is the first of its task due at another time.
func (o *memoryOutbox) postpone(n *memoryNotice, dueAt int64) {
	remove(&o.turns, n, longestUntaken)
	n.dueAt = dueAt
	insert(&o.turns, n, longestUntaken)
}

// clone returns a notice that shares nothing with n.
func (n *Notice) clone() *Notice {
	c := *n
	c.Question = n.Question.clone()
	return &c
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

// longestUntaken is the order of the notices that can be taken.
func longestUntaken(a, b *memoryNotice) int {
	return cmp.Or(cmp.Compare(a.Question.Principal, b.Question.Principal), cmp.Compare(a.dueAt, b.dueAt),
		cmp.Compare(a.seq, b.seq))
}

// remindedFirst is the order of reminders.
func remindedFirst(a, b *memoryQuestion) int {
	return cmp.Or(cmp.Compare(a.remindAt, b.remindAt), dueFirst(a, b))
}
