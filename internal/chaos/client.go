package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// client speaks MCP of 2026-07-28 over HTTP with whatever server listens.
type client struct {
	http http.Client
	url  func() string // of a server, or ""
}

// refused is an error that a server answered with.
type refused struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *refused) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// call sends a request to some server. Any error but a *[refused] says that nobody knows
// what became of it.
func (c *client) call(ctx context.Context, extension bool, method, name string, params map[string]any, result any) error {
	url := c.url()
	for url == "" {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
		url = c.url()
	}
	capabilities := map[string]any{"elicitation": map[string]any{}}
	if extension {
		capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	}
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	if more, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, more)
	}
	all := maps.Clone(params)
	all["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": all})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	req.Header.Set("Mcp-Name", name)
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  *refused        `json:"error"`
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return fmt.Errorf("%s: %w in %.200q", res.Status, err, data)
	}
	if response.Error != nil {
		return response.Error
	}
	return json.Unmarshal(response.Result, result)
}
