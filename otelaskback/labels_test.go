package otelaskback_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
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
		for method, key := range map[string]attribute.Key{
			"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name",
		} {
			collect := newCollector(t)
			_, end := collect.observe(t.Context(), &askback.Operation{
				Kind: askback.OperationRequest, Method: method, Target: "chosen", Outcome: c.outcome, Code: c.code,
				Rounds: 1, StateBytes: 100, Meta: func(string) string { return "" },
			})
			end()
			var all metricdata.ResourceMetrics
			expect.Check(t, collect.metrics.Collect(t.Context(), &all))
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
		expect.Check(t, err)
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

// series returns how many time series all metrics have.
func series(t *testing.T, reader *metric.ManualReader) (n int) {
	t.Helper()
	var all metricdata.ResourceMetrics
	expect.Check(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			n += len(attributeSets(m.Data))
		}
	}
	return n
}

// newProvider returns a provider without a limit of its own on the number of time series.
func newProvider(reader metric.Reader) *metric.MeterProvider {
	return metric.NewMeterProvider(metric.WithReader(reader), metric.WithCardinalityLimit(0))
}

// A peer that chooses codes, names and methods makes no time series without end, and what is known keeps its name.
func TestPeersMakeNoTimeSeriesWithoutEnd(t *testing.T) {
	const many = 5000
	var reader *metric.ManualReader
	var observe func(context.Context, *client.Operation) (context.Context, func())
	begin := func() {
		t.Helper()
		reader = metric.NewManualReader()
		var err error
		if observe, err = otelaskback.ObserveClient(&otelaskback.Options{MeterProvider: newProvider(reader)}); err != nil {
			t.Fatal(err)
		}
	}
	request := func(o client.Operation) {
		o.SetMeta = func(string, string) {}
		_, end := observe(t.Context(), &o)
		end()
	}
	for name, test := range map[string]struct {
		most int
		send func(i int)
	}{
		"codes": {12, func(i int) {
			request(client.Operation{Method: "tools/call", Target: "t", Outcome: "failed", Code: int64(i - many/2)})
		}},
		"tools": {1001, func(i int) {
			request(client.Operation{Method: "tools/call", Target: fmt.Sprint("t", i), Outcome: "completed"})
		}},
		"prompts": {1001, func(i int) {
			request(client.Operation{Method: "prompts/get", Target: fmt.Sprint("p", i), Outcome: "completed"})
		}},
		"methods": {2, func(i int) { request(client.Operation{Method: fmt.Sprint("m", i), Outcome: "completed"}) }},
		"servers": {201, func(i int) {
			request(client.Operation{Method: "tools/call", Server: fmt.Sprintf("h%d:80", i), Target: "t", Outcome: "completed"})
		}},
	} {
		begin()
		for i := range many {
			test.send(i)
		}
		if n := series(t, reader); n == 0 || n > test.most {
			t.Errorf("%s: %d time series, want at most %d", name, n, test.most)
		}
	}
	// A server that came before them all is named, whatever the others do.
	begin()
	for i := range many {
		request(client.Operation{Method: "tools/call", Server: "evil:80", Target: fmt.Sprint("t", i), Outcome: "completed"})
	}
	request(client.Operation{Method: "tools/call", Server: "good:80", Target: "honest", Outcome: "failed", Code: -32603})
	var all metricdata.ResourceMetrics
	expect.Check(t, reader.Collect(t.Context(), &all))
	found := false
	for _, attributes := range attributeSets(all.ScopeMetrics[0].Metrics[0].Data) {
		tool, _ := attributes.Value("gen_ai.tool.name")
		class, _ := attributes.Value("error.type")
		found = found || tool.AsString() == "honest" && class.AsString() == "-32603"
	}
	if !found {
		t.Error("another server's tool has lost its name")
	}

	// The server's side.
	reader = metric.NewManualReader()
	serve := expect.Must(otelaskback.Observe(&otelaskback.Options{MeterProvider: newProvider(reader)}))(t)
	for i := range many {
		for _, op := range []askback.Operation{
			{Method: "tools/call", Target: "t", Outcome: "failed", Code: int64(i - many/2)},
			{Method: "tools/call", Target: fmt.Sprint("t", i), Outcome: "cancelled"},
			{Method: fmt.Sprint("tasks/", i), Outcome: "failed", Code: -32601},
		} {
			op.Kind, op.Meta, op.Rounds = askback.OperationRequest, func(string) string { return "" }, 1
			_, end := serve(t.Context(), &op)
			end()
		}
	}
	if n := series(t, reader); n > 2100 {
		t.Errorf("a server: %d time series", n)
	}
}
