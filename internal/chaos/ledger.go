package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// ledger is what is known of tasks, kills and steps, and what of it must not be. It is safe for concurrent use.
type ledger struct {
	mu           sync.Mutex
	orders       map[string]*order // by task: those acknowledged
	kills        []kill
	observations int
	recorded     map[step]sighting
	calls        map[string]string // of tasks
	last         []record          // the last observation
	refusals     map[string]int    // errors that servers answered with
	broken       int               // requests whose answer never came

	violating  sync.Mutex // guards violations
	violations []string
}

// step is a step of one call.
type step struct{ call, name string }

// sighting is when a recorded step was first seen.
type sighting struct {
	observation int // its number
	effects     int // how often the step was done by then
}

// kill is the end of a process.
type kill struct {
	pid int
	at  time.Time
}

func newLedger() *ledger {
	return &ledger{
		orders:   make(map[string]*order),
		recorded: make(map[step]sighting),
		calls:    make(map[string]string),
		refusals: make(map[string]int),
	}
}

// mostViolations bounds what is printed: after so many nothing new is to be learnt.
const mostViolations = 50

func (l *ledger) violate(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	l.violating.Lock()
	defer l.violating.Unlock()
	switch n := len(l.violations); {
	case slices.Contains(l.violations, v):
	case n < mostViolations:
		l.violations = append(l.violations, v)
	case n == mostViolations:
		l.violations = append(l.violations, "and more")
	}
}

// acknowledge notes that a customer was given the id of a task.
func (l *ledger) acknowledge(o *order, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.id = id
	if l.orders[id] != nil {
		l.violate("%s: its id was given twice", o)
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
		l.violate("%s: it is %s, want %s", o, status, want)
	}
}

// stumbled notes a request that failed. While servers die that is no violation.
func (l *ledger) stumbled(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := errors.AsType[*refused](err); ok {
		l.refusals[r.Error()]++
	} else {
		l.broken++
	}
}

// killed notes that a process is dead.
func (l *ledger) killed(pid int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills = append(l.kills, kill{pid, at})
}

// acknowledged returns the ids of the tasks that a database must have from now on.
func (l *ledger) acknowledged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.orders))
}

// observe compares what the database has with what it had. The ids were acknowledged
// before it was read, and the log of effects was read after it.
func (l *ledger) observe(ids []string, records []record, effects []effect) {
	done := make(map[step]int)
	for _, e := range effects {
		done[step{e.call, e.step}]++
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
			still[s] = true
			if _, ok := l.recorded[s]; ok {
				continue
			}
			l.recorded[s] = sighting{l.observations, done[s]}
			if done[s] == 0 {
				l.violate("call %s: the step %s is recorded, and was never done", r.call, name)
			}
		}
	}
	for s, seen := range l.recorded {
		if !still[s] {
			l.violate("call %s: the step %s was recorded at observation %d, and no longer is at observation %d",
				s.call, s.name, seen.observation, l.observations)
			delete(l.recorded, s)
		}
	}
	for _, id := range ids {
		if !found[id] {
			l.violate("%s: it was acknowledged, and is not in the database", l.orders[id])
		}
	}
	l.last = records
}

// repeats checks every step that was done more than once, and returns how often one was
// because its process died before it was recorded.
func (l *ledger) repeats(effects []effect) (legitimate int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type worker struct {
		call string
		pid  int
	}
	last := make(map[worker]string) // the last step that it did
	for _, e := range effects {
		if steps[e.step] > 0 {
			last[worker{e.call, e.pid}] = e.step
		}
	}
	times := make(map[step]int)
	before := make(map[step]effect)
	for _, e := range effects {
		s := step{e.call, e.step}
		first := before[s]
		times[s]++
		before[s] = e
		if times[s] == 1 || steps[e.step] == 0 {
			continue
		}
		seen, recorded := l.recorded[s]
		next := last[worker{first.call, first.pid}]
		switch {
		case recorded && times[s] > seen.effects:
			l.violate("call %s: the step %s was recorded at observation %d, and process %d did it again after that",
				s.call, s.name, seen.observation, e.pid)
		case l.deathOf(first.pid, first.at) == nil:
			l.violate("call %s: the step %s was done by process %d, which was not killed, and again by process %d",
				s.call, s.name, first.pid, e.pid)
		case next != e.step: // it must have taken the step for recorded, or it would not have gone on
			l.violate("call %s: the step %s was done by process %d, which went on to %s, and again by process %d",
				s.call, s.name, first.pid, next, e.pid)
		default:
			legitimate++
		}
	}
	return legitimate
}

// deathOf returns the kill that ended a process which did something at that time, or nil.
func (l *ledger) deathOf(pid int, at time.Time) *kill {
	i := slices.IndexFunc(l.kills, func(k kill) bool { return k.pid == pid && !k.at.Before(at) })
	if i < 0 {
		return nil
	}
	return &l.kills[i]
}

// stalls returns, for each time that a kill interrupted a part of a task's work after one
// of its steps, how long it took until the next step was done; and how many kills did so.
// What a kill interrupts in the first step of a part shows nowhere, and is not counted.
func (l *ledger) stalls(effects []effect) (stalls []time.Duration, kills int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := make(map[string]effect) // by call
	hit := make(map[int]bool)         // by process
	for _, e := range effects {
		if steps[e.step] == 0 {
			continue
		}
		last, ok := before[e.call]
		before[e.call] = e
		if !ok || last.pid == e.pid || steps[last.step] != steps[e.step] {
			continue
		}
		if k := l.deathOf(last.pid, last.at); k != nil {
			stalls = append(stalls, e.at.Sub(k.at))
			hit[k.pid] = true
		}
	}
	slices.Sort(stalls)
	return stalls, len(hit)
}
