package desk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// The actions of an answer.
const (
	accept  = "accept"
	decline = "decline"
	dismiss = "cancel"
)

// proposal returns the content of the votes that count. Only the first of them has it.
func proposal(b *stored.Ballot) json.RawMessage {
	if b.From == len(b.Votes) {
		return nil
	}
	return b.Votes[b.From].Content
}

// counts reports whether this vote of the same person is among those that count.
func counts(b *stored.Ballot, v *stored.Vote) bool {
	return slices.ContainsFunc(b.Votes[b.From:], func(c stored.Vote) bool {
		return c.Who == v.Who && c.Action == v.Action && equal(proposal(b), v.Content)
	})
}

// cast adds a vote that does not count yet, and returns the decision that it makes, if this many votes make one:
//
//   - An accept counts together with accepts of equal content. With another content it begins a new count.
//   - Anything else decides at once, even if others have accepted.
func cast(b *stored.Ballot, votes int, v stored.Vote) *stored.Decision {
	if b.Claim != nil && b.Claim.By == v.Who {
		b.Claim = nil
	}
	if v.Action != accept || b.From < len(b.Votes) && !equal(proposal(b), v.Content) {
		b.From = len(b.Votes)
	}
	if b.From < len(b.Votes) {
		v.Content = nil
	}
	b.Votes = append(b.Votes, v)
	trim(b)
	count := b.Votes[b.From:]
	if v.Action == accept && len(count) < votes {
		return nil
	}
	d := &stored.Decision{Action: v.Action, Content: proposal(b), When: v.When}
	for _, c := range count {
		d.By = append(d.By, c.Provenance())
	}
	return d
}

// equal reports whether two contents, each of them checked or missing, are the same value.
func equal(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return bytes.Equal(strictjson.AppendCanonical(nil, a), strictjson.AppendCanonical(nil, b))
}

// The bounds of a question's history: at most 256 votes and events that no longer count, and fewer if they are long.
const (
	mostHistory   = 1 << 20
	weightOfEntry = mostHistory / 256
)

// trim shortens the history while there is too much of it: it forgets the oldest entry of the person who has most. So a
// person who fills the history loses their own entries, and nobody else's vote can be pushed out of sight.
func trim(b *stored.Ballot) {
	weights, total := make(map[string]int), 0
	add := func(who string, n int) { weights[who] += n; total += n }
	for i := range b.From {
		add(b.Votes[i].Who, weightOfVote(&b.Votes[i]))
	}
	for i := range b.Events {
		add(b.Events[i].Who, weightOfEvent(&b.Events[i]))
	}
	for total > mostHistory {
		who := slices.MaxFunc(slices.Collect(maps.Keys(weights)), func(a, b string) int {
			return cmp.Or(cmp.Compare(weights[a], weights[b]), cmp.Compare(a, b))
		})
		vote := slices.IndexFunc(b.Votes[:b.From], func(v stored.Vote) bool { return v.Who == who })
		event := slices.IndexFunc(b.Events, func(e stored.Event) bool { return e.Who == who })
		if event < 0 || vote >= 0 && !b.Events[event].When.Before(b.Votes[vote].When) {
			add(who, -weightOfVote(&b.Votes[vote]))
			b.Votes = slices.Delete(b.Votes, vote, vote+1)
			b.From--
		} else {
			add(who, -weightOfEvent(&b.Events[event]))
			b.Events = slices.Delete(b.Events, event, event+1)
		}
	}
}

func weightOfVote(v *stored.Vote) int   { return weightOfEntry + len(v.Content) + len(v.Why) }
func weightOfEvent(e *stored.Event) int { return weightOfEntry + len(e.Text) }
