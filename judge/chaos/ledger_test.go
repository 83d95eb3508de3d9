package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// noon is when the tests below take place.
var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// effectsOf is a log of effects: steps "call.step@process", a second apart.
func effectsOf(t *testing.T, log string) (effects []effect) {
	t.Helper()
	for i, f := range strings.Fields(log) {
		call, rest, _ := strings.Cut(f, ".")
		name, process, _ := strings.Cut(rest, "@")
		e := effect{at: noon.Add(time.Duration(i+1) * time.Second), step: name, call: call}
		if _, err := fmt.Sscan(process, &e.pid); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		effects = append(effects, e)
	}
	return effects
}

// What a run can show to be wrong, in the least that shows it.
func TestLedger(t *testing.T) {
	const one, two = "create-directories", "write-disk"
	type look struct {
		records []record
		log     string
	}
	working := func(steps ...string) []record {
		return []record{{task: "t", call: "c", status: "working", steps: steps}}
	}
	for _, tt := range []struct {
		name    string
		killed  int // process, after all that it did
		looks   []look
		want    string // part of the violation; "" is none
		repeats int
	}{
		{"all is well", 0, []look{
			{working(one), "c." + one + "@1"},
			{working(one, two), "c." + one + "@1 c." + two + "@2"},
		}, "", 0},
		{"done, killed, done again", 1, []look{
			{working(), "c." + one + "@1"},
			{working(one), "c." + one + "@1 c." + one + "@2"},
		}, "", 1},
		{"done again without a kill", 0, []look{
			{working(), "c." + one + "@1"},
			{working(one), "c." + one + "@1 c." + one + "@2"},
		}, "which nothing kept from recording it", 0},
		{"done again after it was recorded", 1, []look{
			{working(one), "c." + one + "@1"},
			{working(one), "c." + one + "@1 c." + one + "@2"},
		}, "was recorded at observation 1, and process 2 did it again", 0},
		{"done again by a process that had gone on", 1, []look{
			{working(), "c." + one + "@1 c." + two + "@1"},
			{working(one), "c." + one + "@1 c." + two + "@1 c." + one + "@2"},
		}, "which went on to " + two, 0},
		{"recorded and forgotten", 0, []look{
			{working(one), "c." + one + "@1"},
			{working(), "c." + one + "@1"},
		}, "no longer is at observation 2", 0},
		{"recorded twice", 0, []look{{working(one, one), "c." + one + "@1"}}, "has the step create-directories twice", 0},
		{"recorded and never done", 0, []look{{working(one), ""}}, "was never done", 0},
		{"a task is lost", 0, []look{{nil, ""}}, "is not in the database", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.acknowledge(new(order), "t")
			var effects []effect
			for _, look := range tt.looks {
				effects = effectsOf(t, look.log)
				at := noon.Add(time.Duration(len(effects))*time.Second + time.Millisecond)
				l.observe(at, l.acknowledged(), look.records, effects)
			}
			if tt.killed > 0 {
				at := noon
				for _, e := range effects {
					if e.pid == tt.killed {
						at = e.at
					}
				}
				l.killed(tt.killed, at)
			}
			if repeats := l.repeats(effects); repeats != tt.repeats {
				t.Errorf("%d legitimate repeats, want %d", repeats, tt.repeats)
			}
			if got := texts(l); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHowATaskEndsForItsCustomer(t *testing.T) {
	for status, fine := range map[string]bool{"completed": true, "failed": false, "cancelled": false} {
		l := newLedger()
		l.end(new(order), status)
		if (len(l.violations) == 0) != fine {
			t.Errorf("%s: violations %q", status, l.violations)
		}
	}
}

// texts are the violations that a ledger has found.
func texts(l *ledger) string {
	var all []string
	for _, v := range l.found() {
		all = append(all, v.String())
	}
	return strings.Join(all, "\n")
}
