package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// guard finds out which tools the patterns of the operator's approvals guard. A pattern that guards nothing is probably
// wrong, and a tool that it was meant for would run unasked: so if no pattern guards anything, no call is passed on.
type guard struct {
	refusal atomic.Pointer[string] // why no call is passed on, or nil

	mu     sync.Mutex
	said   string // what the log has been told last
	proven atomic.Bool
}

// refuses returns the reason why calls of a server are not passed on, or nil. A pattern that has guarded a tool once is
// no mistake: a server whose guarded tools are gone is refused then, and not the others.
func (g *guard) refuses(u *upstream) error {
	reason := g.refusal.Load()
	if reason == nil || g.proven.Load() && !u.guarded.Load() {
		return nil
	}
	return errors.New(*reason)
}

// reviewed waits, while the bridge starts, until the patterns were compared with the tools of all servers that are
// there.
func (b *Bridge) reviewed(ctx context.Context) error {
	if b.opts.Approve == nil {
		return nil
	}
	select {
	case <-b.early.started.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ready returns an error before Start has returned, while no call is passed on because no tool matches the patterns of
// Approval.Tools, and the errors of askback.Server.Ready.
func (b *Bridge) Ready(ctx context.Context) error {
	if !b.early.isOver() {
		return errors.New("bridge: the servers behind have not said yet what they offer")
	}
	if reason := b.guard.refusal.Load(); reason != nil && !b.guard.proven.Load() {
		return fmt.Errorf("bridge: %s", *reason)
	}
	return b.server.Ready(ctx)
}

// listed is a tool that a server has listed, whether it is offered or not.
type listed struct {
	*upstream
	names []string // all that patterns are compared with
	as    string   // the name that hosts see, or empty
}

// listed returns the tools of all servers whose lists were read, and the titles of the other servers.
func (b *Bridge) listed() (all []listed, missing []string) {
	for _, u := range b.servers {
		offered := u.offered.Load()
		if offered == nil {
			missing = append(missing, u.title)
			continue
		}
		for _, name := range *offered {
			_, as := b.tools.from(u, name)
			names := u.names(name)
			if as != "" {
				names = append(names, as)
			}
			all = append(all, listed{u, names, as})
		}
	}
	return all, missing
}

// idle returns the patterns that match no tool. A pattern that begins with the prefix of a missing server can be for
// nothing else.
func (b *Bridge) idle(patterns []string, all []listed, match func(pattern string, names []string) bool) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool {
		return slices.ContainsFunc(all, func(t listed) bool { return match(pattern, t.names) }) ||
			slices.ContainsFunc(b.servers, func(u *upstream) bool {
				return u.offered.Load() == nil && u.before() != "" && strings.HasPrefix(pattern, u.before())
			})
	})
}

// unused is a pattern that matches no tool.
type unused struct{ of, pattern string }

// unused returns the patterns of choices that match no tool.
func (b *Bridge) unused(all []listed) (none []unused) {
	add := func(c *Choice, whose string, all []listed) {
		for _, part := range []struct {
			of       string
			patterns []string
			match    func(pattern string, names []string) bool
		}{
			{"what is allowed", c.Allow, matches},
			{"what is denied", c.Deny, matches},
			{"what is renamed", slices.Sorted(maps.Keys(c.Rename)), func(old string, names []string) bool {
				return slices.Contains(names[:2], old)
			}},
		} {
			for _, pattern := range b.idle(part.patterns, all, part.match) {
				none = append(none, unused{part.of + whose, pattern})
			}
		}
	}
	add(&b.opts.Tools, "", all)
	for _, u := range b.servers {
		if u.offered.Load() != nil {
			add(&u.Tools, " at "+u.title, slices.DeleteFunc(slices.Clone(all), func(t listed) bool { return t.upstream != u }))
		}
	}
	return none
}

// review compares the patterns with the tools of all servers whose lists were read, and tells the operator what has
// changed.
func (b *Bridge) review(ctx context.Context) {
	a, g := b.opts.Approve, &b.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	all, missing := b.listed()
	none := b.unused(all)
	var guarded, tools, idle []string
	for _, t := range all {
		if t.as != "" {
			tools = append(tools, t.as)
		}
		if a.of(t.names) == nil {
			continue
		}
		if t.as != "" {
			guarded = append(guarded, t.as)
		}
		t.guarded.Store(true)
		g.proven.Store(true)
	}
	var refusal *string
	if a != nil {
		idle = b.idle(a.Tools, all, matches)
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
		b.log.ErrorContext(ctx, "bridge: no call is passed on: "+*refusal)
	} else if a != nil {
		b.log.InfoContext(ctx, "bridge: people approve the calls of these tools", "tools", some(guarded))
	}
	for _, u := range none {
		b.log.WarnContext(ctx, "bridge: no tool matches a pattern of "+u.of, "pattern", u.pattern)
	}
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

// plainName matches the characters of a tool's name as the specification has it (server/tools, "Tool Names").
var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func isPlain(name string) bool { return len(name) <= 128 && plainName.MatchString(name) }

// checkPlain returns an error for a name that could pass by a pattern unseen.
func (u *upstream) checkPlain(name string) error {
	whole := u.before() + name
	if u.opts.Approve == nil || isPlain(name) && isPlain(whole) {
		return nil
	}
	return fmt.Errorf("the name %.200q is not 1 to 128 of A-Z, a-z, 0-9, _, - and ., so nobody can tell whether its "+
		"calls have to be approved", whole)
}
