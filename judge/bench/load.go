package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// connection is one connection over HTTP. It is written by hand because it shares the processors with the server, and
// net/http's client takes as much of them as most servers do.
type connection struct {
	net.Conn
	host string
	in   *bufio.Reader
	out  []byte
	body bytes.Buffer // of the last response
}

// patience is how long a response may take.
const patience = 30 * time.Second

func dial(endpoint string) (*connection, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, host: u.Host, in: bufio.NewReader(c)}, nil
}

// send sends a request with these header lines, and returns the response when it begins.
func (c *connection) send(method, header, body string) (*http.Response, error) {
	c.out = fmt.Appendf(c.out[:0], "%s /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n",
		method, c.host, len(body), header)
	c.out = append(c.out, body...)
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := c.Write(c.out); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.in, nil)
}

// post sends a body and returns the body of the response, which is valid until the next one.
func (c *connection) post(header, body string) ([]byte, error) {
	res, err := c.send(http.MethodPost, header, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	c.body.Reset()
	if _, err := c.body.ReadFrom(res.Body); err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("the server answered %s: %.300s", res.Status, c.body.Bytes())
	}
	return c.body.Bytes(), nil
}

// caller makes interactions, one after the other.
type caller interface {
	// interact calls the tool with a place, answers its question with a name, and checks the result. Both are JSON.
	interact(name, place string) error
	close()
}

const octocat, newYork = `"octocat"`, `"New York"`

// modern is a caller of 2026-07-28: an interaction is two requests on one connection.
type modern struct{ *connection }

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	accept       = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	modernHeader = accept + "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: "
)

// toolCall returns the body of a call. More members of params end with a comma.
func toolCall(tool, arguments, more string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool +
		`","arguments":` + arguments + `,` + more + modernMeta + `}}`
}

// call sends a call of a tool.
func (c *connection) call(tool, arguments, more string) ([]byte, error) {
	return c.post(modernHeader+tool+"\r\n", toolCall(tool, arguments, more))
}

// answered returns the members of params that answer questions, each with the name in JSON, in a call with this state.
func answered(name, state string, keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, `,"%s":{"action":"accept","content":{"name":%s}}`, key, name)
	}
	members := `"inputResponses":{` + b.String()[1:] + `},`
	if state != "" {
		members += `"requestState":"` + state + `",`
	}
	return members
}

func (m modern) interact(name, place string) error {
	arguments := `{"place":` + place + `}`
	asked, err := m.call("greet", arguments, "")
	if err != nil {
		return err
	}
	if !bytes.Contains(asked, []byte(`"elicitation/create"`)) || !bytes.Contains(asked, []byte(`"login"`)) {
		return fmt.Errorf("the server does not ask for a name, but sends %.300s", asked)
	}
	done, err := m.call("greet", arguments, answered(name, requestState(asked), "login"))
	if err != nil {
		return err
	}
	return greeted(done, name, place)
}

func (m modern) close() { m.Close() }

// requestState returns the state in a response, or nothing if it has none.
func requestState(response []byte) string {
	_, rest, _ := bytes.Cut(response, []byte(`"requestState":"`))
	state, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(state)
}

func greeted(response []byte, name, place string) error {
	return contains(response, nil, "Hello "+strings.Trim(name, `"`)+" in "+strings.Trim(place, `"`))
}

// session is a caller of 2025-11-25. The server's question comes inside the open response to the call, and the answer
// goes to it over a second connection.
type session struct {
	calls, answers *connection
	header         string
	id             int
	open           bool // the last call has not ended
}

func openSession(endpoint string) (s *session, err error) {
	s = &session{header: accept}
	if s.calls, err = dial(endpoint); err != nil {
		return nil, err
	}
	if s.answers, err = dial(endpoint); err != nil {
		s.calls.Close()
		return nil, err
	}
	res, err := s.answers.send(http.MethodPost, accept, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"bench","version":"1.0.0"}}}`)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		s.header += "Mcp-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + res.Header.Get("Mcp-Session-Id") + "\r\n"
	}
	if err == nil {
		_, err = s.answers.post(s.header, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if err != nil {
		s.calls.Close()
		s.answers.Close()
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	return s, nil
}

func (s *session) interact(name, place string) error {
	s.id++
	s.open = true
	res, err := s.calls.send(http.MethodPost, s.header, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"greet","arguments":{"place":%s}}}`, s.id, place))
	if err != nil {
		return err
	}
	events := bufio.NewReader(res.Body) // closing the body would wait for its end
	question, err := nextEvent(events)
	if err != nil {
		return fmt.Errorf("waiting for the question: %w", err)
	}
	var asked struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(question, &asked); err != nil || asked.Method != "elicitation/create" {
		return fmt.Errorf("the server does not ask for a name, but sends %.300s", question)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":%s}}}`, asked.ID, name)
	_, err = s.answers.post(s.header, answer)
	if err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	done, err := nextEvent(events)
	if err != nil {
		return fmt.Errorf("waiting for the result: %w", err)
	}
	if err := greeted(done, name, place); err != nil {
		return err // it may have asked again, and then the response does not end
	}
	_, err = io.Copy(io.Discard, events)
	s.open = err != nil
	return err
}

// close ends the session on the server, too, unless a call is open in it: the Go SDK's server would wait for its end.
func (s *session) close() {
	if !s.open {
		if res, err := s.answers.send(http.MethodDelete, s.header, ""); err == nil {
			res.Body.Close()
		}
	}
	s.calls.Close()
	s.answers.Close()
}

// nextEvent returns the next message of a stream of events.
func nextEvent(r *bufio.Reader) ([]byte, error) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && len(bytes.TrimSpace(data)) > 0 {
			return data, nil
		}
	}
}

// measured is what a server did under load.
type measured struct {
	perSecond     float64
	cpu, p50, p99 time.Duration // CPU time of the server for one interaction; percentiles of how long one took
}

// load measures the interactions of callers that run at once, until the time is over.
func load(s *server, callers []caller, d time.Duration) (measured, error) {
	took := make([][]time.Duration, len(callers))
	before, err := s.CPU()
	if err != nil {
		return measured{}, err
	}
	var all errgroup.Group
	start := time.Now()
	for i, c := range callers {
		all.Go(func() error {
			for last := start; last.Sub(start) < d; {
				if err := c.interact(octocat, newYork); err != nil {
					return err
				}
				now := time.Now()
				took[i] = append(took[i], now.Sub(last))
				last = now
			}
			return nil
		})
	}
	err = all.Wait()
	elapsed := time.Since(start)
	after, unread := s.CPU()
	if err := cmp.Or(err, unread); err != nil {
		return measured{}, err
	}
	times := slices.Sorted(slices.Values(slices.Concat(took...)))
	n := len(times)
	return measured{float64(n) / elapsed.Seconds(), (after - before) / time.Duration(n), times[n/2], times[n*99/100]}, nil
}
