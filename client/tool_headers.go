package client

import (
	"context"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// learnHeaders is middleware of the SDK's client. It notes which arguments a call mirrors into headers, as the list of
// tools says (basic/transports/streamable-http, "Custom Headers from Tool Parameters"). The SDK adds them to its own
// requests only. It leaves out tools before the SDK reads the annotations of their properties, if that is not bounded.
func (i *inlineSessions) learnHeaders(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if list, ok := res.(*mcp.ListToolsResult); ok && err == nil {
			state := i.of(req.GetSession().(*mcp.ClientSession))
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool {
				return t == nil || !state.learn(t, i.opts.SDK.Logger)
			})
		}
		return res, err
	}
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
