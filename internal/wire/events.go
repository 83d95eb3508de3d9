package wire

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The names and codes of the events extension (SEP-3415).
const (
	EventsExtension = "io.modelcontextprotocol/events"

	ListEvents   = "events/list"
	PollEvents   = "events/poll"
	StreamEvents = "events/stream"

	EventNotifications = "notifications/events/" // begins the names of what a stream sends

	CodeNotFound  = -32023
	CodeForbidden = -32024
)

// EventMethods are all requests about events.
var EventMethods = []string{ListEvents, PollEvents, StreamEvents}

// IsEvent reports whether a method is a request about events.
func IsEvent(method string) bool { return strings.HasPrefix(method, "events/") }

// UnknownEvent is the error for an event type that does not exist.
func UnknownEvent(name string) *jsonrpc.Error {
	err := Errorf(CodeNotFound, "there is no event type %q: list them with %s", Cut(name, 100), ListEvents)
	err.Data = json.RawMessage(`{"kind":"event"}`)
	return err
}
