// Package otelaskback traces and measures servers of package askback, and clients of its package client, with
// OpenTelemetry:
//
//	observe, err := otelaskback.Observe(nil) // with the global providers of go.opentelemetry.io/otel
//	…
//	srv, err := askback.New(m, &askback.Options{Observe: observe})
//
// A client has the same hook, and [ObserveClient] is for it.
//
// It needs only the API of OpenTelemetry. Providers, exporters and samplers are the program's.
//
// # One trace for a call
//
// A call is answered in several requests, by any instance, with a person's pause in between, and may go on as a task.
// All of this is one trace. The first round that a server serves is the parent of all that is not the child of
// anything nearer. Its trace context travels with the call: encrypted in requestState, or stored with the task.
//
//  1. A client that sends a traceparent in params._meta is the parent of its request, as the conventions say. If it
//     sends another trace in a later round, the round stays in the trace of the call, and is linked to the client's.
//  2. A span that exists already, such as the span of the HTTP request, is linked. It becomes the parent if there is no
//     other.
//  3. The sampling decision of the first round holds for all.
//
// A client's rounds, and its requests about the task of a call, are one trace as well, also when another process
// resumes the call.
//
// # Conventions
//
// Spans and metrics follow the semantic conventions for the Model Context Protocol, which are in development:
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md. Names that begin with
// "askback." are ours. No attribute holds an answer, an argument, a result, a requestState or a task's ID. So a span
// has no status description, although the conventions want the error's message there: messages repeat what callers
// wrote. docs/telemetry.md lists all names.
package otelaskback

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
)

const scope = "github.com/askback-mcp/askback/otelaskback"

// Options configure [Observe], [ObserveClient] and [ObserveTasks]. The zero value is ready to use.
type Options struct {
	TracerProvider trace.TracerProvider // nil means the global one
	MeterProvider  metric.MeterProvider // nil means the global one
}

// Observe returns a function for askback.Options.Observe. Servers may share it. Nil options are the zero Options. The
// error is the meter provider's, which refused an instrument.
func Observe(opts *Options) (func(ctx context.Context, op *askback.Operation) (context.Context, func()), error) {
	metrics, err := newMetrics(opts.meter())
	return (&observer{opts.tracer(), metrics}).observe, err
}

func (o *Options) tracer() trace.Tracer {
	if o == nil || o.TracerProvider == nil {
		return otel.GetTracerProvider().Tracer(scope)
	}
	return o.TracerProvider.Tracer(scope)
}

func (o *Options) meter() metric.Meter {
	if o == nil || o.MeterProvider == nil {
		return otel.GetMeterProvider().Meter(scope)
	}
	return o.MeterProvider.Meter(scope)
}

type observer struct {
	tracer  trace.Tracer
	metrics *metrics
}

func (o *observer) observe(ctx context.Context, op *askback.Operation) (context.Context, func()) {
	switch op.Kind {
	case askback.OperationStore, askback.OperationNotice, askback.OperationQuestion: // measured, and no spans
		o.metrics.recordEnded(ctx, op)
		return ctx, func() {}
	}
	ctx, span := o.start(ctx, op)
	o.metrics.begin(ctx, op)
	return ctx, func() {
		o.metrics.record(ctx, op)
		end(span, op)
	}
}
