package sdkfront

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// registered is what the SDK's server has. A list is the only way to learn it.
type registered struct {
	session *mcp.ServerSession // asks for the lists
	next    mcp.MethodHandler  // the SDK's handlers, and the middleware that was there before ours
}

// hasResource reports whether the SDK's server has a resource under exactly this URI.
func (s registered) hasResource(ctx context.Context, uri string) (found bool) {
	s.each(ctx, "resources/list", func(result mcp.Result) (next string) {
		list, ok := result.(*mcp.ListResourcesResult)
		if !ok {
			return ""
		}
		for _, r := range list.Resources {
			if found = r.URI == uri; found {
				return ""
			}
		}
		return list.NextCursor
	})
	return found
}

// each passes each page of a list to read, which returns the cursor of the next page, or "".
func (s registered) each(ctx context.Context, method string, read func(page mcp.Result) (next string)) {
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, err := s.next(ctx, method, s.request(method, cursor, nil))
		if err != nil {
			return // a cursor that is no longer valid
		}
		cursor = read(page)
	}
}

// request returns the request of a method that [Front.List] serves, or nil.
func (s registered) request(method, cursor string, extra *mcp.RequestExtra) mcp.Request {
	meta := mcp.Meta{mcp.MetaKeyProtocolVersion: wire.Version}
	switch method {
	case "tools/list":
		return &mcp.ListToolsRequest{Session: s.session, Params: &mcp.ListToolsParams{Meta: meta, Cursor: cursor},
			Extra: extra}
	case "prompts/list":
		return &mcp.ListPromptsRequest{Session: s.session, Params: &mcp.ListPromptsParams{Meta: meta, Cursor: cursor},
			Extra: extra}
	case "resources/list":
		return &mcp.ListResourcesRequest{Session: s.session, Params: &mcp.ListResourcesParams{Meta: meta, Cursor: cursor},
			Extra: extra}
	case "resources/templates/list":
		return &mcp.ListResourceTemplatesRequest{Session: s.session, Params: &mcp.ListResourceTemplatesParams{Meta: meta,
			Cursor: cursor}, Extra: extra}
	case "server/discover":
		return &mcp.ServerRequest[*mcp.DiscoverParams]{Session: s.session, Params: &mcp.DiscoverParams{Meta: meta},
			Extra: extra}
	}
	return nil
}
