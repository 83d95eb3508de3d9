package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/names"
)

// guard finds out which tools the patterns of the operator's approvals guard. A pattern that guards nothing is probably
// wrong, and a tool that it was meant for would run unasked: so if no pattern guards anything, no call is passed on.
type guard struct {
	approve *calls.Approval
	tools   *names.Choice // of all servers
	servers []*behind
	catalog *catalog
	early   *early
	log     *slog.Logger

	refusal atomic.Pointer[string] // why no call is passed on, or nil

	mu     sync.Mutex
	said   string // what the log has been told last
	proven atomic.Bool
}

// Refuses implements [calls.Guard]. A pattern that has guarded a tool once is no mistake: a server whose guarded tools
// are gone is refused then, and not the others.
func (g *guard) Refuses(s *calls.Server) error {
	reason := g.refusal.Load()
	if reason == nil || g.proven.Load() && !g.of(s).guarded.Load() {
		return nil
	}
	return errors.New(*reason)
}

// Reviewed implements [calls.Guard]. While the bridge starts, it waits until the patterns were compared with the tools
// of all servers that are there.
func (g *guard) Reviewed(ctx context.Context) error {
	if g.approve == nil {
		return nil
	}
	select {
	case <-g.early.started.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listed is a tool that a server has listed, whether it is offered or not.
type listed struct {
	*behind
	names   []string // all that patterns are compared with
	shownAs string   // the name that hosts see, or empty
}

// listed returns the tools of all servers whose lists were read, and the titles of the other servers.
func (g *guard) listed() (all []listed, missing []string) {
	for _, u := range g.servers {
		offered := u.offered.Load()
		if offered == nil {
			missing = append(missing, u.Title)
			continue
		}
		for _, name := range *offered {
			_, shownAs := g.catalog.tools.from(u.Server, name)
			names := u.scheme.All(name)
			if shownAs != "" {
				names = append(names, shownAs)
			}
			all = append(all, listed{u, names, shownAs})
		}
	}
	return all, missing
}

// idle returns the patterns that match no tool. A pattern that begins with the prefix of a missing server can be for
// nothing else.
func (g *guard) idle(patterns []string, all []listed, match func(pattern string, names []string) bool) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool {
		return slices.ContainsFunc(all, func(t listed) bool { return match(pattern, t.names) }) ||
			slices.ContainsFunc(g.servers, func(u *behind) bool {
				return u.offered.Load() == nil && u.scheme.Before() != "" && strings.HasPrefix(pattern, u.scheme.Before())
			})
	})
}

// unused is a pattern that matches no tool.
type unused struct{ of, pattern string }

// unused returns the patterns of choices that match no tool.
func (g *guard) unused(all []listed) (none []unused) {
	add := func(c *names.Choice, whose string, all []listed) {
		for _, part := range []struct {
			of       string
			patterns []string
			match    func(pattern string, names []string) bool
		}{
			{"what is allowed", c.Allow, names.Match},
			{"what is denied", c.Deny, names.Match},
			{"what is renamed", slices.Sorted(maps.Keys(c.Rename)), func(old string, names []string) bool {
				return slices.Contains(names[:2], old)
			}},
		} {
			for _, pattern := range g.idle(part.patterns, all, part.match) {
				none = append(none, unused{part.of + whose, pattern})
			}
		}
	}
	add(g.tools, "", all)
	for _, u := range g.servers {
		if u.offered.Load() != nil {
			others := func(t listed) bool { return t.behind != u }
			add(u.scheme.Choices[0], " at "+u.Title, slices.DeleteFunc(slices.Clone(all), others))
		}
	}
	return none
}

// review compares the patterns with the tools of all servers whose lists were read, and tells the operator what has
// changed.
func (g *guard) review(ctx context.Context) {
	a := g.approve
	g.mu.Lock()
	defer g.mu.Unlock()
	all, missing := g.listed()
	none := g.unused(all)
	var guarded, tools, idle []string
	for _, t := range all {
		if t.shownAs != "" {
			tools = append(tools, t.shownAs)
		}
		if a.Of(t.names) == nil {
			continue
		}
		if t.shownAs != "" {
			guarded = append(guarded, t.shownAs)
		}
		t.guarded.Store(true)
		g.proven.Store(true)
	}
	var refusal *string
	if a != nil {
		idle = g.idle(a.Tools, all, names.Match)
	}
	if a != nil && len(idle) == len(a.Tools) {
		text := fmt.Sprintf("no tool matches what people are to approve (%s). The tools are %s", some(a.Tools), some(tools))
		if missing != nil {
			text += "; these servers are missing: " + some(missing)
		}
		refusal, idle = &text, nil
	}
	g.refusal.Store(refusal)
	for _, pattern := range idle {
		none = append(none, unused{"what people are to approve", pattern})
	}
	said := fmt.Sprintf("%q %q %v", guarded, none, refusal != nil)
	if said == g.said {
		return
	}
	g.said = said
	if refusal != nil {
		g.log.ErrorContext(ctx, "bridge: no call is passed on: "+*refusal)
	} else if a != nil {
		g.log.InfoContext(ctx, "bridge: people approve the calls of these tools", "tools", some(guarded))
	}
	for _, u := range none {
		g.log.WarnContext(ctx, "bridge: no tool matches a pattern of "+u.of, "pattern", u.pattern)
	}
}

// of returns the server that calls are for.
func (g *guard) of(s *calls.Server) *behind {
	return g.servers[slices.IndexFunc(g.servers, func(b *behind) bool { return b.Server == s })]
}

// MadeFor implements [calls.Guard].
func (g *guard) MadeFor(identity, tool string) *calls.Target {
	for _, u := range g.servers {
		if u.Identity != identity || u.offered.Load() == nil {
			continue
		}
		if t, _ := g.catalog.tools.from(u.Server, tool); t != nil {
			return t
		}
		gone := u.tool(tool, "")
		gone.Gone.Store(true)
		return gone
	}
	return nil
}

// some quotes names, up to a number that a person reads.
func some(names []string) string {
	const most = 50
	var quoted []string
	for _, name := range slices.Sorted(slices.Values(names))[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	if len(names) > most {
		quoted = append(quoted, fmt.Sprintf("and %d more", len(names)-most))
	}
	if quoted == nil {
		return "none"
	}
	return strings.Join(quoted, ", ")
}
