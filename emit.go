package askback

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/schema"
	"github.com/askback-mcp/askback/internal/tasks"
)

// EventType describes a type of events of an author's own: see [AddEvent].
type EventType struct {
	// Name is such as "incident.created": at most 128 letters, digits, dots, hyphens, underscores and slashes.
	Name        string
	Description string
}

// EventMatch decides whether a principal gets an event: whether it may, and whether the event fits the arguments that
// the principal follows the type with. The anonymous principal is "". It is called each time that the event is read.
// After an error the request fails, and the client sends it again.
type EventMatch[Args, Payload any] func(ctx context.Context, principal string, args Args, payload Payload) (bool, error)

// Event emits events of one type. It is safe for concurrent use.
type Event[Payload any] struct {
	service *tasks.Service
	name    string
}

// AddEvent adds a type of events, or replaces the type of the same name. Clients list and follow it like the types of
// [EventOptions]. They are told of the change if they listen, and get what the new match lets them have. The schema of
// the arguments is inferred from Args as for a tool. The schema of the payload is inferred from Payload, a struct or a
// map. AddEvent panics without [Options.Events] or a match, and if a schema cannot be inferred or the name cannot be
// used.
func AddEvent[Args, Payload any](s *Server, t *EventType, match EventMatch[Args, Payload]) *Event[Payload] {
	fail := func(format string, args ...any) {
		panic(fmt.Sprintf("askback.AddEvent %q: "+format, append([]any{t.Name}, args...)...))
	}
	if s.opts.Events == nil {
		fail("Options.Events is not set")
	}
	if match == nil {
		fail("there is no match, which says who may read it")
	}
	var schemas mcp.Tool
	arguments, err := schema.ForArguments(&schemas, reflect.TypeFor[Args]())
	if err != nil {
		fail("arguments: %v", err)
	}
	payload := reflect.TypeFor[Payload]()
	if _, err := schema.ForResult(&schemas, payload); err != nil {
		fail("payload: %v", err)
	}
	if kind := payload.Kind(); kind != reflect.Struct && kind != reflect.Map {
		fail("payload: a %s is no object: choose a struct or a map", payload)
	}
	service := s.sdk.Tasks
	err = service.Events.Add(&tasks.AuthorEvent{
		Name: t.Name, Description: t.Description, Input: schemas.InputSchema, Payload: schemas.OutputSchema,
		Match: func(raw []byte) (tasks.Matches, error) {
			var args Args
			if err := arguments.Decode(raw, false, &args); err != nil {
				return nil, err
			}
			return func(ctx context.Context, principal string, raw []byte) (does bool, err error) {
				var p Payload
				if err := json.Unmarshal(raw, &p); err != nil { // another release has emitted it
					s.log.WarnContext(ctx, "askback: nobody gets an event that cannot be decoded", "type", t.Name, "error", err)
					return false, nil
				}
				err = fault.Safely(func() error {
					does, err = match(ctx, principal, args, p)
					return err
				})
				return does && err == nil, err
			}, nil
		},
	})
	if err != nil {
		fail("%v", err)
	}
	return &Event[Payload]{service, t.Name}
}

// Emit emits an event. It is for all principals or, if any are named, for these only, at most 100. The type's
// [EventMatch] decides which of them get it. It is stored when Emit returns.
//
// Hosts know by the ID that an event comes again. While an event with the ID is kept, another one for the same
// principal, or for all, is ignored. So a step of a call that runs again emits once, if the ID is its
// [Call.IdempotencyKey]. Empty means a random ID. The payload should name what has happened, and leave out what its
// readers can fetch.
func (e *Event[Payload]) Emit(ctx context.Context, id string, payload Payload, to ...string) error {
	if err := e.service.Emit(ctx, e.name, id, payload, to); err != nil {
		return fmt.Errorf("askback: emit %q: %w", e.name, err)
	}
	return nil
}
