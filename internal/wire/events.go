package wire

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The names and codes of the events extension (SEP-3415).
const (
	EventsExtension = "io.modelcontextprotocol/events"

	ListEvents        = "events/list"
	PollEvents        = "events/poll"
	StreamEvents      = "events/stream"
	SubscribeEvents   = "events/subscribe"
	UnsubscribeEvents = "events/unsubscribe"

	EventNotifications = "notifications/events/" // begins the names of what a stream sends
	EventTypesChanged  = EventNotifications + "list_changed"
	EventTypesFilter   = "eventsListChanged" // of subscriptions/listen

	CodeNotFound          = -32023
	CodeForbidden         = -32024
	CodeResourceExhausted = -32025
	CodeUnsupported       = -32026
	CodeCallbackEndpoint  = -32027
)

// EventMethods are all requests about events.
var EventMethods = []string{ListEvents, PollEvents, StreamEvents, SubscribeEvents, UnsubscribeEvents}

// IsEvent reports whether a method is a request about events.
func IsEvent(method string) bool { return strings.HasPrefix(method, "events/") }

// UnknownEvent is the error for an event type that does not exist.
func UnknownEvent(name string) *jsonrpc.Error {
	return DataError(CodeNotFound, map[string]any{"kind": "event"}, "there is no event type %q: list them with %s",
		Cut(name, 100), ListEvents)
}

// DataError is an error with data, by which clients tell its cases apart.
func DataError(code int64, data map[string]any, format string, args ...any) *jsonrpc.Error {
	err := Errorf(code, format, args...)
	err.Data, _ = json.Marshal(data) // strings and numbers
	return err
}
