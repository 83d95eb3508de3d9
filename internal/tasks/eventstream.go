package tasks

import (
	"context"
	"encoding/json"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/wire"
)

// EventStream is an open request for a stream of events.
type EventStream struct {
	ID     []byte // of the request, raw
	Notify func(method string, params []byte) error
	// Authorized asks the operator whether the stream may go on. The error is one for the client.
	Authorized func(ctx context.Context) error
}

const (
	// heartbeat is how often a stream says that it lives, and whether it may. Clients give up after a minute.
	heartbeat = 20 * time.Second
	// eventLook is how often, on average, a stream looks for what other instances have written.
	eventLook = 5 * time.Second
)

// StreamEvents sends what happens from a cursor on until the request ends, or its caller may no longer have it. It
// returns the result that ends a stream. An error means that there was none. (SEP-3415, "Push-Based Delivery")
func (s *Service) StreamEvents(ctx context.Context, principal string, params []byte, to *EventStream) ([]byte, error) {
	if s.Events.onlyPassedOn(params) {
		return nil, unsupportedMode("push")
	}
	f, invalid := s.parseFollowed(params)
	if invalid != nil {
		return nil, invalid
	}
	readers, err := s.eventReaders(ctx, principal, f)
	if err != nil {
		return nil, err
	}
	changed, done := s.Engine.Subscribe(f.taskID, readers)
	defer done()
	b, err := s.readEvents(ctx, principal, f, mostEvents)
	if err != nil {
		return nil, err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	s.streamEvents(ctx, principal, f, b, to, changed, beat.C)
	return s.EndOf(to.ID), nil
}

// streamEvents sends a batch, and what comes after it, until the context or the subscription ends, or the client does
// not read.
func (s *Service) streamEvents(ctx context.Context, principal string, f *followed, b *eventBatch, to *EventStream,
	changed <-chan struct{}, beat <-chan time.Time) {
	authorized := true
	for first := true; ; first = false {
		if b != nil {
			if to.sendBatch(b, first) != nil {
				return
			}
			f.fromNow, f.from = false, b.next
		}
		if b == nil || !b.more {
			wake := changed
			if b == nil { // a store that fails is not hurried
				wake = nil
			}
			select {
			case <-wake:
			case <-time.After(jitter.Around(eventLook)):
			case <-beat:
				if authorized = false; to.send("heartbeat", map[string]any{"cursor": f.from.encode()}) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
		var err error
		if b = nil; !authorized {
			err = to.Authorized(ctx)
		}
		if err == nil {
			authorized = true
			err = s.Events.refit(f)
		}
		if err == nil {
			b, err = s.readEvents(ctx, principal, f, mostEvents)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case !fault.Of(err).Busy():
			_ = to.send("terminated", map[string]any{"error": fault.Wire(err)})
			return
		case to.send("error", map[string]any{"error": fault.Wire(err)}) != nil:
			return
		}
	}
}

// sendBatch sends events. The first batch, and one that does not begin where the batch before has ended, says so.
func (to *EventStream) sendBatch(b *eventBatch, first bool) error {
	if first || b.truncated {
		err := to.send("active", map[string]any{"cursor": b.from.encode(), "truncated": b.truncated})
		if err != nil {
			return err
		}
	}
	for _, e := range b.events {
		err := to.send("event", map[string]any{"eventId": e.ID, "name": e.Name, "timestamp": e.Timestamp, "data": e.Data,
			"cursor": e.after.encode()})
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends a notification of the stream.
func (to *EventStream) send(name string, params map[string]any) error {
	params["_meta"] = subscriptionMeta(to.ID)
	encoded, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return to.Notify(wire.EventNotifications+name, encoded)
}
