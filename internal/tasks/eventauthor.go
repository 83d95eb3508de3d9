package tasks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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
	for i := range eventTypes {
		if eventTypes[i].name == a.Name {
			return fmt.Errorf("the type %q is one of this library: choose another name", a.Name)
		}
	}
	if a.Name == "" || len(a.Name) > 128 || strings.Trim(a.Name, nameCharacters) != "" {
		return fmt.Errorf("the name %.200q needs 1 to 128 of the characters %s", a.Name, nameCharacters)
	}
	added := &eventType{name: a.Name, description: a.Description, author: a}
	had, replaced := e.authors.Swap(a.Name, added)
	if !replaced || !had.(*eventType).sameAs(added) {
		e.Changed.Send()
	}
	return nil
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

// sameAs reports whether another type of an author is listed as this one.
func (t *eventType) sameAs(other *eventType) bool {
	schemas, errT := json.Marshal([]any{t.author.Input, t.author.Payload})
	others, errOther := json.Marshal([]any{other.author.Input, other.author.Payload})
	return t.description == other.description && bytes.Equal(schemas, others) && errors.Join(errT, errOther) == nil
}

// find returns the type of events with a name, or nil.
func (e *Events) find(name string) *eventType {
	for i := range eventTypes {
		if eventTypes[i].name == name {
			return &eventTypes[i]
		}
	}
	found, _ := e.authors.Load(name)
	t, _ := found.(*eventType)
	return t
}

// ofAuthors returns the types of events that authors have added, by name.
func (e *Events) ofAuthors() (all []*eventType) {
	e.authors.Range(func(_, t any) bool {
		all = append(all, t.(*eventType))
		return true
	})
	slices.SortFunc(all, func(a, b *eventType) int { return strings.Compare(a.name, b.name) })
	return all
}

// readers are those as whom a principal reads the events of an author.
func (a *AuthorEvent) readers(principal string) []string {
	readers := []string{task.EmittedReader(a.Name, "")}
	if principal != "" {
		readers = append(readers, task.EmittedReader(a.Name, principal))
	}
	return readers
}

// parse reads the arguments of somebody who follows the events of an author.
func (a *AuthorEvent) parse(arguments []byte) (Matches, *jsonrpc.Error) {
	if !given(arguments) {
		arguments = nil
	} else if strictjson.TypeOf(arguments) != strictjson.TypeObject {
		return nil, invalidParam("arguments", "must be an object")
	}
	matches, err := a.Match(arguments)
	if err != nil {
		return nil, invalidParam("arguments", "do not fit: "+err.Error())
	}
	return matches, nil
}

// refit has what is followed fit its type as it is now: an author may have replaced it, and decides anew who gets what.
// The error is for a client whose arguments do not fit any more.
func (e *Events) refit(f *followed) error {
	now := e.find(f.of.name)
	if now == f.of {
		return nil
	}
	matches, invalid := now.author.parse(f.arguments)
	if invalid != nil {
		return wire.DataError(wire.CodeUnsupported, map[string]any{"feature": "inputSchema", "reason": "schema_changed"},
			"the type of the events takes no such arguments any more")
	}
	f.of, f.matches = now, matches
	return nil
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
