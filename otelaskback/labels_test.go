package otelaskback_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
)

// A name that nobody has looked up is no label of a metric: its client chose it.
func TestNamesThatNobodyLookedUpAreNoLabels(t *testing.T) {
	for _, c := range []struct {
		outcome string
		code    int64
		label   bool
	}{
		{"completed", 0, true},
		{"input_required", 0, true},
		{"failed", -32603, true},
		{"failed", -32602, false},
		{"failed", -32601, false},
		{"refused", -32600, false},
		{"unavailable", -32000, false},
		{"shed", -32000, false},
	} {
		for method, key := range map[string]attribute.Key{"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"} {
			collect := newCollector(t)
			_, end := collect.observe(t.Context(), &askback.Operation{Kind: askback.OperationRequest, Method: method, Target: "chosen",
				Outcome: c.outcome, Code: c.code, Rounds: 1, StateBytes: 100, Meta: func(string) string { return "" }})
			end()
			var all metricdata.ResourceMetrics
			if err := collect.metrics.Collect(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, m := range all.ScopeMetrics[0].Metrics {
				for _, attributes := range attributeSets(m.Data) {
					if name, ok := attributes.Value(key); ok && name.AsString() == "chosen" {
						found++
					}
				}
			}
			// askback.requests has no such label.
			if want := map[bool]int{true: 3}[c.label]; found != want {
				t.Errorf("%s that ended as %s with %d: %d metrics have the name, want %d", method, c.outcome, c.code, found, want)
			}
		}
	}
}

// attributeSets returns the attributes of each point of an instrument.
func attributeSets(data metricdata.Aggregation) (all []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, p.Attributes)
		}
	}
	return all
}

// stalled is a store that does not answer.
type stalled struct{ task.MemoryStore }

func (*stalled) Count(ctx context.Context) (map[task.Status]int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that does not answer holds an export up for five seconds.
func TestCountingTasksIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		meters := metric.NewMeterProvider(metric.WithReader(reader))
		registered, err := otelaskback.ObserveTasks(new(stalled), &otelaskback.Options{MeterProvider: meters})
		if err != nil {
			t.Fatal(err)
		}
		defer registered.Unregister()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		err = reader.Collect(ctx, new(metricdata.ResourceMetrics))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
