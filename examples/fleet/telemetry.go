package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task/postgres"
)

type observer = func(ctx context.Context, op *askback.Operation) (context.Context, func())

// openTelemetry sends traces and metrics as the environment variables of OpenTelemetry say. The observer is nil if they
// name no collector. Flush sends what is left, and reads the store once more.
func openTelemetry(ctx context.Context, store *postgres.Store) (_ observer, flush func(), err error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		return nil, func() {}, nil
	}
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("sending traces: %w", err)
	}
	points, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("sending metrics: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("telemetry was not sent", "error", err) }))
	traces := trace.NewTracerProvider(trace.WithBatcher(spans))
	metrics := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points)))
	opts := &otelaskback.Options{TracerProvider: traces, MeterProvider: metrics}
	observe, err := otelaskback.Observe(opts)
	if err == nil {
		_, err = otelaskback.ObserveTasks(store, opts)
	}
	return observe, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := errors.Join(traces.Shutdown(ctx), metrics.Shutdown(ctx)); err != nil {
			slog.Warn("the last telemetry was not sent", "error", err)
		}
	}, err
}
