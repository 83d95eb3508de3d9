package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// holding measures what a server holds for clients that do nothing.
func holding(scale float64) ([][]string, error) {
	n := scaled(1000, scale)
	session := func(method, body string) func(url string) error {
		return func(url string) error {
			s, err := openSession(url)
			if err != nil {
				return err
			}
			s.calls.Close() // the session stays
			s.answers.Close()
			if method == "" {
				return nil
			}
			return openStream(url, method, s.header, body)
		}
	}
	rows := [][]string{{"", "bytes each", "goroutines each"}}
	for _, h := range []struct {
		title   string
		subject *subject
		open    func(url string) error
	}{
		{"net/http: a response that does not end", subjects[0], func(url string) error {
			return openStream(url, http.MethodGet, accept, "")
		}},
		{"a subscription to a list", growing, func(url string) error { return subscribe(url, `"toolsListChanged":true`) }},
		{"a subscription to a task", growing, subscribeToTask},
		{"a session", growing, session("", "")},
		{"a session with a stream", growing, session(http.MethodGet, "")},
		{"a session with a question", growing, session(http.MethodPost,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"place":`+newYork+`}}}`)},
	} {
		size, goroutines, err := holdEach(n, h.subject, h.open)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.title, err)
		}
		rows = append(rows, []string{h.title, number(size), fmt.Sprintf("%.1f", goroutines)})
	}
	return rows, nil
}

// holdEach opens something n times, and returns what a server holds for each.
func holdEach(n int, of *subject, open func(url string) error) (size, goroutines float64, err error) {
	s, err := start(of)
	if err != nil {
		return 0, 0, err
	}
	defer s.Kill() // the end of the server ends the connections
	for range 10 { // what is made once
		if err := open(s.URL); err != nil {
			return 0, 0, err
		}
	}
	before, err := s.Settled(context.Background())
	if err != nil {
		return 0, 0, err
	}
	for range n {
		if err := open(s.URL); err != nil {
			return 0, 0, err
		}
	}
	after, err := s.Settled(context.Background())
	size = float64(after.Heap+after.Stacks-before.Heap-before.Stacks) / float64(n)
	return size, float64(after.Goroutines-before.Goroutines) / float64(n), err
}

// openStream opens a response that does not end, on a connection of its own, and waits for its beginning: the headers,
// or the first event that answers a body. The connection stays open until the server ends.
func openStream(url, method, header, body string) error {
	c, err := dial(url)
	if err != nil {
		return err
	}
	res, err := c.send(method, header, body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answered %s", res.Status)
	}
	if err == nil && body != "" {
		_, err = nextEvent(bufio.NewReader(res.Body))
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	held = append(held, c)
	return nil
}

// held are connections that must not be closed by the garbage collector.
var held []io.Closer

// subscribe opens a subscription of 2026-07-28.
func subscribe(url, notifications string) error {
	header := accept + "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
	return openStream(url, http.MethodPost, header, withTasks(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",`+
		`"params":{"notifications":{`+notifications+`},`+modernMeta+`}}`))
}

// subscribeToTask makes a task, and opens a subscription to it.
func subscribeToTask(url string) error {
	c, err := dial(url)
	if err != nil {
		return err
	}
	defer c.Close()
	created, err := c.post(modernHeader+"task\r\n", withTasks(toolCall("task", `{"place":`+newYork+`}`, "")))
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(created, []byte(`"taskId":"`))
	id, _, found := bytes.Cut(rest, []byte(`"`))
	if !found {
		return fmt.Errorf("no task was created: %.300s", created)
	}
	return subscribe(url, `"taskIds":["`+string(id)+`"]`)
}

// withTasks is a request of a client that takes tasks.
func withTasks(request string) string {
	return strings.Replace(request, `{"elicitation":{}}`,
		`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
}
