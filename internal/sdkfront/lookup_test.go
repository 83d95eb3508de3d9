package sdkfront_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// Every front finds the same handler, whether it was added here or to the SDK's server.
func TestEveryFrontFindsTheSameResource(t *testing.T) {
	for _, before := range []bool{false, true} {
		asked := 0
		srv := harness.Everything(t, askback.Options{}, func(m *mcp.Server) {
			if before {
				m.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						if strings.HasSuffix(method, "/list") {
							asked++
						}
						return next(ctx, method, req)
					}
				})
			}
			for _, uri := range []string{"doc://foreign", "doc://z/foreign"} {
				m.AddResource(&mcp.Resource{Name: uri, URI: uri}, foreignText(uri))
			}
			for i := range 1500 { // more than a page
				uri := fmt.Sprintf("doc://a/%d", i)
				m.AddResource(&mcp.Resource{Name: uri, URI: uri}, foreignText(uri))
			}
			for _, template := range []string{"doc://b/c/{+rest}", "doc://s/{id}"} {
				m.AddResourceTemplate(&mcp.ResourceTemplate{Name: template, URITemplate: template}, foreignText(template))
			}
		})
		own := func(s string) askback.ResourceHandler {
			return func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: s}}}, nil
			}
		}
		for _, template := range []string{"doc://b/c/{id}", "doc://s/{+all}", "doc://z/{id}", "doc://{id}", "doc://{+path}"} {
			srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: template, URITemplate: template}, own("own "+template))
		}
		srv.AddResource(&mcp.Resource{Name: "exact", URI: "doc://b/c/exact"}, own("own exact"))
		for _, f := range harness.Fronts {
			read := f.Dial(t, srv, nil)
			for uri, want := range map[string]string{
				"doc://foreign":   "doc://foreign",
				"doc://z/foreign": "doc://z/foreign",
				"doc://a/1499":    "doc://a/1499",
				"doc://b/c/exact": "own exact",
				"doc://b/c/1":     "doc://b/c/{+rest}", // before doc://b/c/{id}
				"doc://s/1":       "own doc://s/{+all}",
				"doc://z/1":       "own doc://z/{id}", // added before doc://{+path}
				"doc://one":       "own doc://{id}",
				"doc://x/y":       "own doc://{+path}",
			} {
				response := read("resources/read", `"uri":"`+uri+`"`)
				if got := harness.At(response, "result", "contents", 0, "text"); got != want {
					t.Errorf("%s, middleware before %v: %s: got %v, want %s", f.Name, before, uri, response, want)
				}
			}
		}
		expect.Equal(t, "the operator's middleware saw", asked, 0)
	}
}

func foreignText(s string) mcp.ResourceHandler {
	return func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: s}}}, nil
	}
}
