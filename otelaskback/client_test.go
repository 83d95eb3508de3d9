package otelaskback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
)

// observeClient returns the hook of a client that reports to c.
func (c *collector) observeClient(t testing.TB) func(context.Context, *client.Operation) (context.Context, func()) {
	t.Helper()
	observe, err := otelaskback.ObserveClient(&otelaskback.Options{
		TracerProvider: c.tracers, MeterProvider: c.meters,
	})
	expect.Check(t, err)
	return observe
}

// connect connects a client that reports to c, and has the answer to "who".
func (c *collector) connect(t testing.TB, to mcp.Transport, version string, parks bool) *client.Session {
	t.Helper()
	opts := &client.Options{Observe: c.observeClient(t)}
	opts.OnRound = func(_ context.Context, r *client.Round) error {
		if r.Task != nil {
			c.task.Store(r.Task.ID)
		}
		return nil
	}
	opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		if parks {
			return nil, client.ErrPark
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "MARK-answer"}}, nil
	}
	session, err := client.New(opts).Connect(t.Context(), to, &mcp.ClientSessionOptions{ProtocolVersion: version})
	expect.Check(t, err)
	t.Cleanup(func() { session.Close() })
	return session
}

var greetings = &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"Note": "MARK-argument"},
	Meta: mcp.Meta{"traceparent": "the caller's", "kept": "x"}}

// withoutIDs removes what differs from run to run, and returns it.
func withoutIDs(of []attribute.KeyValue) (rest map[string]string, port string) {
	rest = attributes(of)
	port = rest["server.port"]
	delete(rest, "server.port")
	return rest, port
}

// Over every transport, and in every revision, the rounds of a call are spans of one trace, and the server's spans are
// their children.
func TestClientSpans(t *testing.T) {
	connect := map[string]func(t *testing.T, collect *collector) (mcp.Transport, string){
		"http": func(t *testing.T, collect *collector) (mcp.Transport, string) {
			web := httptest.NewServer(collect.handler(t, askback.Options{}))
			t.Cleanup(web.Close)
			return &mcp.StreamableClientTransport{Endpoint: web.URL}, web.URL
		},
		"pipe": func(t *testing.T, collect *collector) (mcp.Transport, string) {
			here, there := mcp.NewInMemoryTransports()
			if _, err := harness.NewServer(t, &askback.Options{Observe: collect.observe}, addTools).Connect(t.Context(), there,
				nil); err != nil {
				t.Fatal(err)
			}
			return here, ""
		},
	}
	for _, c := range []struct {
		name, transport, version string
		rounds                   int
	}{
		{"http", "tcp", "2026-07-28", 2},
		{"pipe", "pipe", "2026-07-28", 2},
		{"http", "tcp", "2025-11-25", 1}, // It asks inside of the request.
		{"pipe", "pipe", "2025-11-25", 1},
	} {
		t.Run(c.name+" "+c.version, func(t *testing.T) {
			collect := newCollector(t)
			transport, at := connect[c.name](t, collect)
			session := collect.connect(t, transport, c.version, false)
			expect.Must(session.CallTool(t.Context(), greetings))(t)
			harness.Eventually(t, "the server's spans", func() bool { return len(collect.spans.GetSpans()) == 2*c.rounds+2 })
			var requests, served []tracetest.SpanStub
			for _, s := range collect.take() {
				switch s.SpanKind {
				case trace.SpanKindClient:
					requests = append(requests, s)
				case trace.SpanKindServer:
					served = append(served, s)
				}
			}
			if len(requests) != c.rounds || len(served) != c.rounds {
				t.Fatalf("%d requests, of which %d were served", len(requests), len(served))
			}
			for i, s := range requests {
				if s.SpanContext.TraceID() != requests[0].SpanContext.TraceID() || i > 0 &&
					s.Parent.SpanID() != requests[0].SpanContext.SpanID() {
					t.Errorf("round %d is in %v below %v", i+1, s.SpanContext.TraceID(), s.Parent.SpanID())
				}
				if served[i].Parent.SpanID() != s.SpanContext.SpanID() {
					t.Errorf("the server's round %d is below %v", i+1, served[i].Parent.SpanID())
				}
				got, port := withoutIDs(s.Attributes)
				want := map[string]string{
					"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet", "gen_ai.operation.name": "execute_tool",
					"mcp.protocol.version": c.version,
					"network.transport":    c.transport, "askback.round": fmt.Sprint(i + 1), "askback.outcome": "completed",
					"jsonrpc.request.id": got["jsonrpc.request.id"],
				}
				if i+1 < c.rounds {
					want["askback.outcome"] = "input_required"
				}
				if at != "" {
					want["server.address"] = "127.0.0.1"
				}
				if diff := cmp.Diff(want, got); diff != "" || got["jsonrpc.request.id"] == "" {
					t.Errorf("attributes of round %d (-want +got):\n%s", i+1, diff)
				}
				if u, err := url.Parse(at); err != nil || u.Port() != port {
					t.Errorf("the port is %q, want that of %s", port, at)
				}
				if id := attributes(served[i].Attributes)["jsonrpc.request.id"]; id != "" && id != got["jsonrpc.request.id"] {
					t.Errorf("the server knows the request as %q, the client as %q", id, got["jsonrpc.request.id"])
				}
				if s.Name != "tools/call greet" || strings.Contains(fmt.Sprintf("%+v", s), "MARK") {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// The host's span is the parent of all rounds. A call that another process resumes stays in its trace, and is linked to
// that process's span.
func TestClientTraceOverResume(t *testing.T) {
	collect := newCollector(t)
	web := httptest.NewServer(collect.handler(t, askback.Options{}))
	defer web.Close()
	connect := func(parks bool) *client.Session {
		return collect.connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}, "", parks)
	}
	ctx, host := collect.tracers.Tracer("host").Start(t.Context(), "chat")
	expect.Must(connect(false).CallTool(ctx, greetings))(t)
	for _, s := range collect.take() {
		if s.SpanKind == trace.SpanKindClient && (s.Parent.SpanID() != host.SpanContext().SpanID() || s.Links != nil) {
			t.Errorf("%s is below %v, with links %v", s.Name, s.Parent.SpanID(), s.Links)
		}
	}
	_, err := connect(true).CallTool(ctx, greetings)
	pending, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		t.Fatal(err)
	}
	parked, err := json.Marshal(pending.Pending)
	expect.Check(t, err)
	collect.take()

	var p client.Pending
	expect.Check(t, json.Unmarshal(parked, &p))
	later, other := collect.tracers.Tracer("host").Start(t.Context(), "the next day")
	expect.Must(connect(false).Resume(later, &p))(t)
	spans := collect.take()
	for _, s := range spans {
		if s.SpanContext.TraceID() != host.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.SpanKind == trace.SpanKindClient &&
			(len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != other.SpanContext().SpanID()) {
			t.Errorf("the links are %v", s.Links)
		}
	}
	expect.Equal(t, "spans", len(spans), 4)
}

// What the host puts into the context and the caller into _meta arrives at the server.
func TestClientMeta(t *testing.T) {
	collect := newCollector(t)
	var metas []map[string]any
	served := collect.handler(t, askback.Options{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		if strings.Contains(string(body), `"greet"`) {
			metas = append(metas, m.Params.Meta)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		served.ServeHTTP(w, r)
	}))
	defer web.Close()
	team, _ := baggage.NewMember("team", "red")
	bag, _ := baggage.New(team)
	ctx := trace.ContextWithSpanContext(baggage.ContextWithBaggage(t.Context(), bag),
		trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
			TraceState: traceState("vendor", "value"),
		}))
	session := collect.connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}, "", false)
	expect.Must(session.CallTool(ctx, greetings))(t)
	if len(metas) != 2 {
		t.Fatalf("%d requests", len(metas))
	}
	for _, meta := range metas {
		parent, _ := meta["traceparent"].(string)
		if !strings.HasPrefix(parent, "00-01000000000000000000000000000000-") || meta["tracestate"] != "vendor=value" ||
			meta["baggage"] != "team=red" ||
			meta["kept"] != "x" || meta["io.modelcontextprotocol/protocolVersion"] != "2026-07-28" {
			t.Errorf("_meta is %v", meta)
		}
	}
	if metas[0]["traceparent"] == metas[1]["traceparent"] {
		t.Error("both rounds have the same traceparent")
	}
}

func traceState(key, value string) trace.TraceState {
	s, _ := trace.TraceState{}.Insert(key, value)
	return s
}

// A request that fails says how.
func TestClientErrors(t *testing.T) {
	collect := newCollector(t)
	web := httptest.NewServer(collect.handler(t, askback.Options{}))
	defer web.Close()
	session := collect.connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}, "", false)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithTimeout(t.Context(), time.Nanosecond)
	defer end()
	for _, c := range []struct {
		ctx                  context.Context
		tool, outcome, class string
	}{
		{t.Context(), "fails", "failed", "tool_error"},
		{t.Context(), "unknown", "failed", "-32602"},
		{gone, "greet", "cancelled", ""},
		{late, "greet", "timeout", "timeout"},
	} {
		collect.take()
		_, _ = session.CallTool(c.ctx, &mcp.CallToolParams{Name: c.tool, Arguments: map[string]any{"Note": ""}})
		for _, s := range collect.take() {
			if s.SpanKind != trace.SpanKindClient {
				continue
			}
			got := attributes(s.Attributes)
			if got["askback.outcome"] != c.outcome || got["error.type"] != c.class ||
				(s.Status.Code == codes.Error) != (c.class != "") {
				t.Errorf("%s: %v %v", c.tool, s.Status, got)
			}
			c.tool = ""
		}
		expect.Equal(t, "a tool without a span", c.tool, "")
	}
	web.Close()
	collect.take()
	if _, err := session.CallTool(t.Context(), greetings); err == nil {
		t.Error("a server that is gone answered")
	}
	if got := attributes(collect.take()[0].Attributes); got["askback.outcome"] != "unanswered" ||
		got["error.type"] != "_OTHER" {
		t.Errorf("a server that is gone: %v", got)
	}

	var all metricdata.ResourceMetrics
	expect.Check(t, collect.metrics.Collect(t.Context(), &all))
	points := 0
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name != "mcp.client.operation.duration" {
			continue
		}
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			points++
			if want := []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}; m.Unit != "s" ||
				!slices.Equal(p.Bounds, want) {
				t.Errorf("the bounds are %v, in %s", p.Bounds, m.Unit)
			}
			set := p.Attributes.ToSlice()
			if got, _ := withoutIDs(set); got["mcp.method.name"] != "tools/call" || got["server.address"] != "127.0.0.1" ||
				got["network.transport"] != "tcp" ||
				got["gen_ai.tool.name"] == "unknown" {
				t.Errorf("a point has %v", got)
			}
		}
	}
	expect.Equal(t, "series", points, 5)
}

// The requests about the task that a call has become are in its trace, and name no task.
func TestClientTask(t *testing.T) {
	collect := newCollector(t)
	opts := &askback.Options{Observe: collect.observe,
		Tasks: &askback.Tasks{Settings: task.Settings{PollInterval: time.Millisecond}}}
	server := harness.NewTaskServerOn(t, new(task.MemoryStore), opts, func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				answer, err := askback.Elicit[who](call, "who", "Who?")
				return answer.Name, err
			})
	})
	session := collect.connect(t, &mcp.StreamableClientTransport{Endpoint: server.URL()}, "", false)
	expect.Must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy"}))(t)
	id := collect.task.Load().(string)
	names := make(map[string]bool)
	var call trace.TraceID
	for _, s := range collect.take() {
		if s.SpanKind != trace.SpanKindClient {
			continue
		}
		if call == (trace.TraceID{}) {
			call = s.SpanContext.TraceID()
		}
		if s.SpanContext.TraceID() != call || strings.Contains(fmt.Sprintf("%+v", s), id) {
			t.Errorf("%+v", s)
		}
		names[s.Name] = true
	}
	if !names["tools/call deploy"] || !names["tasks/get"] || !names["tasks/update"] {
		t.Errorf("the spans are %v", names)
	}
}

// The gauge has the tasks of the store by status, and none once it is unregistered.
func TestWaitingTasks(t *testing.T) {
	collect := newCollector(t)
	store := new(task.MemoryStore)
	for i := range 3 {
		asks := &task.Task{ID: fmt.Sprint(i), Status: task.InputRequired}
		expect.Check(t, store.Create(t.Context(), asks, time.Hour, 0, nil, nil, task.Quota{}))
	}
	waiting, err := otelaskback.ObserveTasks(store, &otelaskback.Options{MeterProvider: collect.meters})
	expect.Check(t, err)
	read := func() map[string]int64 {
		var all metricdata.ResourceMetrics
		expect.Check(t, collect.metrics.Collect(t.Context(), &all))
		points := make(map[string]int64)
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, p := range m.Data.(metricdata.Gauge[int64]).DataPoints {
					points[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			}
		}
		return points
	}
	want := map[string]int64{"askback.tasks askback.task.status=working": 0,
		"askback.tasks askback.task.status=input_required": 3}
	expect.Diff(t, "points", want, read())
	expect.Check(t, waiting.Unregister())
	if got := read(); len(got) != 0 {
		t.Errorf("after Unregister: %v", got)
	}
}
