package law

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/sim"
)

// vote lets a person answer what waits. Alice, whose calls they are, is one of them.
func (r *run) vote(ctx context.Context, who int) {
	person := desk.Person{Name: fmt.Sprintf("p%d", who), Groups: []string{"g", "h"}}
	if who == 4 {
		person.Name = "alice"
	}
	part := r.sim.Part(person.Name, sim.Chances{sim.LostBefore: 0.05, sim.LostAfter: 0.05, sim.Delayed: 0.05})
	d, err := desk.Open(&seam{r.Store, r.stores, r.law, part}, nil)
	if err != nil {
		r.violate("opening a desk: %v", err)
		return
	}
	busy := []float64{0.2, 0.5, 1, 2}[r.Seed%4]
	if r.TTL > 0 {
		busy = float64(r.TTL) / 2
	}
	for part.Pause(ctx, busy) {
		var waiting []*desk.Question
		for q, err := range d.Waiting(ctx, desk.Waiting{}) {
			if err == nil && q.Principal != "mallory" {
				waiting = append(waiting, q)
			}
		}
		if len(waiting) > 0 {
			r.answer(ctx, d, part, person, waiting[part.IntN(len(waiting))])
		}
	}
}

func (r *run) answer(ctx context.Context, d *desk.Desk, part *sim.Part, person desk.Person, q *desk.Question) {
	a, outcome := desk.Answer{By: person, Action: "accept", Reason: "why not"}, "accept"
	switch n := part.IntN(20); {
	case n == 0:
		a.Action, outcome = "decline", "decline"
	case n == 1:
		a.Action, outcome = "cancel", "cancel"
	case asks[q.AuthorKey].form: // some edit what others have proposed
		outcome = fmt.Sprint("accept ", max(0, n-15))
		a.Content = fmt.Appendf(nil, `{"n":%d}`, max(0, n-15))
	}
	if ahead := []string{"", "", "", "", "", "claim", "hand over", "extend"}[part.IntN(8)]; r.Virtual && ahead != "" {
		r.meanwhile(ctx, d, part, person, q, ahead)
	}
	at := time.Now()
	of, v := q.Name+" "+q.Key, vote{person.Name, a.Action, string(a.Content), at}
	r.mu.Lock()
	r.given[of+" "+person.Name] = append(r.given[of+" "+person.Name], outcome)
	r.mu.Unlock()
	_, err := d.Answer(ctx, q.Name, q.Key, a)
	_, closed := errors.AsType[*desk.ClosedError](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && person.Name == q.Principal && !slices.Contains(q.For, "user:"+person.Name):
		r.bad = append(r.bad, fmt.Sprintf("%q has answered their own call: %q", person.Name, q.Key))
	case err == nil:
		r.cast[of] = append(slices.Clip(r.cast[of]), v)
		r.summary.Votes++
	case closed:
		r.refused[of] = append(slices.Clip(r.refused[of]), v)
	default: // it may be there
		r.refused[of] = append(slices.Clip(r.refused[of]), vote{who: v.who})
	}
}

// meanwhile is what a person does with a question before they answer it.
func (r *run) meanwhile(
	ctx context.Context, d *desk.Desk, part *sim.Part, person desk.Person, q *desk.Question, what string,
) {
	switch what {
	case "claim":
		_, _ = d.Claim(ctx, q.Name, q.Key, person, 2*r.Unit)
	case "hand over":
		_, _ = d.HandOver(ctx, q.Name, q.Key, person, fmt.Sprint("p", part.IntN(4)), 2*r.Unit)
	case "extend":
		_, _ = d.Extend(ctx, q.Name, q.Key, person, q.Deadline.Add(3*r.Unit), "tomorrow")
	}
	part.Pause(ctx, 0.5)
}
