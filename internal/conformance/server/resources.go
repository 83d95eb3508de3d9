package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

func addResources(s *askback.Server) {
	addStaticResource(s, &mcp.Resource{URI: "test://static-text", Name: "static-text", Description: "Text", MIMEType: "text/plain"},
		&mcp.ResourceContents{Text: "This is the content of the static text resource."})
	addStaticResource(s, &mcp.Resource{URI: "test://static-binary", Name: "static-binary", Description: "An image", MIMEType: "image/png"},
		&mcp.ResourceContents{Blob: pixel.Data})
	addStaticResource(s, &mcp.Resource{URI: "test://watched-resource", Name: "watched-resource", Description: "For subscriptions", MIMEType: "text/plain"},
		&mcp.ResourceContents{Text: "Watched resource content."})

	const before, after = "test://template/", "/data"
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: before + "{id}" + after, Name: "template", Description: "Depends on id", MIMEType: "application/json",
	}, func(_ context.Context, _ *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(uri, before), after)
		data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: string(data)}}}, nil
	})
}

func addStaticResource(s *askback.Server, r *mcp.Resource, contents *mcp.ResourceContents) {
	s.AddResource(r, func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
	})
}
