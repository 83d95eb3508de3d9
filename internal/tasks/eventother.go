package tasks

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// OtherEvents are events of other servers that this one passes on, by poll. It is safe for concurrent use.
type OtherEvents interface {
	// Types are the types. Whoever passes events on tells of changes with [Events].Changed.
	Types() []*EventType

	// Poll takes the parameters of events/poll, and returns the members of its result, or nil if there is no such type. A
	// *jsonrpc.Error is the other server's, and is passed on if the extension has its code.
	Poll(ctx context.Context, params []byte) (map[string]any, error)
}

// EventsOf returns the events of an *askback.Server, or nil.
var EventsOf func(server any) *Events

// onlyPassedOn reports whether a request is for a type that this server passes on, which can only be polled.
func (e *Events) onlyPassedOn(params []byte) bool {
	name, _ := strictjson.String(strictjson.Get(params, "name"))
	return e.Others != nil && e.find(name) == nil &&
		slices.ContainsFunc(e.Others.Types(), func(t *EventType) bool { return t.Name == name })
}

// pollOther polls a type that this server passes on. It returns nothing if there is no such type.
func (s *Service) pollOther(ctx context.Context, params []byte) ([]byte, error) {
	page, err := s.Events.Others.Poll(ctx, params)
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
