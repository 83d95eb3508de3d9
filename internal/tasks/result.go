package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// result is the result of a request about tasks.
type result struct {
	members   []byte              // without braces
	questions []wire.InputRequest // the open questions of an input-required result
	related   string              // the ID of the related task, for _meta
	outcome   []byte              // the result of a completed task, in place of members
}

// encode makes the result object. A modern one has its type, and names the server.
func (r *result) encode(info []byte, modern bool) ([]byte, error) {
	members, meta := r.members, info
	if !modern {
		meta = nil
	}
	if r.related != "" {
		all := map[string]json.RawMessage{}
		if meta != nil {
			_ = json.Unmarshal(meta, &all) // made here
		}
		if r.outcome != nil {
			opened, own, err := stored.DecodeResult(r.outcome)
			if err != nil {
				return nil, err
			}
			if own != nil {
				if err := json.Unmarshal(own, &all); err != nil {
					return nil, fmt.Errorf("the _meta of the stored result: %w", err)
				}
			}
			if len(opened) > 0 {
				members = slices.Concat(members, comma(members), opened)
			}
		}
		all[wire.MetaRelatedTask], _ = json.Marshal(map[string]string{"taskId": r.related})
		meta, _ = json.Marshal(all) // checked JSON
	}
	switch {
	case r.questions != nil:
		return wire.InputRequired(nil, r.questions, "", meta), nil
	case !modern && meta != nil:
		members = slices.Concat(members, comma(members), []byte(`"_meta":`), meta)
	}
	if modern {
		return wire.CompleteMembers(make([]byte, 0, len(members)+len(meta)+64), members, meta), nil
	}
	return slices.Concat([]byte("{"), members, []byte("}")), nil
}

func comma(members []byte) []byte {
	if len(members) == 0 {
		return nil
	}
	return []byte(",")
}

// describe returns the state of a task. For the extension it includes the questions, the result
// or the error that belong to the status.
func (s *Service) describe(ctx context.Context, t *task.Task, extension bool) (result, error) {
	row := s.row(t, extension)
	res := result{members: row.Append(make([]byte, 0, 512+len(t.Pending)+len(t.Outcome)), extension)}
	if !extension {
		return res, nil
	}
	switch {
	case t.Status == task.InputRequired && len(t.Pending) > 0:
		requests, err := s.inputRequests(ctx, t)
		if err != nil {
			return result{}, err
		}
		res.members = wire.AppendInputRequests(append(res.members, `,"inputRequests":`...), requests)
	case t.Status == task.Completed:
		members, meta, err := stored.DecodeResult(t.Outcome) // the response itself names the server
		if err != nil {
			return result{}, s.unreadable(ctx, err)
		}
		res.members = wire.CompleteMembers(append(res.members, `,"result":`...), members, meta)
	case t.Status == task.Failed:
		res.members = append(append(res.members, `,"error":`...),
			stored.EncodeFault(stored.DecodeFault(t.Outcome, t.Message))...)
	}
	return res, nil
}

func (s *Service) inputRequests(ctx context.Context, t *task.Task) ([]wire.InputRequest, error) {
	open, err := stored.DecodeQuestions(t.Pending)
	if err != nil {
		return nil, s.unreadable(ctx, err)
	}
	requests := make([]wire.InputRequest, len(open))
	for i, q := range open {
		requests[i] = wire.InputRequest{Key: q.Wire, Method: q.Method, Params: q.Params}
	}
	return requests, nil
}

// unreadable is the error for a task that is not stored as it should be. Unlike the error of a store that does not
// answer, it does not tell the client to try again.
func (s *Service) unreadable(ctx context.Context, err error) error {
	return s.storeFailed(ctx, "reading a stored task", err)
}

func (s *Service) row(t *task.Task, extension bool) wire.Task {
	row := wire.Task{
		ID: t.ID, Status: string(t.Status), Message: s.message(t), Created: t.Created, Updated: t.Updated,
		TTL: t.Expires.Sub(t.Created), Poll: t.PollInterval,
	}
	if t.Status == task.InputRequired && len(t.Pending) == 0 { // it waits for others than its client
		row.Status = string(task.Working)
	}
	if extension {
		return row
	}
	// Before the extension a tool's error was a failure of its task.
	if t.Status == task.Completed && string(strictjson.Get(t.Outcome, "isError")) == "true" {
		row.Status = string(task.Failed)
		row.Message = firstText(t.Outcome)
	}
	if row.Message == "" {
		row.Message = proposalMessage(t, row.Status)
	}
	return row
}

// firstText returns the beginning of the text of a tool's error.
func firstText(result []byte) string {
	var said struct{ Content []struct{ Text string } }
	if json.Unmarshal(result, &said) != nil || len(said.Content) == 0 {
		return ""
	}
	const most = 200
	text := []rune(said.Content[0].Text)
	return string(text[:min(len(text), most)])
}

// proposalMessage returns the message of a status in the proposals.
func proposalMessage(t *task.Task, status string) string {
	switch task.Status(status) {
	case task.Working:
		if t.Version == 0 {
			return "Task has been created for " + t.Target + " tool invocation."
		}
		return "The operation is now in progress."
	case task.InputRequired:
		return "Input Required to Proceed call tasks/result"
	case task.Completed:
		return "Task has been completed successfully, call tasks/result"
	case task.Failed:
		return "Task has failed, call tasks/result"
	}
	return ""
}
