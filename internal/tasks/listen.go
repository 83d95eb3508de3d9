package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Subscriptions to tasks (SEP-2663, "Task Status Notifications"). The SDK serves the other parts
// of a subscription, on the same stream.

// The methods of subscriptions.
const (
	MethodListen       = "subscriptions/listen"
	MethodAcknowledged = "notifications/subscriptions/acknowledged"
	MethodTasks        = "notifications/tasks"
	MethodStatus       = "notifications/tasks/status" // of sessions before 2026-07-28
)

// PerListen bounds the tasks of one subscription.
const PerListen = 64

// Listening is a subscription to tasks.
type Listening struct {
	Others bool // the request asks for more than tasks

	id    []byte // the request's ID, raw
	tasks []*task.Task
}

// NamesTasks reports whether the parameters of a subscription name tasks.
func NamesTasks(params []byte) bool {
	return strictjson.Get(strictjson.Get(params, "notifications"), "taskIds") != nil
}

// Listen begins a subscription that names tasks. It agrees to the principal's tasks among them.
func (s *Service) Listen(ctx context.Context, principal string, id, params []byte) (*Listening, error) {
	meta, fault := wire.ParseMeta(strictjson.Get(params, "_meta"))
	if fault != nil {
		return nil, fault
	}
	if meta.Capabilities&wire.Tasks == 0 {
		return nil, wire.MissingCapability(wire.Tasks)
	}
	var ids []string
	if err := json.Unmarshal(strictjson.Get(strictjson.Get(params, "notifications"), "taskIds"), &ids); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: "taskIds" must be an array of strings`)
	}
	if len(ids) > PerListen {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: one subscription takes at most %d tasks",
			PerListen)
	}
	l := &Listening{Others: !OnlyTasks(params), id: id}
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

// OnlyTasks reports whether a subscription asks for nothing but tasks.
func OnlyTasks(params []byte) bool {
	only := true
	for name := range strictjson.Members(strictjson.Get(params, "notifications")) {
		only = only && string(name) == "taskIds"
	}
	return only
}

// Acknowledge makes the parameters of the first notification. Others is an object with what was
// agreed to besides tasks, or nil.
func (l *Listening) Acknowledge(others []byte) []byte {
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

// Result makes the result that ends a subscription.
func (s *Service) Result(l *Listening) []byte { return s.EndOf(l.id) }

// EndOf makes the result that ends the subscription, or the stream of events, of the request with this ID.
func (s *Service) EndOf(id []byte) []byte {
	meta := slices.Concat(s.Info[:len(s.Info)-1], []byte(`,"`+mcp.MetaKeySubscriptionID+`":`), id, []byte("}"))
	return wire.CompleteMembers(nil, nil, meta)
}

// Follow sends the state of each task, now and whenever it changes, until all have ended or ctx is done. The error is
// the error of send, or an error for the client.
func (s *Service) Follow(ctx context.Context, l *Listening, send func(params []byte) error) error {
	var unsent error
	err := s.Engine.Follow(ctx, l.tasks, func(t *task.Task) error {
		res, err := s.describe(ctx, t, true)
		if err != nil {
			return err
		}
		meta := slices.Concat([]byte(`,"_meta":{"`+mcp.MetaKeySubscriptionID+`":`), l.id, []byte("}"))
		unsent = send(slices.Concat([]byte("{"), res.members, meta, []byte("}")))
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
