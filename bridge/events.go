package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// passed are the events of servers behind that every caller of the bridge gets: see [Server.Events]. They are polled
// when the bridge is, and nothing of them is stored. A cursor is the server's own.
type passed []*behind

const (
	// mostTypes bounds the types of one server.
	mostTypes = 100
	// listTime bounds one reading of types: a server that hangs keeps nobody from the types of others.
	listTime = 5 * time.Second
)

// passEvents has the bridge's server pass on the events of the servers behind.
func (b *Bridge) passEvents() error {
	var all passed
	for i, s := range b.opts.Servers {
		if s.Events {
			all = append(all, b.front.servers[i])
		}
	}
	// The longest prefix first, so that no server is asked for what only another one can have.
	slices.SortStableFunc(all, func(a, b *behind) int { return len(b.scheme.Before()) - len(a.scheme.Before()) })
	switch events := tasks.EventsOf(b.server); {
	case len(all) == 0:
	case events == nil:
		return errors.New("bridge: Server.Events needs the Events of Options.Server")
	default:
		events.Others = all
	}
	return nil
}

// Types implements [tasks.OtherEvents]. All servers are asked at once.
func (p passed) Types(ctx context.Context) []json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	types := make([][]json.RawMessage, len(p))
	var all sync.WaitGroup
	for i, b := range p {
		all.Go(func() {
			for own, err := range b.eventTypes(ctx) {
				if err != nil {
					b.Log.WarnContext(ctx, "bridge: the events of a server cannot be listed", "server", b.Title, "error", err)
				}
				if err != nil || len(types[i]) == mostTypes {
					return
				}
				types[i] = append(types[i], own)
			}
		})
	}
	all.Wait()
	return slices.Concat(types...)
}

// eventTypes yields the types of a server that can be polled, as hosts see them.
func (b *behind) eventTypes(ctx context.Context) func(yield func(json.RawMessage, error) bool) {
	return func(yield func(json.RawMessage, error) bool) {
		session, err := b.Conn.Session(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for raw, err := range session.List(ctx, wire.ListEvents) {
			if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeMethodNotFound {
				return // it has none
			}
			var t struct {
				Name        string          `json:"name"`
				Description string          `json:"description,omitempty"`
				Delivery    []string        `json:"delivery"`
				Input       json.RawMessage `json:"inputSchema"`
				Payload     json.RawMessage `json:"payloadSchema"`
			}
			if err == nil && (json.Unmarshal(raw, &t) != nil || !slices.Contains(t.Delivery, "poll") ||
				!passes(t.Name) || strictjson.TypeOf(t.Input) != strictjson.TypeObject ||
				strictjson.TypeOf(t.Payload) != strictjson.TypeObject) {
				continue
			}
			t.Name, t.Delivery = b.scheme.Before()+t.Name, []string{"poll"}
			shown, encoding := json.Marshal(t)
			if err = errors.Join(err, encoding); !yield(shown, err) {
				return
			}
		}
	}
}

// longestType bounds the name of a type, in bytes.
const longestType = 256

// passes reports whether events of a type are passed on. Those that servers of this library have about calls are not:
// behind a bridge they are about calls of all its callers, and the bridge has its own.
func passes(own string) bool {
	return own != "" && len(own) <= longestType && !tasks.IsOwnEvent(own)
}

// Poll implements [tasks.OtherEvents].
func (p passed) Poll(ctx context.Context, name string, q tasks.OtherPoll) (*tasks.OtherPage, error) {
	for _, b := range p {
		own, ours := strings.CutPrefix(name, b.scheme.Before())
		if !ours || !passes(own) {
			continue
		}
		session, err := b.Conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		page, err := session.PollEvents(ctx, &client.EventPoll{Name: own, Arguments: q.Arguments, Cursor: q.Cursor,
			MaxEvents: q.MaxEvents, MaxAge: q.MaxAge})
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
		return b.shown(name, page), nil
	}
	return nil, nil
}

// shown is a page as hosts see it.
func (b *behind) shown(name string, page *client.EventPage) *tasks.OtherPage {
	shown := &tasks.OtherPage{Events: []tasks.OtherEvent{}, Truncated: page.Truncated, More: page.More,
		NextPoll: page.NextPoll.Milliseconds()}
	if page.Cursor != "" {
		shown.Cursor = &page.Cursor
	}
	for _, e := range page.Events {
		shown.Events = append(shown.Events, tasks.OtherEvent{ID: e.ID, Name: name, Timestamp: e.Timestamp, Data: e.Data})
	}
	return shown
}
