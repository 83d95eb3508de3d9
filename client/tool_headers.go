package client

import (
	"context"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/wire"
)

// learnHeaders is middleware of the SDK's client. It notes which arguments a call mirrors into headers, as the list of
// tools says (basic/transports/streamable-http, "Custom Headers from Tool Parameters"). The SDK adds them to its own
// requests only. It leaves out tools before the SDK reads the annotations of their properties, if that is not bounded.
func (i *inlineSessions) learnHeaders(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if list, ok := res.(*mcp.ListToolsResult); ok && err == nil {
			mirrored := &i.of(req.GetSession().(*mcp.ClientSession)).mirrored
			list.Tools = slices.DeleteFunc(list.Tools, i.isBeyond)
			for _, tool := range list.Tools {
				if headers, err := wire.ParamHeaders(tool.InputSchema); err == nil && len(headers) > 0 {
					mirrored.Store(tool.Name, headers)
				} else {
					mirrored.Delete(tool.Name)
				}
			}
		}
		return res, err
	}
}

// isBeyond reports whether a tool is left out of a list, and logs why.
func (i *inlineSessions) isBeyond(tool *mcp.Tool) bool {
	if tool == nil {
		return true
	}
	err := foreign.CheckNames(tool.InputSchema)
	if err != nil && i.opts.SDK.Logger != nil {
		i.opts.SDK.Logger.Warn("client: a tool is left out of the list", "tool", wire.Cut(tool.Name, 100), "error", err)
	}
	return err != nil
}

// headers returns the headers that mirror arguments of a tool, or nil.
func (s *inlineState) headers(tool string, arguments []byte) http.Header {
	params, ok := s.mirrored.Load(tool)
	if !ok {
		return nil
	}
	h := make(http.Header)
	for _, p := range params.([]wire.ParamHeader) {
		p.Set(h, arguments)
	}
	return h
}
