package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
)

// series are the time series that Prometheus has of a server, by the names of their metrics.
type series map[string][]map[string]string

// troubledStore cannot read one task, and refuses the first entry of a journal as if the lease were lost. A notice that
// is delivered again has been tried for days.
type troubledStore struct {
	*task.MemoryStore
	lost atomic.Bool
}

const unreadable = "unreadable"

func (s *troubledStore) Get(ctx context.Context, id string) (*task.Task, error) {
	if id == unreadable {
		return nil, errors.New("a bad sector")
	}
	return s.MemoryStore.Get(ctx, id)
}

func (s *troubledStore) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if s.lost.CompareAndSwap(false, true) {
		return task.ErrLeaseLost
	}
	return s.MemoryStore.Append(ctx, id, claim, there, entry)
}

func (s *troubledStore) Notices(ctx context.Context, c task.NoticeClaim) ([]*task.Notice, error) {
	notices, err := s.MemoryStore.Notices(ctx, c)
	for _, n := range notices {
		if n.Attempts > 1 {
			n.Age += 7 * 24 * time.Hour
		}
	}
	return notices, err
}

// exported runs a server until it has all metrics, and returns them as OpenTelemetry's exporter for Prometheus names
// them.
func exported(t *testing.T) series {
	registry := prometheus.NewRegistry()
	reader := expect.Must(exporter.New(exporter.WithRegisterer(registry)))(t)
	opts := &otelaskback.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}
	observe := expect.Must(otelaskback.Observe(opts))(t)
	store := &troubledStore{MemoryStore: new(task.MemoryStore)}
	waiting := expect.Must(otelaskback.ObserveTasks(store, opts))(t)
	defer waiting.Unregister()
	gather := func() series {
		t.Helper()
		families := expect.Must(registry.Gather())(t)
		return seriesOf(families)
	}

	srv := harness.NewTaskServerOn(t, store, &askback.Options{
		Tasks:     &askback.Tasks{Settings: task.Settings{Lease: time.Second}},
		Observe:   observe,
		Logger:    slog.New(slog.DiscardHandler),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk: &askback.DeskOptions{Notify: func(_ context.Context, n desk.Notice) error {
			if n.Kind == task.NoticeAsked {
				return errors.New("not at home")
			}
			return nil
		}},
	}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "deploy"}, deploy)
		askback.AddTool(srv, &mcp.Tool{Name: "confirm"}, confirm)
		askback.AddTaskTool(srv, &mcp.Tool{Name: "restart"}, nil, restart)
	})
	listening := func() bool {
		return gather().has("askback_store_duration_seconds_count", "askback_store_method", "Listen")
	}
	harness.Eventually(t, "the store knows who listens", listening)
	srv.Fault(harness.WithExtension, "tools/call", "deploy", `"name":"deploy","requestState":"stolen"`)
	srv.Fault(harness.WithExtension, "tasks/get", unreadable, `"taskId":"`+unreadable+`"`)
	other := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "confirm"}, confirm)
	})
	foreign := harness.Request{Target: "confirm"}.Send(t, other.HTTPHandler(nil)).Asked(t, "sure")
	harness.Request{Target: "confirm", State: foreign}.Send(t, srv.Handler).Refused(t, http.StatusBadRequest,
		jsonrpc.CodeInvalidParams)
	harness.Request{Target: "confirm"}.Send(t, srv.Handler).Asked(t, "sure")
	harness.Request{Target: "confirm", Capabilities: "{}"}.Send(t, srv.Handler)
	lost := srv.Result(harness.WithExtension, "tools/call", "restart", `"name":"restart"`)["taskId"].(string)
	srv.Get(harness.WithExtension, lost, "completed")
	id := srv.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy"`)["taskId"].(string)
	d := expect.Must(desk.Open(store, nil))(t)
	harness.Eventually(t, "an answer", func() bool {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			if err == nil && q.Key == "again" && gather().has("askback_waiting", "gen_ai_tool_name", "deploy") {
				_, err = d.Answer(t.Context(), q.Name, q.Key, desk.Answer{By: desk.Person{Name: "bob"}, Action: "accept"})
				return err == nil
			}
		}
		return false
	})
	srv.Get(harness.WithExtension, id, "completed")
	harness.Eventually(t, "all outcomes of notices", func() bool {
		now := gather()
		return now.has("askback_notices_total", "askback_outcome", "given_up") &&
			now.has("askback_notices_total", "askback_outcome", "completed")
	})
	srv.Stop()
	return gather()
}

func deploy(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
	bob := []string{askback.User("bob")}
	err := askback.Approve(call, "approve", askback.Question{Message: "Deploy?", For: bob, Within: time.Millisecond})
	if _, late := errors.AsType[*askback.UnansweredError](err); late {
		err = askback.Approve(call, "again", askback.Question{Message: "Deploy all the same?", For: bob})
	}
	return "", err
}

func confirm(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
	return "", askback.Approve(call, "sure", askback.Question{Message: "Sure?"})
}

func restart(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
	return "", call.Do(ctx, "restart", func(context.Context) error { return nil })
}

// seriesOf returns the series that a scrape makes of metrics.
func seriesOf(families []*dto.MetricFamily) series {
	all := make(series)
	for _, family := range families {
		for _, m := range family.Metric {
			set := make(map[string]string)
			for _, l := range m.Label {
				set[l.GetName()] = l.GetValue()
			}
			set["instance"], set["job"] = "127.0.0.1:9464", "orders" // of the scrape
			name := family.GetName()
			if family.GetType() != dto.MetricType_HISTOGRAM {
				all[name] = append(all[name], set)
				continue
			}
			bucket := maps.Clone(set)
			bucket["le"] = "+Inf"
			all[name+"_bucket"] = append(all[name+"_bucket"], bucket)
			all[name+"_count"] = append(all[name+"_count"], set)
			all[name+"_sum"] = append(all[name+"_sum"], set)
		}
	}
	return all
}

func (s series) has(name, label, value string) bool {
	return slices.ContainsFunc(s[name], func(set map[string]string) bool { return set[label] == value })
}

// check parses an expression, and compares its metrics, its labels and their values with the series. It returns the
// labels of its metrics.
func (s series) check(t *testing.T, in, expr string) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v", in, err)
		return known
	}
	var named []string // labels that are not matched
	selectors := 0
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors++
			fits := func(set map[string]string) bool {
				return !slices.ContainsFunc(n.LabelMatchers, func(m *labels.Matcher) bool {
					value, has := set[m.Name]
					return m.Name != labels.MetricName && (!has || !m.Matches(value))
				})
			}
			if !slices.ContainsFunc(s[n.Name], fits) {
				t.Errorf("%s: no server has %s", in, n)
			}
			for _, set := range s[n.Name] {
				for name := range set {
					known[name] = known[name] || fits(set)
				}
			}
		case *parser.AggregateExpr:
			named = append(named, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				named = append(append(named, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s: no metric", in)
	}
	for _, name := range named {
		if !known[name] {
			t.Errorf("%s: its metrics have no label %s", in, name)
		}
	}
	return known
}

// The alerts and the dashboard are what Prometheus can read, and every metric, label and value in them is one that a
// server has.
func TestMonitoring(t *testing.T) {
	all := exported(t)
	t.Run("alerts", func(t *testing.T) {
		rules, errs := rulefmt.Parse([]byte(read(t, "monitoring/alerts.yaml")), false, model.LegacyValidation,
			parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		var names []string
		label := regexp.MustCompile(`\$labels\.(\w+)`)
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				names = append(names, rule.Alert)
				known := all.check(t, rule.Alert, rule.Expr)
				if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
					t.Errorf("%s does not say how bad it is, what is wrong, and what to do", rule.Alert)
				}
				for _, text := range rule.Annotations {
					for _, found := range label.FindAllStringSubmatch(text, -1) {
						if !known[found[1]] || !strings.Contains(rule.Expr, found[1]) {
							t.Errorf("%s: its expression has no label %s", rule.Alert, found[1])
						}
					}
				}
			}
		}
		if slices.Sort(names); len(names) < 17 || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("the alerts are %q", names)
		}
	})
	t.Run("dashboard", func(t *testing.T) {
		var dashboard struct {
			Templating struct{ List []struct{ Name string } }
			Panels     []struct {
				ID         int
				Title      string
				Datasource struct{ UID string }
				GridPos    struct{ H, W, X, Y int }
				Targets    []struct{ RefID, Expr, LegendFormat string }
			}
		}
		expect.Check(t, json.Unmarshal([]byte(read(t, "monitoring/dashboard.json")), &dashboard))
		if len(dashboard.Panels) < 10 || len(dashboard.Templating.List) != 1 {
			t.Fatalf("%d panels, %v", len(dashboard.Panels), dashboard.Templating)
		}
		taken := make(map[[2]int]string)
		ids := make(map[int]string)
		legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
		for _, p := range dashboard.Panels {
			if ids[p.ID] != "" || p.Datasource.UID != "${"+dashboard.Templating.List[0].Name+"}" || len(p.Targets) == 0 {
				t.Errorf("%s: the id %d, the data source %q, %d targets", p.Title, p.ID, p.Datasource.UID, len(p.Targets))
			}
			ids[p.ID] = p.Title
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%q lies on %q, or outside", p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				known := all.check(t, p.Title, target.Expr)
				for _, found := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					if grouped := strings.Contains(target.Expr, found[1]) || !strings.Contains(target.Expr, "("); !known[found[1]] ||
						!grouped {
						t.Errorf("%s: its series have no label %s", p.Title, found[1])
					}
				}
			}
		}
	})
}
