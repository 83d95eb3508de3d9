package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// client sends messages for one principal. The load is written by hand and not with package client, because much of it
// breaks the rules that such a client keeps.
type client struct {
	url  string // of the endpoint
	user string // empty is the anonymous caller
	http *http.Client
}

func newClient(s *subject, user string) *client {
	return &client{s.url + "/mcp", user, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":1}`
	answers    = `{"login":{"action":"accept","content":{"name":"octocat"}}}`
)

// modern returns the body of a request of 2026-07-28 with these members of params.
func modern(method, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, members, modernMeta)
}

// message is what the load reads of a message of the server.
type message struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Result struct {
		Type    string                     `json:"resultType"`
		State   string                     `json:"requestState"`
		TaskID  string                     `json:"taskId"`
		Status  string                     `json:"status"`
		Content []struct{ Text string }    `json:"content"`
		Inputs  map[string]json.RawMessage `json:"inputRequests"`
		Result  struct {
			Content []struct{ Text string } `json:"content"`
		} `json:"result"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// errRefused is a request that the server refused with an error.
var errRefused = errors.New("refused")

// request makes a POST with the headers that mirror a modern body, or those of a session.
func (c *client) request(ctx context.Context, body io.Reader, headers ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.user != "" {
		req.Header.Set("X-User", c.user)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req, nil
}

// open sends a message, and returns the response as it begins.
func (c *client) open(ctx context.Context, body string, headers ...string) (*http.Response, error) {
	req, err := c.request(ctx, strings.NewReader(body), headers...)
	if err != nil {
		return nil, err
	}
	return c.http.Do(req)
}

// call sends a modern request, and returns its last message.
func (c *client) call(ctx context.Context, method, name, members string) (*message, error) {
	res, err := c.open(ctx, modern(method, members), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if i := bytes.LastIndex(body, []byte("data: ")); i >= 0 {
		body = body[i+len("data: "):]
	}
	m := new(message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: status %s", errRefused, res.Status)
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%w: %d %s", errRefused, m.Error.Code, m.Error.Message)
	}
	return m, nil
}

// next reads the next message of a stream.
func next(stream *bufio.Reader) (*message, error) {
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			m := new(message)
			return m, json.Unmarshal([]byte(data), m)
		}
	}
}

// wrong is an outcome that the server must not have.
func wrong(what string, m *message) error { return fmt.Errorf("%s: got %+v", what, *m) }

// interaction is a modern call with a question, and the answer to it.
func (c *client) interaction(ctx context.Context) error {
	m, err := c.call(ctx, "tools/call", "ask", `"name":"ask"`)
	if err != nil {
		return err
	}
	if m.Result.Type != "input_required" || m.Result.State == "" {
		return wrong("a call that asks", m)
	}
	m, err = c.call(ctx, "tools/call", "ask", `"name":"ask","requestState":"`+m.Result.State+`","inputResponses":`+answers)
	if err != nil {
		return err
	}
	if len(m.Result.Content) != 1 || m.Result.Content[0].Text != "Hello octocat" {
		return wrong("an answered call", m)
	}
	return nil
}

// initialize opens a session of a revision before 2026-07-28.
func (c *client) initialize(ctx context.Context, version string) (session string, err error) {
	res, err := c.open(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"soak","version":"1"}}}`)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	session = res.Header.Get("Mcp-Session-Id")
	if session == "" {
		return "", errors.Join(err, fmt.Errorf("%w: a session: status %s", errRefused, res.Status))
	}
	return session, c.notify(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session, version)
}

// notify sends a message of a session that has no response.
func (c *client) notify(ctx context.Context, body, session, version string) error {
	res, err := c.open(ctx, body, "Mcp-Session-Id", session, "MCP-Protocol-Version", version)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%w: a notification: status %s", errRefused, res.Status)
	}
	return nil
}

// inSession is a call with a question inside a session, and the answer to it. Abandoned, the client goes away instead.
func (c *client) inSession(ctx context.Context, abandoned bool) error {
	const version = "2025-11-25"
	session, err := c.initialize(ctx, version)
	if err != nil {
		return err
	}
	res, err := c.open(ctx, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`, "Mcp-Session-Id", session, "MCP-Protocol-Version", version)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)
	question, err := next(stream)
	if err != nil {
		return fmt.Errorf("a question: %w", err)
	}
	if question.Method != "elicitation/create" {
		return wrong("a question in a session", question)
	}
	if abandoned {
		return nil
	}
	err = c.notify(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"octocat"}}}`, question.ID), session, version)
	if err != nil {
		return err
	}
	m, err := next(stream)
	if err != nil {
		return fmt.Errorf("a result in a session: %w", err)
	}
	if len(m.Result.Content) != 1 || m.Result.Content[0].Text != "Hello octocat" {
		return wrong("an answered call in a session", m)
	}
	req, err := c.request(ctx, nil, "Mcp-Session-Id", session, "MCP-Protocol-Version", version)
	if err != nil {
		return err
	}
	req.Method = http.MethodDelete
	if res, err = c.http.Do(req); err == nil {
		res.Body.Close()
	}
	return err
}

// begin makes a task, and returns its ID.
func (c *client) begin(ctx context.Context, arguments string) (id string, err error) {
	m, err := c.call(ctx, "tools/call", "build", `"name":"build","arguments":`+arguments)
	if err != nil {
		return "", err
	}
	if m.Result.TaskID == "" {
		return "", wrong("a call that becomes a task", m)
	}
	return m.Result.TaskID, nil
}

// until polls a task until it has a status.
func (c *client) until(ctx context.Context, id, status string) (*message, error) {
	for {
		m, err := c.call(ctx, "tasks/get", id, `"taskId":"`+id+`"`)
		if err != nil || m.Result.Status == status {
			return m, err
		}
		if m.Result.Status != "working" {
			return nil, wrong("a task that is to be "+status, m)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wholeTask makes a task, answers its question, and reads its result. Abandoned, it leaves the task parked.
func (c *client) wholeTask(ctx context.Context, abandoned bool) error {
	id, err := c.begin(ctx, `{}`)
	if err != nil || abandoned {
		return err
	}
	m, err := c.until(ctx, id, "input_required")
	if err != nil {
		return err
	}
	for key := range m.Result.Inputs {
		_, err = c.call(ctx, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"`+key+`":{"action":"accept","content":{"name":"octocat"}}}`)
		if err != nil {
			return err
		}
	}
	if m, err = c.until(ctx, id, "completed"); err != nil {
		return err
	}
	if content := m.Result.Result.Content; len(content) != 1 || content[0].Text != "ground floor of octocat" {
		return wrong("a completed task", m)
	}
	return nil
}

// listen subscribes to tasks, and returns the stream after its first message.
func (c *client) listen(ctx context.Context, ids []string) (io.ReadCloser, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	res, err := c.open(ctx, modern("subscriptions/listen", `"notifications":{"taskIds":`+string(list)+`}`),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if err != nil {
		return nil, err
	}
	stream := bufio.NewReader(res.Body)
	m, err := next(stream)
	if err == nil && m.Method != "notifications/subscriptions/acknowledged" {
		err = wrong("a subscription", m)
	}
	if err != nil {
		res.Body.Close()
		return nil, fmt.Errorf("a subscription, status %s: %w", res.Status, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{stream, res.Body}, nil
}

// talk calls a tool that tells much, and reads only the beginning of it.
func (c *client) talk(ctx context.Context) (io.ReadCloser, error) {
	res, err := c.open(ctx, modern("tools/call", `"name":"talk"`), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "talk")
	if err != nil {
		return nil, err
	}
	if _, err = io.ReadFull(res.Body, make([]byte, 1024)); err != nil {
		res.Body.Close()
		return nil, fmt.Errorf("%w: a stream: %w", errRefused, err)
	}
	return res.Body, nil
}

// halfSent sends a part of a body, calls up, and then sends nothing until ctx is done.
func (c *client) halfSent(ctx context.Context, announced, sent int64, up func()) error {
	body, more := io.Pipe()
	req, err := c.request(ctx, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ask")
	if err != nil {
		return err
	}
	req.ContentLength = announced
	go func() {
		_, _ = io.CopyN(more, spaces{}, sent) // an error is the end of the request
		up()
		<-ctx.Done()
		more.CloseWithError(ctx.Err())
	}()
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return fmt.Errorf("%w: a half-sent body: status %s", errRefused, res.Status)
}

// spaces are bytes that begin a JSON document without an end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
