package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// passed are the events of servers behind that every caller of the bridge gets: see [Server.Events]. They are polled
// when the bridge is, and nothing of them is stored. A cursor is the server's own. Their types are read with the
// server's other lists.
type passed []*behind

const (
	// mostTypes bounds the types of one server.
	mostTypes = 100
	// listTime bounds one reading of types: a server that hangs keeps nobody from its tools.
	listTime = 5 * time.Second
)

// passEvents has the bridge's server pass on the events of the servers behind.
func (b *Bridge) passEvents() error {
	var all passed
	events := tasks.EventsOf(b.server)
	for i, s := range b.opts.Servers {
		if s.Events {
			b.front.servers[i].events = events
			all = append(all, b.front.servers[i])
		}
	}
	// The longest prefix first, so that no server is asked for what only another one can have.
	slices.SortStableFunc(all, func(a, b *behind) int { return len(b.scheme.Before()) - len(a.scheme.Before()) })
	switch {
	case len(all) == 0:
	case events == nil:
		return errors.New("bridge: Server.Events needs the Events of Options.Server")
	default:
		events.Others = all
	}
	return nil
}

// Types implements [tasks.OtherEvents].
func (p passed) Types() (all []*tasks.EventType) {
	for _, b := range p {
		if types := b.types.Load(); types != nil {
			all = append(all, *types...)
		}
	}
	return all
}

// listEvents reads the types of a server that can be polled, as hosts see them, and tells hosts if they have changed.
func (b *behind) listEvents(ctx context.Context, session *client.Session) error {
	if b.events == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var types []*tasks.EventType
	for raw, err := range session.List(ctx, wire.ListEvents) {
		if endsList(err) || len(types) == mostTypes {
			break
		}
		if err != nil {
			return fmt.Errorf("listing the types of events: %w", err)
		}
		t := new(tasks.EventType)
		if json.Unmarshal(raw, t) != nil || !slices.Contains(t.Delivery, "poll") || !passes(t.Name) ||
			strictjson.TypeOf(t.Input) != strictjson.TypeObject || strictjson.TypeOf(t.Payload) != strictjson.TypeObject {
			continue
		}
		t.Name, t.Delivery = b.scheme.Before()+t.Name, []string{"poll"}
		types = append(types, t)
	}
	if had := b.types.Swap(&types); had == nil && types != nil || had != nil && !reflect.DeepEqual(*had, types) {
		b.events.Changed.Send()
	}
	return nil
}

// longestType bounds the name of a type, in bytes.
const longestType = 256

// passes reports whether events of a type are passed on. Those that servers of this library have about calls are not:
// behind a bridge they are about calls of all its callers, and the bridge has its own.
func passes(own string) bool {
	return own != "" && len(own) <= longestType && !tasks.IsOwnEvent(own)
}

// Poll implements [tasks.OtherEvents].
func (p passed) Poll(ctx context.Context, params []byte) (map[string]any, error) {
	var q struct {
		Name      string
		Arguments map[string]json.RawMessage
		Cursor    string
		MaxEvents uint16
		MaxAgeMs  uint64
	}
	if json.Unmarshal(params, &q) != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %s has an object of arguments, a cursor, and "+
			"two numbers, maxEvents and maxAgeMs", wire.PollEvents)
	}
	arguments := make(map[string]any)
	for name, value := range q.Arguments {
		arguments[name] = value
	}
	for _, b := range p {
		own, ours := strings.CutPrefix(q.Name, b.scheme.Before())
		if !ours || !passes(own) {
			continue
		}
		session, err := b.Conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		page, err := session.PollEvents(ctx, &client.EventPoll{Name: own, Arguments: arguments, Cursor: q.Cursor,
			MaxEvents: int(q.MaxEvents),
			MaxAge:    time.Duration(min(q.MaxAgeMs, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond})
		if fault, ok := errors.AsType[*jsonrpc.Error](err); ok &&
			(fault.Code == wire.CodeNotFound || fault.Code == jsonrpc.CodeMethodNotFound) {
			continue // perhaps it is another server's, whose prefix begins like this one
		}
		_, broken := errors.AsType[*client.ProtocolError](err)
		_, tooMuch := errors.AsType[*client.LimitError](err)
		switch {
		case broken, tooMuch: // another poll would not help
			return nil, wire.Errorf(jsonrpc.CodeInternalError, "the events of the server behind cannot be read: %v", err)
		case err != nil:
			return nil, err
		}
		return shown(q.Name, page), nil
	}
	return nil, nil
}

// shown is a page of a type as hosts see it.
func shown(name string, page *client.EventPage) map[string]any {
	events, cursor := []any{}, any(page.Cursor)
	for _, e := range page.Events {
		events = append(events, map[string]any{"eventId": e.ID, "name": name, "timestamp": e.Timestamp, "data": e.Data})
	}
	if cursor == "" { // the type cannot be replayed
		cursor = nil
	}
	return map[string]any{"events": events, "cursor": cursor, "truncated": page.Truncated, "hasMore": page.More,
		"nextPollMs": page.NextPoll.Milliseconds()}
}
