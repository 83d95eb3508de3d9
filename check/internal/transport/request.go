package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/wire"
)

// A Request is a message to a server, before it is bytes.
type Request struct {
	As           string // "second" is the other identity
	At           string // "replica", "elsewhere"; empty is the server itself
	Method       string
	Params       map[string]any
	Capabilities string            // the JSON of the client's capabilities
	Headers      map[string]string // in place of the protocol's; an empty one is left out
	Body         Body              // in place of method and params
	Load         bool              // it may be refused with 429 or 503
	Large        bool              // it may take long
}

// A Response is the answer to a request.
type Response struct {
	Status int
	header http.Header
	Result json.RawMessage
	Fault  *rawclient.Error // the response is an error; also for a response that is no message
}

// IsQuiet reports that the server asks for no more requests.
func (r *Response) IsQuiet() bool { return isQuiet(r.Status) }

func isQuiet(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// open sends a request under an ID of its own. Its headers mirror the body, unless the attack has others.
func (q Request) open(ctx context.Context, c *rawclient.Client, id int) (*rawclient.Stream, error) {
	body := q.Body
	if body == nil {
		text, err := json.Marshal(q.Message(id))
		if err != nil {
			return nil, err
		}
		body = Body{{string(text), 1}}
	}
	if c.Program != nil {
		return c.Send(ctx, http.MethodPost, body.reader(), nil)
	}
	req, err := c.NewRequest(ctx, http.MethodPost, body.reader(), q.Mirror())
	if err != nil {
		return nil, err
	}
	req.ContentLength = body.size()
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body.reader()), nil }
	for name, value := range q.Headers {
		if req.Header.Del(name); name == "Host" {
			req.Host = value
		} else if value != "" {
			req.Header.Set(name, value)
		}
	}
	return c.Do(req)
}

// Mirror returns the headers that repeat what the body says.
func (q Request) Mirror() http.Header {
	h := http.Header{}
	if q.Method != "" {
		h.Set("Mcp-Method", q.Method)
	}
	for _, member := range []string{"taskId", "name", "uri"} {
		if name, ok := q.Params[member].(string); ok {
			h.Set("Mcp-Name", wire.EncodeHeader(name))
		}
	}
	return h
}

// Message returns the JSON-RPC message of a request.
func (q Request) Message(id int) map[string]any {
	params := map[string]any{}
	for member, value := range q.Params {
		params[member] = value
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    rawclient.Modern,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "askback-check", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(q.Capabilities),
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": q.Method, "params": params}
}

// Fill makes the body that a probe has in place of a request, with the parts of the request that it names.
func (q Request) Fill(body string, id int) (Body, error) {
	meta, err := json.Marshal(q.Message(id)["params"].(map[string]any)["_meta"])
	if err != nil {
		return nil, err
	}
	var all Body
	from := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(body, -1) {
		all = append(all, piece{body[from:at[0]], 1})
		from = at[1]
		word, argument := body[at[2]:at[3]], ""
		if at[4] >= 0 {
			argument = body[at[4]:at[5]]
		}
		more, err := expand(word, argument, q.Method, string(meta), id)
		if err != nil {
			return nil, fmt.Errorf("the body of a probe: {{%s}}: %w", word, err)
		}
		all = append(all, more...)
	}
	return append(all, piece{body[from:], 1}), nil
}
