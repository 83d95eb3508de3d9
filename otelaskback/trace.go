package otelaskback

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
)

// start starts the span of an operation.
func (o *observer) start(ctx context.Context, op *askback.Operation) (context.Context, trace.Span) {
	name, kind := nameOf(op)
	options := append(make([]trace.SpanStartOption, 0, 4),
		trace.WithSpanKind(kind), trace.WithTimestamp(op.Began), trace.WithAttributes(startAttributes(op)...))
	ctx, links := withParent(ctx, op)
	if links != nil {
		options = append(options, trace.WithLinks(links...))
	}
	ctx, span := o.tracer.Start(ctx, name, options...)
	if op.Trace == "" && op.Call != "" {
		op.Trace = encode(span.SpanContext())
	}
	return ctx, span
}

func nameOf(op *askback.Operation) (string, trace.SpanKind) {
	switch op.Kind {
	case askback.OperationRun:
		return "task " + cut(op.Target), trace.SpanKindInternal
	case askback.OperationStep:
		return "step " + cut(op.Step), trace.SpanKindInternal
	}
	if target, _ := named(op); target != "" {
		return op.Method + " " + target, trace.SpanKindServer
	}
	return cmp.Or(op.Method, "request"), trace.SpanKindServer
}

// withParent returns a context whose span is the parent of an operation, and links to the other spans that caused it.
// A round stays in the trace of its call even if the client sends another trace: otherwise the rounds of a call could
// not be seen together.
func withParent(ctx context.Context, op *askback.Operation) (context.Context, []trace.Link) {
	ambient, call := trace.SpanContextFromContext(ctx), decode(op.Trace)
	if op.Kind == askback.OperationStep {
		if !ambient.IsValid() { // the handler gave the step a context of its own
			ctx = trace.ContextWithRemoteSpanContext(ctx, call)
		}
		return ctx, nil
	}
	client := trace.SpanContextFromContext(traceContext.Extract(context.Background(), carrier{get: op.Meta}))
	if op.Meta("baggage") != "" {
		ctx = baggage.Extract(ctx, carrier{get: op.Meta})
	}
	parent := ambient
	switch {
	case client.IsValid() && (!call.IsValid() || client.TraceID() == call.TraceID()):
		parent = client
	case call.IsValid():
		parent = call
	}
	if op.Kind == askback.OperationRun && call.IsValid() {
		parent = call // the client's span ended long ago
	}
	var links []trace.Link
	for _, other := range []trace.SpanContext{client, ambient} {
		if other.IsValid() && !other.Equal(parent) && op.Kind == askback.OperationRequest {
			links = append(links, trace.Link{SpanContext: other})
		}
	}
	if !parent.Equal(ambient) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	return ctx, links
}

// The members of _meta that carry a trace, without a prefix (SEP-414).
var (
	traceContext propagation.TraceContext
	baggage      propagation.Baggage
)

// carrier reads or writes the members of a request's _meta.
type carrier struct {
	get func(name string) string
	set func(name, value string)
}

func (c carrier) Get(name string) string { return c.get(name) }
func (c carrier) Set(name, value string) { c.set(name, value) }
func (c carrier) Keys() []string         { return nil }

// longestState bounds the tracestate that travels with a call: the client chose it.
const longestState = 256

// encode returns the form in which a span context travels with a call: the traceparent and, behind a space, the
// tracestate. A tracestate that is too long is left out, because each round would carry it.
func encode(sc trace.SpanContext) string {
	fields := make(propagation.MapCarrier, 2)
	traceContext.Inject(trace.ContextWithSpanContext(context.Background(), sc), fields)
	if state := fields["tracestate"]; state != "" && len(state) <= longestState {
		return fields["traceparent"] + " " + state
	}
	return fields["traceparent"]
}

// decode returns the span context of encode. It ignores any other text: an instance with another observer may have
// begun the call.
func decode(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	parent, state, _ := strings.Cut(text, " ")
	fields := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
	return trace.SpanContextFromContext(traceContext.Extract(context.Background(), fields))
}
