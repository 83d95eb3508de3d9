package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
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
	if res := p.Send(t, h); !strings.Contains(res.Raw, `"description":"Go octocat"`) ||
		!strings.Contains(res.Raw, `"messages":[]`) {
		t.Errorf("prompt: %s", res.Raw)
	}
	harness.Request{Method: "prompts/get", Target: "none"}.Send(t, h).Refused(t, 400, -32602)

	for _, uri := range []string{"doc://one", "doc://two"} {
		r := harness.Request{Method: "resources/read", Target: uri}
		r.State = r.Send(t, h).Asked(t, "login")
		r.Responses = harness.Octocat
		res := r.Send(t, h)
		if !strings.Contains(res.Raw, `"text":"octocat"`) || !strings.Contains(res.Raw, `"uri":"`+uri+`"`) {
			t.Errorf("resource: %s", res.Raw)
		}
		expect.Contains(t, "what depends on an answer may be cached for others", res.Raw, `"cacheScope":"private"`)
	}
	res := harness.Request{Method: "resources/read", Target: "doc://missing"}.Send(t, h)
	if res.Refused(t, 200, -32602); !strings.Contains(res.Raw, "doc://missing") {
		t.Errorf("missing resource: %s", res.Raw)
	}
}

// A prompt's arguments are strings, and those that it requires are there, or its handler does not run. The error names
// the argument that is missing, and no value. Arguments that the prompt does not list reach the handler.
func TestArgumentsOfPrompts(t *testing.T) {
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		srv.AddPrompt(&mcp.Prompt{Name: "p",
			Arguments: []*mcp.PromptArgument{{Name: "style"}, {Name: "topic", Required: true}, {Name: "tone", Required: true}}},
			func(_ context.Context, _ *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: fmt.Sprint(args)}, nil
			})
		srv.AddPrompt(&mcp.Prompt{Name: "plain"},
			func(_ context.Context, _ *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: fmt.Sprint(args, args == nil)}, nil
			})
	})
	const wrongType = "must be a string"
	for _, c := range []struct{ prompt, arguments, want, refusal string }{
		{"p", `{"topic":"Go","tone":"dry"}`, "map[tone:dry topic:Go]", ""},
		{"p", `{"topic":"","tone":"\u00e4","style":"s"}`, "map[style:s tone:ä topic:]", ""},
		{"p", `{"topic":"Go","tone":"dry","other":"x"}`, "map[other:x tone:dry topic:Go]", ""},
		{"p", ``, "", `needs the argument \"topic\"`},
		{"p", `{}`, "", `needs the argument \"topic\"`},
		{"p", `{"style":"s","topic":"Go"}`, "", `needs the argument \"tone\"`},
		{"p", `{"Topic":"Go","tone":"dry"}`, "", `needs the argument \"topic\"`},
		{"p", `{"topic":7,"tone":"dry"}`, "", wrongType},
		{"p", `{"topic":null,"tone":"dry"}`, "", wrongType},
		{"p", `{"topic":true,"tone":"dry"}`, "", wrongType},
		{"p", `{"topic":["MARK"],"tone":"dry"}`, "", wrongType},
		{"p", `{"topic":{"a":"MARK"},"tone":"dry"}`, "", wrongType},
		{"p", `{"topic":"Go","tone":"dry","other":7}`, "", wrongType}, // also where the prompt does not list it
		{"plain", ``, "map[] false", ""},
		{"plain", `{"a":"b"}`, "map[a:b] false", ""},
		{"none", `{}`, "", "none"},
	} {
		for _, f := range harness.Fronts {
			if c.refusal == wrongType && f.Name != "HTTP" {
				continue // the SDK decodes them
			}
			t.Run(f.Name+" "+c.prompt+" "+c.arguments, func(t *testing.T) {
				params := `"name":"` + c.prompt + `"`
				if c.arguments != "" {
					params += `,"arguments":` + c.arguments
				}
				response := f.Dial(t, srv, nil)("prompts/get", params)
				if c.refusal == "" {
					if got := harness.At(response, "result", "description"); got != c.want {
						t.Errorf("got %v, want %s", response, c.want)
					}
					return
				}
				message := fmt.Sprint(harness.At(response, "error", "message"))
				if harness.At(response, "error", "code") != -32602.0 || !strings.Contains(fmt.Sprintf("%q", message), c.refusal) ||
					strings.Contains(message, "MARK") {
					t.Errorf("got %v, want -32602 that says %s", response, c.refusal)
				}
			})
		}
	}
}

// A resource that is empty has an empty text, and one with a blob has none.
func TestResourcesWithoutText(t *testing.T) {
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		srv.AddResource(&mcp.Resource{Name: "empty", URI: "doc://empty", MIMEType: "text/plain"},
			func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Meta: mcp.Meta{"com.example/a": 1},
					Contents: []*mcp.ResourceContents{{}, {Text: "a"}, {Blob: []byte{}}}}, nil
			})
	})
	for _, f := range harness.Fronts {
		response := f.Dial(t, srv, nil)("resources/read", `"uri":"doc://empty"`)
		contents, _ := json.Marshal(harness.At(response, "result", "contents"))
		const want = `[{"mimeType":"text/plain","text":"","uri":"doc://empty"},` +
			`{"mimeType":"text/plain","text":"a","uri":"doc://empty"},{"blob":"","mimeType":"text/plain","uri":"doc://empty"}]`
		if string(contents) != want || harness.At(response, "result", "_meta", "com.example/a") != 1.0 {
			t.Errorf("%s: got %v", f.Name, response)
		}
	}
}
