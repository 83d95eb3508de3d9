package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/process"
)

// client sends messages for one principal.
type client struct{ rawclient.Client }

// newClient returns a client of a server, with connections of its own. An empty user is the anonymous caller.
func newClient(s *process.Server, user string) *client {
	return &client{rawclient.Client{
		URL:    s.URL + "/mcp",
		HTTP:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		Header: http.Header{"X-User": {user}},
	}}
}

func (c *client) close() { c.HTTP.CloseIdleConnections() }

var (
	ask     = map[string]any{"name": "ask"}
	octocat = rawclient.Accept(map[string]any{"name": "octocat"})
)

// wrong is an outcome that the server must not have.
func wrong(what string, got any) error { return fmt.Errorf("%s: got %.500v", what, got) }

// interaction is a modern call with a question, and the answer to it.
func (c *client) interaction(ctx context.Context) error {
	var asked rawclient.Result
	if err := c.Call(ctx, "tools/call", ask, &asked); err != nil {
		return err
	}
	if asked.Type != "input_required" || asked.State == "" {
		return wrong("a call that asks", asked)
	}
	return c.Call(ctx, "tools/call", asked.Retry(ask, map[string]any{"login": octocat}), nil)
}

// inSession is a call with a question inside a session, and the answer to it. Abandoned, the client goes away instead.
func (c *client) inSession(ctx context.Context, abandoned bool) error {
	session, err := c.Initialize(ctx, "2025-11-25")
	if err != nil {
		return err
	}
	call, err := session.Open(ctx, "tools/call", ask)
	if err != nil {
		return err
	}
	defer call.Close()
	question, err := call.Next()
	if err != nil {
		return fmt.Errorf("a question: %w", err)
	}
	if question.Method != "elicitation/create" {
		return wrong("a question in a session", *question)
	}
	if abandoned {
		return nil
	}
	if err := session.Answer(ctx, question, octocat); err != nil {
		return err
	}
	if err := call.Result(nil); err != nil {
		return fmt.Errorf("a result in a session: %w", err)
	}
	ended, err := session.Send(ctx, http.MethodDelete, nil, nil)
	if err == nil {
		ended.Close()
	}
	return err
}

// begin makes a task, and returns its ID.
func (c *client) begin(ctx context.Context, arguments any) (id string, err error) {
	var created rawclient.Result
	err = c.Call(ctx, "tools/call", map[string]any{"name": "build", "arguments": arguments}, &created)
	if err == nil && created.TaskID == "" {
		err = wrong("a call that becomes a task", created)
	}
	return created.TaskID, err
}

// until polls a task until it has a status.
func (c *client) until(ctx context.Context, id, status string) (*rawclient.Result, error) {
	for {
		task := new(rawclient.Result)
		err := c.Call(ctx, "tasks/get", map[string]any{"taskId": id}, task)
		if err != nil || task.Status == status {
			return task, err
		}
		if task.Status != "working" {
			return nil, wrong("a task that is to be "+status, *task)
		}
		if err := process.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// wholeTask makes a task, answers its question, and reads its result. Abandoned, it leaves the task parked.
func (c *client) wholeTask(ctx context.Context, abandoned bool) error {
	id, err := c.begin(ctx, map[string]any{})
	if err != nil || abandoned {
		return err
	}
	task, err := c.until(ctx, id, "input_required")
	if err != nil {
		return err
	}
	answers := make(map[string]any)
	for key := range task.Requests {
		answers[key] = octocat
	}
	err = c.Call(ctx, "tasks/update", map[string]any{"taskId": id, "inputResponses": answers}, nil)
	if err != nil {
		return err
	}
	_, err = c.until(ctx, id, "completed")
	return err
}

// listen subscribes to tasks, and returns the stream after its first message.
func (c *client) listen(ctx context.Context, ids []string) (*rawclient.Stream, error) {
	s, err := c.Open(ctx, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": ids}})
	if err != nil {
		return nil, err
	}
	m, err := s.Next()
	if err == nil && m.Method != "notifications/subscriptions/acknowledged" {
		err = wrong("a subscription", *m)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("a subscription, status %d: %w", s.Status, err)
	}
	return s, nil
}

// talk calls a tool that sends a lot, and reads only the beginning of it.
func (c *client) talk(ctx context.Context) (*rawclient.Stream, error) {
	s, err := c.Open(ctx, "tools/call", map[string]any{"name": "talk", "_meta": map[string]any{"progressToken": 1}})
	if err != nil {
		return nil, err
	}
	if _, err = io.ReadFull(s, make([]byte, 1024)); err != nil {
		s.Close()
		return nil, fmt.Errorf("a stream, status %d: %w", s.Status, err)
	}
	return s, nil
}

// halfSent sends a part of a body, calls up, and then sends nothing until ctx is done.
func (c *client) halfSent(ctx context.Context, announced int64, sent int, up func()) error {
	body, more := io.Pipe()
	header := http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"ask"}}
	req, err := c.NewRequest(ctx, http.MethodPost, body, header)
	if err != nil {
		return err
	}
	req.ContentLength = announced
	go func() {
		_, _ = io.WriteString(more, spaces()[:sent]) // an error is the end of the request
		up()
		<-ctx.Done()
		more.CloseWithError(ctx.Err())
	}()
	s, err := c.Do(req)
	if err != nil {
		return err
	}
	defer s.Close()
	return fmt.Errorf("a half-sent body: status %d", s.Status)
}

// spaces begin a JSON document without an end. The server, which is this program, too, never makes them.
var spaces = sync.OnceValue(func() string { return strings.Repeat(" ", 4<<20) })
