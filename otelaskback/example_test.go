package otelaskback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/otelaskback"
)

// A program that has set the global providers calls Observe(nil). This one keeps its spans in memory, and prints them.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	observe, err := otelaskback.Observe(&otelaskback.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	if err != nil {
		log.Fatal(err)
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), &askback.Options{
		Observe: observe,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	type bug struct{ ID int }
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(ctx context.Context, call *askback.Call, in bug) (string, error) {
		err := call.Do(ctx, "close", func(ctx context.Context) error {
			return nil // the span of what this calls is below that of the step
		})
		return "closed", err
	})

	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, nil).Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: bug{4522}}); err != nil {
		log.Fatal(err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.SpanKind, s.Name)
	}
	// Output:
	// internal step close
	// server tools/call close_bug
}
