package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/process"
)

// addTools adds the tools that never ask.
func addTools(s *askback.Server) {
	addStatic(s, "test_simple_text", "Returns text",
		&mcp.TextContent{Text: "This is a simple text response for testing."})
	addStatic(s, "test_image_content", "Returns an image", pixel)
	addStatic(s, "test_audio_content", "Returns audio",
		&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"})
	addStatic(s, "test_embedded_resource", "Returns an embedded resource",
		embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))
	addStatic(s, "test_multiple_content_types", "Returns text, an image and an embedded resource",
		&mcp.TextContent{Text: "Multiple content types test:"}, pixel,
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
	add(s, "test_error_handling", "Always fails", func(context.Context, *askback.Call) (*mcp.CallToolResult, error) {
		return nil, errors.New("this tool intentionally returns an error for testing")
	})
	add(s, "test_tool_with_progress", "Reports progress in three steps",
		func(ctx context.Context, call *askback.Call) (string, error) {
			for _, done := range []float64{0, 50, 100} {
				if err := errors.Join(call.Progress(ctx, done, 100, fmt.Sprintf("%v of 100", done)), pause(ctx)); err != nil {
					return "", err
				}
			}
			return "Three steps done", nil
		})
	add(s, "test_reconnection", "Closes the response's stream before it answers",
		func(ctx context.Context, call *askback.Call) (string, error) {
			if extra := call.Request().GetExtra(); extra != nil && extra.CloseSSEStream != nil {
				extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			}
			return "Answered on the stream that the client resumed", pause(ctx)
		})
	askback.AddTool(s, &mcp.Tool{
		Name:        "json_schema_2020_12_tool",
		Description: "Has an input schema with the vocabulary of JSON Schema 2020-12",
		InputSchema: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"$defs": {
				"address": {
					"$anchor": "addressDef",
					"type": "object",
					"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
				}
			},
			"properties": {
				"name": {"type": "string"},
				"address": {"$ref": "#/$defs/address"},
				"contactMethod": {"type": "string", "enum": ["phone", "email"]},
				"phone": {"type": "string"},
				"email": {"type": "string"}
			},
			"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
			"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
			"then": {"required": ["phone"]},
			"else": {"required": ["email"]},
			"additionalProperties": false
		}`),
	}, func(_ context.Context, _ *askback.Call, in map[string]any) (string, error) {
		return fmt.Sprintf("Called with %d arguments", len(in)), nil
	})
	askback.AddTool(s, &mcp.Tool{
		Name:        "test_x_mcp_header",
		Description: "Has an argument that clients mirror into the header Mcp-Param-Region",
		InputSchema: json.RawMessage(
			`{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}`),
	}, func(_ context.Context, _ *askback.Call, in map[string]any) (string, error) {
		return fmt.Sprintf("Region %q", in["region"]), nil
	})
	addToggle(s, "test_trigger_tool_change",
		func() { addStatic(s, "test_added_tool", "Is there until the next change") },
		func() { s.RemoveTools("test_added_tool") })
	addToggle(s, "test_trigger_prompt_change",
		func() { addStaticPrompt(s, "test_added_prompt", "Is there until the next change") },
		func() { s.RemovePrompts("test_added_prompt") })
}

// addToggle adds a tool that adds something, and removes it the next time. If a list changes and changes back, a later
// reader, such as a bridge, sees no change.
func addToggle(s *askback.Server, name string, change, changeBack func()) {
	var mu sync.Mutex
	add(s, name, "Changes a list", func(context.Context, *askback.Call) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		change()
		change, changeBack = changeBack, change
		return "Changed", nil
	})
}

func addStatic(s *askback.Server, name, description string, content ...mcp.Content) {
	add(s, name, description, func(context.Context, *askback.Call) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	})
}

// add adds a tool without arguments.
func add[Out any](s *askback.Server, name, description string, run func(context.Context, *askback.Call) (Out, error)) {
	askback.AddTool(s, tool(name, description), withoutArguments(run))
}

func withoutArguments[Out any](
	run func(context.Context, *askback.Call) (Out, error),
) askback.ToolHandler[struct{}, Out] {
	return func(ctx context.Context, call *askback.Call, _ struct{}) (Out, error) { return run(ctx, call) }
}

func tool(name, description string) *mcp.Tool { return &mcp.Tool{Name: name, Description: description} }

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// pause takes the time that the suite wants between notifications of one call.
func pause(ctx context.Context) error { return process.Sleep(ctx, 50*time.Millisecond) }

func embedded(uri, mimeType, body string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mimeType, Text: body}}
}

// pixel is an image of one transparent pixel.
var pixel = func() *mcp.ImageContent {
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return &mcp.ImageContent{Data: buf.Bytes(), MIMEType: "image/png"}
}()

// silence is a WAV file without samples: PCM, mono, 8 kHz, 8 bits.
var silence = []byte("RIFF\x24\x00\x00\x00WAVE" +
	"fmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00" +
	"data\x00\x00\x00\x00")
