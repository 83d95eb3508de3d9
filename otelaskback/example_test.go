package otelaskback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
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
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, in bug) (string, error) {
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

// The requests of a client are spans, and a server with telemetry continues their trace. Without a span of its host,
// the first round of a call is the parent of the others.
func ExampleObserveClient() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	opts := &otelaskback.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))}
	observe, err := otelaskback.ObserveClient(opts)
	if err != nil {
		log.Fatal(err)
	}
	served, err := otelaskback.Observe(opts)
	if err != nil {
		log.Fatal(err)
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), &askback.Options{
		Observe: served,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "greet"},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := askback.Elicit[struct{ Name string }](call, "who", "Who are you?")
			return "Hello " + who.Name, err
		})

	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	c := client.New(&client.Options{Observe: observe,
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"Name": "Ada"}}, nil
		}})
	session, err := c.Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"}); err != nil {
		log.Fatal(err)
	}
	traces := make(map[string]int)
	for _, s := range spans.GetSpans() {
		traces[s.SpanContext.TraceID().String()]++
		if s.SpanKind == trace.SpanKindClient {
			fmt.Println(s.SpanKind, s.Name)
		}
	}
	fmt.Println("traces:", len(traces))
	// Output:
	// client tools/call greet
	// client tools/call greet
	// traces: 1
}

// The tasks of a store that have not ended are a gauge.
func ExampleObserveTasks() {
	ctx := context.Background()
	store := new(task.MemoryStore) // or one of task/sqlite or task/postgres
	reader := metric.NewManualReader()
	waiting, err := otelaskback.ObserveTasks(store,
		&otelaskback.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		log.Fatal(err)
	}
	defer waiting.Unregister() // before the store is closed

	var read metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &read); err != nil {
		log.Fatal(err)
	}
	for _, m := range read.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name, len(m.Data.(metricdata.Gauge[int64]).DataPoints), "statuses")
	}
	// Output: askback.tasks 2 statuses
}
