// Package trial runs the probes of states and answers. A request that is accepted is no finding by itself: each attack
// runs between controls, which are honest calls and calls that must not work, and it counts if it has an influence.
package trial

import (
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/attack"
	"github.com/askback-mcp/askback/check/internal/talk"
)

// A Judge runs the probes of states and answers, each between its controls.
type Judge struct {
	*attack.Attacker
	targets []*talk.Target
	ttl     time.Duration // how long a state is valid

	controls map[controlKey]*talk.Reply
	expires  time.Time                     // when the states of expiring calls are no longer valid
	expiring map[*talk.Target][]*talk.Call // whose states are to expire
}

// New returns a judge of these targets. Zero is a time that is not known.
func New(c *talk.Client, targets []*talk.Target, ttl time.Duration) *Judge {
	return &Judge{Attacker: &attack.Attacker{Client: c}, targets: targets, ttl: ttl,
		controls: map[controlKey]*talk.Reply{}, expiring: map[*talk.Target][]*talk.Call{}}
}

// A trial is one attack on one target.
type trial struct {
	corpus.Probe
	aim     corpus.Step  // the step that is judged
	target  *talk.Target // where the attack goes
	victim  *talk.Target // whose state it takes, which is often the same
	round   int
	control *controls
}

// controls are the replies to honest calls, and to calls that must not work. Probes share them, because requests are
// scarce: the honest call after one attack is the one before the next.
type controls struct {
	valid     *talk.Reply // the honest answer
	second    *talk.Reply // of the second identity, or of the target, the server that the attack goes to
	negatives []*talk.Reply
	random    *talk.Reply // the negative with random characters as its state, if there is one
}

// A controlKey says which control a target has had: as whom, where, in which round, and what is wrong with it.
type controlKey struct {
	target         *talk.Target
	as, at         string
	round          int
	state, answers string // of a request that must not work; both are empty for the honest call
}
