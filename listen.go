package askback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Subscriptions to tasks (SEP-2663, "Task Status Notifications"). What else a subscription
// asks for is the SDK's, which serves it on the same stream.

const (
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodTasks        = "notifications/tasks"
)

const (
	tasksPerListen   = 64 // in one subscription
	listensPerConn   = 16 // that name tasks, on a connection of whole messages
	announcedPerConn = 64 // tasks that one session is told of unasked
)

// listening is a subscription to tasks.
type listening struct {
	id     []byte // of the request, raw
	tasks  []*task.Task
	others bool // the request asks for more than tasks
}

// newListening reads a request for a subscription: nil if it names no tasks. It agrees to
// those that are the principal's.
func (s *Server) newListening(ctx context.Context, id, params []byte, principal func() (string, error)) (*listening, error) {
	filter := strictjson.Get(params, "notifications")
	raw := strictjson.Get(filter, "taskIds")
	if s.tasks == nil || raw == nil {
		return nil, nil
	}
	meta, fault := wire.ParseMeta(strictjson.Get(params, "_meta"))
	if fault != nil {
		return nil, fault
	}
	if Kind(meta.Capabilities)&KindTasks == 0 {
		return nil, (&CapabilityError{Need: KindTasks}).wire()
	}
	var ids []string
	if err := json.Unmarshal(raw, &ids); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: "taskIds" must be an array of strings`)
	}
	if len(ids) > tasksPerListen {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: one subscription takes at most %d tasks", tasksPerListen)
	}
	who, err := principal()
	if err != nil {
		return nil, err
	}
	l := &listening{id: id, others: !onlyTasks(params)}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		t, err := s.tasks.Get(ctx, who, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
		case err != nil:
			return nil, s.taskFailed(ctx, "retrieving a task", err)
		default:
			l.tasks = append(l.tasks, t)
		}
	}
	return l, nil
}

// onlyTasks reports whether a subscription asks for nothing but tasks.
func onlyTasks(params []byte) bool {
	only := true
	_ = strictjson.Members(strictjson.Get(params, "notifications"), func(name, _ []byte) error {
		only = only && string(name) == "taskIds"
		return nil
	})
	return only
}

// acknowledge makes the parameters of the first notification; others is what else was
// agreed to, an object or nil.
func (l *listening) acknowledge(others []byte) []byte {
	agreed := map[string]json.RawMessage{}
	_ = json.Unmarshal(others, &agreed) // nil is nothing
	ids := make([]string, len(l.tasks))
	for i, t := range l.tasks {
		ids[i] = t.ID
	}
	agreed["taskIds"], _ = json.Marshal(ids)                          // strings
	params, _ := json.Marshal(map[string]any{"notifications": agreed, // checked JSON
		"_meta": map[string]any{mcp.MetaKeySubscriptionID: json.RawMessage(l.id)}})
	return params
}

// result makes the result that ends a subscription.
func (l *listening) result(s *Server) []byte {
	meta := slices.Concat(s.meta[:len(s.meta)-1], []byte(`,"`+mcp.MetaKeySubscriptionID+`":`), l.id, []byte("}"))
	return wire.Complete(nil, []byte("{}"), meta, "")
}

// follow sends how each task stands, now and whenever that changes, until all have ended or
// ctx is done.
func (s *Server) follow(ctx context.Context, l *listening, send func(params []byte) error) error {
	return s.tasks.Follow(ctx, l.tasks, func(t *task.Task) error {
		params, err := s.taskNotification(l, t)
		if err != nil {
			return err
		}
		return send(params)
	})
}

func (s *Server) taskNotification(l *listening, t *task.Task) ([]byte, error) {
	res, err := s.describe(t, true)
	if err != nil {
		return nil, err
	}
	meta := slices.Concat([]byte(`,"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), l.id, []byte("}"))
	return slices.Concat([]byte("{"), res.members, meta, []byte("}")), nil
}

// Over HTTP.

// serveListen serves a subscription that names tasks.
func (h *httpHandler) serveListen(w http.ResponseWriter, r *http.Request, req wire.Request, l *listening) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream := &eventStream{w: w}
	others := make(chan []byte, 1) // what the SDK agreed to
	ended := make(chan struct{})   // the SDK's part
	if l.others {
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
	if err := stream.notify(methodAcknowledged, l.acknowledge(agreed)); err != nil {
		return
	}
	err := h.follow(ctx, l, func(params []byte) error { return stream.notify(methodTasks, params) })
	select {
	case <-ended:
	case <-ctx.Done():
	}
	if err == nil && ctx.Err() == nil {
		stream.finish(http.StatusOK, wire.AppendResult(nil, req.ID, func(dst []byte) []byte { return append(dst, l.result(h.Server)...) }))
	}
}

// listenRelay takes what the SDK writes to a subscription: its acknowledgment is told, its
// notifications are passed on, its end is not.
type listenRelay struct {
	header http.Header
	stream *eventStream
	agreed chan []byte
	told   bool
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
	case method == methodAcknowledged && !l.told:
		l.told = true
		l.agreed <- bytes.Clone(strictjson.Get(params, "notifications"))
	case method != "":
		return l.stream.notify(method, params)
	}
	return nil
}

// end passes on an answer that is no stream, which is a refusal.
func (l *listenRelay) end() {
	if l.told {
		return
	}
	maps.Copy(l.stream.w.Header(), l.header)
	if l.status != 0 {
		l.stream.w.WriteHeader(l.status)
	}
	_, _ = io.Copy(l.stream.w, &l.buffer) // a client that is gone gets nothing
	close(l.agreed)
}

// Over stdio and the other transports of whole messages.

// connListening is a subscription on such a connection.
type connListening struct {
	*listening
	ctx    context.Context
	cancel context.CancelFunc

	ended    bool            // all its tasks have
	response jsonrpc.Message // of the SDK, which waits for that
}

// listen takes over a subscription that names tasks. It reports whether the SDK is to see
// the request, too.
func (c *exactConnection) listen(ctx context.Context, req *jsonrpc.Request) (pass bool) {
	if c.server.tasks == nil {
		return true
	}
	if strictjson.Get(strictjson.Get(req.Params, "notifications"), "taskIds") == nil {
		return true
	}
	id, err := json.Marshal(req.ID.Raw())
	if err != nil {
		return true
	}
	own := new(connListening)
	own.ctx, own.cancel = context.WithCancel(c.life)
	c.mu.Lock()
	full := len(c.open) >= listensPerConn || c.open[req.ID] != nil
	if !full {
		c.open[req.ID] = own
	}
	c.mu.Unlock()
	if full {
		own.cancel()
		c.refuse(ctx, req.ID, wire.Errorf(jsonrpc.CodeInvalidRequest, "too many subscriptions to tasks: one connection may have %d, each for up to %d tasks", listensPerConn, tasksPerListen))
		return false
	}
	extra, _ := req.Extra.(*mcp.RequestExtra)
	prepare := func() bool {
		l, err := c.server.newListening(own.ctx, id, req.Params, func() (string, error) { return c.server.principal(own.ctx, extra) })
		if err != nil {
			c.unlisten(req.ID)
			c.refuse(c.life, req.ID, protocolError(err))
			return false
		}
		c.mu.Lock() // which answers look at, whatever they answer
		defer c.mu.Unlock()
		own.listening = l
		return true
	}
	if onlyTasks(req.Params) {
		c.all.Go(func() { // looking the tasks up must not hold up other requests
			defer c.unlisten(req.ID)
			if prepare() && c.notify(own.ctx, methodAcknowledged, own.acknowledge(nil)) == nil && c.follow(own) == nil {
				_ = c.Connection.Write(own.ctx, &jsonrpc.Response{ID: req.ID, Result: own.result(c.server)})
			}
		})
		return false
	}
	return prepare() // it goes on when the SDK acknowledges
}

func (c *exactConnection) refuse(ctx context.Context, id jsonrpc.ID, fault *jsonrpc.Error) {
	_ = c.Connection.Write(ctx, &jsonrpc.Response{ID: id, Error: fault}) // the connection's end is noticed reading
}

func (c *exactConnection) follow(l *connListening) error {
	return c.server.follow(l.ctx, l.listening, func(params []byte) error { return c.notify(l.ctx, methodTasks, params) })
}

func (c *exactConnection) notify(ctx context.Context, method string, params []byte) error {
	return c.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: params})
}

// unlisten ends a subscription's part that is about tasks.
func (c *exactConnection) unlisten(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.open[id]; l != nil {
		l.cancel()
		delete(c.open, id)
	}
}

// cancelled ends the subscription that a notification of that name is about.
func (c *exactConnection) cancelled(params []byte) {
	var raw any
	if json.Unmarshal(strictjson.Get(params, "requestId"), &raw) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(raw); err == nil {
		c.unlisten(id)
	}
}

// Write adds the tasks to the SDK's acknowledgment of a subscription, and ends them with it.
func (c *exactConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if c.keep(m) {
			return nil
		}
		c.unlisten(m.ID)
		if err := c.Connection.Write(ctx, msg); err != nil {
			return err
		}
		c.announce(ctx, m)
		return nil
	case *jsonrpc.Request:
		if m.Method != methodAcknowledged {
			break
		}
		var params struct {
			Notifications json.RawMessage `json:"notifications"`
			Meta          map[string]any  `json:"_meta"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			break
		}
		id, err := jsonrpc.MakeID(params.Meta[mcp.MetaKeySubscriptionID])
		c.mu.Lock()
		l := c.open[id]
		ours := err == nil && l != nil && l.listening != nil
		c.mu.Unlock()
		if !ours {
			break
		}
		if err := c.notify(ctx, methodAcknowledged, l.acknowledge(params.Notifications)); err != nil {
			return err
		}
		c.all.Go(func() {
			if c.follow(l) != nil {
				return
			}
			c.mu.Lock()
			l.ended = true
			c.mu.Unlock()
			if l.response != nil {
				_ = c.Write(l.ctx, l.response)
			}
		})
		return nil
	}
	return c.Connection.Write(ctx, msg)
}

// keep holds back the SDK's answer to a subscription whose tasks have not ended, as when it
// agreed to nothing else.
func (c *exactConnection) keep(res *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.open[res.ID]
	if l == nil || l.listening == nil || !l.others || l.ended || res.Error != nil {
		return false
	}
	l.response = res
	return true
}

// announce tells the client of a session before 2026-07-28, unasked, how the task stands
// that its call became (2025-11-25, "Task Status Notification").
func (c *exactConnection) announce(ctx context.Context, res *jsonrpc.Response) {
	created := strictjson.Get(res.Result, "task")
	id, ok := strictjson.String(strictjson.Get(created, "taskId"))
	if !ok || c.server.tasks == nil || strictjson.Get(res.Result, "_meta") != nil { // a modern result says who answers
		return
	}
	var t *task.Task
	err := safely(func() (err error) {
		t, err = c.server.opts.Tasks.Store.Get(ctx, id)
		return err
	})
	if err != nil {
		return
	}
	if c.announced.Add(1) > announcedPerConn { // nobody may rely on being told
		c.announced.Add(-1)
		return
	}
	c.all.Go(func() {
		defer c.announced.Add(-1)
		_ = c.server.tasks.Follow(c.life, []*task.Task{t}, func(t *task.Task) error {
			if t.Version == 0 {
				return nil // as it was created
			}
			params := append(wireTask(t, false).Append([]byte("{"), false), '}')
			return c.notify(c.life, "notifications/tasks/status", params)
		})
	})
}

func (c *exactConnection) Close() error {
	c.end()
	err := c.Connection.Close()
	c.all.Wait()
	return err
}
