package otelaskback_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
)

// points returns the points of all metrics: the values of counters and gauges, and the counts of histograms.
func points(t *testing.T, reader metric.Reader) (map[string]float64, error) {
	t.Helper()
	var all metricdata.ResourceMetrics
	err := reader.Collect(t.Context(), &all)
	points := make(map[string]float64)
	add := func(name string, of attribute.Set, value float64) {
		points[strings.TrimSpace(name+" "+of.Encoded(attribute.DefaultEncoder()))] = value
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, float64(p.Count))
				}
			}
		}
	}
	return points, err
}

// askPeople adds a task that waits for people to a store.
func askPeople(t *testing.T, store task.Store, id, tool string, questions int) *task.Task {
	t.Helper()
	row := &task.Task{ID: id, Target: tool, Status: task.Working}
	expect.Check(t, store.Create(t.Context(), row, 240*time.Hour, time.Minute, nil, nil, task.Quota{}))
	row.Status = task.InputRequired
	u := task.Update{Leased: true, Due: -1}
	for i := range questions {
		u.Ask = append(u.Ask, &task.Question{Task: id, Key: fmt.Sprint("q", i), Target: tool, For: []string{"user:bob"}})
	}
	expect.Check(t, store.Update(t.Context(), row, u))
	return row
}

// What waits for people has a number and an age for each tool. When nothing waits any more both are zero.
func TestWhatWaitsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, reader := new(task.MemoryStore), metric.NewManualReader()
		waiting, err := otelaskback.ObserveTasks(store,
			&otelaskback.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
		expect.Check(t, err)
		check := func(want map[string]float64) {
			t.Helper()
			got, err := points(t, reader)
			maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.HasPrefix(name, "askback.tasks") })
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v, points (-want +got):\n%s", err, diff)
			}
		}
		check(map[string]float64{})
		deploys := askPeople(t, store, "a", "deploy", 2)
		<-time.After(time.Hour)
		askPeople(t, store, "b", "deploy", 1)
		askPeople(t, store, "c", "pay", 1)
		<-time.After(time.Minute)
		check(map[string]float64{
			"askback.waiting gen_ai.tool.name=deploy": 3, "askback.waiting.age gen_ai.tool.name=deploy": 3660,
			"askback.waiting gen_ai.tool.name=pay": 1, "askback.waiting.age gen_ai.tool.name=pay": 60,
		})
		for _, id := range []string{"b", "c"} {
			row, err := store.Get(t.Context(), id)
			expect.Check(t, err)
			row.Status = task.Cancelled
			expect.Check(t, store.Update(t.Context(), row, task.Update{Due: -1}))
		}
		check(map[string]float64{
			"askback.waiting gen_ai.tool.name=deploy": 2, "askback.waiting.age gen_ai.tool.name=deploy": 3660,
			"askback.waiting gen_ai.tool.name=pay": 0, "askback.waiting.age gen_ai.tool.name=pay": 0,
		})

		// 1000 older questions are read, and a younger one is not: its tool is left out, and not said to wait for
		// nothing.
		askPeople(t, store, "d", "deploy", 998)
		<-time.After(time.Minute)
		askPeople(t, store, "e", "pay", 1)
		check(map[string]float64{
			"askback.waiting gen_ai.tool.name=deploy": 1000, "askback.waiting.age gen_ai.tool.name=deploy": 3720,
		})
		deploys.Status = task.Cancelled
		expect.Check(t, store.Update(t.Context(), deploys, task.Update{Due: -1}))
		check(map[string]float64{
			"askback.waiting gen_ai.tool.name=deploy": 998, "askback.waiting.age gen_ai.tool.name=deploy": 60,
			"askback.waiting gen_ai.tool.name=pay": 1, "askback.waiting.age gen_ai.tool.name=pay": 0,
		})
		expect.Check(t, waiting.Unregister())
		check(map[string]float64{})
	})
}

// The names of tools that a store holds are bounded as all others are: its clients may be of many releases.
func TestTheToolsThatWaitAreBounded(t *testing.T) {
	store, reader := new(task.MemoryStore), metric.NewManualReader()
	expect.Must(otelaskback.ObserveTasks(store, &otelaskback.Options{MeterProvider: newProvider(reader)}))(t)
	for i := range 3 {
		rows := make([]*task.Task, 600)
		for j := range rows {
			name := fmt.Sprint(i, j)
			rows[j] = askPeople(t, store, name, "tool "+name, 1)
		}
		got, err := points(t, reader)
		if want := min(2*600*(i+1), 2*1001) + 2; err != nil || len(got) != want {
			t.Errorf("%v, %d points, want %d", err, len(got), want)
		}
		for _, row := range rows {
			row.Status = task.Cancelled
			expect.Check(t, store.Update(t.Context(), row, task.Update{Due: -1}))
		}
	}
}

// failingDesk gives one page, and then nothing until its caller gives up.
type failingDesk struct {
	*task.MemoryStore
	pages int
}

func (s *failingDesk) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) ([]*task.Question, error) {
	if s.pages--; s.pages < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.MemoryStore.Waiting(ctx, f, after, limit)
}

// A store that answers in part has told of the oldest question, and of its tasks. The export does not wait for the
// rest.
func TestADeskThatStopsAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, reader := &failingDesk{new(task.MemoryStore), 1}, metric.NewManualReader()
		askPeople(t, store, "a", "deploy", 500)
		<-time.After(time.Hour)
		if _, err := otelaskback.ObserveTasks(store,
			&otelaskback.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := points(t, reader)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2500*time.Millisecond ||
			got["askback.waiting.age gen_ai.tool.name=deploy"] != 3600 ||
			got["askback.tasks askback.task.status=input_required"] != 1 {
			t.Errorf("%v after %v: %v", err, time.Since(began), got)
		}
	})
}

// What people decide, what the workers, the store and the notices do, is measured, by nothing that names a task. None
// of it is a span.
func TestPeopleAreMeasured(t *testing.T) {
	collect := newCollector(t)
	store := new(task.MemoryStore)
	var busy atomic.Int64
	var lost sync.Map
	srv := harness.NewTaskServerOn(t, store, &askback.Options{
		Observe:   collect.observe,
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk: &askback.DeskOptions{Remind: -1, Notify: func(_ context.Context, n desk.Notice) error {
			if _, again := lost.LoadOrStore(n.Kind, true); !again {
				return errors.New("not at home")
			}
			return nil
		}},
	}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				got, err := points(t, collect.metrics)
				if err != nil {
					return "", err
				}
				busy.Store(int64(got["askback.workers.busy"]))
				err = askback.Approve(call, "approve", askback.Question{Message: "MARK?", For: []string{askback.User("bob")},
					Within: time.Millisecond})
				if _, late := errors.AsType[*askback.UnansweredError](err); late {
					err = askback.Approve(call, "again", askback.Question{Message: "MARK?", For: []string{askback.User("bob")}})
				}
				return "", err
			})
	})
	d, err := desk.Open(store, nil)
	expect.Check(t, err)
	harness.Eventually(t, "the store knows who listens", func() bool {
		got, err := points(t, collect.metrics)
		return err == nil && got["askback.store.duration askback.outcome=completed,askback.store.method=Listen"] == 1
	})
	id := srv.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy"`)["taskId"].(string)
	harness.Eventually(t, "an answer", func() bool {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			if err == nil && q.Key == "again" {
				_, err = d.Answer(t.Context(), q.Name, q.Key,
					desk.Answer{By: desk.Person{Name: "bob"}, Action: "accept", Reason: "MARK"})
				return err == nil
			}
		}
		return false
	})
	srv.Get(harness.WithExtension, id, "completed")
	const completed = "askback.outcome=completed"
	var got map[string]float64
	harness.Eventually(t, "all notices", func() bool {
		got, err = points(t, collect.metrics)
		return err == nil && got["askback.notices askback.notice.kind=ended,"+completed] == 2 &&
			got["askback.workers.busy"] == 0
	})
	srv.Stop()
	var methods []string
	for name := range got {
		if method, ok := strings.CutPrefix(name, "askback.store.duration "+completed+",askback.store.method="); ok {
			methods = append(methods, method)
		}
		if !strings.HasPrefix(name, "askback.question") && !strings.HasPrefix(name, "askback.notice") &&
			!strings.HasPrefix(name, "askback.task.claim") {
			delete(got, name)
		}
	}
	for _, method := range []string{"Insert", "ChangeQuestion", "Overdue", "Questions", "Settle"} {
		if !slices.Contains(methods, method) {
			t.Errorf("the store's %s is not measured: %v", method, methods)
		}
	}
	const deploy, notice = ",gen_ai.tool.name=deploy,mcp.method.name=tools/call", "askback.notices askback.notice.kind="
	want := map[string]float64{
		"askback.question.duration askback.outcome=unanswered,askback.question.deadline=true" + deploy: 1,
		"askback.question.duration askback.outcome=accept,askback.question.deadline=false" + deploy:    1,
		"askback.task.claim.latency " + deploy[1:]:                                                     3,
		notice + "asked," + completed:                                                                  2,
		notice + "asked,askback.outcome=failed":                                                        1,
		notice + "unanswered," + completed:                                                             1,
		notice + "unanswered,askback.outcome=failed":                                                   1,
		notice + "decided," + completed:                                                                1,
		notice + "decided,askback.outcome=failed":                                                      1,
		notice + "ended," + completed:                                                                  2,
		notice + "ended,askback.outcome=failed":                                                        1,
	}
	expect.Diff(t, "points", want, got)
	expect.Equal(t, "while a task runs", busy.Load(), 1)
	for _, span := range collect.take() {
		if kind, _, _ := strings.Cut(span.Name, " "); !slices.Contains([]string{"tools/call", "tasks/get", "task"}, kind) {
			t.Errorf("a span %q", span.Name)
		}
	}
	var all metricdata.ResourceMetrics
	expect.Check(t, collect.metrics.Collect(t.Context(), &all))
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, id) || strings.Contains(text, "MARK") {
		t.Error("a metric has the ID of the task, or what people read or wrote")
	}
}

// An outcome that a store made up is no label.
func TestOutcomesOfOtherReleases(t *testing.T) {
	collect := newCollector(t)
	_, end := collect.observe(t.Context(), &askback.Operation{Kind: askback.OperationQuestion, Outcome: "made up"})
	end()
	got, err := points(t, collect.metrics)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for name := range got {
		if !strings.Contains(name, "askback.outcome=_OTHER,") {
			t.Error(name)
		}
	}
}
