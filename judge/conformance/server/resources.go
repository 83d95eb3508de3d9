package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

func addResources(s *askback.Server) {
	for _, r := range []struct {
		name, about, mimeType string
		contents              mcp.ResourceContents
	}{
		{"static-text", "Text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."}},
		{"static-binary", "An image", "image/png", mcp.ResourceContents{Blob: pixel.Data}},
		{"watched-resource", "For subscriptions", "text/plain", mcp.ResourceContents{Text: "Watched resource content."}},
	} {
		resource := &mcp.Resource{URI: "test://" + r.name, Name: r.name, Description: r.about, MIMEType: r.mimeType}
		s.AddResource(resource, func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&r.contents}}, nil
		})
	}

	const before, after = "test://template/", "/data"
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: before + "{id}" + after, Name: "template", Description: "Depends on id", MIMEType: "application/json",
	}, func(_ context.Context, _ *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(uri, before), after)
		data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: string(data)}}}, err
	})
}

func addPrompts(s *askback.Server) {
	addStaticPrompt(s, "test_simple_prompt", "Has no arguments",
		&mcp.TextContent{Text: "This is a simple prompt for testing."})
	addStaticPrompt(s, "test_prompt_with_image", "Has an image",
		pixel, &mcp.TextContent{Text: "Please analyze the image above."})
	addPrompt(s, "test_prompt_with_arguments", "Has two arguments", func(args map[string]string) []mcp.Content {
		text := fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])
		return []mcp.Content{&mcp.TextContent{Text: text}}
	}, "arg1", "arg2")
	addPrompt(s, "test_prompt_with_embedded_resource", "Embeds a resource", func(args map[string]string) []mcp.Content {
		return []mcp.Content{
			embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
			&mcp.TextContent{Text: "Please process the embedded resource above."},
		}
	}, "resourceUri")
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks the user for context"},
		func(ctx context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			given, err := askback.Elicit[contextForm](call, "user_context", "What context should the prompt use?")
			return messages(&mcp.TextContent{Text: "Use this context: " + given.Context}), err
		})
}

func addStaticPrompt(s *askback.Server, name, description string, contents ...mcp.Content) {
	addPrompt(s, name, description, func(map[string]string) []mcp.Content { return contents })
}

func addPrompt(
	s *askback.Server, name, description string, contents func(args map[string]string) []mcp.Content, required ...string,
) {
	prompt := &mcp.Prompt{Name: name, Description: description}
	for _, name := range required {
		prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{Name: name, Description: "A text", Required: true})
	}
	s.AddPrompt(prompt, func(_ context.Context, _ *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return messages(contents(args)...), nil
	})
}

func messages(contents ...mcp.Content) *mcp.GetPromptResult {
	res := new(mcp.GetPromptResult)
	for _, content := range contents {
		res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: content})
	}
	return res
}
