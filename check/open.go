package check

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/wire"
)

// open sends a request under an ID of its own. Its headers mirror the body, unless the attack has others.
func open(ctx context.Context, c *rawclient.Client, q request, id int) (*rawclient.Stream, error) {
	body := q.body
	if body == nil {
		text, err := json.Marshal(message(q, id))
		if err != nil {
			return nil, err
		}
		body = pieces{{string(text), 1}}
	}
	if c.Program != nil {
		return c.Send(ctx, http.MethodPost, body.reader(), nil)
	}
	req, err := c.NewRequest(ctx, http.MethodPost, body.reader(), mirror(q))
	if err != nil {
		return nil, err
	}
	req.ContentLength = body.size()
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body.reader()), nil }
	for name, value := range q.headers {
		if req.Header.Del(name); name == "Host" {
			req.Host = value
		} else if value != "" {
			req.Header.Set(name, value)
		}
	}
	return c.Do(req)
}

// mirror returns the headers that repeat what the body says.
func mirror(q request) http.Header {
	h := http.Header{}
	if q.method != "" {
		h.Set("Mcp-Method", q.method)
	}
	for _, member := range []string{"taskId", "name", "uri"} {
		if name, ok := q.params[member].(string); ok {
			h.Set("Mcp-Name", wire.EncodeHeader(name))
		}
	}
	return h
}

// message is the JSON-RPC message of a request.
func message(q request, id int) map[string]any {
	params := map[string]any{}
	for member, value := range q.params {
		params[member] = value
	}
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    rawclient.Modern,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "askback-check", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(q.able),
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": q.method, "params": params}
}
