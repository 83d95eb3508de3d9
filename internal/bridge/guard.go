package bridge

import (
	"context"
	"errors"
	"fmt"
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

// Ready returns an error while no call is passed on because no tool matches the patterns of Approval.Tools, and the
// errors of askback.Server.Ready.
func (b *Bridge) Ready(ctx context.Context) error {
	if reason := b.guard.refusal.Load(); reason != nil && !b.guard.proven.Load() {
		return fmt.Errorf("bridge: %s", *reason)
	}
	return b.server.Ready(ctx)
}

// review compares the patterns with the tools of all servers whose lists were read, and tells the operator what has
// changed.
func (b *Bridge) review(ctx context.Context) {
	a, g := b.opts.Approve, &b.guard
	if a == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var guarded, tools, missing []string
	idle := slices.Clone(a.Tools)
	for _, u := range b.servers {
		offered := u.offered.Load()
		if offered == nil { // a pattern that begins with its prefix can be for nothing else
			missing = append(missing, u.title)
			idle = slices.DeleteFunc(idle, func(p string) bool { return u.Prefix != "" && strings.HasPrefix(p, u.Prefix+"_") })
			continue
		}
		for _, name := range *offered {
			names := u.names(name)
			tools = append(tools, u.exposed(name))
			idle = slices.DeleteFunc(idle, func(p string) bool { return matches(p, names) })
			if a.of(names) != nil {
				guarded = append(guarded, u.exposed(name))
				u.guarded.Store(true)
				g.proven.Store(true)
			}
		}
	}
	var refusal *string
	if len(idle) == len(a.Tools) {
		text := fmt.Sprintf("no tool matches what people are to approve (%s). The tools are %s", some(a.Tools), some(tools))
		if missing != nil {
			text += "; these servers are missing: " + some(missing)
		}
		refusal = &text
	}
	g.refusal.Store(refusal)
	said := fmt.Sprintf("%q %q", guarded, idle)
	if said == g.said {
		return
	}
	g.said = said
	if refusal != nil {
		b.log.ErrorContext(ctx, "bridge: no call is passed on: "+*refusal)
		return
	}
	b.log.InfoContext(ctx, "bridge: people approve the calls of these tools", "tools", some(guarded))
	for _, pattern := range idle {
		b.log.WarnContext(ctx, "bridge: no tool matches a pattern of what people are to approve", "pattern", pattern)
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
	if u.opts.Approve == nil || isPlain(name) && isPlain(u.whole(name)) {
		return nil
	}
	return fmt.Errorf("the name %.200q is not 1 to 128 of A-Z, a-z, 0-9, _, - and ., so nobody can tell whether its "+
		"calls have to be approved", u.whole(name))
}
