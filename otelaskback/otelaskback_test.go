package otelaskback_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/state"
)

// collector keeps what servers export.
type collector struct {
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
	metrics *metric.ManualReader
	meters  *metric.MeterProvider
	task    atomic.Value // the ID of the last task that a client saw
	observe func(context.Context, *askback.Operation) (context.Context, func())
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{spans: tracetest.NewInMemoryExporter(), metrics: metric.NewManualReader()}
	c.meters = metric.NewMeterProvider(metric.WithReader(c.metrics))
	c.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans))
	var err error
	c.observe, err = otelaskback.Observe(&otelaskback.Options{
		TracerProvider: c.tracers, MeterProvider: c.meters,
	})
	expect.Check(t, err)
	return c
}

// take returns the spans that have ended since the last take.
func (c *collector) take() tracetest.SpanStubs {
	defer c.spans.Reset()
	return c.spans.GetSpans()
}

// attributes are those of a span, as text.
func attributes(of []attribute.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range of {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// handler serves the test's tools, and reports to c.
func (c *collector) handler(t testing.TB, opts askback.Options) http.Handler {
	opts.Observe = c.observe
	return harness.NewServer(t, &opts, addTools).HTTPHandler(nil)
}

type who struct {
	Name string `json:"name"`
}

// addTools adds handlers that ask. What is not for a span has MARK in it.
func addTools(srv *askback.Server) {
	type note struct{ Note string }
	askback.AddTool(srv, &mcp.Tool{Name: "greet"}, func(ctx context.Context, call *askback.Call, _ note) (string, error) {
		answer, err := askback.Elicit[who](call, "who", "Who?")
		if err != nil {
			return "", err
		}
		err = call.Do(ctx, "write", func(ctx context.Context) error {
			trace.SpanFromContext(ctx).AddEvent(baggage.FromContext(ctx).Member("team").Value())
			return nil
		})
		if err == nil {
			err = call.Do(context.Background(), "elsewhere", func(context.Context) error { return nil })
		}
		return "MARK-result " + answer.Name, err
	})
	askback.AddTool(srv, &mcp.Tool{Name: "fails"}, func(ctx context.Context, call *askback.Call, _ note) (string, error) {
		return "", call.Do(ctx, "try", func(context.Context) error { return errors.New("MARK-error") })
	})
	srv.AddPrompt(&mcp.Prompt{Name: "hello"},
		func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	srv.AddResource(&mcp.Resource{Name: "page", URI: "test:page"},
		func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test:page", Text: "MARK"}}}, nil
		})
}

const answered = `{"who":{"action":"accept","content":{"name":"MARK-answer"}}}`

// Names, kinds and attributes are those of the conventions.
func TestSpans(t *testing.T) {
	greet := harness.Request{Target: "greet", Arguments: `{"Note":"MARK-argument"}`}
	common := map[string]string{"mcp.protocol.version": "2026-07-28", "network.transport": "tcp",
		"jsonrpc.request.id": "1"}
	for _, c := range []struct {
		name    string
		request func(t *testing.T, h http.Handler) harness.Request
		want    map[string]string
		status  codes.Code
	}{
		{"tools/call greet", func(*testing.T, http.Handler) harness.Request { return greet }, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet", "gen_ai.operation.name": "execute_tool",
			"askback.outcome": "input_required", "askback.round": "1", "askback.asked": `["who"]`,
		}, codes.Unset},
		{"tools/call fails", func(*testing.T, http.Handler) harness.Request {
			return harness.Request{Target: "fails", Arguments: `{"Note":"MARK-argument"}`}
		}, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "fails", "gen_ai.operation.name": "execute_tool",
			"askback.outcome": "failed", "askback.round": "1", "error.type": "tool_error",
		}, codes.Error},
		{"tools/call greet", func(*testing.T, http.Handler) harness.Request {
			r := greet
			r.State = "MARK-state"
			return r
		}, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet", "gen_ai.operation.name": "execute_tool",
			"askback.outcome": "refused", "askback.reason": "malformed", "error.type": "-32602",
			"rpc.response.status_code": "-32602",
		}, codes.Error},
		{"tools/call greet", func(*testing.T, http.Handler) harness.Request {
			r := greet
			r.Capabilities = "{}"
			return r
		}, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet", "gen_ai.operation.name": "execute_tool",
			"askback.outcome": "capability", "askback.round": "1", "error.type": "-32021", "rpc.response.status_code": "-32021",
		}, codes.Error},
		{"prompts/get hello", func(*testing.T, http.Handler) harness.Request {
			return harness.Request{Method: "prompts/get", Target: "hello"}
		}, map[string]string{
			"mcp.method.name": "prompts/get", "gen_ai.prompt.name": "hello", "askback.outcome": "completed",
			"askback.round": "1",
		}, codes.Unset},
		{"resources/read", func(*testing.T, http.Handler) harness.Request {
			return harness.Request{Method: "resources/read", Target: "test:page"}
		}, map[string]string{
			"mcp.method.name": "resources/read", "mcp.resource.uri": "test:page", "askback.outcome": "completed",
			"askback.round": "1",
		}, codes.Unset},
	} {
		t.Run(c.name+" "+c.want["askback.outcome"], func(t *testing.T) {
			collect := newCollector(t)
			h := collect.handler(t, askback.Options{})
			res := c.request(t, h).Send(t, h)
			spans := collect.take()
			span := spans[len(spans)-1] // behind its steps
			if span.Name != c.name || span.SpanKind != trace.SpanKindServer || span.Status != (sdktrace.Status{Code: c.status}) {
				t.Errorf("span %q of kind %v, status %v; want %q, SERVER, %v", span.Name, span.SpanKind, span.Status, c.name,
					c.status)
			}
			got := attributes(span.Attributes)
			if id := got["askback.call.id"]; (len(id) == 26) != (c.want["askback.outcome"] != "refused") {
				t.Errorf("the call is %q", id)
			}
			delete(got, "askback.call.id")
			if res.Result != nil && res.Result.State != "" {
				expect.Equal(t, "askback.state.bytes", got["askback.state.bytes"], fmt.Sprint(len(res.Result.State)))
				delete(got, "askback.state.bytes")
			}
			maps.Copy(c.want, common)
			expect.Diff(t, "attributes", c.want, got)
			if all := fmt.Sprintf("%+v", spans); strings.Contains(all, "MARK") {
				t.Errorf("a secret is in a span: %s", all)
			}
		})
	}
}

const (
	clientTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	otherTrace  = "00-11111111111111111111111111111111-2222222222222222-01"
	unsampled   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// The rounds of a call are one trace, whichever headers the client sends and whichever instance serves them.
func TestOneTrace(t *testing.T) {
	meta := func(traceparent string) string { return `,"traceparent":"` + traceparent + `"` }
	for _, c := range []struct {
		says          string
		first, second string // the clients' members of _meta
		trace         string // "" is the first round's own
		parents       [2]string
		links         [2]int
		sampled       bool
	}{
		{"without a client's trace", "", "", "", [2]string{"0000000000000000", "first"}, [2]int{}, true},
		{"a client's", meta(clientTrace), meta(clientTrace), clientTrace[3:35],
			[2]string{clientTrace[36:52], clientTrace[36:52]}, [2]int{}, true},
		{"one that is sent once", meta(clientTrace), "", clientTrace[3:35], [2]string{clientTrace[36:52], "first"},
			[2]int{}, true},
		{"one that comes later", "", meta(clientTrace), "", [2]string{"0000000000000000", "first"}, [2]int{0, 1}, true},
		{"two", meta(clientTrace), meta(otherTrace), clientTrace[3:35], [2]string{clientTrace[36:52], "first"},
			[2]int{0, 1}, true},
		{"nonsense", meta("MARK"), meta("MARK"), "", [2]string{"0000000000000000", "first"}, [2]int{}, true},
		{"one that is not sampled", meta(unsampled), "", "", [2]string{}, [2]int{}, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			collect := newCollector(t)
			keys := harness.NewRing(t)
			instance := func() http.Handler { return collect.handler(t, askback.Options{Keys: keys}) }
			r := harness.Request{Target: "greet", Arguments: `{"Note":""}`, Meta: c.first}
			r.State = r.Send(t, instance()).Asked(t, "who")
			first := collect.take()
			r.Responses, r.Meta = answered, c.second
			r.Send(t, instance()).Text(t)
			second := collect.take()
			if !c.sampled {
				if len(first)+len(second) > 0 {
					t.Errorf("the client's trace is not sampled, but there are %d spans", len(first)+len(second))
				}
				return
			}
			if len(first) != 1 || len(second) != 3 {
				t.Fatalf("%d and %d spans, want 1 and 3: two steps and the round", len(first), len(second))
			}
			rounds := [2]tracetest.SpanStub{first[0], second[2]}
			want := c.trace
			if want == "" {
				want = rounds[0].SpanContext.TraceID().String()
			}
			for _, s := range slices.Concat(first, second) {
				if got := s.SpanContext.TraceID().String(); got != want {
					t.Errorf("%s is in trace %s, want %s", s.Name, got, want)
				}
			}
			for i, round := range rounds {
				parent := c.parents[i]
				if parent == "first" {
					parent = rounds[0].SpanContext.SpanID().String()
				}
				if got := round.Parent.SpanID().String(); got != parent {
					t.Errorf("the parent of round %d is %s, want %s", i+1, got, parent)
				}
				if len(round.Links) != c.links[i] {
					t.Errorf("round %d has the links %v, want %d", i+1, round.Links, c.links[i])
				}
			}
			// A step is in its round, or, if the handler gave it a context of its own, at least in the trace.
			if step := second[0]; step.Name != "step write" || step.Parent.SpanID() != rounds[1].SpanContext.SpanID() {
				t.Errorf("%s is in %s", step.Name, step.Parent.SpanID())
			}
			if step := second[1]; step.Name != "step elsewhere" || step.Parent.SpanID() != rounds[0].SpanContext.SpanID() {
				t.Errorf("%s is in %s", step.Name, step.Parent.SpanID())
			}
		})
	}
}

// A span that is there already is the parent of the first round, and linked to a later one.
func TestAnAmbientSpan(t *testing.T) {
	collect := newCollector(t)
	h := collect.handler(t, askback.Options{})
	ctx, span := collect.tracers.Tracer("http").Start(t.Context(), "POST")
	r := harness.Request{Target: "greet", Arguments: `{"Note":""}`, Context: func(r *http.Request) *http.Request {
		return r.WithContext(ctx)
	}}
	r.State = r.Send(t, h).Asked(t, "who")
	first := collect.take()[0]
	if first.Parent.SpanID() != span.SpanContext().SpanID() || len(first.Links) > 0 {
		t.Errorf("the parent is %v, the links %v", first.Parent, first.Links)
	}
	r.Responses = answered
	r.Send(t, h).Text(t)
	second := collect.take()[2]
	if second.Parent.SpanID() != first.SpanContext.SpanID() || len(second.Links) != 1 ||
		second.Links[0].SpanContext.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("the parent is %v, the links %v", second.Parent, second.Links)
	}
}

// The client's baggage reaches the handler's steps.
func TestBaggage(t *testing.T) {
	collect := newCollector(t)
	h := collect.handler(t, askback.Options{})
	r := harness.Request{Target: "greet", Arguments: `{"Note":""}`}
	r.State = r.Send(t, h).Asked(t, "who")
	r.Responses, r.Meta = answered, `,"baggage":"team=red"`
	r.Send(t, h).Text(t)
	for _, s := range collect.take() {
		if s.Name == "step write" && (len(s.Events) != 1 || s.Events[0].Name != "red") {
			t.Errorf("the step saw %v", s.Events)
		}
	}
}

// Instances with and without telemetry serve rounds of one call, and what the first one began goes on through the
// others.
func TestTelemetryInSomeInstances(t *testing.T) {
	collect := newCollector(t)
	keys := harness.NewRing(t)
	traced := collect.handler(t, askback.Options{Keys: keys})
	plain := harness.NewServer(t, &askback.Options{Keys: keys}, addTools).HTTPHandler(nil)
	ask := harness.Request{Target: "greet", Arguments: `{"Note":""}`}
	send := func(h http.Handler, state, responses string) *harness.Response {
		r := ask
		r.State, r.Responses = state, responses
		return r.Send(t, h)
	}
	began := send(plain, "", "").Asked(t, "who")
	send(traced, began, answered).Text(t)
	if spans := collect.take(); len(spans) != 3 || spans[0].SpanContext.TraceID() != spans[2].SpanContext.TraceID() {
		t.Errorf("a state of an instance without telemetry: %v", spans)
	}
	first := send(traced, "", "").Asked(t, "who")
	again := send(plain, first, "").Asked(t, "who")
	send(traced, again, answered).Text(t)
	spans := collect.take()
	if len(spans) != 4 || spans[0].SpanContext.TraceID() != spans[3].SpanContext.TraceID() {
		t.Errorf("an instance without telemetry lost the trace: %v", spans)
	}
}

// A long tracestate of the client's does not make the state long.
func TestLongTracestate(t *testing.T) {
	sizes := make(map[string]int)
	for name, meta := range map[string]string{"none": "", "long": `,"tracestate":"a=` + strings.Repeat("x", 250) + `,b=` +
		strings.Repeat("y", 250) + `"`} {
		collect := newCollector(t)
		r := harness.Request{Target: "greet", Arguments: `{"Note":""}`, Meta: `,"traceparent":"` + clientTrace + `"` + meta}
		sizes[name] = len(r.Send(t, collect.handler(t, askback.Options{})).Asked(t, "who"))
	}
	if sizes["long"] != sizes["none"] {
		t.Errorf("bytes of states: %v", sizes)
	}
}

// A session is one span for all its rounds, and only an authenticated caller's has its ID in it.
func TestSession(t *testing.T) {
	collect := newCollector(t)
	pipe := harness.Pipe(t, harness.NewServer(t, &askback.Options{Observe: collect.observe}, addTools))
	pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
		harness.AllCapabilities +
		`,"clientInfo":{"name":"c","version":"1"}}}`)
	pipe.Response(1)
	pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	pipe.Request(2, "tools/call", `"name":"greet","arguments":{"Note":"MARK"},"_meta":{"traceparent":"`+clientTrace+`"}`,
		"")
	question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
	pipe.Answer(question, answered[len(`{"who":`):len(answered)-1])
	pipe.Response(2)
	harness.Eventually(t, "the span", func() bool { return len(collect.spans.GetSpans()) == 3 })
	span := collect.take()[2]
	got := attributes(span.Attributes)
	want := map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "greet", "gen_ai.operation.name": "execute_tool",
		"mcp.protocol.version": "2025-11-25",
		"network.transport":    "pipe", "askback.outcome": "completed", "askback.round": "2",
		"askback.call.id": got["askback.call.id"],
	}
	expect.Diff(t, "attributes", want, got)
	if span.Parent.SpanID().String() != clientTrace[36:52] {
		t.Errorf("the parent is %v", span.Parent)
	}
}

// Only the session of a caller who is known has its ID in a span: the ID is all that protects another one.
func TestSessionID(t *testing.T) {
	for principal, has := range map[string]bool{"": false, "alice": true} {
		collect := newCollector(t)
		srv := harness.NewServer(t, &askback.Options{
			Observe: collect.observe, Principal: func(context.Context, *mcp.RequestExtra) (string, error) {
				return principal, nil
			},
		}, addTools)
		web := httptest.NewServer(srv.HTTPHandler(nil))
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL},
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		expect.Check(t, err)
		expect.Must(session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "hello"}))(t)
		got := attributes(collect.take()[0].Attributes)
		if id := got["mcp.session.id"]; id != "" != has || has && id != session.ID() || got["network.transport"] != "tcp" {
			t.Errorf("the session %q of %q has the attributes %v", session.ID(), principal, got)
		}
		session.Close()
		web.Close()
	}
}

// Metrics are those of the conventions and our own, and no client can make new time series.
func TestMetrics(t *testing.T) {
	collect := newCollector(t)
	h := collect.handler(t,
		askback.Options{ReplayGuard: new(state.MemoryGuard),
			Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
				if extra.Header.Get("X-Nobody") != "" {
					return "", errors.New("nobody")
				}
				return "somebody", nil
			}})
	r := harness.Request{Target: "greet", Arguments: `{"Note":"MARK"}`}
	r.State = r.Send(t, h).Asked(t, "who")
	r.Responses = answered
	r.Send(t, h).Text(t)
	r.Send(t, h) // replayed
	(harness.Request{Target: "MARK-unknown", Arguments: `{}`}).Send(t, h)
	r.Header = http.Header{"X-Nobody": {"1"}}
	r.Send(t, h) // turned away

	var all metricdata.ResourceMetrics
	expect.Check(t, collect.metrics.Collect(t.Context(), &all))
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, "MARK") {
		t.Errorf("a client's text is in a metric: %s", text)
	}
	points := make(map[string]int64)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				points[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				points[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = int64(p.Count)
				if want := []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}; m.Unit != "s" ||
					!slices.Equal(p.Bounds, want) {
					t.Errorf("%s in %s has the bounds %v", m.Name, m.Unit, p.Bounds)
				}
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				points[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Sum
			}
		}
	}
	call := "gen_ai.operation.name=execute_tool"
	want := map[string]int64{
		"mcp.server.operation.duration " + call +
			",gen_ai.tool.name=greet,mcp.method.name=tools/call,network.transport=tcp": 2,
		"mcp.server.operation.duration error.type=-32602," + call +
			",mcp.method.name=tools/call,network.transport=tcp,rpc.response.status_code=-32602": 2,
		"askback.requests askback.outcome=input_required,mcp.method.name=tools/call":                      1,
		"askback.requests askback.outcome=completed,mcp.method.name=tools/call":                           1,
		"askback.requests askback.outcome=refused,askback.reason=replayed,mcp.method.name=tools/call":     1,
		"askback.requests askback.outcome=failed,mcp.method.name=tools/call":                              1,
		"askback.requests askback.outcome=refused,askback.reason=caller":                                  1,
		"askback.rounds askback.outcome=input_required,gen_ai.tool.name=greet,mcp.method.name=tools/call": 1,
		"askback.rounds askback.outcome=completed,gen_ai.tool.name=greet,mcp.method.name=tools/call":      1,
		"askback.rounds askback.outcome=failed,mcp.method.name=tools/call":                                1,
		"askback.state.size gen_ai.tool.name=greet,mcp.method.name=tools/call": int64(
			len(r.State)),
	}
	expect.Diff(t, "points", want, points)
}

// docs/telemetry.md names every attribute and every metric.
func TestTheDocumentNamesEverything(t *testing.T) {
	page, err := os.ReadFile("../docs/telemetry.md")
	expect.Check(t, err)
	names := 0
	for _, file := range []string{"attributes.go", "metrics.go", "tasks.go"} {
		source, err := os.ReadFile(file)
		expect.Check(t, err)
		for _, found := range regexp.MustCompile(`(?:attribute\.Key|m\.\w+)\("([a-z_.]+)"`).FindAllSubmatch(source, -1) {
			if names++; !strings.Contains(string(page), "`"+string(found[1])+"`") {
				t.Errorf("docs/telemetry.md does not name %s", found[1])
			}
		}
	}
	expect.Equal(t, "found", names, 40)
}
