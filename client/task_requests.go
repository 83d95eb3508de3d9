package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// GetTask returns the status of a task. The error is an [ErrTaskUnknown] if the server does
// not know it, or does not show it to this user. (SEP-2663, "Task Polling")
func (s *Session) GetTask(ctx context.Context, id string) (*Task, error) {
	requests, err := s.tasks()
	if err != nil {
		return nil, err
	}
	t, err := requests.get(ctx, id)
	if err != nil || requests.dialect == TasksExtension || t.Status != taskAsks || s.legacy() {
		return t, err
	}
	// The questions come with the result, whose response waits if they were just answered.
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	x := &tap.Exchange{Method: wire.TaskResult, Name: id}
	raw, err := s.exchange(bounded, requests.dialect, x, &taskParams{TaskID: id})
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return t, nil
	case err != nil:
		return nil, err
	}
	asked, err := parseAsked(raw, s.Server(), &s.opts.Limits)
	if err != nil {
		return nil, err
	}
	if asked == nil { // it has ended
		return requests.get(ctx, id)
	}
	t.Questions, t.state = asked.Questions, asked.state
	return t, nil
}

// AnswerTask gives answers to questions of a task, without waiting for what the task does
// with them. The answers, by the questions' keys, are an *mcp.ElicitResult, an
// *mcp.CreateMessageWithToolsResult, an *mcp.ListRootsResult, or anything that marshals to
// the same JSON. Nothing is sent unless each belongs to an open question and fits it.
//
// In a session before 2026-07-28 it is an error: there the handlers answer, during [Session.WaitTask].
func (s *Session) AnswerTask(ctx context.Context, id string, answers map[string]any) error {
	requests, err := s.tasks()
	if err != nil {
		return err
	}
	if s.legacy() {
		return errors.New(
			"in a session before 2026-07-28 the questions of a task are answered while its result is waited for")
	}
	t, err := s.GetTask(ctx, id)
	if err != nil {
		return err
	}
	raw := make(map[string]json.RawMessage, len(answers))
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		at := slices.IndexFunc(t.Questions, func(q *Question) bool { return q.Key == key })
		if at < 0 {
			return fmt.Errorf("the task does not ask %q: it is %s", key, t.Status)
		}
		if raw[key], err = s.opts.encode(t.Questions[at], answers[key]); err != nil {
			return err
		}
	}
	return requests.answer(ctx, id, t.state, raw)
}

// CancelTask asks the server to end a task. Whether and when it does shows in the task's
// status. (SEP-2663, "Task Cancellation")
func (s *Session) CancelTask(ctx context.Context, id string) error {
	requests, err := s.tasks()
	if err != nil {
		return err
	}
	_, err = s.request(ctx, requests.dialect, wire.CancelTask, id, &taskParams{TaskID: id})
	return err
}

// ListTasks lists the caller's tasks, a page at a time: cursor is empty for the first, next is empty after the last.
// The extension has no list: its clients keep the IDs. (2025-11-25, "Listing Tasks")
func (s *Session) ListTasks(ctx context.Context, cursor string) (tasks []*Task, next string, err error) {
	requests, err := s.tasks()
	if err != nil {
		return nil, "", err
	}
	raw, err := s.request(ctx, requests.dialect, wire.ListTasks, "", &taskParams{Cursor: cursor})
	if hasCode(err, jsonrpc.CodeMethodNotFound) && requests.dialect == TasksExtension {
		return nil, "", fmt.Errorf("the tasks extension has no list of tasks, keep their ids: %w", err)
	}
	if err != nil {
		return nil, "", err
	}
	if next, err = nextCursor(raw); err != nil {
		return nil, "", err
	}
	list := strictjson.Get(raw, "tasks")
	if strictjson.TypeOf(list) != strictjson.TypeArray {
		return nil, "", &ProtocolError{"the list of tasks is not an array"}
	}
	for value := range strictjson.Elements(list) {
		t, err := parseTask(value, s.Server(), &s.opts.Limits)
		if err != nil {
			return nil, "", err
		}
		tasks = append(tasks, t)
	}
	return tasks, next, nil
}

// taskRequests are a session's requests about tasks, in one dialect.
type taskRequests struct {
	session *Session
	dialect TaskDialect
}

// tasks returns the requests about tasks that are known by their IDs.
func (s *Session) tasks() (taskRequests, error) {
	switch d := s.opts.Tasks; {
	case d == TasksOff:
		return taskRequests{}, errors.New("this client has its tasks off: see Options.Tasks")
	case d == TasksExtension && s.legacy():
		return taskRequests{}, errors.New("the server does not speak 2026-07-28, which the tasks extension belongs to")
	case d == TasksAuto && s.legacy():
		return taskRequests{s, TasksProposal}, nil
	case d == TasksAuto:
		return taskRequests{s, TasksExtension}, nil
	default:
		return taskRequests{s, d}, nil
	}
}

// get requests the status of a task.
func (r taskRequests) get(ctx context.Context, id string) (*Task, error) {
	s := r.session
	raw, err := s.request(ctx, r.dialect, wire.GetTask, id, &taskParams{TaskID: id})
	if hasCode(err, jsonrpc.CodeInvalidParams) {
		if s.legacy() {
			return nil, fmt.Errorf("%w: %.80q: %w (this session is of %s: a client of another revision may have made the task)",
				ErrTaskUnknown, id, err, s.sdk.InitializeResult().ProtocolVersion)
		}
		return nil, fmt.Errorf("%w: %.80q: %w", ErrTaskUnknown, id, err)
	}
	if err != nil {
		return nil, err
	}
	t, err := parseTask(raw, s.Server(), &s.opts.Limits)
	if err == nil && t.ID != id {
		err = &ProtocolError{fmt.Sprintf("asked for one task, it answers about another one, %.80q", t.ID)}
	}
	return t, err
}

// answerMethod is the method that answers the questions of a task.
func answerMethod(d TaskDialect) string {
	if d == TasksProposal {
		return wire.InputResponse
	}
	return wire.UpdateTask
}

// answer answers questions of a task. The state is the one that came with them, or nil.
func (r taskRequests) answer(ctx context.Context, id string, state *string, answers map[string]json.RawMessage) error {
	params := &taskParams{TaskID: id, InputResponses: answers}
	if r.dialect == TasksProposal {
		params = &taskParams{InputResponses: answers, RequestState: state}
		params.SetMeta(mcp.Meta{wire.MetaRelatedTask: map[string]any{"taskId": id}})
	}
	_, err := r.session.request(ctx, r.dialect, answerMethod(r.dialect), id, params)
	return err
}
