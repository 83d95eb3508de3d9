// Package discover finds what a server has and what of it asks, by calling what may be called.
package discover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/plan"
	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	maxPages  = 5    // of a list
	maxListed = 100  // tools, prompts and resources
	maxCalled = 40   // of them, to see whether they ask
	maxName   = 1000 // bytes
)

// A Discovery finds what a server has, and what of it asks.
type Discovery struct {
	*talk.Client
	calls map[string]plan.Call // of the plan
	allow []string             // names that may be called to their end; "*" is all
	tell  func(what string)    // what comes next

	Name       string // and version that the server gives itself
	Targets    []*talk.Target
	Planned    map[string]plan.Call // how everything is called
	OldTasks   bool                 // the server says that it has the tasks of an earlier revision
	OtherAsked string               // a request that must not ask, and did
	Lister     string               // the method of the first list that has a result; empty: there is none
	Nothing    string               // why there are no targets

	refusal     string // of a list
	refusedCall string // the first call that is refused, and why
}

// New returns a discovery that calls what the plan and the permission allow. It tells its next action.
func New(c *talk.Client, calls map[string]plan.Call, allow []string, tell func(what string)) *Discovery {
	return &Discovery{Client: c, calls: calls, allow: allow, tell: tell, Planned: map[string]plan.Call{}}
}

// Run finds what asks, by calling what it may call.
func (d *Discovery) Run(ctx context.Context) {
	d.tell("what the server has")
	res, err := d.sendTwice(ctx, transport.Request{Method: "server/discover", Capabilities: transport.AllCapabilities})
	if err != nil {
		d.Nothing = "the server does not answer: " + d.Line.Cause(err)
		return
	}
	if res.Status >= 300 && res.Status < 400 {
		d.Nothing = fmt.Sprintf("the server redirects (%d), and a check follows no redirect: give the address itself",
			res.Status)
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
	_ = json.Unmarshal(res.Result, &about)
	if about.ServerInfo.Name == "" {
		_ = json.Unmarshal(about.Meta["io.modelcontextprotocol/serverInfo"], &about.ServerInfo)
	}
	d.Name = strings.TrimSpace(about.ServerInfo.Name + " " + about.ServerInfo.Version)
	d.Line.MakesTasks, d.OldTasks = about.Capabilities.Extensions[talk.TasksExtension] != nil,
		about.Capabilities.Tasks != nil
	unlike := "the server does not say that it speaks revision 2026-07-28, as the check does"
	switch versions := about.SupportedVersions; {
	case res.Fault != nil:
		unlike = fmt.Sprintf("server/discover is refused with %q (status %d): the check speaks revision 2026-07-28, "+
			"and wants a header with a token if the server does", talk.CutText(res.Fault.Message), res.Status)
	case slices.Contains(versions, rawclient.Modern):
		d.Line.Revision = rawclient.Modern
	case len(versions) > 0:
		unlike = fmt.Sprintf("the server speaks %s, and the check speaks 2026-07-28", talk.CutText(strings.Join(versions,
			", ")))
	}
	if d.Nothing = unlike; res.Status == 401 || res.Status == 403 {
		return
	}
	d.noteAsked("server/discover", res.Result)
	called := 0
	for _, list := range []struct{ method, member, call string }{
		{"tools/list", "tools", "tools/call"}, {"prompts/list", "prompts", "prompts/get"},
		{"resources/list", "resources", "resources/read"},
	} {
		for _, entry := range d.list(ctx, list.method, list.member) {
			d.Nothing = ""
			t, may := d.newTarget(list.call, entry)
			if t == nil {
				continue
			}
			d.note(t)
			if !may || called == maxCalled {
				continue
			}
			called++
			d.tell(t.String())
			if d.explore(ctx, t); t.Asks() || t.Task != nil {
				d.Targets = append(d.Targets, t)
			}
		}
	}
	if d.Line.Revision == "" {
		d.Nothing = unlike
		return
	}
	if len(d.Targets) == 0 && d.Nothing == "" && d.Lister == "" {
		d.Nothing = cmp.Or(d.refusal, d.Line.Stopped)
	}
	if len(d.Targets) == 0 && d.Nothing == "" {
		d.Nothing = "nothing that may be called asks a question; --allow NAME permits more calls, " +
			"and the file of 'askback check init' says with which arguments"
		if d.refusedCall != "" {
			d.Nothing += ": " + d.refusedCall
		}
	}
	// What can be judged by most probes comes first, in case the requests do not last.
	slices.SortStableFunc(d.Targets, func(a, b *talk.Target) int { return targetWorth(b) - targetWorth(a) })
}

// targetWorth says how much can be judged with a target.
func targetWorth(t *talk.Target) (n int) {
	if t.Ends {
		n += 4
	}
	if t.StateRound() > 0 {
		n += 4
	}
	if t.Task != nil && !t.Asks() {
		n += 8 // the other targets have probes of their own
	}
	return n + len(t.Rounds)
}

func (d *Discovery) list(ctx context.Context, method, member string) (all []listed) {
	params := map[string]any{}
	seen := map[string]bool{} // cursors may lead in a circle
	for range maxPages {
		res, err := d.sendTwice(ctx, transport.Request{Method: method, Params: params,
			Capabilities: transport.AllCapabilities})
		if err != nil || res.Fault != nil {
			if err == nil && d.refusal == "" {
				d.refusal = fmt.Sprintf("%s is refused with %q", method, talk.CutText(res.Fault.Message))
			}
			return all
		}
		d.Lister = cmp.Or(d.Lister, method)
		d.noteAsked(method, res.Result)
		var page map[string]json.RawMessage
		var entries []listed
		var cursor string
		_ = json.Unmarshal(res.Result, &page)
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
func (d *Discovery) sendTwice(ctx context.Context, q transport.Request) (*transport.Response, error) {
	res, err := d.Line.Send(ctx, q)
	if errors.Is(err, transport.ErrLost) {
		res, err = d.Line.Send(ctx, q)
	}
	return res, err
}

// noteAsked notes that a request which must not ask has asked.
func (d *Discovery) noteAsked(method string, result json.RawMessage) {
	var kind struct{ ResultType string }
	if json.Unmarshal(result, &kind) == nil && kind.ResultType == "input_required" {
		d.OtherAsked = method
	}
}

// newTarget returns how an entry is called, and whether it may be. It is nil for an entry without a name, or with one
// that nobody could read.
func (d *Discovery) newTarget(method string, entry listed) (t *talk.Target, may bool) {
	t = &talk.Target{Method: method, Name: entry.Name}
	if method == "resources/read" {
		t.Name = entry.URI
	}
	if t.Name == "" || len(t.Name) > maxName {
		return nil, false
	}
	plan, ok := d.calls[t.String()]
	if !ok {
		plan = d.calls[t.Name]
	}
	t.Plan = plan
	allowed := plan.ToTheEnd || slices.Contains(d.allow, t.Name) || slices.Contains(d.allow, "*")
	readOnly := method != "tools/call" || entry.Annotations.ReadOnly != nil && *entry.Annotations.ReadOnly
	if t.Ends = allowed || readOnly; !t.Ends {
		t.Why = "it is not marked read-only: --allow " + t.Name + " lets it be called to its end"
	}
	prepareArguments(d.Client, t, entry)
	return t, !plan.Never && (t.Ends || d.Line.Local && !entry.Annotations.destroys())
}

// note keeps how a target is called, for the file of [Init].
func (d *Discovery) note(t *talk.Target) {
	if _, ok := d.Planned[t.String()]; ok || len(d.Planned) == maxListed {
		return
	}
	p := t.Plan
	if p.ToTheEnd = t.Ends; t.Make != nil {
		p.Arguments = t.Make(plan.AnyText)
	}
	d.Planned[t.String()] = p
}

// explore calls a target as far as it may be called, and keeps its rounds. A call that takes long is not repeated,
// since it may wait for somebody.
func (d *Discovery) explore(ctx context.Context, t *talk.Target) {
	if d.Line.MakesTasks && t.Method == "tools/call" && !d.exploreTask(ctx, t) {
		return
	}
	for range transport.MaxLosses {
		c, err := d.Call(ctx, t, corpus.Step{})
		for err == nil && t.Ends && c.Last().Asks() && len(c.Replies) < talk.MaxRounds {
			_, err = d.Answer(ctx, c, corpus.Step{})
		}
		if c != nil && len(c.Replies) > len(t.Rounds) {
			t.Rounds, t.Text = c.Replies, c.Text
		}
		if !errors.Is(err, transport.ErrLost) {
			break
		}
	}
	if len(t.Rounds) > 0 && t.Rounds[0].Class == talk.Refused && d.refusedCall == "" {
		d.refusedCall = fmt.Sprintf("%s is refused with %q", t, talk.CutText(cmp.Or(t.Rounds[0].Raw, t.Rounds[0].Why)))
	}
	// A form that cannot be filled is asked again and again.
	for n := len(t.Rounds); n > 1 && t.Rounds[n-1].Repeats(t.Rounds[n-2]); n-- {
		t.Rounds = t.Rounds[:n-1]
	}
}

// exploreTask calls a tool with the extension, as far as it may be called. It looks for a tool that becomes a task at
// once, and for one that does so after rounds: two of them are judged. It reports whether the call has become a task.
func (d *Discovery) exploreTask(ctx context.Context, t *talk.Target) bool {
	tk, err := transport.RetryLost(func() (*talk.Task, error) {
		tk, err := d.TryToCreate(ctx, t, corpus.Step{})
		if len(tk.Call.Replies) > len(t.Rounds) {
			t.Rounds, t.Text = tk.Call.Replies, tk.Call.Text
		}
		return tk, err
	})
	if err != nil || tk.ID == "" {
		return false
	}
	defer d.Leave(ctx, tk)
	t.Rounds = nil
	late := len(tk.Call.Replies) > 1
	if slices.ContainsFunc(d.Targets, func(o *talk.Target) bool { return o.Task != nil && isLate(o) == late }) {
		return true
	}
	t.Task = tk
	if p, err := d.Observe(ctx, tk, nil, talk.MaxPolls); err == nil && p.Class == talk.Advanced && t.Ends {
		_, _ = d.Complete(ctx, tk) // how far it came is in the task
	}
	return true
}

// isLate reports whether the target becomes a task after rounds.
func isLate(t *talk.Target) bool { return len(t.Task.Call.Replies) > 1 }

// Describe returns a target for a report.
func Describe(t *talk.Target) findings.Target {
	s := findings.Target{Method: t.Method, Name: t.Name, Ended: t.Ends, Why: t.Why, Asks: []string{}}
	for _, round := range t.Rounds {
		if round.Asks() {
			s.Rounds++
		}
		for _, q := range round.Questions {
			s.Asks = append(s.Asks, q.Method)
		}
	}
	if t.Task != nil {
		s.Rounds = max(s.Rounds, t.TaskRounds())
		for _, p := range t.Task.Seen {
			for _, q := range p.Questions {
				s.Asks = append(s.Asks, q.Method)
			}
		}
	}
	slices.Sort(s.Asks)
	s.Asks = slices.Compact(s.Asks)
	return s
}
