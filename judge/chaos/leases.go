package main

import (
	"iter"
	"slices"
	"time"
)

// lease is the length of a lease in askback serve.
const lease = 10 * time.Second

// slack is how long a step may go on after its worker has lost the lease, or was woken: the time of one write to a
// disk.
const slack = time.Second

// claim is a lease as it began.
type claim struct {
	at  time.Time
	who string
}

// inspect checks what the database has noted: that each lease was respected, that only its holder wrote under it, and
// that what had ended did not change. It returns the claims of each task. The changes of a task are in their order.
func (l *ledger) inspect(changes []change, entries []entry) (claims map[string][]claim) {
	claims = make(map[string][]claim)
	type holder struct {
		who   string
		until time.Time // when the task is due again, by the store's own word; zero if it is not
	}
	holders := make(map[string]holder)
	for _, c := range changes {
		h := holders[c.task]
		terminal := isTerminal(c.oldStatus)
		foreign := c.who != "" && c.who != h.who
		switch {
		case c.fence != c.oldFence:
			// The trigger is later than the store's clock, and a claim never earlier than it seems.
			if left := h.until.Sub(c.at); left > 0 {
				l.violate(kindEarly, "task %s: %s took the lease %v before that of %s had ended",
					c.task, name(c.who), left, name(h.who))
			}
			if terminal && !c.stopped {
				l.violate(kindChanged, "task %s: it is %s, and %s took a lease on it", c.task, c.oldStatus, name(c.who))
			}
			if c.version != c.oldVersion && foreign && !c.byCustomer() {
				l.violate(kindFence, "task %s: %s, without the lease of %s, changed it from %s to %s as it took a lease",
					c.task, name(c.who), name(h.who), c.oldStatus, c.status)
			}
			claims[c.task] = append(claims[c.task], claim{c.at, c.who})
			if c.until.Sub(c.at) < lease/2 { // a trigger may be late, but not by that
				l.violate(kindEarly, "task %s: %s took a lease of only %v", c.task, name(c.who), c.until.Sub(c.at))
			}
			holders[c.task] = holder{c.who, c.until}
			continue
		case c.version == c.oldVersion:
			if foreign {
				l.violate(kindFence, "task %s: %s renewed the lease of %s", c.task, name(c.who), name(h.who))
				continue
			}
			h.until = c.until
		case foreign && !c.byCustomer():
			l.violate(kindFence, "task %s: %s, without the lease of %s, changed it from %s to %s",
				c.task, name(c.who), name(h.who), c.oldStatus, c.status)
		default:
			h.until = c.until
		}
		if terminal && (c.status != c.oldStatus || c.outcome) {
			l.violate(kindChanged, "task %s: it was %s, and %s made it %s, or gave it another outcome",
				c.task, c.oldStatus, name(c.who), c.status)
		}
		if isTerminal(c.status) && !c.stopped && !c.until.IsZero() {
			l.violate(kindChanged, "task %s: it is %s, and due again", c.task, c.status)
		}
		holders[c.task] = h
	}
	l.inspectEntries(entries, claims)
	return claims
}

// inspectEntries checks that each step was recorded by the process that held the lease.
func (l *ledger) inspectEntries(entries []entry, claims map[string][]claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[leases], l.counts[recordedEntries] = 0, len(entries)
	for _, all := range claims {
		l.counts[leases] += len(all)
	}
	for _, e := range entries {
		s := step{l.calls[e.task], e.step}
		if seen, ok := l.recorded[s]; ok && e.step != "" && e.at.Before(seen.at) {
			l.recorded[s] = sighting{seen.observation, e.at}
		}
		all := claims[e.task]
		before, _ := slices.BinarySearchFunc(all, e.at, func(c claim, at time.Time) int { return c.at.Compare(at) })
		if e.step != "" && before > 0 && all[before-1].who != e.who {
			l.violate(kindFence, "task %s: %s recorded the step %s without a lease", e.task, name(e.who), e.step)
		}
	}
}

// name is the name of a process.
func name(who string) string {
	if who == "" {
		return "a server"
	}
	return "server " + who
}

// inTime checks that no step was done under a lease that another worker had taken, and returns the effects without the
// effects of workers that were stopped meanwhile: when they wake up, nothing can keep them from the end of what they
// were doing, so what they write must be refused where it is written. That shows in the machines.
func (l *ledger) inTime(effects []effect, claims map[string][]claim) (inTime []effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[late] = 0
	for e, of := range l.under(effects, claims) {
		all, own, after := of.claims, of.own, of.after
		switch {
		case !steps[e.step] || after == 0 || all[0].who == "" || own == after-1:
			// The lease was its own, or nobody knows whose.
			inTime = append(inTime, e)
		case own < 0:
			l.violate(kindFence, "call %s: process %d did the step %s without a lease", e.call, e.pid, e.step)
		default:
			by := e.at.Sub(all[own+1].at)
			woken := slices.ContainsFunc(l.troubles, func(t *trouble) bool {
				return t.pid == e.pid && t.what == stopped && !t.from.After(e.at) && e.at.Before(t.to.Add(slack))
			})
			if by > slack && !woken {
				l.violate(kindFence, "call %s: process %d did the step %s %v after %s had taken its lease",
					e.call, e.pid, e.step, by.Round(time.Millisecond), name(all[own+1].who))
			}
			l.counts[late]++
		}
	}
	return inTime
}

// interrupted checks that each worker was interrupted before another took its lease: none continues with a step after
// that. A worker checks its lease after its wait, so the load of the machine and a fault of its process do not excuse
// it.
func (l *ledger) interrupted(waits []effect, claims map[string][]claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, of := range l.under(waits, claims) {
		if len(of.claims) == 0 || of.after == 0 || of.claims[0].who == "" || of.own == of.after-1 {
			continue // the lease was its own, or nobody knows whose
		}
		next := of.claims[of.own+1]
		l.violate(kindFence, "call %s: process %d went on with the step %s %v after %s had taken its lease, "+
			"and was not interrupted",
			e.call, e.pid, e.step, e.at.Sub(next.at).Round(time.Millisecond), name(next.who))
	}
}

// holding is what a process held when it did something.
type holding struct {
	claims []claim // of the task
	own    int     // the last one of the process by then, or -1
	after  int     // the first one after it
}

// under returns the effects with the claims of their tasks. The mutex is locked.
func (l *ledger) under(effects []effect, claims map[string][]claim) iter.Seq2[effect, holding] {
	tasks := make(map[string]string)
	for task, call := range l.calls {
		tasks[call] = task
	}
	return func(yield func(effect, holding) bool) {
		for _, e := range effects {
			all := claims[tasks[e.call]]
			after := slices.IndexFunc(all, func(c claim) bool { return c.at.After(e.at) })
			if after < 0 {
				after = len(all)
			}
			own := after - 1
			for own >= 0 && l.processes[all[own].who] != e.pid {
				own--
			}
			if !yield(e, holding{all, own, after}) {
				return
			}
		}
	}
}
