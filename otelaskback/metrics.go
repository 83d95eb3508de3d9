package otelaskback

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
)

// metrics are the instruments of a server.
type metrics struct {
	duration  metric.Float64Histogram
	requests  metric.Int64Counter
	rounds    metric.Int64Counter
	runs      metric.Int64Counter
	stateSize metric.Int64Histogram
	busy      metric.Int64UpDownCounter
	claims    metric.Float64Histogram
	questions metric.Float64Histogram
	store     metric.Float64Histogram
	notices   metric.Int64Counter
	labels    labels
}

// seconds are the bounds of the conventions' histograms.
var seconds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

func newClientDuration(m metric.Meter) (metric.Float64Histogram, error) {
	return m.Float64Histogram("mcp.client.operation.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("The duration of the MCP request or notification as observed on the sender from the time it "+
			"was sent until the response or ack is received."))
}

func newMetrics(m metric.Meter) (*metrics, error) {
	duration, err1 := m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("The duration of the MCP request or notification as observed on the receiver from the time "+
			"it was received until the result or ack is sent."))
	requests, err2 := m.Int64Counter("askback.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests for handlers and about tasks, by outcome and, if they were refused, by reason."))
	rounds, err3 := m.Int64Counter("askback.rounds", metric.WithUnit("{round}"),
		metric.WithDescription(
			"Runs of handlers, by the outcome of the request or the run of a task that they were made for."))
	runs, err4 := m.Int64Counter("askback.task.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs of tasks, by outcome, such as lease_lost, and whether they go on after one that did "+
			"not end."))
	stateSize, err5 := m.Int64Histogram("askback.state.size", metric.WithUnit("By"),
		metric.WithExplicitBucketBoundaries(256, 512, 1<<10, 2<<10, 4<<10, 8<<10, 16<<10, 32<<10, 64<<10, 256<<10, 1<<20),
		metric.WithDescription("The size of each requestState that a client gets."))
	busy, err6 := m.Int64UpDownCounter("askback.workers.busy", metric.WithUnit("{worker}"),
		metric.WithDescription("Workers of this instance that run a task."))
	claims, err7 := m.Float64Histogram("askback.task.claim.latency", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(seconds...),
		metric.WithDescription("How long tasks were due before a worker began them. Runs after one that did not end are "+
			"left out."))
	questions, err8 := m.Float64Histogram("askback.question.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(1, 10, 60, 300, 900, 3600, 4*3600, 12*3600, 24*3600, 3*24*3600, 7*24*3600),
		metric.WithDescription("How long questions of tasks were open that people have decided or whose deadline has "+
			"passed, by outcome and whether they had a deadline."))
	store, err9 := m.Float64Histogram("askback.store.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5),
		metric.WithDescription("How long calls of the store of tasks took, by method and outcome."))
	notices, err10 := m.Int64Counter("askback.notices", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts to deliver a notice, by its kind and the outcome."))
	all := &metrics{duration: duration, requests: requests, rounds: rounds, runs: runs, stateSize: stateSize, busy: busy,
		claims: claims, questions: questions, store: store, notices: notices}
	return all, errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10)
}

// begin measures an operation that begins.
func (m *metrics) begin(ctx context.Context, op *askback.Operation) {
	if op.Kind != askback.OperationRun {
		return
	}
	m.busy.Add(ctx, 1)
	if !op.Recovered {
		m.claims.Record(ctx, op.Waited.Seconds(), metric.WithAttributes(m.labels.target(op, "")...))
	}
}

// recordEnded measures an operation of a kind that is told when it has ended.
func (m *metrics) recordEnded(ctx context.Context, op *askback.Operation) {
	outcome := attrOutcome.String(outcomeLabel(op))
	switch op.Kind {
	case askback.OperationQuestion:
		if !trace.SpanContextFromContext(ctx).IsValid() { // for the exemplar
			ctx = trace.ContextWithRemoteSpanContext(ctx, decode(op.Trace))
		}
		m.questions.Record(ctx, op.Waited.Seconds(),
			metric.WithAttributes(append(m.labels.target(op, ""), outcome, attrDeadline.Bool(!op.Deadline.IsZero()))...))
	case askback.OperationStore:
		m.store.Record(ctx, time.Since(op.Began).Seconds(), metric.WithAttributes(attrStoreMethod.String(op.Step), outcome))
	case askback.OperationNotice:
		m.notices.Add(ctx, 1, metric.WithAttributes(attrNotice.String(op.Step), outcome))
	}
}

func (m *metrics) record(ctx context.Context, op *askback.Operation) {
	if op.Kind == askback.OperationStep {
		return
	}
	target := metric.WithAttributeSet(attribute.NewSet(append(m.labels.target(op, ""), attrOutcome.String(op.Outcome))...))
	if op.Rounds > 0 {
		m.rounds.Add(ctx, int64(op.Rounds), target)
	}
	if op.Kind == askback.OperationRun {
		m.busy.Add(ctx, -1)
		labels := append(m.labels.target(op, ""), attrOutcome.String(op.Outcome), attrRecovered.Bool(op.Recovered))
		m.runs.Add(ctx, 1, metric.WithAttributes(labels...))
		return
	}
	counted := append(make([]attribute.KeyValue, 0, 3), attrOutcome.String(op.Outcome))
	if op.Method != "" { // else it was turned away, and is no operation of the conventions
		m.duration.Record(ctx, time.Since(op.Began).Seconds(), metric.WithAttributes(m.labels.operation(op, "")...))
		counted = append(counted, attrMethod.String(methodLabel(op)))
	}
	if op.Reason != "" {
		counted = append(counted, attrReason.String(op.Reason))
	}
	m.requests.Add(ctx, 1, metric.WithAttributes(counted...))
	if op.StateBytes > 0 {
		m.stateSize.Record(ctx, int64(op.StateBytes), metric.WithAttributes(m.labels.target(op, "")...))
	}
}

// target returns the attributes of an operation's target. The tool or prompt is named only if it is sure to exist: a
// client may name any.
func (l *labels) target(op *askback.Operation, server string) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 8), attrMethod.String(methodLabel(op)))
	target, key := named(op)
	switch {
	case target == "":
	case op.Code == codeInvalidParams, op.Code == codeMethodNotFound: // such as an unknown tool
	case op.Outcome == "refused", op.Outcome == "unavailable", op.Outcome == "shed": // before anybody looked
	default:
		all = append(all, key.String(l.name(server, target)))
	}
	return all
}

const (
	codeInvalidParams  = -32602
	codeMethodNotFound = -32601
)

// operation returns the attributes of the conventions' histogram.
func (l *labels) operation(op *askback.Operation, server string) []attribute.KeyValue {
	all := l.target(op, server)
	if op.Method == "tools/call" {
		all = append(all, attrOperation.String("execute_tool"))
	}
	if op.Code != 0 {
		code := codeLabel(op.Code)
		all = append(all, attrErrorType.String(code), attrStatusCode.String(code))
	} else if class := errorType(op); class != "" {
		all = append(all, attrErrorType.String(class))
	}
	if name := transport(op); name != "" {
		all = append(all, attrTransport.String(name))
	}
	return all
}
