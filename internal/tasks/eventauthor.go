package tasks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// AuthorEvent is a type of events that an author emits.
type AuthorEvent struct {
	Name, Description string
	Input, Payload    any // schemas
	// Match reads the arguments of somebody who follows the events, which may be nil, and returns what decides whether a
	// principal gets a payload. The error is for the client.
	Match func(arguments []byte) (Matches, error)
}

// Matches reports whether a principal gets a payload.
type Matches func(ctx context.Context, principal string, payload []byte) (bool, error)

// The bounds of what an author emits.
const (
	mostEmitted    = 10_000  // that a reader has
	mostAddressees = 100     // of one event
	mostPageBytes  = 1 << 20 // beyond which a page ends
)

// Add adds a type of events, or replaces the type of the same name.
func (e *Events) Add(a *AuthorEvent) error {
	if IsOwnEvent(a.Name) {
		return fmt.Errorf("the type %q is one of this library: choose another name", a.Name)
	}
	if a.Name == "" || len(a.Name) > 128 || strings.Trim(a.Name, nameCharacters) != "" {
		return fmt.Errorf("the name %.200q needs 1 to 128 of the characters %s", a.Name, nameCharacters)
	}
	input, errInput := json.Marshal(a.Input)
	payload, errPayload := json.Marshal(a.Payload)
	if err := errors.Join(errInput, errPayload); err != nil {
		return err
	}
	added := &eventType{EventType: EventType{a.Name, a.Description, nil, input, payload}, match: a.Match}
	had, replaced := e.authors.Swap(a.Name, added)
	if !replaced || !reflect.DeepEqual(had.(*eventType).EventType, added.EventType) {
		e.Changed.Send()
	}
	return nil
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

// IsOwnEvent reports whether servers with this library have events of this type about their calls.
func IsOwnEvent(name string) bool {
	return slices.ContainsFunc(ownTypes, func(t *eventType) bool { return t.Name == name })
}

// types returns the types of this library, and then those that authors have added, by name.
func (e *Events) types() []*eventType {
	all := slices.Clone(ownTypes)
	e.authors.Range(func(_, t any) bool {
		all = append(all, t.(*eventType))
		return true
	})
	slices.SortFunc(all[len(ownTypes):], func(a, b *eventType) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// find returns the type of events with a name, or nil.
func (e *Events) find(name string) *eventType {
	all := e.types()
	if i := slices.IndexFunc(all, func(t *eventType) bool { return t.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// emittedReaders are those as whom a principal reads the events of an author.
func emittedReaders(name, principal string) []string {
	readers := []string{task.EmittedReader(name, "")}
	if principal != "" {
		readers = append(readers, task.EmittedReader(name, principal))
	}
	return readers
}

// parse reads the arguments of somebody who follows the events of an author.
func (t *eventType) parse(arguments []byte) (Matches, *jsonrpc.Error) {
	if !given(arguments) {
		arguments = nil
	} else if strictjson.TypeOf(arguments) != strictjson.TypeObject {
		return nil, invalidParam("arguments", "must be an object")
	}
	matches, err := t.match(arguments)
	if err != nil {
		return nil, invalidParam("arguments", "do not fit: "+err.Error())
	}
	return matches, nil
}

// refit has what is followed fit its type as it is now: an author may have replaced it, and decides anew who gets what.
// The error is for a client whose arguments do not fit any more.
func (e *Events) refit(f *followed) error {
	now := e.find(f.of.Name)
	if now == f.of {
		return nil
	}
	matches, invalid := now.parse(f.arguments)
	if invalid != nil {
		return schemaChanged()
	}
	f.of, f.matches = now, matches
	return nil
}

// schemaChanged is the error with which a subscription or a stream ends.
func schemaChanged() *jsonrpc.Error {
	return wire.DataError(wire.CodeUnsupported, map[string]any{"feature": "inputSchema", "reason": "schema_changed"},
		"the type of the events takes no such arguments any more")
}

// Emit adds an event of an author to the log: for all or, if there are any, for these principals only.
func (s *Service) Emit(ctx context.Context, name, id string, payload any, to []string) error {
	data, err := json.Marshal(payload)
	switch {
	case err != nil:
		return err
	case len(data) > s.Events.MaxPayload:
		return fmt.Errorf("its payload has %d bytes, and may have %d: leave out what readers can fetch", len(data),
			s.Events.MaxPayload)
	case id != "" && !question.IsKey(id):
		return fmt.Errorf("its ID has %d bytes: it needs 1 to %d of UTF-8, without control characters", len(id),
			question.MaxName)
	case len(to) > mostAddressees:
		return fmt.Errorf("it is for %d principals, and may be for %d", len(to), mostAddressees)
	}
	var readers []string
	for _, principal := range to {
		if !question.IsName(principal) {
			return fmt.Errorf("it is for %.300q, who is no principal", principal)
		}
		readers = append(readers, task.EmittedReader(name, principal))
	}
	if len(to) == 0 {
		readers = []string{task.EmittedReader(name, "")}
	}
	if id == "" {
		id = rand.Text()
	}
	return s.Engine.Emit(ctx, &task.Emission{Readers: readers, ID: id, Payload: string(data), Keep: s.Events.Keep,
		Most: mostEmitted})
}
