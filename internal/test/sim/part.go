package sim

import (
	"context"
	"sync"
	"time"
)

// Part acts in a simulation. It is safe for concurrent use.
type Part struct {
	Name    string
	Chances Chances

	s      *Scheduler
	frozen time.Time // until then nothing that it does goes on; guarded by s.mu
	dead   chan struct{}
	death  sync.Once
}

// passage is something that waits at a seam.
type passage struct {
	part  *Part
	rank  float64
	ready chan struct{} // closed when it goes on
}

// Part returns a new part.
func (s *Scheduler) Part(name string, chances Chances) *Part {
	return &Part{Name: name, Chances: chances, s: s, dead: make(chan struct{})}
}

// Kill ends the part: nothing that it does from now on happens.
func (p *Part) Kill() { p.death.Do(func() { close(p.dead) }) }

// Dead is closed when the part is killed.
func (p *Part) Dead() <-chan struct{} { return p.dead }

// IsDead reports whether the part was killed.
func (p *Part) IsDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// Do lets the part do something through a seam. What it does, and to what, names it in the story.
func (p *Part) Do(ctx context.Context, what string, act func(context.Context) error) error {
	return p.do(ctx, what, p.Chances, act)
}

func (p *Part) do(ctx context.Context, what string, chances Chances, act func(context.Context) error) error {
	what = p.s.numbered(p.Name + ": " + what)
	if err := p.park(ctx, what); err != nil {
		return err
	}
	fate := p.s.fate(p, what, chances)
	switch fate {
	case LostBefore:
		return ErrLost
	case KilledBefore:
		p.Kill()
		return ErrDead
	case LostAfter:
		if err := act(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		return ErrLost
	case KilledAfter:
		_ = act(context.WithoutCancel(ctx))
		p.Kill()
		return ErrDead
	case Late:
		p.later(ctx, what, act)
		return ErrLost
	case KilledLate:
		p.later(ctx, what, act)
		p.Kill()
		return ErrDead
	case Delayed, Frozen:
		if p.s.more != nil && fate == Frozen {
			break // the scheduler keeps all that the part does
		}
		if !p.wait(ctx, p.s.pause(5, "delay", what)) {
			return p.ended(ctx)
		}
	}
	if fate != Done { // others have gone on meanwhile
		if err := p.park(ctx, what); err != nil {
			return err
		}
	}
	return act(ctx)
}

// later does something when the part has given it up, or is dead.
func (p *Part) later(ctx context.Context, what string, act func(context.Context) error) {
	if p.s.more == nil {
		return
	}
	ctx, under := context.WithoutCancel(ctx), p.s.Part(p.Name, nil)
	p.s.late.Go(func() {
		under.wait(ctx, p.s.pause(20, "late", what))
		defer func() { _ = recover() }() // what panics in its part
		if under.park(ctx, what) == nil {
			_ = act(ctx)
		}
	})
}

// park waits for the scheduler.
func (p *Part) park(ctx context.Context, what string) error {
	if err := p.ended(ctx); err != nil || p.s.more == nil {
		return err
	}
	w := &passage{p, p.s.Draw("order", what), make(chan struct{})}
	p.s.mu.Lock()
	p.s.parked = append(p.s.parked, w)
	p.s.mu.Unlock()
	select {
	case p.s.more <- struct{}{}:
	default:
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
	case <-p.dead:
	}
	p.s.mu.Lock()
	p.s.drop(w)
	p.s.mu.Unlock()
	return p.ended(ctx)
}

// ended returns an error if the part is dead, or the context is done.
func (p *Part) ended(ctx context.Context) error {
	if p.IsDead() {
		return ErrDead
	}
	return context.Cause(ctx)
}

// wait waits, unless the part is killed or the context is done before.
func (p *Part) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-p.dead:
	}
	return false
}

// Pause lets a time of about so many units pass. It reports whether the part goes on.
func (p *Part) Pause(ctx context.Context, units float64) bool {
	return p.wait(ctx, p.s.pause(units, "pause", p.s.numbered(p.Name+" pauses")))
}

// IntN chooses a number from 0 up to n.
func (p *Part) IntN(n int) int { return int(float64(n) * p.s.Draw(p.s.numbered(p.Name+" chooses"))) }

// Chance decides something that happens with this share.
func (p *Part) Chance(share float64) bool { return p.s.Draw(p.s.numbered(p.Name+" tosses")) < share }

// Happens decides whether something happens that has this chance. It is an event of the story, like a fate.
func (p *Part) Happens(what string, chance float64) bool {
	what = p.s.numbered(p.Name + ": " + what)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.s.may(what) || p.s.Draw("happens", what) >= chance {
		return false
	}
	p.s.came(what, "it happens")
	return true
}

// Get is [Part.Do] with a result, which is lost with an error.
func Get[T any](ctx context.Context, p *Part, what string, act func(context.Context) (T, error)) (result T, err error) {
	got := make(chan T, 2) // what is late must not change what was returned before
	err = p.Do(ctx, what, func(ctx context.Context) error {
		one, err := act(ctx)
		got <- one
		return err
	})
	if err == nil {
		result = <-got
	}
	return result, err
}

// Change is [Part.Do] with a value that it changes, except with an error.
func Change[T any](ctx context.Context, p *Part, what string, v *T, act func(context.Context, *T) error) error {
	given := *v
	next, err := Get(ctx, p, what, func(ctx context.Context) (T, error) {
		own := given
		err := act(ctx, &own)
		return own, err
	})
	if err == nil {
		*v = next
	}
	return err
}
