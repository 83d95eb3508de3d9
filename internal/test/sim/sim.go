// Package sim decides in which order the parts of a fleet go on, and what becomes of what they do.
//
// A part is anything that acts: an instance, a host, a person, a receiver. What it does to the world around it goes
// through a seam: a call of the store, a request, an effect. In a bubble of [testing/synctest] it parks there. When
// nothing in the bubble can go on, the scheduler picks one of those that are parked, and says what becomes of it. Order
// and fates follow from the seed, each by a draw of its own, so that a fate that is left out changes no other. Without
// a bubble, in front of a real database, nothing parks, and only the fates are the seed's.
package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"
)

// Fate is what becomes of something that goes through a seam.
type Fate string

// The fates. A part that is killed is gone for good. Without a bubble, a part that is frozen is only delayed, and what
// is late never happens.
const (
	Done         Fate = "done"
	LostBefore   Fate = "lost before it happened"
	LostAfter    Fate = "lost after it happened"
	Late         Fate = "lost, and it happens a while later"
	KilledLate   Fate = "killed, and it happens a while later"
	Delayed      Fate = "delayed"
	Frozen       Fate = "frozen, and all that its part does"
	KilledBefore Fate = "killed before it happened"
	KilledAfter  Fate = "killed after it happened"
	KilledAmid   Fate = "killed amid it" // comes only to a line in a pipe
)

// fates are all that a draw can bring, in an order that never changes.
var fates = []Fate{LostBefore, LostAfter, Delayed, Frozen, KilledBefore, KilledAfter, Late, KilledLate}

// Chances are the shares of fates other than Done, each from 0 to 1.
type Chances map[Fate]float64

// Errors of [Part.Do].
var (
	ErrLost = errors.New("the connection broke")
	ErrDead = errors.New("this part of the simulation was killed")
)

// Event is a fate that came.
type Event struct {
	At   time.Duration // since the beginning
	What string        // names what it came to: the part, what that did, and which time it was
	Fate Fate
}

func (e Event) String() string { return fmt.Sprintf("%12v  %s: %s", e.At, e.What, e.Fate) }

// Scheduler runs the parts of one simulation. It is safe for concurrent use.
type Scheduler struct {
	seed uint64
	unit time.Duration   // of pauses and delays
	only map[string]bool // what may have a fate, or nil for all
	more chan struct{}   // something has parked; nil if nothing parks
	late sync.WaitGroup  // what has still to happen

	mu     sync.Mutex
	began  time.Time
	parked []*passage
	counts map[string]int
	events []Event
}

// New returns a scheduler, whose pauses are some units long. With events, no others than these come.
func New(seed uint64, unit time.Duration, only []Event) *Scheduler {
	s := &Scheduler{seed: seed, unit: unit, counts: make(map[string]int), began: time.Now()}
	if only != nil {
		s.only = make(map[string]bool)
		for _, e := range only {
			s.only[e.What] = true
		}
	}
	return s
}

// Run schedules what the parts do in the bubble that it is called in, while play runs.
func (s *Scheduler) Run(play func()) {
	s.more = make(chan struct{}, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		play()
		s.late.Wait()
	}()
	for {
		synctest.Wait()
		next, thaw := s.next()
		if next != nil {
			close(next.ready)
			continue
		}
		var thawed <-chan time.Time
		if !thaw.IsZero() {
			thawed = time.After(time.Until(thaw))
		}
		select {
		case <-s.more:
		case <-thawed:
		case <-over:
			return
		}
	}
}

// next takes out what goes on next. If there is nothing, it says when a part that is frozen may be next.
func (s *Scheduler) next() (first *passage, thaw time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, p := range s.parked {
		switch until := p.part.frozen; {
		case until.After(now):
			if thaw.IsZero() || until.Before(thaw) {
				thaw = until
			}
		case first == nil || p.rank < first.rank:
			first = p
		}
	}
	s.drop(first)
	return first, thaw
}

func (s *Scheduler) drop(p *passage) {
	s.parked = slices.DeleteFunc(s.parked, func(other *passage) bool { return other == p })
}

// Events returns the fates that have come, in order.
func (s *Scheduler) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Draw returns a number from 0 up to 1 that follows from the seed and the words.
func (s *Scheduler) Draw(words ...string) float64 {
	x := uint64(14695981039346656037) ^ s.seed // FNV-1a, in which nothing is allocated
	for _, word := range words {
		for i := range len(word) {
			x = (x ^ uint64(word[i])) * 1099511628211
		}
		x *= 1099511628211
	}
	for _, factor := range []uint64{0xbf58476d1ce4e5b9, 0x94d049bb133111eb} { // FNV leaves alike what is nearly alike
		x = (x ^ x>>30) * factor
	}
	return float64((x^x>>31)>>11) / (1 << 53)
}

// numbered names what is done, with the number of times that it was.
func (s *Scheduler) numbered(what string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
	return what + " " + strconv.Itoa(s.counts[what])
}

// fate draws what becomes of something that a part does.
func (s *Scheduler) fate(p *Part, what string, chances Chances) Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.may(what) {
		return Done
	}
	x := s.Draw("fate", what)
	for _, f := range fates {
		if x -= chances[f]; x >= 0 {
			continue
		}
		s.came(what, f)
		if f == Frozen {
			p.frozen = time.Now().Add(s.pause(30, "frozen", what))
		}
		return f
	}
	return Done
}

// may reports whether something may have a fate.
func (s *Scheduler) may(what string) bool { return s.only == nil || s.only[what] }

func (s *Scheduler) came(what string, f Fate) {
	s.events = append(s.events, Event{time.Since(s.began), what, f})
}

// pause draws a time of up to twice so many units.
func (s *Scheduler) pause(units float64, words ...string) time.Duration {
	return time.Duration(2 * s.Draw(words...) * units * float64(s.unit))
}
