// Package world is a simulation of the bridge: hosts call tools through bridges on one store, in front of a server to
// which things happen and one that is calm. Bridges and servers are killed and started again, requests and responses
// are lost, late or break off, gateways answer in their server's place, people decide, and hosts decline by themselves
// or do not wait. Some servers are programs of their bridge, and some hosts start a bridge of their own as a program.
// Each of these processes may die at any time, also amid a line.
//
// It checks that
//
//   - a call that needs an approval does not run without one, and never if it was declined, whatever the policies are
//     of the bridges that get it;
//   - what is not idempotent takes effect once at most, in each of its rounds, and once more for each time that a
//     person had it run again;
//   - a call that is said not to have run has not taken effect, and one with its result has;
//   - words that say neither say that the outcome is unknown;
//   - each call ends, and at a calm server soon and with its result;
//   - a program ends soon after the process that has started it;
//   - every goroutine ends.
package world

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Options are what a run is like.
type Options struct {
	Seed           uint64
	Unit           time.Duration // of pauses
	Kind           string        // of the server
	Bridges        int
	Gated          bool // lives of bridges with and without an approval take turns
	Hosts          int
	Host           sim.Chances // of what hosts send
	Bridge, Server sim.Chances
	Only           []sim.Event
}

// world is one run.
type world struct {
	Options
	*sim.Network
	t        *testing.T
	sim      *sim.Scheduler
	keys     *seal.Ring
	store    *task.MemoryStore
	life     context.Context
	others   sync.WaitGroup
	programs atomic.Int64
	turned   atomic.Bool // the calls of turns may be repeated that come from now on

	mu        sync.Mutex
	effects   map[string]int    // by the call's ID and what is done
	repeats   map[string]int    // that people wanted, by the call's ID
	approvals map[string]string // of calls that need one, by the call's ID: awaited, accept or decline
	strict    map[string]bool   // those that came before, by their IDs
	attempts  []attempt
	bad       []string
}

// attempt is how one attempt at a call ended.
type attempt struct {
	id        string
	by        *host
	end, text string
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// play is one run, and returns what was wrong, how its attempts ended, and which fates came.
func play(t *testing.T, o Options) (bad []string, ends map[string]int, fates []sim.Event) {
	sim.Play(t, fmt.Sprint("seed ", o.Seed), o.Seed, func(t *testing.T) {
		w := &world{Options: o, t: t, Network: new(sim.Network),
			sim: sim.New(o.Seed, o.Unit, o.Only), keys: harness.NewRing(t), store: new(task.MemoryStore),
			effects: make(map[string]int), repeats: make(map[string]int), approvals: make(map[string]string),
			strict: make(map[string]bool)}
		w.sim.Run(w.play)
		ends = w.check()
		bad, fates = w.bad, w.sim.Events()
	})
	return bad, ends, fates
}

func (w *world) play() {
	var stop context.CancelFunc
	w.life, stop = context.WithCancel(context.Background())
	for _, kind := range []string{w.Kind, calm} {
		if chances := w.Server; !isProgram(kind) {
			if kind == calm {
				chances = nil
			}
			w.others.Go(func() { w.serve(w.life, kind, chances) })
		}
	}
	for !w.Listens(calm) || !w.Listens(w.Kind) && !isProgram(w.Kind) {
		time.Sleep(time.Millisecond)
	}
	for place := range w.Bridges {
		w.others.Go(func() { w.bridge(w.life, place) })
	}
	w.others.Go(func() { w.decide(w.life) })
	var calling sync.WaitGroup
	for n := range w.Hosts {
		calling.Go(func() { w.newHost(n).call(w.life, n) })
	}
	calling.Wait()
	stop()
	w.others.Wait()
	time.Sleep(time.Hour) // sessions that nobody has ended last half of that
}

// newHost returns one of many kinds of hosts. One calls the calm server, and some do not wait for their calls.
func (w *world) newHost(n int) *host {
	h := &host{world: w, part: w.sim.Part(fmt.Sprint("host ", n), w.Host), server: w.Kind, patient: mostPatience * w.Unit}
	h.tool = toolNames[(n+h.part.IntN(2)*3)%5]
	h.version = []string{"2026-07-28", "2025-11-25"}[h.part.IntN(2)]
	h.form = []string{answers, declines, cannot}[h.part.IntN(3)]
	if h.user = "carol"; h.form == cannot {
		h.user = []string{"ada", "bob"}[h.part.IntN(2)]
	}
	switch {
	case n == 4:
		h.server, h.part.Chances, h.tool = calm, nil, once
	case n == 10:
		h.tool = turns
	case n%8 == 7:
		h.tool, h.user, h.patient = stuck, "dave", 20*w.Unit
	case h.part.Chance(0.2):
		h.patient = 2 * w.Unit
	}
	h.starts, h.dies = n != 4 && h.part.IntN(4) == 0, 0.2
	if h.tool == stuck {
		h.starts, h.dies = h.part.Chance(0.7), 1
	}
	return h
}

// check looks at every attempt, and counts them by their ends.
func (w *world) check() map[string]int {
	ends := make(map[string]int)
	for _, a := range w.attempts {
		ends[a.end]++
		effects, middle := w.effects[a.id+" end"], w.effects[a.id+" middle"]
		call := fmt.Sprintf("call %s of %s, with %d and %d effects, is %s: %s", a.id, a.by.tool, middle, effects, a.end,
			a.text)
		most := 1 + w.repeats[a.id]
		switch {
		case a.by.tool == turns && max(effects, middle) > most && !w.strict[a.id]:
		case !isIdempotent(a.by.tool) && max(effects, middle) > most:
			w.violate("repeated: %s", call)
		case a.end == done && effects == 0:
			w.violate("without effect: %s", call)
		case a.end == unsent && (effects > 0 || middle > 0 && lastRound(a.text) < 3):
			w.violate("ran after all: %s", call)
		case a.end == other:
			w.violate("what does it say: %s", call)
		case a.by.server == calm && a.end != done && w.Bridge[sim.KilledAfter] == 0:
			w.violate("calm: %s", call)
		}
	}
	return ends
}

// lastRound is the number of a round that did not run.
func lastRound(text string) int {
	if m := roundNumber.FindStringSubmatch(strings.ToLower(text)); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 1
}

var roundNumber = regexp.MustCompile(`round (\d+) of th`)

var (
	first  = flag.Uint64("first", 0, "the first `SEED`")
	seeds  = flag.Uint64("seeds", 25, "how many `SEEDS` are run")
	shrink = flag.Bool("shrink", true, "shrink a run that fails")
)

var (
	unstable = sim.Chances{sim.LostBefore: 0.02, sim.LostAfter: 0.02, sim.Delayed: 0.02}
	fragile  = sim.Chances{sim.Delayed: 0.02, sim.KilledAmid: 0.02}
	deadly   = sim.Chances{sim.Delayed: 0.05, sim.Frozen: 0.03, sim.KilledBefore: 0.05, sim.KilledAfter: 0.2,
		sim.KilledAmid: 0.03}
	mortal = sim.Chances{sim.LostBefore: 0.02, sim.LostAfter: 0.02, sim.Delayed: 0.02, sim.KilledBefore: 0.01,
		sim.KilledAfter: 0.01, sim.KilledAmid: 0.03}
)

// options are those of a seed: in a quarter of the runs bridges die, in another one bridges and servers, and else
// servers. In a third of them bridges die, and each second one wants approvals.
func options(seed uint64) Options {
	o := Options{Seed: seed, Unit: time.Second, Kind: kinds[seed%uint64(len(kinds))], Bridges: 1, Hosts: 11,
		Gated: seed%3 == 0, Host: unstable, Bridge: unstable, Server: deadly}
	switch seed % 4 {
	case 0:
		o.Bridge, o.Server, o.Bridges = mortal, nil, 1+int(seed/4%2)
	case 1:
		o.Bridge = mortal
	}
	if o.Gated {
		o.Bridge = mortal
	}
	return o
}

func TestWorld(t *testing.T) {
	all := make(map[string]int)
	for seed := *first; seed < *first+*seeds; seed++ {
		bad, ends, fates := play(t, options(seed))
		for end, n := range ends {
			all[end] += n
		}
		if len(bad) == 0 {
			continue
		}
		t.Errorf("seed %d: %s\n%s", seed, strings.Join(bad, "\n"), story(t, options(seed), fates))
	}
	t.Logf("%v", all)
}

// story tells of the few fates with which a run still fails.
func story(t *testing.T, o Options, fates []sim.Event) string {
	if !*shrink {
		return ""
	}
	return sim.Story(fates, func(only []sim.Event) bool {
		o.Only = only
		bad, _, _ := play(t, o)
		return len(bad) > 0
	})
}
