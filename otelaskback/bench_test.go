package otelaskback_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
)

// BenchmarkInteraction measures one interaction, which is a round that asks and one that answers and runs two steps,
// with and without telemetry. What is not sampled is still measured.
func BenchmarkInteraction(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"without": nil, "not sampled": sdktrace.NeverSample(),
		"sampled": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			var opts askback.Options
			if sampler != nil {
				observe, err := otelaskback.Observe(&otelaskback.Options{
					TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)),
					MeterProvider:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
				})
				expect.Check(b, err)
				opts.Observe = observe
			}
			h := harness.NewServer(b, &opts, addTools).HTTPHandler(nil)
			ask := harness.Request{Target: "greet", Arguments: `{"Note":""}`}
			answer := ask
			answer.State, answer.Responses = ask.Send(b, h).Asked(b, "who"), answered
			send := func(r harness.Request) {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r.HTTP(b))
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				send(ask)
				send(answer)
			}
		})
	}
}

// BenchmarkClientCall measures a call of a client that asks once, which is two requests to a server without telemetry
// in the same process, with and without the client's telemetry.
func BenchmarkClientCall(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"without": nil, "not sampled": sdktrace.NeverSample(),
		"sampled": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			opts := &client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "x"}}, nil
			}}
			if sampler != nil {
				var err error
				opts.Observe, err = otelaskback.ObserveClient(&otelaskback.Options{
					TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)),
					MeterProvider:  metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
				})
				expect.Check(b, err)
			}
			web := httptest.NewServer(harness.NewServer(b, nil, addTools).HTTPHandler(nil))
			defer web.Close()
			session, err := client.New(opts).Connect(b.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
			expect.Check(b, err)
			defer session.Close()
			params := &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"Note": ""}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.CallTool(b.Context(), params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
