package otelaskback

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// ObserveClient returns a function for client.Options.Observe. Each request is a span, whose context goes to the server
// as traceparent, tracestate and baggage in params._meta (SEP-414): a server with telemetry continues the trace.
// Clients may share the function. Nil options are the zero Options. The error is the meter provider's, which refused an
// instrument.
func ObserveClient(opts *Options) (func(ctx context.Context, op *client.Operation) (context.Context, func()), error) {
	duration, err := newClientDuration(opts.meter())
	return (&clientObserver{tracer: opts.tracer(), duration: duration}).observe, err
}

type clientObserver struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	labels   labels
}

func (o *clientObserver) observe(ctx context.Context, op *client.Operation) (context.Context, func()) {
	request := mirror(op)
	server := serverOf(op)
	ctx, links := withCallTrace(ctx, op.Trace)
	name, _ := nameOf(request)
	ctx, span := o.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(op.Began),
		trace.WithAttributes(append(startAttributes(request), server...)...), trace.WithLinks(links...))
	// SEP-414 has the trace in _meta and not in headers, so it also reaches a server over stdio.
	meta := carrier{set: op.SetMeta}
	traceContext.Inject(ctx, meta)
	baggage.Inject(ctx, meta)
	if op.Trace == "" {
		op.Trace = encode(span.SpanContext())
	}
	return ctx, func() {
		request := mirror(op)
		measured := o.labels.operation(request, op.Server)
		// A host may connect to any number of servers, and each is a time series.
		if o.labels.server(op.Server) {
			measured = append(measured, server...)
		} else {
			measured = append(measured, attrServer.String(other))
		}
		o.duration.Record(ctx, time.Since(op.Began).Seconds(), metric.WithAttributes(measured...))
		if op.Request != "" {
			span.SetAttributes(attrRequestID.String(op.Request))
		}
		end(span, request)
	}
}

// mirror returns the operation of the server that serves a client's request, which has the same attributes.
func mirror(op *client.Operation) *askback.Operation {
	return &askback.Operation{
		Kind: askback.OperationRequest, Began: op.Began, Method: op.Method, Target: op.Target, Round: op.Round,
		Session: op.Session, Protocol: op.Protocol, Transport: op.Transport, Outcome: op.Outcome, Code: op.Code,
	}
}

func serverOf(op *client.Operation) []attribute.KeyValue {
	host, text, err := net.SplitHostPort(op.Server)
	if err != nil { // not over HTTP
		return nil
	}
	port, _ := strconv.Atoi(text) // The URL had this port.
	return []attribute.KeyValue{attrServer.String(host), attrPort.Int(port)}
}

// withCallTrace returns a context whose span is the parent of a client's request: the host's span, unless the call
// began in another trace. Then the request stays in that trace, with a link to the host's span, so that a call that
// another process resumes is still one trace.
func withCallTrace(ctx context.Context, text string) (context.Context, []trace.Link) {
	host, call := trace.SpanContextFromContext(ctx), decode(text)
	if !call.IsValid() || host.TraceID() == call.TraceID() {
		return ctx, nil
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, call)
	if host.IsValid() {
		return ctx, []trace.Link{{SpanContext: host}}
	}
	return ctx, nil
}
