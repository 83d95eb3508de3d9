package tasks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
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
	// missingWithin is how long a type of events may be unknown: another release may know it.
	missingWithin = time.Hour
)

// hookProgress is what has become of the events of a subscription.
type hookProgress struct {
	Cursor  string `json:"cursor"`            // up to there all are accepted or given up
	Deleted int64  `json:"deleted,omitempty"` // of what was deleted up to there, the subscriber was told
	Tries   []*try `json:"tries,omitempty"`   // of events after the cursor
	// Envelope tells the subscriber of a gap or, with an error, that this is the end.
	Envelope *envelope `json:"envelope,omitempty"`
	Version  int64     `json:"version,omitempty"` // of the subscription, when it was served last

	Delivered   time.Time `json:"delivered,omitzero"` // all times are by the clock of the store
	FailedSince time.Time `json:"failedSince,omitzero"`
	LastError   string    `json:"lastError,omitempty"`
	Missing     time.Time `json:"missing,omitzero"` // since when the type of the events is unknown
}

// try is how one message was tried so far.
type try struct {
	Position int64     `json:"position,omitempty"` // of an event
	Attempts int       `json:"attempts,omitempty"`
	First    time.Time `json:"first,omitzero"`
	Due      time.Time `json:"due,omitzero"`
	Done     bool      `json:"done,omitempty"`   // it is accepted, or given up
	Paused   bool      `json:"paused,omitempty"` // until the endpoint accepts something, or the subscription is prolonged
}

type envelope struct {
	try
	ID    string         `json:"id"`
	Error *jsonrpc.Error `json:"error,omitempty"`
}

// missed reports whether events were deleted of which the subscriber was not told.
func (p *hookProgress) missed(b *eventBatch) bool {
	return b.reset || b.truncated && b.deleted > p.Deleted
}

// resume has everything that is paused tried anew.
func (p *hookProgress) resume() {
	all := p.Tries
	if p.Envelope != nil {
		all = append(all, &p.Envelope.try)
	}
	for _, t := range all {
		if t.Paused {
			t.Attempts, t.Due, t.Paused = 0, time.Time{}, false
		}
	}
}

// status is what the subscriber is told when the subscription is prolonged.
func (p *hookProgress) status() map[string]any {
	status := map[string]any{"active": true, "lastError": nil}
	for _, t := range p.Tries {
		if t.Paused {
			status["active"] = false
		}
	}
	if !p.Delivered.IsZero() {
		status["lastDeliveryAt"] = p.Delivered
	}
	if p.LastError != "" {
		status["lastError"], status["failedSince"] = p.LastError, p.FailedSince
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

// serveSubscription delivers what is new, and settles the subscription.
func (s *Service) serveSubscription(ctx context.Context, sub *task.Subscription) {
	r := &hookRun{s: s, sub: sub, began: time.Now(), look: -1}
	var due time.Duration
	err := fault.Safely(func() (err error) { due, err = r.serve(ctx); return err })
	if err == nil && r.p.Envelope != nil && r.p.Envelope.Error != nil && (r.p.Envelope.Done || r.p.Envelope.Paused) {
		err = s.endSubscription(ctx, sub)
		if err == nil || errors.Is(err, task.ErrNotFound) {
			return
		}
	}
	if err != nil {
		due = time.Minute
		if ctx.Err() != nil {
			due = 0
		} else {
			s.Log.ErrorContext(ctx, "askback: serving a subscription to events failed; trying again", "subscription", sub.ID,
				"error", err)
		}
	}
	ctx = context.WithoutCancel(ctx)
	err = s.Engine.Subscriptions(ctx, "SettleSubscription", func(ctx context.Context, store task.Subscriptions) error {
		return store.SettleSubscription(ctx, sub, due)
	})
	if err != nil && !errors.Is(err, task.ErrLeaseLost) {
		s.Log.WarnContext(ctx, "askback: events may be delivered again: the store did not take note", "error", err)
	}
}

// hookRun serves a subscription once.
type hookRun struct {
	s     *Service
	sub   *task.Subscription
	terms hookTerms
	p     hookProgress
	keys  [][]byte
	began time.Time
	now   time.Time // by the clock of the store, when the run began

	stopped  bool          // nothing more is sent in this run
	accepted bool          // the endpoint has accepted something
	look     time.Duration // when it is due again if there is nothing else to do; negative: when an event comes
}

// serve delivers what is new, and returns when the subscription is due again. A negative time is when there is news.
func (r *hookRun) serve(ctx context.Context) (due time.Duration, err error) {
	sub, w := r.sub, r.s.Events.Webhooks
	if r.now, err = r.s.Engine.Now(ctx); err != nil {
		return 0, err
	}
	if err := errors.Join(json.Unmarshal(sub.Terms, &r.terms), json.Unmarshal(sub.Progress, &r.p)); err != nil {
		return 0, err
	}
	if r.keys, err = w.openKeys(ctx, sub, &r.terms); err != nil {
		return 0, err
	}
	if r.p.Version != sub.Version {
		r.p.resume()
		r.p.Version = sub.Version
	}
	var batch *eventBatch
	if r.p.Envelope == nil || r.p.Envelope.Error == nil {
		if batch, err = r.read(ctx); err != nil {
			return 0, err
		}
	}
	if e := r.p.Envelope; e != nil {
		body := map[string]any{"type": "gap", "cursor": r.p.Cursor}
		if e.Error != nil {
			body = map[string]any{"type": "terminated", "error": e.Error}
		}
		if r.attempt(ctx, &e.try, e.ID, body); e.Done && e.Error == nil {
			r.p.Envelope = nil
		}
	}
	if batch != nil {
		r.deliver(ctx, batch)
	}
	if r.accepted {
		r.p.resume()
	}
	if sub.Terms, err = json.Marshal(&r.terms); err == nil {
		sub.Progress, err = json.Marshal(&r.p)
	}
	return r.due(batch), err
}

// read reads what is new, if the subscriber may still have it. Otherwise the subscription ends. Nil is nothing to
// deliver.
func (r *hookRun) read(ctx context.Context) (*eventBatch, error) {
	f, invalid := r.s.parseFollowed(r.terms.Params)
	if invalid != nil && invalid.Code == wire.CodeNotFound {
		if r.p.Missing.IsZero() {
			r.p.Missing = r.now
		}
		if r.now.Sub(r.p.Missing) < missingWithin {
			r.look = time.Minute
			return nil, nil
		}
	} else if r.p.Missing = (time.Time{}); invalid != nil {
		invalid = wire.DataError(wire.CodeUnsupported, map[string]any{"feature": "inputSchema", "reason": "schema_changed"},
			"the type of the events takes no such arguments any more")
	}
	if invalid != nil {
		r.tell("terminated", invalid)
		return nil, nil
	}
	if may := r.s.Continues; may != nil {
		err := fault.Safely(func() error { return may(ctx, r.sub.Principal, wire.SubscribeEvents, f.of.name) })
		switch {
		case errors.Is(err, fault.ErrUndecided), err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			r.s.Calls.Audit.Tell(ctx, report.AuditEvent{Kind: report.AuditRefused, Principal: r.sub.Principal,
				Method: wire.SubscribeEvents, Target: f.of.name, Reason: "authorize"})
			r.revoked()
			return nil, nil
		}
	}
	switch {
	case r.s.Events.Groups != nil && f.of.people:
		r.look = time.Minute // what a group is asked wakes nobody: the store does not know who is in it
	case f.of.author != nil:
		r.look = emittedLook // nor does what is for all
	}
	f.fromNow = false
	f.from, _ = parseEventCursor(r.p.Cursor)
	b, err := r.s.readEvents(ctx, r.sub.Principal, f, inFlight)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == wire.CodeForbidden {
		r.revoked()
		return nil, nil
	}
	if err == nil && r.p.missed(b) {
		r.tell("gap", nil)
		r.p.Cursor, r.p.Deleted = b.start(), b.deleted
		if b.reset {
			r.p.Tries = nil
		}
	}
	return b, err
}

func (r *hookRun) revoked() {
	r.tell("terminated", wire.DataError(wire.CodeForbidden, map[string]any{"reason": "Access revoked"}, "Forbidden"))
}

func (r *hookRun) tell(kind string, err *jsonrpc.Error) {
	r.p.Envelope = &envelope{ID: "msg_" + kind + "_" + rand.Text(), Error: err}
}

// deliver tries the events of a batch, each by itself, and moves the cursor behind those that are done.
func (r *hookRun) deliver(ctx context.Context, b *eventBatch) {
	known := make(map[int64]*try)
	for _, t := range r.p.Tries {
		known[t.Position] = t
	}
	r.p.Tries = nil
	first := true // all before are done
	for i := range b.events {
		e := &b.events[i]
		t := known[e.after.position]
		if t == nil {
			t = &try{Position: e.after.position}
		}
		// A cursor that comes with an event may be its own: who has the cursor has the event.
		at := r.p.Cursor
		if first {
			at = e.after.encode()
		}
		r.attempt(ctx, t, e.ID, struct {
			*occurrence
			Cursor string `json:"cursor"`
		}{e, at})
		if first = first && t.Done; first {
			r.p.Cursor = at
			continue
		}
		r.p.Tries = append(r.p.Tries, t)
	}
	if first { // and what the subscriber does not get is passed over
		r.p.Cursor = b.next.encode()
	}
}

// attempt sends a message, unless it is done or not due, and notes what comes of it.
func (r *hookRun) attempt(ctx context.Context, t *try, id string, message any) {
	now := r.now.Add(time.Since(r.began))
	if t.Done || t.Paused || r.stopped || t.Due.After(now) {
		return
	}
	body, err := json.Marshal(message)
	if err != nil {
		t.Done = true // it was read from JSON
		return
	}
	status, _, failure := r.s.Events.Webhooks.post(ctx, r.terms.URL, r.sub.ID, r.keys, id, body)
	r.stopped = time.Since(r.began) > runTime
	switch {
	case failure == "":
		t.Done = true
		r.p.Delivered, r.p.FailedSince, r.p.LastError = now, time.Time{}, ""
		r.accepted = true
	case status == http.StatusGone || status == http.StatusRequestEntityTooLarge:
		t.Done = true
	case ctx.Err() != nil: // this process stops, and another one tries it
		r.stopped = true
	default:
		r.failed(ctx, t, now, failure)
	}
}

// failed notes an attempt that has failed. After the last one the message is given up if the endpoint has accepted
// others meanwhile. If not, the endpoint is away: then the message waits until that accepts something, or until the
// subscriber comes back.
func (r *hookRun) failed(ctx context.Context, t *try, now time.Time, failure string) {
	r.stopped = true
	if r.p.LastError = failure; r.p.FailedSince.IsZero() {
		r.p.FailedSince = now
	}
	if t.First.IsZero() {
		t.First = now
	}
	t.Due = now.Add(firstRetry << (2 * t.Attempts))
	if t.Attempts++; t.Attempts < attempts {
		return
	}
	if t.Done = r.p.Delivered.After(t.First); t.Done {
		r.s.Log.WarnContext(ctx, "askback: an event was not accepted, and is given up", "subscription", r.sub.ID,
			"host", r.sub.Host, "error", failure)
		return
	}
	t.Paused = true
	r.s.Log.WarnContext(ctx, "askback: an endpoint accepts no events; they wait until it does, or is named again",
		"subscription", r.sub.ID, "host", r.sub.Host, "error", failure)
}

// due returns after what time there is more to do.
func (r *hookRun) due(b *eventBatch) time.Duration {
	now, due := r.now.Add(time.Since(r.began)), r.look
	var all []*try
	if b != nil {
		all = r.p.Tries
		if b.more && len(all) < inFlight {
			due = 0
		}
	}
	if r.p.Envelope != nil {
		all = append(all, &r.p.Envelope.try)
	}
	for _, t := range all {
		if t.Done || t.Paused {
			continue
		}
		in := max(t.Due.Sub(now), 0)
		if r.stopped {
			in = max(in, time.Second)
		}
		if due < 0 || in < due {
			due = in
		}
	}
	return due
}
