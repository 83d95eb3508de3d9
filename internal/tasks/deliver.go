package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

const (
	// inFlight bounds the events of a subscription that are tried at a time. Behind them none is read.
	inFlight = 32
	// attempts bounds how an event is tried: at once, and after 10, 40, 160 and 640 seconds.
	attempts   = 5
	firstRetry = 10 * time.Second
	// runTime is how long a subscription is served before others have their turn. It is claimed for longer.
	runTime  = 20 * time.Second
	runLease = 2 * time.Minute

	// look is how often what other instances have written is looked for, if none says so.
	look, hurry = 400 * time.Millisecond, 100 * time.Millisecond
	// emittedLook is how often a subscription to an author's events looks for some.
	emittedLook = 30 * time.Second
	// conflicts bounds how often a subscription is saved that somebody else changes at the same time.
	conflicts = 10
	// missingWithin is how long a type of events may be unknown: another release may know it.
	missingWithin = time.Hour
)

// hook is what the store has as the state of a subscription. All times are by the clock of the store.
type hook struct {
	hookTerms
	hookProgress
}

// hookTerms are what a subscriber has said.
type hookTerms struct {
	Params json.RawMessage `json:"params"` // the name and the arguments
	URL    string          `json:"url"`
	// Secrets are sealed: the one that was given last and, until Grace, the one before.
	Secrets []string  `json:"secrets"`
	Grace   time.Time `json:"grace,omitzero"`
	Since   time.Time `json:"since,omitzero"` // events that were written before are left out
}

// hookProgress is what has become of the events.
type hookProgress struct {
	Cursor  string          `json:"cursor"`            // up to there all are accepted or given up
	Deleted int64           `json:"deleted,omitempty"` // of what was deleted up to there, the subscriber was told
	Tries   map[string]*try `json:"tries,omitempty"`   // of events after the cursor, by their IDs
	// Envelope tells the subscriber of a gap or, with an error, that this is the end.
	Envelope *envelope `json:"envelope,omitempty"`

	Delivered   time.Time `json:"delivered,omitzero"`
	FailedSince time.Time `json:"failedSince,omitzero"`
	LastError   string    `json:"lastError,omitempty"`
	Missing     time.Time `json:"missing,omitzero"` // since when the type of the events is unknown
}

// try is how one message was tried so far.
type try struct {
	Attempts int       `json:"attempts,omitempty"`
	First    time.Time `json:"first,omitzero"`
	Due      time.Time `json:"due,omitzero"`
	Done     bool      `json:"done,omitempty"` // it is accepted, or given up
}

// paused reports whether a message waits until its endpoint accepts something, or its subscription is prolonged.
func (t *try) paused() bool { return !t.Done && t.Attempts >= attempts }

type envelope struct {
	try
	ID    string         `json:"id"`
	Error *jsonrpc.Error `json:"error,omitempty"`
}

// ends reports whether the subscriber is about to be told that this is the end.
func (h *hookProgress) ends() bool { return h.Envelope != nil && h.Envelope.Error != nil }

// waiting yields how each message was tried that may be sent again.
func (h *hookProgress) waiting(yield func(*try) bool) {
	for _, t := range h.Tries {
		if !t.Done && !yield(t) {
			return
		}
	}
	if h.Envelope != nil && !h.Envelope.Done {
		yield(&h.Envelope.try)
	}
}

// resume has everything that is paused tried anew.
func (h *hookProgress) resume() {
	for t := range h.waiting {
		if t.paused() {
			t.Attempts, t.Due = 0, time.Time{}
		}
	}
}

// status is what the subscriber is told when the subscription is prolonged.
func (h *hookProgress) status() map[string]any {
	status := map[string]any{"active": true, "lastError": nil}
	for t := range h.waiting {
		if t.paused() {
			status["active"] = false
		}
	}
	if !h.Delivered.IsZero() {
		status["lastDeliveryAt"] = h.Delivered
	}
	if h.LastError != "" {
		status["lastError"], status["failedSince"] = h.LastError, h.FailedSince
	}
	return status
}

// deliverEvents serves the subscriptions that are due until ctx is done.
func (s *Service) deliverEvents(ctx context.Context) {
	w := s.Events.Webhooks
	for ctx.Err() == nil {
		var due []*task.Subscription
		var err error
		if c := w.claim(); c.Limit > 0 {
			err = s.Engine.Subscriptions(ctx, "ClaimSubscriptions",
				func(ctx context.Context, store task.Subscriptions) (err error) {
					due, err = store.ClaimSubscriptions(ctx, c)
					return err
				})
		}
		for _, sub := range due {
			w.count(sub, 1)
			w.serving.Go(func() {
				s.serveSubscription(ctx, sub)
				w.count(sub, -1)
				w.Wake()
			})
		}
		wake := w.wake
		if err != nil && ctx.Err() == nil { // a store that fails is not hurried
			s.Log.ErrorContext(ctx, "askback: looking for events to deliver failed; trying again", "error", err)
			wake = nil
		}
		if len(due) > 0 {
			continue
		}
		select {
		case <-wake:
			time.Sleep(hurry) // more may have changed
		case <-time.After(look/2 + jitter.N(look)):
		case <-ctx.Done():
		}
	}
	w.serving.Wait()
}

// serveSubscription delivers what is new, and saves the subscription.
func (s *Service) serveSubscription(ctx context.Context, sub *task.Subscription) {
	r := &hookRun{s: s, sub: sub, leased: sub.Leased, began: time.Now()}
	sub.Due, sub.Leased = time.Time{}, time.Time{}
	err := fault.Safely(func() error { return r.serve(ctx) })
	if err == nil {
		sub.State, err = json.Marshal(&r.h)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		sub.Due = r.now()
	default:
		sub.Due = r.now().Add(time.Minute)
		s.Log.ErrorContext(ctx, "askback: serving a subscription to events failed; trying again", "subscription", sub.ID,
			"error", err)
	}
	ctx = context.WithoutCancel(ctx)
	served := err == nil && !r.h.ends()
	err = s.saveSubscription(ctx, sub)
	for tries := 0; errors.Is(err, task.ErrConflict) && tries < conflicts; tries++ {
		err = r.reconcile(ctx, served)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "askback: events may be delivered again: the store did not take note", "subscription", sub.ID,
			"error", err)
	}
}

// reconcile saves a subscription that its subscriber has prolonged while it was served, with what has become of its
// events, if that is known. One that somebody else serves, or that has ended, is left alone.
func (r *hookRun) reconcile(ctx context.Context, served bool) error {
	all, err := r.s.subscribed(ctx, r.sub.Principal)
	i := slices.IndexFunc(all, func(one *task.Subscription) bool {
		return one.ID == r.sub.ID && one.Leased.Equal(r.leased)
	})
	if err != nil || i < 0 {
		return err
	}
	sub := all[i]
	if sub.Leased = (time.Time{}); served {
		var h hook
		if err := json.Unmarshal(sub.State, &h); err != nil {
			return err
		}
		h.hookProgress = r.h.hookProgress
		h.resume()
		if sub.State, err = json.Marshal(&h); err != nil {
			return err
		}
	}
	return r.s.saveSubscription(ctx, sub)
}

func (s *Service) saveSubscription(ctx context.Context, sub *task.Subscription) error {
	return s.Engine.Subscriptions(ctx, "SaveSubscription", func(ctx context.Context, store task.Subscriptions) error {
		return store.SaveSubscription(ctx, sub, s.Events.Webhooks.PerPrincipal)
	})
}

// subscribed returns the subscriptions of a principal.
func (s *Service) subscribed(ctx context.Context, principal string) (all []*task.Subscription, err error) {
	err = s.Engine.Subscriptions(ctx, "Subscribed", func(ctx context.Context, store task.Subscriptions) (err error) {
		all, err = store.Subscribed(ctx, principal)
		return err
	})
	return all, err
}

// hookRun serves a subscription once.
type hookRun struct {
	s      *Service
	sub    *task.Subscription
	h      hook
	keys   [][]byte
	leased time.Time // until when the subscription is claimed
	began  time.Time // by the clock of this process

	stopped  bool // nothing more is sent in this run
	accepted bool // the endpoint has accepted something
}

// now is the time by the clock of the store.
func (r *hookRun) now() time.Time { return r.leased.Add(time.Since(r.began) - runLease) }

// lookIn makes the subscription due after a time, if nothing makes it due before.
func (r *hookRun) lookIn(d time.Duration) {
	// In milliseconds, as stores have it: otherwise it would be due before its time.
	at := r.now().Add(d + time.Millisecond - 1).Truncate(time.Millisecond)
	if r.sub.Due.IsZero() || at.Before(r.sub.Due) {
		r.sub.Due = at
	}
}

// serve delivers what is new.
func (r *hookRun) serve(ctx context.Context) (err error) {
	w, h := r.s.Events.Webhooks, &r.h
	if err := json.Unmarshal(r.sub.State, h); err != nil {
		return err
	}
	if r.keys, err = w.openKeys(ctx, r.sub, h); err != nil {
		return err
	}
	var batch *eventBatch
	if !h.ends() {
		batch, err = r.read(ctx)
	}
	if err != nil || batch == nil && !h.ends() {
		return err
	}
	if e := h.Envelope; e != nil {
		body := map[string]any{"type": "gap", "cursor": h.Cursor}
		if e.Error != nil {
			body = map[string]any{"type": "terminated", "error": e.Error}
		}
		r.attempt(ctx, &e.try, e.ID, body)
		switch {
		case e.Error != nil && (e.Done || e.paused()):
			r.sub.Expires = time.Time{}
			return nil
		case e.Done:
			h.Envelope = nil
		}
	}
	if batch != nil {
		r.deliver(ctx, batch)
	}
	if r.accepted {
		h.resume()
	}
	for t := range h.waiting {
		in := max(t.Due.Sub(r.now()), 0)
		if r.stopped {
			in = max(in, time.Second)
		}
		if !t.paused() {
			r.lookIn(in)
		}
	}
	return nil
}

// read reads what is new, if the subscriber may still have it. Otherwise the subscription ends. Nil is nothing to
// deliver.
func (r *hookRun) read(ctx context.Context) (*eventBatch, error) {
	f, invalid := r.s.parseFollowed(r.h.Params)
	if invalid != nil && invalid.Code == wire.CodeNotFound {
		if r.h.Missing.IsZero() {
			r.h.Missing = r.now()
		}
		if r.now().Sub(r.h.Missing) < missingWithin {
			r.lookIn(time.Minute)
			return nil, nil
		}
	} else if r.h.Missing = (time.Time{}); invalid != nil {
		invalid = schemaChanged()
	}
	if invalid != nil {
		r.end(invalid)
		return nil, nil
	}
	if may := r.s.Continues; may != nil {
		err := fault.Safely(func() error { return may(ctx, r.sub.Principal, wire.SubscribeEvents, f.of.Name) })
		switch {
		case errors.Is(err, fault.ErrUndecided), err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			r.s.Calls.Audit.Tell(ctx, report.AuditEvent{Kind: report.AuditRefused, Principal: r.sub.Principal,
				Method: wire.SubscribeEvents, Target: f.of.Name, Reason: "authorize"})
			r.revoked()
			return nil, nil
		}
	}
	switch {
	case r.s.Events.Groups != nil && f.of.people:
		r.lookIn(time.Minute) // what a group is asked wakes nobody: the store does not know who is in it
	case f.of.match != nil:
		r.lookIn(emittedLook) // nor does what is for all
	}
	f.fromNow, f.since = false, r.h.Since
	f.from, _ = parseEventCursor(r.h.Cursor)
	b, err := r.s.readEvents(ctx, r.sub.Principal, f, inFlight)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == wire.CodeForbidden {
		r.revoked()
		return nil, nil
	}
	if err == nil && (b.reset || b.truncated && b.deleted > r.h.Deleted) {
		r.h.Envelope = &envelope{ID: "msg_gap_" + rand.Text()}
		if r.h.Cursor, r.h.Deleted = b.start(), b.deleted; b.reset {
			r.h.Tries = nil
		}
	}
	return b, err
}

// end has the subscription end, once its endpoint was told.
func (r *hookRun) end(err *jsonrpc.Error) {
	r.h.Envelope, r.h.Tries = &envelope{ID: "msg_terminated_" + rand.Text(), Error: err}, nil
}

func (r *hookRun) revoked() {
	r.end(wire.DataError(wire.CodeForbidden, map[string]any{"reason": "Access revoked"}, "Forbidden"))
}

// deliver tries the events of a batch, each by itself, and moves the cursor behind those that are done.
func (r *hookRun) deliver(ctx context.Context, b *eventBatch) {
	tries := r.h.Tries
	r.h.Tries = make(map[string]*try)
	for i := range b.events {
		e := &b.events[i]
		t := cmp.Or(tries[e.ID], new(try))
		// A cursor that comes with an event may be its own: who has the cursor has the event.
		at, first := r.h.Cursor, len(r.h.Tries) == 0 // all before are done
		if first {
			at = e.after.encode()
		}
		r.attempt(ctx, t, e.ID, struct {
			*occurrence
			Cursor string `json:"cursor"`
		}{e, at})
		if first && t.Done {
			r.h.Cursor = at
		} else {
			r.h.Tries[e.ID] = t
		}
	}
	if len(r.h.Tries) == 0 { // and what the subscriber does not get is passed over
		r.h.Cursor = b.next.encode()
	}
	if b.more && len(r.h.Tries) < inFlight {
		r.lookIn(0)
	}
}

// attempt sends a message, unless it is done or not due, and notes what comes of it.
func (r *hookRun) attempt(ctx context.Context, t *try, id string, message any) {
	h, now := &r.h, r.now()
	if t.Done || t.paused() || r.stopped || t.Due.After(now) {
		return
	}
	body, err := json.Marshal(message)
	if err != nil {
		t.Done = true // it was read from JSON
		return
	}
	status, _, failure := r.s.Events.Webhooks.post(ctx, h.URL, r.sub.ID, r.keys, id, body)
	gone := status == http.StatusGone || status == http.StatusRequestEntityTooLarge
	r.stopped = failure != "" && !gone || time.Since(r.began) > runTime
	switch {
	case failure == "":
		t.Done, r.accepted = true, true
		h.Delivered, h.FailedSince, h.LastError = now, time.Time{}, ""
	case gone:
		t.Done = true
	case ctx.Err() == nil: // otherwise this process stops, and another one tries it
		r.failed(ctx, t, now, failure)
	}
}

// failed notes an attempt that has failed. After the last one the message is given up if the endpoint has accepted
// others meanwhile. If not, the endpoint is away: then the message waits until that accepts something, or until the
// subscriber comes back.
func (r *hookRun) failed(ctx context.Context, t *try, now time.Time, failure string) {
	if r.h.LastError = failure; r.h.FailedSince.IsZero() {
		r.h.FailedSince = now
	}
	if t.First.IsZero() {
		t.First = now
	}
	t.Due = now.Add(firstRetry << (2 * t.Attempts))
	if t.Attempts++; !t.paused() {
		return
	}
	says := "askback: an endpoint accepts no events; they wait until it does, or is named again"
	if t.Done = r.h.Delivered.After(t.First); t.Done {
		says = "askback: an event was not accepted, and is given up"
	}
	r.s.Log.WarnContext(ctx, says, "subscription", r.sub.ID, "host", r.sub.Host, "error", failure)
}
