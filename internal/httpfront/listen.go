package httpfront

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"sync"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// listen serves a subscription that names tasks.
func (h *handler) listen(w http.ResponseWriter, r *http.Request, req wire.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	l, err := h.SDK.Listen(ctx, req.ID, req.Params, requestExtra(r))
	if err != nil {
		fail(w, req.ID, err)
		return
	}
	stream := &eventStream{w: w}
	others := make(chan []byte, 1) // what the SDK agreed to
	ended := make(chan struct{})   // the SDK's part
	if l.Others {
		relay := &listenRelay{header: make(http.Header), stream: stream, agreed: others}
		var sdk sync.WaitGroup
		defer sdk.Wait()
		defer cancel()
		sdk.Go(func() {
			defer close(ended)
			defer relay.end()
			h.stateless.ServeHTTP(relay, r.WithContext(ctx))
		})
	} else {
		others <- nil
		close(ended)
	}
	agreed, ok := <-others
	if !ok { // the SDK refused: its answer is the answer
		return
	}
	if err := stream.notify(tasks.MethodAcknowledged, l.Acknowledge(agreed)); err != nil {
		return
	}
	err = h.SDK.Tasks.Follow(ctx, l, func(params []byte) error { return stream.notify(tasks.MethodTasks, params) })
	select {
	case <-ended:
	case <-ctx.Done():
	}
	if err == nil {
		h.respond(ctx, stream, req, &call.Outcome{Encoded: h.SDK.Tasks.Result(l)}, nil)
	}
}

// listenRelay takes what the SDK writes to a subscription: its acknowledgment is told, its
// notifications are passed on, its end is not.
type listenRelay struct {
	header http.Header
	stream *eventStream
	agreed chan []byte
	told   bool
	answer []byte // before the acknowledgment: a refusal
	status int
	buffer bytes.Buffer
}

func (l *listenRelay) Header() http.Header    { return l.header }
func (l *listenRelay) WriteHeader(status int) { l.status = status }
func (l *listenRelay) Flush()                 {}

func (l *listenRelay) Write(p []byte) (int, error) {
	l.buffer.Write(p)
	for l.status < 300 {
		event, rest, whole := bytes.Cut(l.buffer.Bytes(), []byte("\n\n"))
		if !whole {
			break
		}
		for line := range bytes.Lines(event) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				if err := l.pass(bytes.TrimSpace(data)); err != nil {
					return 0, err
				}
			}
		}
		l.buffer.Next(l.buffer.Len() - len(rest))
	}
	return len(p), nil
}

func (l *listenRelay) pass(message []byte) error {
	method, _ := strictjson.String(strictjson.Get(message, "method"))
	params := strictjson.Get(message, "params")
	switch {
	case method == tasks.MethodAcknowledged && !l.told:
		l.told = true
		l.agreed <- bytes.Clone(strictjson.Get(params, "notifications"))
	case method != "":
		return l.stream.notify(method, params)
	case !l.told:
		l.answer = bytes.Clone(message)
	}
	return nil
}

// end passes on what the SDK answered instead of an acknowledgment: a refusal.
func (l *listenRelay) end() {
	if l.told {
		return
	}
	defer close(l.agreed)
	if l.answer != nil {
		writeJSON(l.stream.w, http.StatusOK, l.answer)
		return
	}
	maps.Copy(l.stream.w.Header(), l.header)
	if l.status != 0 {
		l.stream.w.WriteHeader(l.status)
	}
	_, _ = io.Copy(l.stream.w, &l.buffer) // a client that is gone gets nothing
}
