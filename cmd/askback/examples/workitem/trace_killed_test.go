package workitem_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// A task that goes on after its worker was killed is one trace with the call that made it. Requests about it, such as
// the one that answers its question, are in the traces of those who send them.
func TestATaskOverAKilledWorkerIsOneTrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	open := func() *sqlite.Store {
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	spans := tracetest.NewInMemoryExporter()
	observe, err := otelaskback.Observe(&otelaskback.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	store := open()
	arrived := make(chan struct{}, 1)
	steps := func(dies bool) func(*askback.Server) {
		return func(srv *askback.Server) {
			askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil, func(ctx context.Context, call *askback.Call,
				_ struct{}) (string, error) {
				if err := call.Do(ctx, "build", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				err := call.Do(ctx, "upload", func(ctx context.Context) error {
					if dies {
						arrived <- struct{}{}
						<-ctx.Done()
					}
					return ctx.Err()
				})
				if err != nil {
					return "", err
				}
				_, err = askback.Elicit[struct{ Go bool }](call, "go", "Go live?")
				return "", err
			})
		}
	}
	options := func() *askback.Options {
		return &askback.Options{Observe: observe, Tasks: &askback.Tasks{Settings: task.Settings{Lease: time.Second}}}
	}
	one := harness.NewTaskServerOn(t, store, options(), steps(true))
	id := one.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy"`)["taskId"].(string)
	<-arrived
	giveBack := harness.Steal(t, store, id)
	harness.Eventually(t, "loss of the lease", func() bool {
		return slices.ContainsFunc(spans.GetSpans(), func(s tracetest.SpanStub) bool {
			return slices.Contains(s.Attributes, attribute.String("askback.outcome", "lease_lost"))
		})
	})
	one.Stop()
	giveBack()
	two := harness.NewTaskServerOn(t, open(), options(), steps(false))
	two.Get(harness.WithExtension, id, "input_required")
	two.Result(harness.WithExtension, "tasks/update", id,
		harness.Answered(id, `"go":{"action":"accept","content":{"Go":true}}`))
	two.Get(harness.WithExtension, id, "completed")

	var ours []string
	var call oteltrace.TraceID
	harness.Eventually(t, "the last span", func() bool {
		ours = nil
		for _, s := range spans.GetSpans() {
			if strings.HasPrefix(s.Name, "tasks/") { // requests of clients that look at the task
				continue
			}
			if s.Name == "tools/call deploy" {
				call = s.SpanContext.TraceID()
			}
			outcome, recovered := "", ""
			for _, a := range s.Attributes {
				switch a.Key {
				case "askback.outcome":
					outcome = a.Value.AsString()
				case "askback.task.recovered":
					recovered = " recovered"
				}
			}
			ours = append(ours, s.Name+" "+outcome+recovered)
		}
		return slices.Contains(ours, "task deploy completed") && slices.Contains(ours, "task deploy lease_lost")
	})
	for _, s := range spans.GetSpans() {
		if !strings.HasPrefix(s.Name, "tasks/") && s.SpanContext.TraceID() != call {
			t.Errorf("%s is in another trace", s.Name)
		}
		if strings.Contains(fmt.Sprintf("%+v", s), id) {
			t.Errorf("%s holds the task's id", s.Name)
		}
	}
	want := []string{"step build completed", "step upload completed", "step upload failed", "task deploy completed",
		"task deploy input_required recovered", "task deploy lease_lost", "tools/call deploy task"}
	slices.Sort(ours)
	if !slices.Equal(ours, want) {
		t.Errorf("the trace of the call is %q, want %q", ours, want)
	}
}
