package law

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// stores tells the instances on one store of changes, as a database does.
type stores struct {
	mu      sync.Mutex
	changed []func(name string, due bool)
}

func (s *stores) tell(name string, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.changed {
		changed(name, due)
	}
}

// seam is the store as one part has it.
type seam struct {
	task.Store
	*stores
	law  *law
	part *sim.Part
}

func (s *seam) Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error {
	s.mu.Lock()
	s.changed = append(s.changed, changed)
	s.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (s *seam) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	return s.add(ctx, "Create", t, call, lease == 0, func(ctx context.Context, t *task.Task) error {
		return s.Store.Create(ctx, t, ttl, lease, call, entries, quota)
	})
}

func (s *seam) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) error {
	return s.add(ctx, "Insert", t, call, u.Lease == 0 && u.Due == 0, func(ctx context.Context, t *task.Task) error {
		return s.Store.(task.Inserter).Insert(ctx, t, ttl, call, u, quota)
	})
}

func (s *seam) add(
	ctx context.Context, what string, t *task.Task, call []byte, due bool, add func(context.Context, *task.Task) error,
) error {
	return sim.Change(ctx, s.part, what, t, func(ctx context.Context, t *task.Task) error {
		if s.law.Poisoned && strings.Contains(string(call), fmt.Sprintf(`"call":%d}`, s.law.number(0))) {
			s.law.poisoned.Store(t.ID, true)
		}
		err := add(ctx, t)
		s.tell(task.Name(t.ID), err == nil && due)
		return err
	})
}

// pass passes a call with one argument on to the store.
func pass[A, R any](
	ctx context.Context, s *seam, what string, call func(context.Context, A) (R, error), a A,
) (R, error) {
	return sim.Get(ctx, s.part, what, func(ctx context.Context) (R, error) { return call(ctx, a) })
}

func (s *seam) Get(ctx context.Context, id string) (*task.Task, error) {
	return pass(ctx, s, "Get", s.Store.Get, id)
}

func (s *seam) Versions(ctx context.Context, ids []string) (map[string]int64, error) {
	return pass(ctx, s, "Versions", s.Store.Versions, ids)
}

func (s *seam) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	return sim.Get(ctx, s.part, "Claim", func(ctx context.Context) ([]*task.Claimed, error) {
		claimed, err := s.Store.Claim(ctx, after, load, lease, limit)
		for _, c := range claimed {
			if c.Status.Terminal() && !c.Stopped {
				s.law.violate("a task is due although it is %s", c.Status)
			}
		}
		return claimed, err
	})
}

func (s *seam) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	all, err := sim.Get(ctx, s.part, "Journal", func(ctx context.Context) ([][]byte, error) {
		call, entries, err := s.Store.Journal(ctx, id, most)
		return slices.Concat([][]byte{call}, entries), err
	})
	if err != nil {
		return nil, nil, err
	}
	return all[0], all[1:], nil
}

func (s *seam) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	s.between(ctx, id)
	return write(ctx, s, "Append", id, &claim, func(ctx context.Context, _ *task.Claim) error {
		before, _ := s.Store.Get(ctx, id)
		err := s.Store.Append(ctx, id, claim, there, entry)
		if s.law.Virtual && err == nil && before.Claim != claim {
			s.law.violate("a worker with the lease %d has recorded a step in the lease %d", claim.Fence, before.Fence)
		}
		return err
	})
}

// write lets the part write to the row of a task, unless that is locked for too long.
func write[T any](ctx context.Context, s *seam, what, id string, v *T, act func(context.Context, *T) error) error {
	return sim.Change(ctx, s.part, what, v, func(ctx context.Context, v *T) error {
		if err := s.law.unlocked(ctx, id); err != nil {
			return err
		}
		return act(ctx, v)
	})
}

func (s *seam) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	return sim.Get(ctx, s.part, "Renew", func(ctx context.Context) (renewed []task.Renewed, err error) {
		for _, l := range leases {
			one := []task.Renewed{{Err: errLocked}}
			if s.law.locked(l.ID) <= 0 {
				if one, err = s.Store.Renew(ctx, []task.Leased{l}, lease); err != nil {
					return nil, err
				}
			}
			renewed = append(renewed, one...)
		}
		return renewed, nil
	})
}

func (s *seam) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if u.Ask != nil {
		s.between(ctx, t.ID)
		defer s.between(ctx, t.ID)
	}
	return write(ctx, s, "Update", t.ID, t, func(ctx context.Context, next *task.Task) error {
		if u.Expired && s.law.poisonous(t.ID) {
			return errPoisoned
		}
		before, _ := s.Store.Get(ctx, t.ID)
		err := s.Store.Update(ctx, next, u)
		switch {
		case !s.law.Virtual || err != nil:
		case before.Status.Terminal() && t.Status != before.Status:
			s.law.violate("a task that is %s becomes %s", before.Status, t.Status)
		case before.Version != t.Version:
			s.law.violate("an update of version %d was made in version %d", t.Version, before.Version)
		case u.Leased && before.Claim != t.Claim:
			s.law.violate("an update under the lease %d was made in the lease %d", t.Fence, before.Fence)
		}
		s.tell(task.Name(t.ID), u.Lease <= 0 && !u.Keep && u.Due == 0)
		return err
	})
}

func (s *seam) Expired(ctx context.Context, limit int) ([]string, error) {
	return pass(ctx, s, "Expired", s.Store.Expired, limit)
}

func (s *seam) Purge(ctx context.Context, grace time.Duration, limit int) (int, error) {
	return sim.Get(ctx, s.part, "Purge", func(ctx context.Context) (int, error) {
		return s.Store.Purge(ctx, grace, limit)
	})
}

func (s *seam) Questions(ctx context.Context, name string) ([]*task.Question, error) {
	return pass(ctx, s, "Questions", s.Store.Questions, name)
}

func (s *seam) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) ([]*task.Question, error) {
	return sim.Get(ctx, s.part, "Waiting", func(ctx context.Context) ([]*task.Question, error) {
		return s.Store.Waiting(ctx, f, after, limit)
	})
}

func (s *seam) Events(ctx context.Context, q task.EventQuery) (*task.EventPage, error) {
	return pass(ctx, s, "Events", s.Store.(task.EventLog).Events, q)
}

func (s *seam) Subscribed(ctx context.Context, principal string) ([]*task.Subscription, error) {
	return pass(ctx, s, "Subscribed", s.Store.(task.Subscriptions).Subscribed, principal)
}

func (s *seam) SaveSubscription(ctx context.Context, sub *task.Subscription, most int) error {
	return sim.Change(ctx, s.part, "SaveSubscription", sub, func(ctx context.Context, sub *task.Subscription) error {
		return s.Store.(task.Subscriptions).SaveSubscription(ctx, sub, most)
	})
}

func (s *seam) ClaimSubscriptions(ctx context.Context, c task.SubscriptionClaim) ([]*task.Subscription, error) {
	return pass(ctx, s, "ClaimSubscriptions", s.Store.(task.Subscriptions).ClaimSubscriptions, c)
}

func (s *seam) Emit(ctx context.Context, e *task.Emission) error {
	return s.part.Do(ctx, "Emit", func(ctx context.Context) error { return s.Store.(task.EventLog).Emit(ctx, e) })
}

func (s *seam) Overdue(ctx context.Context, limit int) ([]*task.Question, error) {
	return pass(ctx, s, "Overdue", s.Store.Overdue, limit)
}

func (s *seam) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	return write(ctx, s, "ChangeQuestion", q.Task, q, func(ctx context.Context, q *task.Question) error {
		if s.law.poisonous(q.Task) {
			return errPoisoned
		}
		err := s.Store.ChangeQuestion(ctx, q, expired)
		s.tell(task.Name(q.Task), len(q.Decision) > 0)
		return err
	})
}

func (s *seam) Listen(ctx context.Context, d time.Duration, named, anonymous int) error {
	return s.part.Do(ctx, "Listen", func(ctx context.Context) error { return s.Store.Listen(ctx, d, named, anonymous) })
}

func (s *seam) Notices(ctx context.Context, c task.NoticeClaim) ([]*task.Notice, error) {
	return pass(ctx, s, "Notices", s.Store.Notices, c)
}

func (s *seam) Settle(ctx context.Context, n *task.Notice, retry time.Duration) error {
	return s.part.Do(ctx, "Settle", func(ctx context.Context) error { return s.Store.Settle(ctx, n, retry) })
}

// between is what happens around a write of a worker: time passes, and perhaps the lease of the task is lost.
func (s *seam) between(ctx context.Context, id string) {
	s.part.Pause(ctx, 0.02)
	t, err := s.Store.Get(ctx, id)
	if err != nil || t.Status != task.Working || t.Stopped || !s.part.Happens("its lease is stolen", s.law.Thefts) {
		return
	}
	if s.part.Chance(0.5) {
		err = s.Store.Update(ctx, t, task.Update{})
	} else { // as if the lease had ended by itself, which leaves the version as it is
		_, err = s.Store.Renew(ctx, []task.Leased{{ID: id, Claim: t.Claim}}, 1)
		s.part.Pause(ctx, 0.01)
	}
	s.tell(task.Name(id), err == nil)
	s.part.Pause(ctx, 0.05)
}
