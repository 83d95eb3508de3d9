package main

import (
	"strings"
	"testing"
	"time"
)

// at is a moment of the tests below.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func claimed(seconds float64, who string, fence int64) change {
	return change{at: at(seconds), who: who, task: "t", oldFence: fence - 1, fence: fence, status: "working",
		oldStatus: "working", until: at(seconds + 10)}
}

func renewed(seconds float64, who string) change {
	return change{at: at(seconds), who: who, task: "t", status: "working", oldStatus: "working", until: at(seconds + 10)}
}

// written is an update by which the task is no longer due.
func written(seconds float64, who, from, to string) change {
	return change{at: at(seconds), who: who, task: "t", version: 1, oldStatus: from, status: to,
		outcome: to == "completed"}
}

// taken is an update that claims the task.
func taken(seconds float64, who, from, to string) change {
	c := written(seconds, who, from, to)
	c.fence, c.until = 1, at(seconds+10)
	return c
}

// What the database can show to be wrong, in the least that shows it.
func TestLeases(t *testing.T) {
	again := written(20, "1.1", "completed", "completed")
	dueAgain := written(3, "1.1", "working", "completed")
	dueAgain.until = at(3)
	cancelled := written(4, "2.1", "working", "cancelled")
	cancelled.stopped, cancelled.until = true, at(10)
	cleanedUp := written(6, "1.1", "cancelled", "cancelled")
	cleanedUp.stopped, cleanedUp.oldStopped = true, true
	for _, tt := range []struct {
		name    string
		changes []change
		entries []entry
		want    string // the beginning of the violation; "" is none
	}{
		{"a lease that ended", []change{claimed(0, "1.1", 1), claimed(10, "2.1", 2)}, nil, ""},
		{"a lease that was renewed and ended", []change{claimed(0, "1.1", 1), renewed(3, "1.1"), claimed(13, "2.1", 2)}, nil,
			""},
		{"a lease that was given back", []change{claimed(0, "1.1", 1), written(1, "1.1", "working", "working"),
			claimed(2, "2.1", 2)}, nil, ""},
		{"a lease taken early", []change{claimed(0, "1.1", 1), claimed(9, "2.1", 2)}, nil,
			"early: task t: server 2.1 took the lease 1s before"},
		{"a lease that the database noted late",
			[]change{{at: at(0.3), who: "", task: "t", fence: 1, status: "working", oldStatus: "working", until: at(10)},
				claimed(10, "", 2)}, nil, ""},
		{"a lease that is too short",
			[]change{{at: at(0), who: "1.1", task: "t", fence: 1, status: "working", oldStatus: "working", until: at(1)}}, nil,
			"early: task t: server 1.1 took a lease of only 1s"},
		{"a lease that was given back, to be taken later", []change{claimed(0, "1.1", 1),
			{at: at(1), who: "1.1", task: "t", version: 1, fence: 0, status: "working", oldStatus: "working", until: at(3)},
			claimed(2, "2.1", 2)}, nil,
			"early: task t: server 2.1 took the lease 1s before"},
		{"a renewed lease taken early", []change{claimed(0, "1.1", 1), renewed(3, "1.1"), claimed(11, "2.1", 2)}, nil,
			"early: task t: server 2.1 took the lease 2s before"},
		{"a parked task that is answered elsewhere",
			[]change{claimed(0, "1.1", 1), written(1, "1.1", "working", "input_required"),
				written(2, "2.1", "input_required", "working"), claimed(3, "2.1", 2)}, nil, ""},
		{"a parked task that is answered and claimed elsewhere",
			[]change{claimed(0, "1.1", 1), written(1, "1.1", "working", "input_required"),
				taken(2, "2.1", "input_required", "working"), written(3, "2.1", "working", "completed")}, nil, ""},
		{"a task that is written and claimed elsewhere",
			[]change{claimed(0, "1.1", 1), taken(11, "2.1", "working", "completed")}, nil,
			"fence: task t: server 2.1, without the lease"},
		{"a task that is cancelled elsewhere", []change{claimed(0, "1.1", 1), cancelled, renewed(5, "1.1"), cleanedUp}, nil,
			""},
		{"a renewal by another", []change{claimed(0, "1.1", 1), renewed(1, "2.1")}, nil, "fence: task t: server 2.1 renewed"},
		{"an update by an earlier holder",
			[]change{claimed(0, "1.1", 1), claimed(10, "2.1", 2),
				written(11, "1.1", "working", "completed")}, nil, "fence: task t: server 1.1, without the lease"},
		{"an entry by the holder", []change{claimed(0, "1.1", 1)}, []entry{{at(1), "1.1", "t", "boot"}}, ""},
		{"an entry by an earlier holder", []change{claimed(0, "1.1", 1), claimed(10, "2.1", 2)},
			[]entry{{at(11), "1.1", "t", "boot"}}, "fence: task t: server 1.1 recorded"},
		{"an answer is recorded anywhere", []change{claimed(0, "1.1", 1), claimed(10, "2.1", 2)},
			[]entry{{at(11), "1.1", "t", ""}}, ""},
		{"an outcome that changes", []change{claimed(0, "1.1", 1), written(1, "1.1", "working", "completed"), again}, nil,
			"changed: task t: it was completed, and server 1.1"},
		{"an end that is due", []change{claimed(0, "1.1", 1), dueAgain}, nil,
			"changed: task t: it is completed, and due again"},
		{"an end that is claimed",
			[]change{{at: at(0), who: "1.1", task: "t", fence: 2, oldFence: 1, status: "completed", oldStatus: "completed",
				until: at(10)}}, nil,
			"changed: task t: it is completed, and server 1.1 took a lease"},
		{"a database that does not know who",
			[]change{claimed(0, "", 1), renewed(1, ""),
				written(2, "", "working", "completed")}, []entry{{at(1), "", "t", "boot"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.inspect(tt.changes, tt.entries)
			if got := texts(l); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}

// A step is done under a lease, except by a process that was stopped in the middle of it.
func TestStepsInTime(t *testing.T) {
	claims := map[string][]claim{"t": {{at(0), "1.1"}, {at(10), "2.1"}}}
	for _, tt := range []struct {
		name     string
		effect   effect
		trouble  *trouble
		want     string
		excluded bool
	}{
		{"by its holder", effect{at(9), "boot", "c", 1}, nil, "", false},
		{"by its next holder", effect{at(11), "boot", "c", 2}, nil, "", false},
		{"a write that the end of the lease met", effect{at(10.5), "boot", "c", 1}, nil, "", true},
		{"under the lease of another", effect{at(12), "boot", "c", 1}, nil,
			"fence: call c: process 1 did the step boot 2s after server 2.1", true},
		{"while it was cut off", effect{at(12), "boot", "c", 1}, &trouble{cutOff, 1, at(1), at(13)}, "fence:", true},
		{"when it was woken", effect{at(12), "boot", "c", 1}, &trouble{stopped, 1, at(1), at(11.9)}, "", true},
		{"long after it was woken", effect{at(14), "boot", "c", 1}, &trouble{stopped, 1, at(1), at(11.9)}, "fence:", true},
		{"without any lease", effect{at(5), "boot", "c", 3}, nil, "fence: call c: process 3 did the step boot without", true},
		{"of another task", effect{at(5), "boot", "d", 3}, nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.calls["t"] = "c"
			l.named("1.1", 1)
			l.named("2.1", 2)
			if tt.trouble != nil {
				l.troubles = append(l.troubles, tt.trouble)
			}
			left := l.inTime([]effect{tt.effect}, claims)
			if got := texts(l); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
			if (len(left) == 0) != tt.excluded {
				t.Errorf("in time: %v", left)
			}
		})
	}
}

// A kill excuses a repeat only if it came before the other had done the step.
func TestExcuses(t *testing.T) {
	l := newLedger()
	l.killed(1, at(5))
	l.troubles = append(l.troubles, &trouble{cutOff, 2, at(5), at(8)}, &trouble{cutOff, 0, at(20), at(22)})
	for _, tt := range []struct {
		pid        int
		did, again float64
		want       bool
	}{
		{1, 4, 6, true},
		{1, 4, 4.5, false}, // killed after the other had done it
		{1, 6, 7, false},
		{2, 7, 15, true},
		{2, 9, 15, false},
		{2, 1, 4, false},
		{3, 21, 30, true}, // nobody reached the database
	} {
		if got := l.excuse(tt.pid, at(tt.did), at(tt.again)) != nil; got != tt.want {
			t.Errorf("process %d did it at %v, and another at %v: excused %v, want %v", tt.pid, tt.did, tt.again, got, tt.want)
		}
	}
}

// A worker that continues with a step while another has its lease was not interrupted, without excuse.
func TestInterruptions(t *testing.T) {
	claims := map[string][]claim{"t": {{at(0), "1.1"}, {at(10), "2.1"}}, "u": {{at(0), ""}, {at(10), ""}}}
	for _, tt := range []struct {
		name string
		wait effect
		want string
	}{
		{"its holder", effect{at(9.9), "boot", "c", 1}, ""},
		{"its next holder", effect{at(10.1), "boot", "c", 2}, ""},
		{"an earlier holder", effect{at(10.1), "boot", "c", 1},
			"fence: call c: process 1 went on with the step boot 100ms after server 2.1 had taken its lease"},
		{"one without any lease", effect{at(10.1), "boot", "c", 3}, "fence: call c: process 3 went on with the step boot"},
		{"one of a database that does not know who", effect{at(10.1), "boot", "d", 1}, ""},
		{"one of another task", effect{at(10.1), "boot", "e", 1}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.calls["t"], l.calls["u"] = "c", "d"
			l.named("1.1", 1)
			l.named("2.1", 2)
			l.troubles = append(l.troubles, &trouble{stopped, 1, at(1), at(11)})
			l.interrupted([]effect{tt.wait}, claims)
			if got := texts(l); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("violations %q, want %q", got, tt.want)
			}
		})
	}
}
