package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// ledger is what is known of tasks, faults and steps, and what of it must not be. It is safe for concurrent use.
type ledger struct {
	mu           sync.Mutex
	orders       map[string]*order // by task: those acknowledged
	troubles     []*trouble
	processes    map[string]int // IDs by the names that the database knows them by
	observations int
	recorded     map[step]sighting
	calls        map[string]string // of tasks
	last         []record          // the last observation
	counts       map[counter]int
	refusals     map[string]int // errors that servers answered with

	violating  sync.Mutex // guards violations
	violations []violation
	first      chan struct{} // closed at the first violation
}

// step is a step of one call.
type step struct{ call, name string }

// sighting is when a recorded step was first seen.
type sighting struct {
	observation int // its number
	at          time.Time
}

// trouble is a time in which a process could not do, or not record, what it should.
type trouble struct {
	what     string
	pid      int // 0 is every process
	from, to time.Time
}

// Kinds of trouble.
const (
	killed  = "killed" // from and to are the same
	stopped = "stopped"
	cutOff  = "cut off from the database"
)

func newLedger() *ledger {
	return &ledger{
		orders:    make(map[string]*order),
		processes: make(map[string]int),
		recorded:  make(map[step]sighting),
		calls:     make(map[string]string),
		counts:    make(map[counter]int),
		refusals:  make(map[string]int),
		first:     make(chan struct{}),
	}
}

// mostViolations bounds what is printed: after so many nothing new is to be learnt.
const mostViolations = 50

func (l *ledger) violate(k kind, format string, args ...any) {
	v := violation{k, fmt.Sprintf(format, args...), time.Now()}
	l.violating.Lock()
	defer l.violating.Unlock()
	n := len(l.violations)
	if n > mostViolations || slices.ContainsFunc(l.violations, func(o violation) bool { return o.text == v.text }) {
		return
	}
	if n == mostViolations {
		v.text = "and more"
	}
	if n == 0 {
		close(l.first)
	}
	l.violations = append(l.violations, v)
}

// found returns the violations so far, sorted.
func (l *ledger) found() []violation {
	l.violating.Lock()
	defer l.violating.Unlock()
	return slices.SortedFunc(slices.Values(l.violations), func(a, b violation) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.text, b.text))
	})
}

// acknowledge notes that a customer was given the id of a task.
func (l *ledger) acknowledge(o *order, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.id = id
	if l.orders[id] != nil {
		l.violate(kindWrong, "%s: its id was given twice", o)
	}
	l.orders[id] = o
}

// end notes how a task ended for its customer.
func (l *ledger) end(o *order, status string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.ended = status
	want := "completed"
	if o.cancel {
		want = "cancelled"
	}
	if status != want {
		l.violate(kindWrong, "%s: it is %s, want %s", o, status, want)
	}
}

// endedOrders returns the orders whose tasks have ended.
func (l *ledger) endedOrders() (orders []*order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.orders {
		if o.ended != "" {
			orders = append(orders, o)
		}
	}
	return orders
}

// count adds to a counter.
func (l *ledger) count(c counter, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[c] += n
}

// untroubled returns the time between two from which no server was stopped or cut off.
func (l *ledger) untroubled(from, to time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.troubles {
		if t.what != killed && t.from.Before(to) && t.to.After(from) {
			if from = t.to; from.After(to) {
				return to
			}
		}
	}
	return from
}

// longest notes how late a deadline was decided.
func (l *ledger) longest(after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[latest] = max(l.counts[latest], int(after.Milliseconds()))
}

// requestFailed notes a request that failed. While servers die that is no violation.
func (l *ledger) requestFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := errors.AsType[*rawclient.Error](err); ok {
		l.refusals[r.Error()]++
	} else {
		l.counts[broken]++
	}
}

// named notes by which name the database knows a process.
func (l *ledger) named(name string, pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes[name] = pid
}

// killed notes that a process is dead.
func (l *ledger) killed(pid int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[kills]++
	l.troubles = append(l.troubles, &trouble{killed, pid, at, at})
}

// cutOff notes that the database did not answer a process for a long time, as happens on a machine that has too much to
// do: no fault that was made.
func (l *ledger) cutOff(pid int, from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = append(l.troubles, &trouble{cutOff, pid, from, to})
}

// trouble notes that a process is in trouble from now until end is called.
func (l *ledger) trouble(what string, pid int) (end func()) {
	t := &trouble{what, pid, time.Now(), time.Now().Add(time.Hour)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = append(l.troubles, t)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.to = time.Now()
	}
}

// acknowledged returns the ids of the tasks that a database must have from now on.
func (l *ledger) acknowledged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.orders))
}

// observe compares what the database has with what it had. The ids were acknowledged before it was read; by this time
// it had been read; the log of effects was read after that.
func (l *ledger) observe(at time.Time, ids []string, records []record, effects []effect) {
	done := make(map[step]bool)
	for _, e := range effects {
		done[step{e.call, e.step}] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observations++
	found := make(map[string]bool)
	still := make(map[step]bool)
	for _, r := range records {
		found[r.task] = true
		l.calls[r.task] = r.call
		for _, name := range r.steps {
			s := step{r.call, name}
			if still[s] {
				l.violate(kindRepeated, "call %s: its journal has the step %s twice", r.call, name)
			}
			still[s] = true
			if _, ok := l.recorded[s]; ok {
				continue
			}
			l.recorded[s] = sighting{l.observations, at}
			if !done[s] {
				l.violate(kindAgain, "call %s: the step %s is recorded, and was never done", r.call, name)
			}
		}
		if r.repeats > 0 {
			l.violate(kindRepeated, "call %s: its journal has %d entries that it had before", r.call, r.repeats)
		}
	}
	for s, seen := range l.recorded {
		if !still[s] {
			l.violate(kindLost, "call %s: the step %s was recorded at observation %d, and no longer is at observation %d",
				s.call, s.name, seen.observation, l.observations)
			delete(l.recorded, s)
		}
	}
	for _, id := range ids {
		if !found[id] {
			l.violate(kindLost, "%s: it was acknowledged, and is not in the database", l.orders[id])
		}
	}
	l.last = records
}

// repeats checks every step that was done more than once, and returns how often one was
// because its process could not record it any more.
func (l *ledger) repeats(effects []effect) (legitimate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := make(map[step]effect)
	for i, e := range effects {
		s := step{e.call, e.step}
		first, repeat := before[s]
		before[s] = e
		if !repeat || !steps[e.step] {
			continue
		}
		seen, recorded := l.recorded[s]
		next := slices.IndexFunc(effects[:i], func(n effect) bool {
			return n.call == e.call && n.pid == first.pid && n.at.After(first.at) && n.step != e.step && steps[n.step]
		})
		switch {
		case recorded && e.at.After(seen.at):
			l.violate(kindAgain, "call %s: the step %s was recorded at observation %d, and process %d did it again after that",
				s.call, s.name, seen.observation, e.pid)
		case l.excuse(first.pid, first.at, e.at) == nil:
			l.violate(kindAgain, "call %s: the step %s was done by process %d, which nothing kept from recording it, "+
				"and again by process %d", s.call, s.name, first.pid, e.pid)
		case next >= 0: // it must have taken the step for recorded, or it would not have gone on
			l.violate(kindAgain, "call %s: the step %s was done by process %d, which went on to %s, and again by process %d",
				s.call, s.name, first.pid, effects[next].step, e.pid)
		default:
			legitimate++
		}
	}
	return legitimate
}

// excuse returns the trouble that kept a process from recording a step before another process did it again, or nil.
func (l *ledger) excuse(pid int, did, again time.Time) *trouble {
	i := slices.IndexFunc(l.troubles, func(t *trouble) bool {
		return (t.pid == pid || t.pid == 0) && !t.to.Before(did) && t.from.Before(again)
	})
	if i < 0 {
		return nil
	}
	return l.troubles[i]
}
