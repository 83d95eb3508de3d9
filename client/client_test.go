package client_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestEveryRevisionAndTransport(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		for name, transport := range map[string]func(*testing.T, *askback.Server) mcp.Transport{
			"http": func(t *testing.T, srv *askback.Server) mcp.Transport { return web(t, srv) }, "memory": memory,
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				session := connect(t, answers(), transport(t, newServer(t, askback.Options{})), version)
				res := expect.Must(called(t, session, "everything"))(t)
				expect.Equal(t, "tool", textOf(res), "{0150 octocat 42}file:///srchello")
				prompt, err := session.GetPrompt(t.Context(),
					&mcp.GetPromptParams{Name: "prompt", Arguments: map[string]string{"greeting": "Hi "}})
				if err != nil || prompt.Description != "Hi octocat" {
					t.Errorf("prompt: %v, %v", prompt, err)
				}
				resource, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a%20b"})
				if err != nil || resource.Contents[0].Text != "doc://a%20boctocat" {
					t.Errorf("resource: %v, %v", resource, err)
				}
			})
		}
	}
}
