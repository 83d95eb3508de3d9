package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// A server before 2026-07-28 may refuse a call until its user has opened pages, which its error names (2025-11-25,
// "URL Elicitation Required Error"). The call asks the handler for URLs, and is sent again.

// required returns what an error asks the user to open before the call can run, or nil. An error whose questions cannot
// be asked remains an error.
func (c *call) required(err error) *Pending {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || fault.Code != mcp.CodeURLElicitationRequired || !c.legacy() || c.opts.URL == nil {
		return nil
	}
	questions := readRequired(fault.Data, c.Server(), &c.opts.Limits)
	if questions == nil {
		return nil
	}
	return &Pending{Endpoint: c.endpoint, Method: c.method, Params: c.params, Round: c.round, Questions: questions}
}

// readRequired reads the data of such an error. It returns nil if one of its questions cannot be asked.
func readRequired(data json.RawMessage, server *mcp.Implementation, l *Limits) (questions []*Question) {
	if strictjson.Check(data, l.Depth) != nil {
		return nil
	}
	for params := range strictjson.Elements(strictjson.Get(data, "elicitations")) {
		id, _ := strictjson.String(strictjson.Get(params, "elicitationId"))
		q := &Question{Key: id, Method: input.MethodElicit, Server: server, Params: slices.Clone(params)}
		if id == "" || len(questions) == l.Questions || parse(q) != nil || q.URL == "" {
			return nil
		}
		questions = append(questions, q)
	}
	return questions
}

// visit asks the user to open each page that was not opened in this call before. It returns when the call can be sent
// again: when the server says that it is done with the pages, or after a pause, because some servers never say so. The
// error of a user who does not agree is the server's.
func (c *call) visit(ctx context.Context, questions []*Question) error {
	completed := make([]context.Context, len(questions))
	for i, q := range questions {
		var leave func()
		completed[i], leave = c.inline.completion(q.Key)
		defer leave()
	}
	for i, q := range questions {
		if slices.Contains(c.visited, q.URL) {
			continue
		}
		asking, stop := join(ctx, completed[i])
		answer, err := c.opts.answer(asking, q)
		stop()
		if completed[i].Err() == nil {
			action, _ := strictjson.String(strictjson.Get(answer, "action"))
			switch {
			case err != nil && !errors.Is(err, ErrPark):
				return fmt.Errorf("%w; %w", err, c.refusal)
			case action != "accept":
				return c.refusal
			}
		}
		c.visited = append(c.visited, q.URL)
	}
	c.pause = min(max(2*c.pause, c.opts.Limits.FirstPause), c.opts.Limits.MaxPause)
	for _, done := range completed {
		waiting, stop := join(ctx, done)
		_ = pause(waiting, c.pause) // an error means that the server is done, or the call
		stop()
	}
	return ctx.Err()
}
