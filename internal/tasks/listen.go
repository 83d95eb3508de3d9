package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Subscriptions to tasks (SEP-2663, "Task Status Notifications") and to the types of events (SEP-3415, "Dynamic event
// types"). The SDK serves the other parts of a subscription, on the same stream.

// The methods of subscriptions.
const (
	MethodListen       = "subscriptions/listen"
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	MethodTasks        = "notifications/tasks"
	MethodStatus       = "notifications/tasks/status" // of sessions before 2026-07-28
)

// PerListen bounds the tasks of one subscription.
const PerListen = 64

// Listening is a subscription to tasks, to the types of events, or to both.
type Listening struct {
	Others bool // the request asks for more than that

	id    []byte // the request's ID, raw
	named bool   // it names tasks
	tasks []*task.Task
	types <-chan struct{} // closed by the next change of the types of events; nil if it is not subscribed to them
}

const filterTasks = "taskIds" // of the filter of a subscription

// ListensHere reports whether the parameters of a subscription ask for tasks or the types of events, which the SDK does
// not know.
func ListensHere(params []byte) bool {
	filter := strictjson.Get(params, "notifications")
	return strictjson.Get(filter, filterTasks) != nil || strictjson.Get(filter, wire.EventTypesFilter) != nil
}

// OnlyHere reports whether they ask for nothing else.
func OnlyHere(params []byte) bool {
	only := true
	for name := range strictjson.Members(strictjson.Get(params, "notifications")) {
		only = only && (string(name) == filterTasks || string(name) == wire.EventTypesFilter)
	}
	return only
}

// Listen begins a subscription. It agrees to the principal's tasks among those that it names.
func (s *Service) Listen(ctx context.Context, principal string, id, params []byte) (*Listening, error) {
	meta, fault := wire.ParseMeta(strictjson.Get(params, "_meta"))
	if fault != nil {
		return nil, fault
	}
	filter, types := strictjson.Get(params, "notifications"), false
	named := strictjson.Get(filter, filterTasks)
	if named != nil && meta.Capabilities&wire.Tasks == 0 {
		return nil, wire.MissingCapability(wire.Tasks)
	}
	if changed := strictjson.Get(filter, wire.EventTypesFilter); given(changed) && json.Unmarshal(changed, &types) != nil {
		return nil, invalidParam(wire.EventTypesFilter, "must be a boolean")
	}
	l := &Listening{Others: !OnlyHere(params), id: id, named: named != nil}
	if types && s.Events != nil && meta.Version != "" { // the revisions with sessions have no events
		l.types = s.Events.Changed.Next()
	}
	var ids []string
	if l.named && json.Unmarshal(named, &ids) != nil {
		return nil, invalidParam(filterTasks, "must be an array of strings")
	}
	if len(ids) > PerListen {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: one subscription takes at most %d tasks",
			PerListen)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		t, err := s.Engine.Get(ctx, principal, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
		case err != nil:
			return nil, s.failed(ctx, "retrieving a task", err)
		default:
			l.tasks = append(l.tasks, t)
		}
	}
	return l, nil
}

// Acknowledge makes the parameters of the first notification. Others is an object with what the SDK has agreed to, or
// nil.
func (l *Listening) Acknowledge(others []byte) []byte {
	agreed := map[string]json.RawMessage{}
	_ = json.Unmarshal(others, &agreed) // nil is nothing
	if l.named {
		ids := make([]string, len(l.tasks))
		for i, t := range l.tasks {
			ids[i] = t.ID
		}
		agreed[filterTasks], _ = json.Marshal(ids) // strings
	}
	if l.types != nil {
		agreed[wire.EventTypesFilter] = json.RawMessage("true")
	}
	params, _ := json.Marshal(map[string]any{"notifications": agreed, "_meta": subscriptionMeta(l.id)}) // checked JSON
	return params
}

// subscriptionMeta is the _meta of a notification about the subscription, or the stream of events, of a request.
func subscriptionMeta(id []byte) map[string]any {
	return map[string]any{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
}

// Result makes the result that ends a subscription.
func (s *Service) Result(l *Listening) []byte { return s.EndOf(l.id) }

// EndOf makes the result that ends the subscription, or the stream of events, of the request with this ID.
func (s *Service) EndOf(id []byte) []byte {
	meta := slices.Concat(s.Info[:len(s.Info)-1], []byte(`,"`+mcp.MetaKeySubscriptionID+`":`), id, []byte("}"))
	return wire.CompleteMembers(nil, nil, meta)
}

// Follow sends the state of each task, now and whenever it changes, until all have ended, and tells of changes of the
// types of events. Without these it ends with the tasks, and otherwise with ctx. The error is the error of send, or an
// error for the client.
func (s *Service) Follow(ctx context.Context, l *Listening, send func(method string, params []byte) error) error {
	if l.types == nil {
		return s.followTasks(ctx, l, send)
	}
	ctx, end := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	following.Go(func() { end(s.Events.followTypes(ctx, l, send)) })
	if err := s.followTasks(ctx, l, send); err != nil {
		end(err)
	}
	following.Wait()
	return context.Cause(ctx)
}

// followTypes tells of changes of the types of events until ctx is done. What changes while a client does not read it
// is told once.
func (e *Events) followTypes(ctx context.Context, l *Listening, send func(method string, params []byte) error) error {
	params, err := json.Marshal(map[string]any{"_meta": subscriptionMeta(l.id)})
	for err == nil {
		select {
		case <-l.types:
			l.types = e.Changed.Next()
			err = send(wire.EventTypesChanged, params)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

func (s *Service) followTasks(ctx context.Context, l *Listening, send func(method string, params []byte) error) error {
	var unsent error
	err := s.Engine.Follow(ctx, l.tasks, func(t *task.Task) error {
		res, err := s.describe(ctx, t, true)
		if err != nil {
			return err
		}
		meta := slices.Concat([]byte(`,"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), l.id, []byte("}"))
		unsent = send(MethodTasks, slices.Concat([]byte("{"), res.members, meta, []byte("}")))
		return unsent
	})
	if err != nil && unsent == nil {
		err = s.failed(ctx, "following a task", err)
	}
	return err
}

// Announce calls send with the state of a task after each change, for the client of a session
// before 2026-07-28 whose call became the task (2025-11-25, "Task Status Notification").
func (s *Service) Announce(ctx context.Context, id string, send func(params []byte) error) error {
	var t *task.Task
	err := fault.Safely(func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.Engine.Settings().StoreTimeout)
		defer cancel()
		t, err = s.Store.Get(ctx, id) // for any principal: the client's own call became it
		return err
	})
	if err != nil {
		return err
	}
	return s.Engine.Follow(ctx, []*task.Task{t}, func(t *task.Task) error {
		if t.Version == 0 {
			return nil // as it was created
		}
		row := s.row(t, false)
		return send(append(row.Append([]byte("{"), false), '}'))
	})
}
