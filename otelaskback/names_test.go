package otelaskback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// A task has one name for its operator: in a list, in the log, in the audit, in spans and behind a metric's exemplar.
// An operator who sees it in one of them finds it in the others, and can cancel the task by it. The ID is in none of
// them.
func TestATaskHasOneName(t *testing.T) {
	collect := newCollector(t)
	log := new(harness.Log)
	var mu sync.Mutex
	var audit []askback.AuditEvent
	store := new(task.MemoryStore)
	srv := harness.NewTaskServerOn(t, store, &askback.Options{
		Observe: collect.observe,
		Logger:  slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Audit: func(_ context.Context, e askback.AuditEvent) {
			mu.Lock()
			defer mu.Unlock()
			audit = append(audit, e)
		},
	}, func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				if err := call.Do(ctx, "upload", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				_, err := askback.Elicit[who](call, "owner", "Whose is it?")
				return "", err
			})
	})
	id := srv.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy"`)["taskId"].(string)
	srv.Get(harness.WithExtension, id, "input_required")

	d, err := desk.Open(store, nil)
	expect.Check(t, err)
	seen := make(map[string][]string) // by the place
	see := func(place, name string) {
		if name != "" && !slices.Contains(seen[place], name) {
			seen[place] = append(seen[place], name)
		}
	}
	for shown, err := range d.List(t.Context(), task.Filter{}) {
		expect.Check(t, err)
		see("list", shown.Name)
	}
	if _, err := d.Cancel(t.Context(), seen["list"][0][:6],
		desk.Cancellation{By: "alice", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	kinds := func() (kinds []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range audit {
			kinds = append(kinds, e.Kind)
		}
		return kinds
	}
	harness.Eventually(t, "the end of the task", func() bool {
		return slices.Contains(kinds(), askback.AuditCancelled) && kinds()[len(kinds())-1] == askback.AuditEnded
	})
	srv.Stop()

	told := log.String()
	for line := range strings.Lines(told) {
		var attributes struct{ Task string }
		if json.Unmarshal([]byte(line), &attributes) == nil {
			see("log", attributes.Task)
		}
	}
	for _, e := range audit {
		see("audit", e.Task)
		if e.Kind != askback.AuditRefused && e.Task == "" {
			t.Errorf("an event does not name the task: %+v", e)
		}
	}
	spans := make(map[string]string) // names of tasks by the IDs of spans
	stubs := collect.take()
	for _, s := range stubs {
		name := attributes(s.Attributes)["askback.task.name"]
		spans[s.SpanContext.SpanID().String()] = name
		see("span", name)
		if name == "" {
			t.Errorf("a span does not name the task: %s", s.Name)
		}
	}
	var metrics metricdata.ResourceMetrics
	expect.Check(t, collect.metrics.Collect(t.Context(), &metrics))
	for _, scope := range metrics.ScopeMetrics {
		for _, m := range scope.Metrics {
			runs, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "askback.task.runs" {
				continue
			}
			for _, point := range runs.DataPoints {
				for _, exemplar := range point.Exemplars {
					see("exemplar", spans[fmt.Sprintf("%x", exemplar.SpanID)])
				}
			}
		}
	}
	want := []string{task.Name(id)}
	if diff := cmp.Diff(map[string][]string{
		"list": want, "log": want, "audit": want, "span": want, "exemplar": want,
	}, seen); diff != "" {
		t.Error(diff)
	}
	if all := fmt.Sprintf("%s %+v %+v %+v", told, audit, stubs, metrics); strings.Contains(all, id) {
		t.Error("the ID of the task is told")
	}
}
