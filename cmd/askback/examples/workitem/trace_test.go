package workitem_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/workitem"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
)

// A call is one trace, although each of its rounds is sent to another instance.
func TestOneTraceOverThreeInstances(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	keys := harness.NewRing(t)
	var asked result
	for i, answers := range []string{"",
		`"resolution": {"action": "accept", "content": {"resolution": "Duplicate"}}`,
		`"duplicate_of": {"action": "accept", "content": {"duplicateOfId": 4301}}`,
	} {
		store, err := workitem.Open(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		observe, err := otelaskback.Observe(&otelaskback.Options{
			TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans)),
		})
		if err != nil {
			t.Fatal(err)
		}
		instance, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil),
			&askback.Options{Keys: keys, Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		workitem.Register(instance, store)
		if i == 0 {
			asked = post(t, instance.HTTPHandler(nil), resolve4522)
		} else {
			asked = answer(t, instance.HTTPHandler(nil), asked, resolve4522, answers)
		}
	}
	all := spans.GetSpans() // in the order in which they ended
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if s.SpanContext.TraceID() != all[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	if len(all) != 5 || names[2] != "step update-fields" || names[3] != "step create-link" {
		t.Fatalf("the spans are %q, want three rounds with two steps in the last", names)
	}
	for _, i := range []int{0, 1, 4} {
		if all[i].Name != "tools/call update_work_item" || all[i].SpanKind != oteltrace.SpanKindServer {
			t.Errorf("span %d is %s of kind %v", i, all[i].Name, all[i].SpanKind)
		}
	}
	first, last := all[0].SpanContext.SpanID(), all[4].SpanContext.SpanID()
	if all[1].Parent.SpanID() != first || all[4].Parent.SpanID() != first || all[2].Parent.SpanID() != last ||
		all[3].Parent.SpanID() != last {
		t.Error("rounds must be in the first one, and steps in their round")
	}
}
