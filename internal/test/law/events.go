package law

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// poller is a host that follows the events of one type that a principal may read.
type poller struct {
	*caller
	name   string
	cursor []byte

	seen    map[string]int       // how many events have said the same of a call
	excused map[string]int       // how many more need not come
	counted map[string]int       // by eventId
	latest  map[string]time.Time // when the last event of a call was, by the call's name
}

// groupsOf are the groups of principals who poll.
var groupsOf = map[string][]string{"p0": {"g", "h"}}

// groups says who is in which groups, as somebody who is out of reach now and then.
func groups(part *sim.Part) func(context.Context, string) ([]string, error) {
	return func(ctx context.Context, principal string) ([]string, error) {
		return sim.Get(ctx, part, "groups", func(context.Context) ([]string, error) { return groupsOf[principal], nil })
	}
}

// isFor reports whether a question of somebody's call is for the poller.
func (p *poller) isFor(q *task.Question) bool {
	return q.Principal != p.principal && slices.ContainsFunc(q.For, func(who string) bool {
		group, is := strings.CutPrefix(who, "group:")
		return who == "user:"+p.principal || is && slices.Contains(groupsOf[p.principal], group)
	})
}

// newPoller returns a host without a cursor.
func (r *run) newPoller(principal, name, what string) *poller {
	return &poller{
		caller: &caller{run: r, part: r.sim.Part(what+" of "+principal+" for "+name, Network), principal: principal,
			capabilities: `{}`},
		name: name, cursor: []byte("null"), seen: make(map[string]int), counted: make(map[string]int),
		latest: make(map[string]time.Time),
	}
}

// newPollers returns a host for each type of events and each principal, which has its first cursor.
func (r *run) newPollers(ctx context.Context) (all []follower) {
	for _, principal := range []string{"alice", "bob", "p0", "p1"} {
		for _, name := range []string{"question.asked", "question.decided", "call.ended"} {
			p := r.newPoller(principal, name, "poller")
			for string(p.cursor) == "null" && p.part.Pause(ctx, 0.1) {
				p.poll(ctx)
			}
			all = append(all, p)
		}
	}
	return all
}

// run polls until ctx is done. Now and then the host is away, or follows on a stream.
func (p *poller) run(ctx context.Context) {
	for p.part.Pause(ctx, 0.5) {
		if p.part.Chance(0.1) {
			p.part.Pause(ctx, 30)
		}
		if p.Virtual && p.part.Chance(0.1) {
			p.stream(ctx)
		}
		p.poll(ctx)
	}
}

// poll polls once. It reports whether there is more, or whether the answer was lost.
func (p *poller) poll(ctx context.Context) (more bool) {
	before := p.losses()
	page, err := p.send(ctx, "events/poll", p.name,
		`"name":`+harness.Quote(p.name)+`,"maxEvents":3,"cursor":`+string(p.cursor))
	if err != nil || page == nil {
		return true
	}
	if page["truncated"] != false && before == 0 && p.losses() == 0 {
		p.violate("%s: events are missing, although the store has lost none: %v", p.part.Name, page)
	}
	for i := range page["events"].([]any) {
		e := harness.At(page, "events", i)
		at, _ := time.Parse(time.RFC3339, harness.At(e, "timestamp").(string))
		p.take(ctx, harness.At(e, "eventId").(string), at, harness.At(e, "data"), before)
	}
	p.cursor, _ = json.Marshal(page["cursor"])
	return page["hasMore"] == true
}

// stream follows for a while on a stream, which the client opens again where it breaks off.
func (p *poller) stream(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.part.IntN(120))*p.Unit)
	defer cancel()
	session, err := client.New(nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://" + address(p.part.IntN(p.Servers)), HTTPClient: p.client()}, nil)
	if err != nil {
		return
	}
	defer session.Close()
	from, before := "", p.losses()
	_ = json.Unmarshal(p.cursor, &from)
	for page, err := range session.StreamEvents(ctx, client.EventPoll{Name: p.name, Cursor: from}) {
		if err != nil {
			return
		}
		if page.Truncated && before == 0 && p.losses() == 0 {
			p.violate("%s: events are missing on a stream, although the store has lost none: %+v", p.part.Name, page)
		}
		for _, e := range page.Events {
			var data any
			_ = json.Unmarshal(e.Data, &data)
			p.take(ctx, e.ID, e.Timestamp, data, before)
		}
		p.cursor, _ = json.Marshal(page.Cursor)
		p.mu.Lock()
		p.summary.Streamed += len(page.Events)
		p.mu.Unlock()
	}
}

// take takes an event, when the store had lost something so many times before it was asked for.
func (p *poller) take(ctx context.Context, id string, at time.Time, data any, before int64) {
	if p.counted[id]++; p.counted[id] > 1 {
		if p.losses() == 0 {
			p.violate("%s: the event %s comes again: %v", p.part.Name, id, data)
		}
		return
	}
	name := harness.At(data, "call").(string)
	if at.Before(p.latest[name]) && p.losses() == 0 {
		p.violate("%s is told late of what was before: %v", p.part.Name, data)
	}
	p.latest[name] = at
	p.note(ctx, data, before)
}

// note notes what an event says, when the store had lost something so many times before it was asked for.
func (p *poller) note(ctx context.Context, data any, before int64) {
	name := harness.At(data, "call").(string)
	if id, caller := harness.At(data, "taskId").(string); caller {
		if t, err := p.Store.Get(ctx, id); err == nil && (t.Principal != p.principal || task.Name(id) != name) {
			p.violate("%s is told of a call of %s: %v", p.part.Name, t.Principal, data)
		}
	} else if rows, err := p.Store.Questions(ctx, name); err == nil && len(rows) > 0 && before == p.losses() &&
		!slices.ContainsFunc(rows, func(q *task.Question) bool {
			return p.isFor(q) && q.Key == harness.At(data, "question")
		}) {
		p.violate("%s is told of a question that is not for them: %v", p.part.Name, data)
	}
	p.seen[keyOf(data)]++
}

// keyOf is what an event says.
func keyOf(data any) string {
	return fmt.Sprint(harness.At(data, "call"), harness.At(data, "of"), harness.At(data, "outcome"),
		harness.At(data, "status"))
}

// check polls until there is nothing left, and then wants to have seen each event that the store has.
func (p *poller) check(ctx context.Context) {
	for p.poll(ctx) && p.part.Pause(ctx, 0.5) {
	}
	for _, one := range p.missing(ctx) {
		p.violate("%s: %s", p.part.Name, one)
	}
}

// missing says which events that the store has were not seen.
func (p *poller) missing(ctx context.Context) (all []string) {
	want := make(map[string]int)
	for _, t := range p.tasks(ctx) {
		add := func(of, outcome, status any) { want[fmt.Sprint(task.Name(t.ID), of, outcome, status)]++ }
		if t.Principal == p.principal && t.Status.Terminal() && p.name == "call.ended" {
			add(nil, nil, t.Status)
		}
		rows, err := p.Store.Questions(ctx, task.Name(t.ID))
		if err != nil {
			p.violate("the questions of a task: %v", err)
		}
		for _, q := range rows {
			d, err := stored.DecodeDecision(q.Decision)
			switch {
			case len(q.For) == 0 || q.Principal != p.principal && !p.isFor(q):
			case p.name == "question.asked":
				add("people", nil, nil)
			case p.name != "question.decided" || err != nil: // nobody has decided it
			case d.Action == stored.Unanswered:
				add(nil, "unanswered", nil)
			default:
				add(nil, "decided", nil)
			}
		}
	}
	for _, one := range slices.Sorted(maps.Keys(want)) {
		if p.seen[one]+p.excused[one] < want[one] {
			all = append(all, fmt.Sprintf("told %d times of %s, want %d", p.seen[one], one, want[one]))
		}
	}
	return all
}
