package main

import (
	"cmp"
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
	spans, points, err := exporters(ctx)
	if err != nil {
		return nil, nil, err
	}
	if spans == nil && points == nil {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("telemetry was not sent", "error", err) }))
	traces := trace.NewTracerProvider(spans...)
	metrics := metric.NewMeterProvider(points...)
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

// exporters returns what sends traces and metrics. Each has an endpoint of its own if only one of them is to be sent,
// such as the metrics to Prometheus, which takes no traces.
func exporters(ctx context.Context) (spans []trace.TracerProviderOption, points []metric.Option, err error) {
	collector := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if cmp.Or(collector, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")) != "" {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("sending traces: %w", err)
		}
		spans = append(spans, trace.WithBatcher(exporter))
	}
	if cmp.Or(collector, os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")) != "" {
		exporter, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("sending metrics: %w", err)
		}
		points = append(points, metric.WithReader(metric.NewPeriodicReader(exporter)))
	}
	return spans, points, nil
}
