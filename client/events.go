package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Event is something that has happened at a server. Everything in it is the server's word.
type Event struct {
	ID        string    // the same if the event comes again
	Name      string    // of its type
	Timestamp time.Time // zero where the server sent no time that can be read
	Data      json.RawMessage
}

// EventPoll asks for the events of one type. Session.List with "events/list" lists the types.
type EventPoll struct {
	Name      string
	Arguments map[string]any // as the type's inputSchema has them
	// Cursor comes from the page before. Empty is the present: the page has no events, and a cursor for later.
	Cursor string
	// MaxEvents bounds a page. Zero leaves it to the server.
	MaxEvents int
	// MaxAge leaves out events that are older. Zero is any age.
	MaxAge time.Duration
}

// EventPage is what has happened since the Cursor of an [EventPoll].
type EventPage struct {
	Events []*Event
	Cursor string // for the next poll, which another process may send
	// Truncated says that there may have been events that the server no longer has, and More that there are further ones
	// at once.
	Truncated, More bool
	// NextPoll is how long the server wants the client to wait: at least a second, unless the page has events and there
	// are More. A server that sends empty pages without end does not keep a client busy.
	NextPoll time.Duration
}

// PollEvents reads a page of events. It needs no open connection between two polls, so a host that was away for days
// misses nothing that the server still has. See also [Session.StreamEvents]. (SEP-3415, "Poll-Based Delivery")
func (s *Session) PollEvents(ctx context.Context, p *EventPoll) (*EventPage, error) {
	params := &taskParams{Name: p.Name, Arguments: p.Arguments, MaxEvents: p.MaxEvents, Cursor: p.Cursor,
		MaxAge: p.MaxAge.Milliseconds()}
	raw, err := s.request(ctx, TasksExtension, wire.PollEvents, p.Name, params)
	if err != nil {
		return nil, err
	}
	return parseEvents(raw, p)
}

// EventPages yields page after page, from p.Cursor on. It polls as often as the server wants, until ctx is done or a
// poll fails. A program that keeps the Cursor of a page once it has seen to its events continues there later.
func (s *Session) EventPages(ctx context.Context, p EventPoll) iter.Seq2[*EventPage, error] {
	return func(yield func(*EventPage, error) bool) {
		for {
			page, err := s.PollEvents(ctx, &p)
			if err != nil || !yield(page, nil) {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			p.Cursor = page.Cursor
			select {
			case <-time.After(page.NextPoll):
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// The bounds of what a server sends, in bytes.
const (
	maxCursor  = 64 << 10
	maxEventID = 4096
)

// parseEvents reads a page. Its JSON has been checked.
func parseEvents(raw []byte, p *EventPoll) (*EventPage, error) {
	page := &EventPage{Truncated: isTrue(raw, "truncated"), More: isTrue(raw, "hasMore"),
		NextPoll: max(milliseconds(strictjson.Get(raw, "nextPollMs")), time.Second)}
	events := strictjson.Get(raw, "events")
	var err error
	switch page.Cursor, err = parseCursor(raw); {
	case err != nil:
		return nil, err
	case strictjson.TypeOf(events) != strictjson.TypeArray:
		return nil, &ProtocolError{"the events are not an array"}
	case page.More && (page.Cursor == p.Cursor || page.Cursor == ""):
		return nil, &ProtocolError{"a page of events leads to itself"}
	}
	for value := range strictjson.Elements(events) {
		e, err := parseEvent(value, p.Name)
		if err != nil {
			return nil, err
		}
		page.Events = append(page.Events, e)
	}
	if page.More && page.Events != nil {
		page.NextPoll = 0
	}
	return page, nil
}

// parseEvent reads one event, of a type unless that is empty. Its JSON has been checked.
func parseEvent(value []byte, of string) (*Event, error) {
	e := &Event{Data: bytes.Clone(strictjson.Get(value, "data"))}
	e.ID, _ = strictjson.String(strictjson.Get(value, "eventId"))
	e.Name, _ = strictjson.String(strictjson.Get(value, "name"))
	e.Timestamp = timestamp(strictjson.Get(value, "timestamp"))
	switch {
	case e.ID == "" || len(e.ID) > maxEventID:
		return nil, &ProtocolError{"an event has no eventId, or a long one"}
	case of != "" && e.Name != of:
		return nil, &ProtocolError{"an event is of another type than was asked for"}
	}
	return e, nil
}

func isTrue(raw []byte, member string) bool { return string(strictjson.Get(raw, member)) == "true" }

// parseCursor reads the cursor beside events. Null, or none, is empty.
func parseCursor(raw []byte) (string, error) {
	cursor, _ := strictjson.String(strictjson.Get(raw, "cursor"))
	if len(cursor) > maxCursor {
		return "", &ProtocolError{fmt.Sprintf("the cursor of the events has %d bytes", len(cursor))}
	}
	return cursor, nil
}
