package check

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// open sends a request under an ID of its own. Its headers mirror the body, unless the attack has others.
func open(ctx context.Context, c *rawclient.Client, q request, id int) (*rawclient.Stream, error) {
	body := q.body
	if body == nil {
		var err error
		if body, err = json.Marshal(message(q, id)); err != nil {
			return nil, err
		}
	}
	if c.Program != nil {
		return c.Post(ctx, string(body))
	}
	req, err := c.NewRequest(ctx, http.MethodPost, bytes.NewReader(body), http.Header{})
	if err != nil {
		return nil, err
	}
	if q.method != "" {
		req.Header.Set("Mcp-Method", q.method)
	}
	for _, member := range []string{"taskId", "name", "uri"} {
		if name, ok := q.params[member].(string); ok {
			req.Header.Set("Mcp-Name", name)
		}
	}
	for name, value := range q.headers {
		if req.Header.Del(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	return c.Do(req)
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
