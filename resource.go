package askback

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/wire"
)

// ResourceHandler handles a request to read the resource with this URI. It runs from the top in every round. For a
// resource that does not exist it returns mcp.ResourceNotFoundError; other errors are as for [PromptHandler].
type ResourceHandler func(ctx context.Context, call *Call, uri string) (*mcp.ReadResourceResult, error)

// AddResource adds a resource, or replaces the one with the same URI.
func (s *Server) AddResource(r *mcp.Resource, h ResourceHandler) {
	hd, sdk := s.resource(h, r.MIMEType)
	s.mcp.AddResource(r, sdk)
	s.handlers.Add(hd, r.URI)
}

// AddResourceTemplate adds a template of resources. A resource with exactly the requested URI goes before the template,
// even if it was added to the SDK's server, and so do templates that were added here earlier. Between a template of the
// SDK's server and a template added here, the SDK chooses. A URI of more than 8 KiB matches none. AddResourceTemplate
// panics if the template does not follow RFC 6570.
func (s *Server) AddResourceTemplate(t *mcp.ResourceTemplate, h ResourceHandler) {
	template, err := uritemplate.New(t.URITemplate)
	if err != nil {
		panic(fmt.Sprintf("askback: resource template %q: %v", t.URITemplate, err))
	}
	hd, sdk := s.resource(h, t.MIMEType)
	hd.Template = t.URITemplate
	matching := template.Regexp()
	hd.Matches = func(uri string) bool { return len(uri) <= longestURI && matching.MatchString(uri) }
	s.mcp.AddResourceTemplate(t, sdk)
	s.handlers.Add(hd, t.URITemplate)
}

// longestURI bounds a URI that is compared with templates, in bytes: each of them reads it.
const longestURI = 8 << 10

// RemoveResources removes the resources with these URIs.
func (s *Server) RemoveResources(uris ...string) {
	s.handlers.Remove(wire.ReadResource, uris...)
	s.mcp.RemoveResources(uris...)
}

// RemoveResourceTemplates removes these resource templates.
func (s *Server) RemoveResourceTemplates(templates ...string) {
	s.handlers.RemoveTemplates(templates...)
	s.mcp.RemoveResourceTemplates(templates...)
}

func (s *Server) resource(h ResourceHandler, mimeType string) (*call.Handler, mcp.ResourceHandler) {
	hd := &call.Handler{
		Method: wire.ReadResource,
		Invoke: func(ctx context.Context, c *call.Call, params *wire.Params) (mcp.Result, error) {
			res, err := h(ctx, &Call{c}, params.Target)
			if err != nil || res == nil {
				return nil, err
			}
			if passed := raw.Of[*raw.Result](res); passed != nil {
				return passed, nil
			}
			final := *res
			final.Contents = make([]*mcp.ResourceContents, len(res.Contents))
			for i, content := range res.Contents {
				filled := *content
				setDefault(&filled.URI, params.Target)
				setDefault(&filled.MIMEType, mimeType)
				final.Contents[i] = &filled
			}
			// What depends on who asked or on an answer is for that one only.
			if c.Principal != "" || c.Answered() {
				setDefault(&final.CacheScope, "private")
			}
			setDefault(&final.CacheScope, "public")
			return withTexts(&final)
		},
	}
	return hd, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return serveAs[*mcp.ReadResourceResult](ctx, s, hd, req)
	}
}

// withTexts returns a result whose contents have a text where it is empty, too, which the SDK leaves out: contents have
// a text or a blob. (server/resources, "Resource Contents")
func withTexts(res *mcp.ReadResourceResult) (mcp.Result, error) {
	if !slices.ContainsFunc(res.Contents, func(c *mcp.ResourceContents) bool { return c.Text == "" && c.Blob == nil }) {
		return res, nil
	}
	contents := make([]any, len(res.Contents))
	for i, c := range res.Contents {
		contents[i] = c
		if c.Text == "" && c.Blob == nil {
			contents[i] = struct {
				*mcp.ResourceContents
				Text string `json:"text"`
			}{c, ""}
		}
	}
	encoded, err := json.Marshal(struct {
		mcp.Cacheable
		Contents []any `json:"contents"`
	}{res.Cacheable, contents})
	passed := &raw.Result{Object: encoded}
	passed.Meta = res.Meta
	return passed, err
}
