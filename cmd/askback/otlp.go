package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
)

// flushTime bounds sending what is left at the end: a collector that is gone must not hold it up.
const flushTime = 5 * time.Second

// telemetry sends traces and metrics to a collector. The zero value sends nothing.
type telemetry struct {
	observe       func(ctx context.Context, op *askback.Operation) (context.Context, func())
	observeClient func(ctx context.Context, op *client.Operation) (context.Context, func())
	tracers       *sdktrace.TracerProvider
	meters        *metric.MeterProvider
}

// checkOTLP checks the form of --otlp. Its error does not repeat the value, which may contain a password.
func checkOTLP(collector string) error {
	u, err := url.Parse(collector)
	switch {
	case collector == "":
		return nil
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usagef("--otlp: want the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return usagef("--otlp: want a URL without a password or a query: put credentials into the environment variable " +
			"OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

// openTelemetry connects to the collector of --otlp. The environment variables of OpenTelemetry set what the URL does
// not, such as OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_TRACES_SAMPLER.
func openTelemetry(ctx context.Context, collector string, log *slog.Logger) (*telemetry, error) {
	if collector == "" {
		return new(telemetry), nil
	}
	u, err := url.Parse(collector)
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "askback"),
		attribute.String("service.version", version()),
		attribute.String("service.instance.id", rand.Text()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("--otlp: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry was not sent", "error", err) }))
	t, err := newTelemetry(ctx, u, about)
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	log.Info("sending traces and metrics", "collector", u.Host)
	return t, nil
}

// newTelemetry sends what belongs to a resource to a collector.
func newTelemetry(ctx context.Context, collector *url.URL, about *resource.Resource) (*telemetry, error) {
	traces, metrics := collector.JoinPath("v1", "traces"), collector.JoinPath("v1", "metrics")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(traces.String()))
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(metrics.String()))
	if err != nil {
		return nil, fmt.Errorf("the exporter of metrics: %w", err)
	}
	t := &telemetry{
		tracers: sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(about)),
		meters:  metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(points)), metric.WithResource(about)),
	}
	t.observe, err = otelaskback.Observe(t.options())
	if err == nil {
		t.observeClient, err = otelaskback.ObserveClient(t.options())
	}
	return t, err
}

func (t *telemetry) options() *otelaskback.Options {
	return &otelaskback.Options{TracerProvider: t.tracers, MeterProvider: t.meters}
}

// observeTasks measures the tasks of a store, which may be nil, until close.
func (t *telemetry) observeTasks(store task.Counter) error {
	if t.meters == nil || store == nil {
		return nil
	}
	_, err := otelaskback.ObserveTasks(store, t.options())
	return err
}

// close sends what is left.
func (t *telemetry) close(log *slog.Logger) {
	if t.tracers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx)); err != nil {
		log.Warn("the last telemetry was not sent", "error", err)
	}
}
