package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// StreamEvents yields what happens from p.Cursor on, as it happens. The server must list "push" among the delivery of
// the type. A page has one event, or only a Cursor from which a later stream, or a poll, continues. The stream is
// opened again where it broke off. It ends when ctx is done, when the server ends the subscription or refuses it, which
// is a *jsonrpc.Error, or when the first attempt fails. p.MaxEvents is not used. (SEP-3415, "Push-Based Delivery")
func (s *Session) StreamEvents(ctx context.Context, p EventPoll) iter.Seq2[*EventPage, error] {
	return func(yield func(*EventPage, error) bool) {
		var err error
		ever := false
		reopen(ctx, func() (again bool) {
			var begun bool
			begun, err = s.streamEvents(ctx, &p, yield)
			ever = ever || begun
			return errors.Is(err, errEnded) || ever && breaksOff(err)
		})
		if errors.Is(err, errEnough) {
			return
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(nil, err)
	}
}

// Why a stream ends that its server has not ended with an error.
var (
	errEnded  = errors.New("the server has ended the stream")
	errEnough = errors.New("nobody wants another page")
	errBehind = errors.New("pages come faster than they are taken")
)

const (
	// silence is how long nothing may come on a stream: more than twice the time between two heartbeats.
	silence = 65 * time.Second
	// mostPages bounds the pages of a stream that wait, which may be small.
	mostPages = 4096
)

// breaksOff reports whether a stream that ended with this error is opened again.
func breaksOff(err error) bool {
	if status, ok := errors.AsType[*tap.StatusError](err); ok {
		return status.Code >= 500 || status.Code == http.StatusTooManyRequests
	}
	_, away := errors.AsType[*tap.AwayError](err)
	return away || errors.Is(err, errBehind)
}

// streamEvents reads one stream to its end, and notes in p how far it came. It reports whether anything came. On some
// transports all requests share a connection, so what comes does not wait for the reader. If too much comes, the stream
// ends, and another one continues after the last page that was taken.
func (s *Session) streamEvents(
	ctx context.Context, p *EventPoll, yield func(*EventPage, error) bool,
) (begun bool, err error) {
	params := &taskParams{Name: p.Name, Arguments: p.Arguments, Cursor: p.Cursor, MaxAge: p.MaxAge.Milliseconds()}
	ctx, end := context.WithCancelCause(ctx)
	pages := make(chan *EventPage, mostPages)
	var waiting atomic.Int64 // bytes
	receive := func(method string, params []byte) {
		page, err := parseNotification(method, params, p.Name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			end(err)
		case page == nil:
		case waiting.Add(page.size()) > maxNotifications || len(pages) == mostPages:
			end(errBehind)
		default:
			pages <- page
		}
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		_, err := s.exchange(ctx, TasksExtension, &tap.Exchange{Method: wire.StreamEvents, Name: p.Name, Notify: receive},
			params)
		end(cmp.Or(err, errEnded))
	})
	defer reading.Wait()
	defer end(nil)
	for {
		select {
		case page := <-pages:
			waiting.Add(-page.size())
			begun, p.Cursor = true, page.Cursor
			if !yield(page, nil) {
				return begun, errEnough
			}
		case <-ctx.Done():
			if len(pages) == 0 { // what came before the end is taken
				return begun, context.Cause(ctx)
			}
		case <-time.After(silence):
			end(&tap.AwayError{Reason: fmt.Sprintf("nothing came on the stream within %v", silence)})
		}
	}
}

// size is the memory of a page that waits, in bytes.
func (page *EventPage) size() int64 {
	size := 512 + len(page.Cursor)
	for _, e := range page.Events {
		size += len(e.ID) + len(e.Name) + len(e.Data)
	}
	return int64(size)
}

// parseNotification reads what a stream says about events of a type. The page is nil if there is nothing in it. Its
// JSON has been checked.
func parseNotification(method string, params []byte, of string) (*EventPage, error) {
	kind, _ := strings.CutPrefix(method, wire.EventNotifications)
	switch kind {
	case "active", "event", "heartbeat", "terminated":
		page, ended, err := parseNews(kind, params, of)
		if ended != nil {
			return nil, fmt.Errorf("the server has ended the subscription: %w", ended)
		}
		return page, err
	}
	return nil, nil
}

// parseNews reads what a server says on a stream or in a post: a page or, at the end of the subscription, its reason.
// An event is of a type unless that is empty. The JSON has been checked.
func parseNews(kind string, raw []byte, of string) (page *EventPage, ended, err error) {
	page = new(EventPage)
	switch kind {
	case "active":
		page.Truncated = isTrue(raw, "truncated")
	case "gap":
		page.Truncated = true
	case "event":
		e, err := parseEvent(raw, of)
		if err != nil {
			return nil, nil, err
		}
		page.Events = []*Event{e}
	case "terminated":
		reason, fault := strictjson.Get(raw, "error"), new(jsonrpc.Error)
		if strictjson.TypeOf(reason) != strictjson.TypeObject || json.Unmarshal(reason, fault) != nil {
			return nil, nil, &ProtocolError{"a subscription has ended without an error"}
		}
		return nil, fault, nil
	}
	page.Cursor, err = parseCursor(raw)
	return page, nil, err
}
