package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// unanswered is the verdict of a deadline.
const unanswered = stored.Unanswered

const (
	// bound is how long somebody may wait for what nobody else holds up. A kill costs a lease and the time in which nginx
	// leaves an instance alone; a failover takes a few seconds; a bridge is started until it finds an instance.
	bound = time.Minute
	// noticeBound is longer: a notice whose deliverer is killed waits for the lease of the delivery, which is a minute,
	// and that may happen again.
	noticeBound = 2*time.Minute + bound
)

// record is what was seen of a run, by everybody. It is safe for concurrent use.
type record struct {
	mu      sync.Mutex
	calls   []*call
	tried   []vote
	taken   []vote // those of tried that were acknowledged
	effects []effect
	notices []notice
	faults  []*fault
	rows    []*row
	quiet   time.Time // the end of the time in which instances are only restarted

	violations []string // found at once
	longest    map[string]time.Duration
}

// change changes the record.
func (r *record) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// violate notes a violation that is seen at once.
func (r *record) violate(format string, args ...any) {
	r.change(func() { r.violations = append(r.violations, fmt.Sprintf(format, args...)) })
}

// begin notes a fault, which lasts until end is called.
func (r *record) begin(kind string, pid int) (end func()) {
	f := &fault{kind, pid, time.Now(), time.Now().Add(time.Hour)}
	r.change(func() { r.faults = append(r.faults, f) })
	return func() { r.change(func() { f.to = time.Now() }) }
}

// excuses reports whether a process was kept from its work at some time between two.
func (r *record) excuses(pid int, from, to time.Time) bool {
	from = from.Add(-2 * lease) // it may have lost its lease before, or died while what it sent was under way
	return slices.ContainsFunc(r.faults, func(f *fault) bool {
		return (f.pid == 0 || f.pid == pid) && !f.to.Before(from) && f.from.Before(to)
	})
}

// String says what happened.
func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{"tasks": len(r.rows), "votes acknowledged": len(r.taken), "effects": len(r.effects),
		"notices": len(r.notices)}
	for _, f := range r.faults {
		counts[f.kind]++
	}
	for _, c := range r.calls {
		counts[fmt.Sprintf("calls by %s: %s", c.way, cmp.Or(c.end, "not ended"))]++
	}
	for _, row := range r.rows {
		for _, q := range row.questions {
			action, _, _ := strings.Cut(q.verdict, " ")
			counts["decisions: "+cmp.Or(action, "none")]++
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%6d %s\n", counts[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.longest)) {
		fmt.Fprintf(&b, "%6.1f s at most from %s\n", r.longest[name].Seconds(), name)
	}
	return b.String()
}

// account returns what must not have happened, and what has not happened yet.
func (r *record) account() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &audit{record: r, has: make(map[vote]bool), orders: make(map[string]*row), effects: make(map[string][]effect)}
	r.longest = make(map[string]time.Duration)
	for _, e := range r.effects {
		a.effects[e.ID] = append(a.effects[e.ID], e)
	}
	for _, row := range r.rows {
		for _, q := range row.questions {
			a.checkVotes(row, q)
			if !row.bridge {
				a.checkNotices(row, q)
			}
		}
		if row.status == task.Working || row.status == task.InputRequired {
			a.violate("the task %s of %s has not ended: it is %s", row.name, row.order, row.status)
		} else if !row.bridge {
			a.checkOrder(row)
		}
	}
	for _, v := range r.taken {
		if !a.has[v] {
			a.violate("the %s of %s on %s of %s was acknowledged, and is lost", v.action, v.who, v.key, v.task)
		}
	}
	for _, c := range r.calls {
		a.checkCall(c)
	}
	slices.Sort(a.found)
	return slices.Concat(r.violations, a.found)
}

// audit is one look at a record.
type audit struct {
	*record
	has     map[vote]bool // in the rows
	orders  map[string]*row
	effects map[string][]effect // by their orders
	found   []string
}

func (a *audit) violate(format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf(format, args...))
}

// took notes how long somebody waited.
func (a *audit) took(what string, d, most time.Duration, of string) {
	a.longest[what] = max(a.longest[what], d)
	if d > most {
		a.violate("%s took %v from %s: want at most %v", of, d.Round(time.Millisecond), what, most)
	}
}

// checkVotes checks that the votes of a question were given, each once and in time, and that its decision is theirs.
func (a *audit) checkVotes(row *row, q *question) {
	of := fmt.Sprintf("the question %s of %s (%s)", q.author, row.order, row.name)
	var by []input.Provenance
	want := ""
	for i, v := range q.ballot.Votes {
		given := vote{row.name, q.Key, v.Who, v.Action}
		if a.has[given] = true; !slices.Contains(a.tried, given) {
			a.violate("%s has a vote of %s that nobody gave", of, v.Who)
		}
		if !q.Deadline.IsZero() && !v.When.Before(q.Deadline) {
			a.violate("%s has a vote of %s after its deadline", of, v.Who)
		}
		if i < q.ballot.From {
			continue
		}
		if slices.ContainsFunc(by, func(p input.Provenance) bool { return p.Who == v.Who }) {
			a.violate("%s counts %s twice", of, v.Who)
		}
		by = append(by, v.Provenance())
		if v.Action != "accept" || len(by) >= q.need {
			want = verdict(v.Action, by)
		}
	}
	switch {
	case want == "" && q.verdict != "" && q.verdict != unanswered, want != "" && q.verdict != want:
		a.violate("%s is decided as %q, and its votes say %q", of, q.verdict, want)
	case q.verdict == unanswered:
		a.took("a deadline to what follows", q.Changed.Sub(q.Deadline), bound, of)
	}
	if len(q.For) > 0 && q.page != q.verdict {
		a.violate("%s is decided as %q, and the page says %q", of, q.verdict, q.page)
	}
}

// checkOrder checks that the task of an order has ended as people decided, and that the effect is as it should be.
func (a *audit) checkOrder(row *row) {
	if a.orders[row.order] != nil {
		a.violate("the order %s has two tasks", row.order)
	}
	a.orders[row.order] = row
	decided := ""
	for _, q := range row.questions {
		if q.verdict != unanswered {
			decided = q.verdict
		}
	}
	if want := row.order + ": " + decided; row.status != task.Completed || row.text != want {
		a.violate("the task %s is %s with %q, and people decided %q", row.name, row.status, row.text, want)
	}
	did := a.effects[row.order]
	if pays := strings.HasPrefix(decided, "accept"); pays != (len(did) > 0) {
		a.violate("the order %s has %d effects, and people decided %q", row.order, len(did), decided)
	}
	for i, e := range did {
		if e.Verdict != decided {
			a.violate("the order %s is paid because of %q, and people decided %q", row.order, e.Verdict, decided)
		}
		if e.Key != did[0].Key {
			a.violate("the order %s is paid twice: with the keys %s and %s", row.order, did[0].Key, e.Key)
		}
		if i > 0 && !a.excuses(did[i-1].PID, did[i-1].at, e.at) {
			a.violate("the order %s was paid by the process %d, which nothing kept from recording that, and again by %d",
				row.order, did[i-1].PID, e.PID)
		}
	}
}

// checkNotices checks that the notices of a question arrived, and in which order they did so first.
func (a *audit) checkNotices(row *row, q *question) {
	want := []task.NoticeKind{task.NoticeAsked, task.NoticeDecided, task.NoticeEnded}
	if q.verdict == unanswered {
		want[1] = task.NoticeUnanswered
	}
	var got []task.NoticeKind
	for _, n := range a.notices {
		if n.Name != row.name || n.Key != q.Key || slices.Contains(got, n.Kind) {
			continue
		}
		got = append(got, n.Kind)
		if n.Principal != slowCaller {
			a.took("what happened to its notice", n.at.Sub(n.Time), noticeBound, "the notice "+n.ID)
		}
	}
	if !slices.Equal(got, want) {
		a.violate("of the question %s of %s (%s) these notices arrived: %v, want %v",
			q.author, row.order, row.name, got, want)
	}
}

// checkCall checks how a call ended for its host.
func (a *audit) checkCall(c *call) {
	of := fmt.Sprintf("%s of %s by %s", c.tool, c.id, c.way)
	row, effects := a.orders[c.id], len(a.effects[c.id])
	want := map[string]string{"quick": "hello octocat in " + c.id, "once": "done " + c.id}[c.tool]
	if row != nil {
		want = row.text
	}
	switch {
	case c.end == "":
		a.violate("%s has not ended: %s", of, c.text)
		return
	case c.end == done && c.text != want:
		a.violate("%s ended with %q, want %q", of, c.text, want)
	case c.end != done && c.ended.Before(a.quiet) && c.way != "session" && !strings.Contains(c.text, "was not called: "):
		a.violate("%s ended as %s while instances were only restarted: %s", of, c.end, c.text)
	case c.end != done && c.way == rounds:
		a.violate("%s ended as %s, and each of its rounds was repeated: %s", of, c.end, c.text)
	case effects > 0 && (c.end == unsent || c.tool == "once" && c.end == refused):
		a.violate("%s did not run as its host reads, and has an effect: %s", of, c.text)
	case c.tool == "once" && (effects > 1 || c.end == done && effects == 0):
		a.violate("%s ended as %s and was done %d times", of, c.end, effects)
	}
	switch {
	case c.tool == "once" || c.tool == "quick":
		a.took("a call to its end", c.ended.Sub(c.began), bound, of)
	case c.end == done && row != nil && len(row.questions) > 0:
		decided := row.questions[len(row.questions)-1].decided
		a.took("a decision to its result", c.ended.Sub(decided), bound, of)
	}
}
