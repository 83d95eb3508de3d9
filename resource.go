package askback

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/askback-mcp/askback/internal/wire"
)

// ResourceHandler handles a request to read the resource with this URI. It runs from
// the top in every round. For a resource that does not exist it returns
// mcp.ResourceNotFoundError; other errors are as for [PromptHandler].
type ResourceHandler func(ctx context.Context, call *Call, uri string) (*mcp.ReadResourceResult, error)

// AddResource adds a resource, or replaces the one with the same URI.
func (s *Server) AddResource(r *mcp.Resource, h ResourceHandler) {
	hd, sdk := s.resource(h, r.MIMEType)
	s.mcp.AddResource(r, sdk)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[r.URI] = hd
}

// AddResourceTemplate adds a template of resources. Over HTTP the resources and
// templates added here go before those on the SDK's server. It panics on a template
// that is not one of RFC 6570.
func (s *Server) AddResourceTemplate(t *mcp.ResourceTemplate, h ResourceHandler) {
	template, err := uritemplate.New(t.URITemplate)
	if err != nil {
		panic(fmt.Sprintf("askback: resource template %q: %v", t.URITemplate, err))
	}
	hd, sdk := s.resource(h, t.MIMEType)
	hd.template = t.URITemplate
	hd.matches = template.Regexp().MatchString
	s.mcp.AddResourceTemplate(t, sdk)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates = append(withoutTemplates(s.templates, t.URITemplate), hd)
}

// RemoveResources removes the resources with these URIs.
func (s *Server) RemoveResources(uris ...string) {
	s.mu.Lock()
	for _, uri := range uris {
		delete(s.resources, uri)
	}
	s.mu.Unlock()
	s.mcp.RemoveResources(uris...)
}

// RemoveResourceTemplates removes these resource templates.
func (s *Server) RemoveResourceTemplates(templates ...string) {
	s.mu.Lock()
	s.templates = withoutTemplates(s.templates, templates...)
	s.mu.Unlock()
	s.mcp.RemoveResourceTemplates(templates...)
}

func withoutTemplates(handlers []*handler, templates ...string) []*handler {
	return slices.DeleteFunc(slices.Clone(handlers), func(h *handler) bool {
		return slices.Contains(templates, h.template)
	})
}

func (s *Server) resource(h ResourceHandler, mimeType string) (*handler, mcp.ResourceHandler) {
	hd := &handler{
		method: wire.ReadResource,
		invoke: func(ctx context.Context, call *Call, params *wire.Params) (any, error) {
			res, err := h(ctx, call, params.Target)
			if err != nil || res == nil {
				return nil, err
			}
			final := *res
			final.Contents = make([]*mcp.ResourceContents, len(res.Contents))
			for i, c := range res.Contents {
				filled := *c
				setDefault(&filled.URI, params.Target)
				setDefault(&filled.MIMEType, mimeType)
				final.Contents[i] = &filled
			}
			// What depends on who asked or on an answer is for that one only.
			if call.principal != "" || call.run.Answered() {
				setDefault(&final.CacheScope, "private")
			}
			setDefault(&final.CacheScope, "public")
			return &final, nil
		},
	}
	return hd, func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		r, err := s.serveSDK(ctx, hd, req)
		if err != nil {
			return nil, err
		}
		if !r.inputRequired() {
			return r.result.(*mcp.ReadResourceResult), nil
		}
		return &mcp.ReadResourceResult{Meta: r.meta(), InputRequests: r.typed(), RequestState: r.state}, nil
	}
}
