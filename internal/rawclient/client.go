// Package rawclient is a client of MCP that sends what it is told to, to any server and in any order, and returns what
// came back. It keeps nothing of a call and checks nothing: it is for judges, which do what a well-behaved client never
// does, and for people who look at the messages themselves.
//
//	c := &rawclient.Client{URL: url}
//	params := map[string]any{"name": "greet"}
//	var asked, done rawclient.Result
//	err := c.Call(ctx, "tools/call", params, &asked)
//	...
//	answers := map[string]any{"login": rawclient.Accept(map[string]any{"name": "octocat"})}
//	err = c.Call(ctx, "tools/call", asked.Retry(params, answers), &done)
//
// [Direct] is the HTTP client for servers that nobody trusts, and [Start] the way to a server on standard input and
// output.
package rawclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// Modern is the revision whose requests stand alone.
const Modern = "2026-07-28"

// AllTasks are the capabilities of a client that answers forms and takes tasks.
const AllTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// A Client sends messages to one endpoint. Its methods may be called concurrently; its fields are set before.
type Client struct {
	URL    string       // of the endpoint
	HTTP   *http.Client // nil is [http.DefaultClient]
	Header http.Header  // of every request, beside the protocol's headers; a name without values is left out

	// Program, if not nil, gets the messages in place of URL. There are no headers then, and no HTTP methods.
	Program *Program

	// Version is the revision. Empty is [Modern]; requests of an earlier revision have no _meta and no headers that mirror
	// them.
	Version string

	// Capabilities is the JSON of what a modern request declares, or a session. Empty is [AllTasks], or forms.
	Capabilities string

	// MaxBytes bounds a response, or an event of a stream. Zero is 16 MB.
	MaxBytes int
}

// Error is a response that is an error. Without a JSON-RPC error it has only the status.
type Error struct {
	Status  int             `json:"-"` // of HTTP
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *Error) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}

// Call sends a request, and decodes the result of its response into result unless that is nil. What the server sends
// before its response is passed over. The error is an [*Error] if the server answered with one, and a [*url.Error] if
// no response of HTTP has begun.
func (c *Client) Call(ctx context.Context, method string, params map[string]any, result any) error {
	s, err := c.Open(ctx, method, params)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Result(result)
}

// Open sends a request, and returns its response when that begins.
func (c *Client) Open(ctx context.Context, method string, params map[string]any) (*Stream, error) {
	header := make(http.Header)
	if cmp.Or(c.Version, Modern) == Modern {
		params = c.withMeta(params)
		header.Set("Mcp-Method", method)
		for _, member := range []string{"taskId", "name", "uri"} {
			if name, ok := params[member].(string); ok {
				header.Set("Mcp-Name", name)
			}
		}
	}
	if params == nil {
		params = map[string]any{}
	}
	id := int64(1)
	if c.Program != nil {
		id = c.Program.requests.Add(1) // its responses share one stream
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	return c.Send(ctx, http.MethodPost, bytes.NewReader(body), header)
}

// withMeta returns a copy of params with the _meta of a modern request, whose own members come before the client's.
func (c *Client) withMeta(params map[string]any) map[string]any {
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    Modern,
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(cmp.Or(c.Capabilities, AllTasks)),
	}
	if own, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, own)
	}
	all := map[string]any{}
	maps.Copy(all, params)
	all["_meta"] = meta
	return all
}

// Post sends a message as it is, such as an answer, a notification or a batch in a session.
func (c *Client) Post(ctx context.Context, message string) (*Stream, error) {
	return c.Send(ctx, http.MethodPost, strings.NewReader(message), nil)
}

// Send sends any body, with these headers beside the headers of every request.
func (c *Client) Send(ctx context.Context, method string, body io.Reader, header http.Header) (*Stream, error) {
	if c.Program != nil {
		message, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		return c.Program.send(ctx, message, c.maxBytes())
	}
	req, err := c.NewRequest(ctx, method, body, header)
	if err != nil {
		return nil, err
	}
	return c.Do(req)
}

// NewRequest makes the request that [Client.Send] sends.
func (c *Client) NewRequest(
	ctx context.Context, method string, body io.Reader, header http.Header,
) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", cmp.Or(c.Version, Modern))
	maps.Copy(req.Header, c.Header)
	maps.Copy(req.Header, header)
	return req, nil
}

// Do sends a request of [Client.NewRequest].
func (c *Client) Do(req *http.Request) (*Stream, error) {
	res, err := cmp.Or(c.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	return NewStream(res, c.maxBytes()), nil
}

func (c *Client) maxBytes() int { return cmp.Or(c.MaxBytes, 16<<20) }

// Initialize opens a session of an earlier revision, and returns a client that sends its requests.
func (c *Client) Initialize(ctx context.Context, version string) (*Client, error) {
	session := *c
	session.Version = version
	s, err := session.Open(ctx, "initialize", map[string]any{
		"protocolVersion": version, "capabilities": json.RawMessage(cmp.Or(c.Capabilities, `{"elicitation":{}}`)),
		"clientInfo": map[string]any{"name": "raw", "version": "1"},
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	id := s.Header.Get("Mcp-Session-Id")
	if err := s.Result(nil); err != nil || id == "" && c.Program == nil {
		return nil, cmp.Or(err, errors.New("initialize: the response names no session"))
	}
	session.Header = http.Header{"Mcp-Session-Id": {id}}
	maps.Copy(session.Header, c.Header)
	return &session, session.Notify(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Notify is [Client.Post] for a message of a session that has no response.
func (c *Client) Notify(ctx context.Context, message string) error {
	s, err := c.Post(ctx, message)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.Program == nil && s.Status != http.StatusAccepted {
		return &Error{Status: s.Status, Message: "want 202 Accepted"}
	}
	return nil
}

// Answer answers a request of the server in a session.
func (c *Client) Answer(ctx context.Context, question *Message, result any) error {
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": question.ID, "result": result})
	if err != nil {
		return err
	}
	return c.Notify(ctx, string(message))
}
