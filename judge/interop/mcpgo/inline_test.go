package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/interop/program"
)

// The tool of recipes_test.go as it is before it leaves mcp-go: see docs/recipes.md.

type Trip struct {
	To string `json:"to"`
}

type Seat struct {
	Number string
	Price  int
}

type airlines struct{}

var airline airlines

func (airlines) Hold(_ context.Context, to, key string) (Seat, error)   { return Seat{"12A", 42}, nil }
func (airlines) Release(_ context.Context, seat Seat, key string) error { return nil }
func (airlines) Pay(_ context.Context, seat Seat, key string) error     { return nil }
func fresh() string                                                     { return "1" }

func bookMCPGo(s *server.MCPServer) mcp.TypedToolHandlerFunc[Trip] {
	return func(ctx context.Context, _ mcp.CallToolRequest, in Trip) (*mcp.CallToolResult, error) {
		seat, err := airline.Hold(ctx, in.To, fresh())
		if err != nil {
			return nil, err
		}
		res, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: fmt.Sprintf("Seat %s to %s costs %d. Book it?", seat.Number, in.To, seat.Price),
			RequestedSchema: map[string]any{
				"type":       "object",
				"properties": map[string]any{"confirm": map[string]any{"type": "boolean"}},
				"required":   []string{"confirm"},
			},
		}})
		if err != nil {
			return nil, err
		}
		content, _ := res.Content.(map[string]any)
		if res.Action != mcp.ElicitationResponseActionAccept || content["confirm"] != true {
			return mcp.NewToolResultText("Not booked."), airline.Release(ctx, seat, fresh())
		}
		if err := airline.Pay(ctx, seat, fresh()); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("Seat %s to %s is yours.", seat.Number, in.To)), nil
	}
}

func handlerMCPGo() http.Handler {
	s := server.NewMCPServer("airline", "1.0.0", server.WithElicitation())
	s.AddTool(mcp.NewTool("book", mcp.WithInputSchema[Trip]()), mcp.NewTypedToolHandler(bookMCPGo(s)))
	return server.NewStreamableHTTPServer(s, server.WithStateful(true))
}

// What docs/recipes.md says of such a handler: it serves sessions only.
func TestInlineServesSessionsOnly(t *testing.T) {
	web := httptest.NewServer(handlerMCPGo())
	defer web.Close()
	for version, want := range map[string]string{
		program.Legacy:              "Seat 12A to Oslo is yours.",
		mcp.LATEST_PROTOCOL_VERSION: "server-initiated",
	} {
		got := bookAs(t, web.URL, version)
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

type confirms struct{}

func (confirms) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"confirm": true},
	}}, nil
}

// bookAs calls the tool and returns its text or its error.
func bookAs(t *testing.T, url, version string) string {
	t.Helper()
	options := []client.ClientOption{client.WithElicitationHandler(confirms{})}
	var listen []transport.StreamableHTTPCOption
	if version == program.Legacy {
		options = append(options, client.WithProtocolVersion(version))
		listen = append(listen, transport.WithContinuousListening())
	}
	over := expect.Must(transport.NewStreamableHTTP(url, listen...))(t)
	c := client.NewClient(over, options...)
	expect.Check(t, c.Start(t.Context()))
	defer c.Close()
	var initialize mcp.InitializeRequest
	initialize.Params.ClientInfo = mcp.Implementation{Name: "mcpgo", Version: "1.0.0"}
	if _, err := c.Initialize(t.Context(), initialize); err != nil {
		t.Fatal(err)
	}
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = "book", Trip{To: "Oslo"}
	res, err := c.CallTool(t.Context(), request)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(res.Content[0].(mcp.TextContent).Text)
}
