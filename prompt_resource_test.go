package askback_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

func TestPromptsAndResourcesAsk(t *testing.T) {
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{{Name: "topic", Required: true}}},
			func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
				return &mcp.GetPromptResult{Description: args["topic"] + l.Name}, err
			})
		read := func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			if uri == "doc://missing" {
				return nil, mcp.ResourceNotFoundError(uri)
			}
			l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: l.Name}}}, err
		}
		srv.AddResource(&mcp.Resource{Name: "r", URI: "doc://one", MIMEType: "text/plain"}, read)
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "doc://{id}"}, read)
	}).HTTPHandler(nil)

	p := harness.Request{Method: "prompts/get", Target: "p", Arguments: `{"topic":"Go "}`}
	p.State = p.Send(t, h).Asked(t, "login")
	p.Responses = harness.Octocat
	if res := p.Send(t, h); !strings.Contains(res.Raw, `"description":"Go octocat"`) || !strings.Contains(res.Raw, `"messages":[]`) {
		t.Errorf("prompt: %s", res.Raw)
	}
	harness.Request{Method: "prompts/get", Target: "p"}.Send(t, h).Refused(t, 400, -32602)
	harness.Request{Method: "prompts/get", Target: "p", Arguments: `{"topic":1}`}.Send(t, h).Refused(t, 400, -32602)
	harness.Request{Method: "prompts/get", Target: "none"}.Send(t, h).Refused(t, 400, -32602)

	for _, uri := range []string{"doc://one", "doc://two"} {
		r := harness.Request{Method: "resources/read", Target: uri}
		r.State = r.Send(t, h).Asked(t, "login")
		r.Responses = harness.Octocat
		res := r.Send(t, h)
		if !strings.Contains(res.Raw, `"text":"octocat"`) || !strings.Contains(res.Raw, `"uri":"`+uri+`"`) {
			t.Errorf("resource: %s", res.Raw)
		}
		if !strings.Contains(res.Raw, `"cacheScope":"private"`) {
			t.Errorf("what depends on an answer may be cached for others: %s", res.Raw)
		}
	}
	res := harness.Request{Method: "resources/read", Target: "doc://missing"}.Send(t, h)
	if res.Refused(t, 400, -32602); !strings.Contains(res.Raw, "doc://missing") {
		t.Errorf("missing resource: %s", res.Raw)
	}
}

// An exact resource goes before templates, and templates in the order in which they were added. A template that is added
// again goes to the end.
func TestWhichResourceAnswers(t *testing.T) {
	text := func(s string) askback.ResourceHandler {
		return func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: s}}}, nil
		}
	}
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "first", URITemplate: "doc://{id}"}, text("first"))
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "second", URITemplate: "doc://{+path}"}, text("second"))
		srv.AddResource(&mcp.Resource{Name: "exact", URI: "doc://exact"}, text("exact"))
	})
	h := srv.HTTPHandler(nil)
	read := func(uri, want string) {
		t.Helper()
		if res := (harness.Request{Method: "resources/read", Target: uri}).Send(t, h); !strings.Contains(res.Raw, `"text":"`+want+`"`) {
			t.Errorf("%s: got %s, want %s", uri, res.Raw, want)
		}
	}
	read("doc://exact", "exact")
	read("doc://one", "first")
	read("doc://a/b", "second")
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "first", URITemplate: "doc://{id}"}, text("third"))
	read("doc://one", "second")
	srv.RemoveResourceTemplates("doc://{+path}")
	read("doc://one", "third")
	srv.RemoveResources("doc://exact")
	read("doc://exact", "third")
}
