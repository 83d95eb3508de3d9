package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// OtherEvents are events of other servers that this one passes on, by poll. It is safe for concurrent use.
type OtherEvents interface {
	// Types are the types. Whoever passes events on tells of changes with [Events].Changed.
	Types() []*OtherType

	// Poll polls one type. The page is nil if there is no such type. A *jsonrpc.Error is the other server's, and is passed
	// on if the extension has its code.
	Poll(ctx context.Context, name string, p OtherPoll) (*OtherPage, error)
}

// OtherType is a type of events of the other server, as events/list shows it.
type OtherType struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Delivery    []string        `json:"delivery"`
	Input       json.RawMessage `json:"inputSchema"`
	Payload     json.RawMessage `json:"payloadSchema"`
}

// OtherPoll is what is polled.
type OtherPoll struct {
	Arguments map[string]any
	Cursor    string // empty is the present
	MaxEvents int    // zero leaves it to the other server
	MaxAge    time.Duration
}

// OtherPage is a page of the other server.
type OtherPage struct {
	Events    []OtherEvent `json:"events"` // not nil
	Cursor    *string      `json:"cursor"` // nil if the type cannot be replayed
	Truncated bool         `json:"truncated"`
	More      bool         `json:"hasMore"`
	NextPoll  int64        `json:"nextPollMs"`
}

// OtherEvent is an event of the other server.
type OtherEvent struct {
	ID        string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// EventsOf returns the events of an *askback.Server, or nil.
var EventsOf func(server any) *Events

// onlyPassedOn reports whether a request is for a type that this server passes on, which can only be polled.
func (e *Events) onlyPassedOn(params []byte) bool {
	name, _ := strictjson.String(strictjson.Get(params, "name"))
	return e.Others != nil && e.find(name) == nil &&
		slices.ContainsFunc(e.Others.Types(), func(t *OtherType) bool { return t.Name == name })
}

// pollOther polls a type that this server passes on. It returns nothing if there is no such type.
func (s *Service) pollOther(ctx context.Context, params []byte) ([]byte, error) {
	var p OtherPoll
	name, _ := strictjson.String(strictjson.Get(params, "name"))
	if arguments := strictjson.Get(params, "arguments"); given(arguments) {
		if json.Unmarshal(arguments, &p.Arguments) != nil {
			return nil, invalidParam("arguments", "must be an object")
		}
	}
	cursor := strictjson.Get(params, "cursor")
	var isText bool
	if p.Cursor, isText = strictjson.String(cursor); !isText && given(cursor) {
		return nil, invalidParam("cursor", "must be a string")
	}
	age, ok := integer(strictjson.Get(params, "maxAgeMs"), 0)
	if !ok || age < 0 {
		return nil, invalidParam("maxAgeMs", "must be a number of milliseconds")
	}
	p.MaxAge = time.Duration(min(age, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	most, ok := integer(strictjson.Get(params, "maxEvents"), 1)
	if !ok || most < 1 {
		return nil, invalidParam("maxEvents", "must be a positive number")
	}
	if given(strictjson.Get(params, "maxEvents")) {
		p.MaxEvents = int(min(most, mostEvents))
	}
	page, err := s.Events.Others.Poll(ctx, name, p)
	if sent, ok := errors.AsType[*jsonrpc.Error](err); ok {
		code := sent.Code
		if code != jsonrpc.CodeInvalidParams && (code > wire.CodeNotFound || code < wire.CodeCallbackEndpoint) {
			code = jsonrpc.CodeInternalError // what it means for this request is not known
		}
		return nil, wire.Errorf(code, "%s", wire.Cut(sent.Message, 1000))
	}
	if err != nil {
		return nil, s.failed(ctx, "passing on events", err)
	}
	if page == nil {
		return nil, nil
	}
	return membersOf(page)
}

// IsOwnEvent reports whether servers with this library have events of this type about their calls.
func IsOwnEvent(name string) bool {
	for _, t := range eventTypes {
		if t.name == name {
			return true
		}
	}
	return false
}
