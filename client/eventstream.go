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
		const shortest, longest = time.Second, time.Minute
		wait, ever := shortest, false
		for {
			began, q := time.Now(), &eventQueue{of: p.Name, more: make(chan struct{}, 1)}
			err := s.streamEvents(ctx, &p, q, yield)
			if errors.Is(err, errEnough) {
				return
			}
			if ever = ever || q.begun; ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if err == nil || ever && breaksOff(err) {
				if time.Since(began) > longest {
					wait = shortest
				}
				if err = pause(ctx, wait); err == nil {
					wait = min(2*wait, longest)
					continue
				}
			}
			yield(nil, err)
			return
		}
	}
}

var (
	errEnough = errors.New("nobody wants another page")
	errBehind = errors.New("pages come faster than they are taken")
)

// silence is how long nothing may come on a stream: more than twice the time between two heartbeats.
const silence = 65 * time.Second

// breaksOff reports whether a stream that ended with this error is opened again.
func breaksOff(err error) bool {
	if status, ok := errors.AsType[*tap.StatusError](err); ok {
		return status.Code >= 500 || status.Code == http.StatusTooManyRequests
	}
	_, away := errors.AsType[*tap.AwayError](err)
	return away || errors.Is(err, errBehind)
}

// streamEvents reads one stream to its end, and notes in p how far it came.
func (s *Session) streamEvents(
	ctx context.Context, p *EventPoll, q *eventQueue, yield func(*EventPage, error) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		_, err := s.exchange(ctx, TasksExtension, &tap.Exchange{Method: wire.StreamEvents, Name: p.Name,
			Notify: q.receive}, &taskParams{Name: p.Name, Arguments: p.Arguments, Cursor: p.Cursor,
			MaxAge: p.MaxAge.Milliseconds()})
		over <- err
	})
	defer reading.Wait()
	defer cancel()
	for ended, closed := error(nil), false; ; {
		for page := q.take(); page != nil; page = q.take() {
			if p.Cursor = page.Cursor; !yield(page, nil) {
				return errEnough
			}
		}
		if closed || q.failed() != nil {
			return cmp.Or(q.failed(), ended)
		}
		select {
		case <-q.more:
		case ended = <-over:
			closed = true // and there may be pages before that
		case <-time.After(silence):
			return &tap.AwayError{Reason: fmt.Sprintf("nothing came on the stream within %v", silence)}
		}
	}
}

// eventQueue holds what came on a stream until it is taken. Nobody waits for the reader: on some transports all
// requests share a connection.
type eventQueue struct {
	of   string        // the type
	more chan struct{} // receives after changes; has room for one

	mu    sync.Mutex
	pages []*EventPage
	bytes int
	begun bool
	err   error // the end of the subscription, or of the reading
}

// receive takes a notification. Pages of a server that hurries are bounded: the stream then goes on later from the
// cursor of the last one that was taken.
func (q *eventQueue) receive(method string, params []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	page, err := parseNotification(method, params, q.of)
	n := len(q.pages)
	switch {
	case q.err != nil:
		return
	case err != nil:
		q.err = err
	case page == nil:
	case n > 0 && page.Events == nil && !page.Truncated: // only the cursor is new
		q.pages[n-1].Cursor = page.Cursor
	case q.bytes+pageSize(page) > maxNotifications:
		q.err = errBehind
	default:
		q.pages = append(q.pages, page)
		q.bytes += pageSize(page)
	}
	q.begun = q.begun || page != nil
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// pageSize is the memory of a page that waits, in bytes.
func pageSize(page *EventPage) int {
	size := 512 + len(page.Cursor)
	for _, e := range page.Events {
		size += len(e.ID) + len(e.Name) + len(e.Data)
	}
	return size
}

// take takes the next page, or nil.
func (q *eventQueue) take() *EventPage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pages) == 0 {
		return nil
	}
	page := q.pages[0]
	q.pages = q.pages[1:]
	q.bytes -= pageSize(page)
	return page
}

func (q *eventQueue) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// parseNotification reads what a stream says about events of a type. The page is nil if there is nothing in it. Its
// JSON has been checked.
func parseNotification(method string, params []byte, of string) (page *EventPage, err error) {
	page = new(EventPage)
	switch name, _ := strings.CutPrefix(method, wire.EventNotifications); name {
	case "active":
		page.Truncated = string(strictjson.Get(params, "truncated")) == "true"
	case "event":
		e, err := parseEvent(params, of)
		if err != nil {
			return nil, err
		}
		page.Events = []*Event{e}
	case "heartbeat":
	case "terminated":
		ended, err := parseEnd(params)
		if err == nil {
			err = fmt.Errorf("the server has ended the subscription: %w", ended)
		}
		return nil, err
	default:
		return nil, nil
	}
	page.Cursor, err = parseCursor(params)
	return page, err
}

// parseEnd reads the error with which a server ends a subscription. Its JSON has been checked.
func parseEnd(raw []byte) (ended, err error) {
	reason, fault := strictjson.Get(raw, "error"), new(jsonrpc.Error)
	if strictjson.TypeOf(reason) != strictjson.TypeObject || json.Unmarshal(reason, fault) != nil {
		return nil, &ProtocolError{"a subscription has ended without an error"}
	}
	return fault, nil
}
