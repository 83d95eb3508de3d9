package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	maxPages  = 5   // of a list
	maxListed = 100 // tools, prompts and resources
	maxCalled = 40  // of them, to see whether they ask
	maxRounds = 8
	maxName   = 1000 // bytes
)

// A target is something that asks.
type target struct {
	method, name string
	make         func(text string) map[string]any // the arguments of a call, with a text of its own
	free         string                           // the argument that takes any text, if there is one
	rows         []*row                           // values that calls use up, those that were used last at the end
	plan         PlannedCall
	ends         bool   // it may be called to its end
	why          string // why it may not
	rounds       []*reply
	text         string // of the arguments of the call with these rounds
	controls     map[controlKey]*reply
	expiring     []*call // whose states are to expire
	resists      bool    // it has refused every change of a state that shows no signature
	inputs       map[string]property
	task         *task         // that a call becomes for a client with the extension, as far as it was followed
	lag          int           // requests until an answer to the task was seen, or its end
	heard        time.Duration // until the owner of a task heard of it
}

func (t *target) String() string {
	if t == nil {
		return ""
	}
	return t.method + " " + t.name
}

func (t *target) shown() findings.Target {
	s := findings.Target{Method: t.method, Name: t.name, Ended: t.ends, Why: t.why, Asks: []string{}}
	for _, round := range t.rounds {
		if round.asks() {
			s.Rounds++
		}
		for _, q := range round.questions {
			s.Asks = append(s.Asks, q.method)
		}
	}
	if t.task != nil {
		s.Rounds = max(s.Rounds, t.taskRounds())
		for _, p := range t.task.seen {
			for _, q := range p.questions {
				s.Asks = append(s.Asks, q.method)
			}
		}
	}
	slices.Sort(s.Asks)
	s.Asks = slices.Compact(s.Asks)
	return s
}

// listed is an entry of a list.
type listed struct {
	Name        string          `json:"name"`
	URI         string          `json:"uri"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Arguments   []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"arguments"`
	Annotations hints `json:"annotations"`
}

// hints are what a server says of a tool.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

// destroys reports whether a tool is marked as destructive. Some libraries send the default of each hint for every
// tool, and so all four defaults together mark nothing.
func (h hints) destroys() bool {
	is := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	return is(h.Destructive, true) && !(is(h.ReadOnly, false) && is(h.Idempotent, false) && is(h.OpenWorld, true))
}

// discover finds what asks, by calling what it may call.
func (r *run) discover(ctx context.Context) {
	r.tell("what the server has")
	res, err := r.sendTwice(ctx, request{method: "server/discover", able: allCapabilities})
	if err != nil {
		r.nothing = "the server does not answer: " + cause(err, r.line)
		return
	}
	if res.status >= 300 && res.status < 400 {
		r.nothing = fmt.Sprintf("the server redirects (%d), and a check follows no redirect: give the address itself",
			res.status)
		return
	}
	var about struct {
		SupportedVersions []string `json:"supportedVersions"`
		ServerInfo        struct{ Name, Version string }
		Capabilities      struct {
			Extensions map[string]json.RawMessage
			Tasks      json.RawMessage
		}
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(res.result, &about)
	if about.ServerInfo.Name == "" {
		_ = json.Unmarshal(about.Meta["io.modelcontextprotocol/serverInfo"], &about.ServerInfo)
	}
	r.report.Name = strings.TrimSpace(about.ServerInfo.Name + " " + about.ServerInfo.Version)
	r.declares, r.oldTasks = about.Capabilities.Extensions[tasksExtension] != nil, about.Capabilities.Tasks != nil
	unlike := "the server does not say that it speaks revision 2026-07-28, as the check does"
	switch versions := about.SupportedVersions; {
	case res.fault != nil:
		unlike = fmt.Sprintf("server/discover is refused with %q (status %d): the check speaks revision 2026-07-28, "+
			"and wants a header with a token if the server does", cutText(res.fault.Message), res.status)
	case slices.Contains(versions, rawclient.Modern):
		r.report.Revision = rawclient.Modern
	case len(versions) > 0:
		unlike = fmt.Sprintf("the server speaks %s, and the check speaks 2026-07-28", cutText(strings.Join(versions, ", ")))
	}
	if r.nothing = unlike; res.status == 401 || res.status == 403 {
		return
	}
	r.noteAsked("server/discover", res.result)
	called := 0
	for _, list := range []struct{ method, member, call string }{
		{"tools/list", "tools", "tools/call"}, {"prompts/list", "prompts", "prompts/get"},
		{"resources/list", "resources", "resources/read"},
	} {
		for _, entry := range r.list(ctx, list.method, list.member) {
			r.nothing = ""
			t, may := r.newTarget(list.call, entry)
			if t == nil {
				continue
			}
			r.plan(t)
			if !may || called == maxCalled {
				continue
			}
			called++
			r.tell(t.String())
			if r.explore(ctx, t); t.asks() || t.task != nil {
				r.targets = append(r.targets, t)
			}
		}
	}
	if r.report.Revision == "" {
		r.nothing = unlike
		return
	}
	if len(r.targets) == 0 && r.nothing == "" && !r.listed {
		r.nothing = cmp.Or(r.refusal, r.line.stopped)
	}
	if len(r.targets) == 0 && r.nothing == "" {
		r.nothing = "nothing that may be called asks a question; --allow NAME permits more calls, " +
			"and the file of 'askback check init' says with which arguments"
		if r.refusedCall != "" {
			r.nothing += ": " + r.refusedCall
		}
	}
	// What can be judged by most probes comes first, in case the requests do not last.
	slices.SortStableFunc(r.targets, func(a, b *target) int { return b.worth() - a.worth() })
}

// worth says how much can be judged with a target.
func (t *target) worth() (n int) {
	if t.ends {
		n += 4
	}
	if t.stateRound() > 0 {
		n += 4
	}
	if t.task != nil && !t.asks() {
		n += 8 // the other targets have probes of their own
	}
	return n + len(t.rounds)
}

func (r *run) list(ctx context.Context, method, member string) (all []listed) {
	params := map[string]any{}
	seen := map[string]bool{} // cursors may lead in a circle
	for range maxPages {
		res, err := r.sendTwice(ctx, request{method: method, params: params, able: allCapabilities})
		if err != nil || res.fault != nil {
			if err == nil && r.refusal == "" {
				r.refusal = fmt.Sprintf("%s is refused with %q", method, cutText(res.fault.Message))
			}
			return all
		}
		r.listed, r.lister = true, cmp.Or(r.lister, method)
		r.noteAsked(method, res.result)
		var page map[string]json.RawMessage
		var entries []listed
		var cursor string
		_ = json.Unmarshal(res.result, &page)
		_ = json.Unmarshal(page[member], &entries)
		_ = json.Unmarshal(page["nextCursor"], &cursor)
		for _, entry := range entries {
			if id := entry.Name + " " + entry.URI; !seen[id] && len(all) < maxListed {
				seen[id] = true
				all = append(all, entry)
			}
		}
		if cursor == "" || cursor == params["cursor"] || len(all) == maxListed {
			return all
		}
		params = map[string]any{"cursor": cursor}
	}
	return all
}

// sendTwice sends a request once more if its response is lost, and no more often: the response may be too large.
func (r *run) sendTwice(ctx context.Context, q request) (*response, error) {
	res, err := r.send(ctx, q)
	if errors.Is(err, errLost) {
		res, err = r.send(ctx, q)
	}
	return res, err
}

// noteAsked notes that a request which must not ask has asked.
func (r *run) noteAsked(method string, result json.RawMessage) {
	var kind struct{ ResultType string }
	if json.Unmarshal(result, &kind) == nil && kind.ResultType == "input_required" {
		r.otherAsked = method
	}
}

// newTarget returns how an entry is called, and whether it may be. It is nil for an entry without a name, or with one
// that nobody could read.
func (r *run) newTarget(method string, entry listed) (t *target, may bool) {
	t = &target{method: method, name: entry.Name}
	if method == "resources/read" {
		t.name = entry.URI
	}
	if t.name == "" || len(t.name) > maxName {
		return nil, false
	}
	plan, ok := r.Plan.Calls[t.String()]
	if !ok {
		plan = r.Plan.Calls[t.name]
	}
	t.plan = plan
	allowed := plan.ToTheEnd || slices.Contains(r.Allow, t.name) || slices.Contains(r.Allow, "*")
	readOnly := method != "tools/call" || entry.Annotations.ReadOnly != nil && *entry.Annotations.ReadOnly
	if t.ends = allowed || readOnly; !t.ends {
		t.why = "it is not marked read-only: --allow " + t.name + " lets it be called to its end"
	}
	r.prepareArguments(t, entry)
	return t, !plan.Never && (t.ends || r.local && !entry.Annotations.destroys())
}

// plan notes how a target is called, for the file of [Init].
func (r *run) plan(t *target) {
	if _, ok := r.planned[t.String()]; ok || len(r.planned) == maxListed {
		return
	}
	p := t.plan
	if p.ToTheEnd = t.ends; t.make != nil {
		p.Arguments = t.make(freeText)
	}
	r.planned[t.String()] = p
}

// leastArguments returns the fewest arguments that fit, with a text in each of them that takes any text.
func leastArguments(entry listed, text string) map[string]any {
	arguments := map[string]any{}
	for _, a := range entry.Arguments {
		if a.Required {
			arguments[a.Name] = text
		}
	}
	for name, property := range required(entry.InputSchema) {
		arguments[name] = least(property, text)
	}
	return arguments
}

// explore calls a target as far as it may be called, and keeps its rounds. A call that takes long is not repeated,
// since it may wait for somebody.
func (r *run) explore(ctx context.Context, t *target) {
	if r.declares && t.method == "tools/call" && !r.exploreTask(ctx, t) {
		return
	}
	for range maxLosses {
		c, err := r.call(ctx, t, step{})
		for err == nil && t.ends && c.last().asks() && len(c.replies) < maxRounds {
			_, err = r.answer(ctx, c, step{})
		}
		if c != nil && len(c.replies) > len(t.rounds) {
			t.rounds, t.text = c.replies, c.text
		}
		if !errors.Is(err, errLost) {
			break
		}
	}
	if len(t.rounds) > 0 && t.rounds[0].class == refused && r.refusedCall == "" {
		r.refusedCall = fmt.Sprintf("%s is refused with %q", t, cutText(cmp.Or(t.rounds[0].raw, t.rounds[0].why)))
	}
	// A form that cannot be filled is asked again and again.
	for n := len(t.rounds); n > 1 && t.rounds[n-1].repeats(t.rounds[n-2]); n-- {
		t.rounds = t.rounds[:n-1]
	}
}

// asks reports whether the target asks before its result, or before it becomes a task.
func (t *target) asks() bool { return len(t.rounds) > 0 && t.rounds[0].asks() }

// stateRound is the number of the last round that has a state, from one. Zero is none.
func (t *target) stateRound() int {
	for i, round := range slices.Backward(t.rounds) {
		if round.asks() && round.state != nil {
			return i + 1
		}
	}
	return 0
}

// askRound is the number of the last round that asks.
func (t *target) askRound() int {
	for i, round := range slices.Backward(t.rounds) {
		if round.asks() {
			return i + 1
		}
	}
	return 0
}

func cause(err error, l *line) string {
	if errors.Is(err, errStopped) {
		return l.stopped
	}
	return err.Error()
}

func cutText(s string) string {
	if len(s) > 120 {
		return excerpt.Of(s, 120) + "…"
	}
	return s
}
