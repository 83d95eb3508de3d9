package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// refused is an error that a server answered with.
type refused struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *refused) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// call sends a request about an order to some server, in MCP of 2026-07-28 over HTTP. Any
// error except a *[refused] means that the request may have had its effect.
func (c *customers) call(ctx context.Context, o *order, method string, params map[string]any, result any) error {
	url := c.url()
	for ; url == ""; url = c.url() {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	capabilities := map[string]any{"elicitation": map[string]any{}}
	if o.extension {
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
	req.Header.Set("Mcp-Name", cmp.Or(o.id, tool))
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
