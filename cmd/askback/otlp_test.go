package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/otelaskback"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// collector receives OTLP over HTTP.
type collector struct {
	mu      sync.Mutex
	spans   []received
	metrics map[string]bool
	raw     strings.Builder
}

// received is a span with the service and the instance that sent it.
type received struct {
	*tracepb.Span
	service, instance string
}

// has reports whether a span of this name has arrived.
func (c *collector) has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.spans, func(s received) bool { return s.Name == name })
}

func newCollector(t *testing.T) (*collector, string) {
	c := &collector{metrics: make(map[string]bool)}
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	return c, web.URL
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	var reply proto.Message
	switch r.URL.Path {
	case "/v1/traces":
		var sent tracespb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					about := resource.Resource.Attributes
					c.spans = append(c.spans, received{span, textOf(about, "service.name"), textOf(about, "service.instance.id")})
				}
			}
		}
		reply = new(tracespb.ExportTraceServiceResponse)
	case "/v1/metrics":
		var sent metricspb.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &sent)
		}
		for _, resource := range sent.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				for _, metric := range scope.Metrics {
					c.metrics[metric.Name] = true
				}
			}
		}
		reply = new(metricspb.ExportMetricsServiceResponse)
	default:
		err = fmt.Errorf("no such path: %s", r.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	data, _ := proto.Marshal(reply)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(data)
}

// textOf returns a text, or the texts of a list.
func textOf(of []*commonpb.KeyValue, key string) string {
	for _, a := range of {
		if a.Key != key {
			continue
		}
		var texts []string
		for _, v := range a.Value.GetArrayValue().GetValues() {
			texts = append(texts, v.GetStringValue())
		}
		return a.Value.GetStringValue() + strings.Join(texts, ", ")
	}
	return ""
}

// draw draws spans as a tree, in the order in which they began, with the number of the instance that each is of, or
// with the name of another service. A process that is killed does not send the span that it is in: it is drawn below
// the last request of that process.
func draw(spans []received) string {
	slices.SortFunc(spans, func(a, b received) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	var instances []string
	children := make(map[string][]received)
	known := map[string]bool{"": true}
	request := make(map[string]string) // the last one of each instance
	for _, s := range spans {
		if s.service == "askback" && !slices.Contains(instances, s.instance) {
			instances = append(instances, s.instance)
		}
		known[string(s.SpanId)] = true
	}
	for _, s := range spans {
		parent := string(s.ParentSpanId)
		if !known[parent] {
			known[parent] = true
			in := request[s.instance]
			children[in] = append(children[in], received{&tracepb.Span{SpanId: s.ParentSpanId, Name: "(killed, not sent)"},
				s.service, s.instance})
		}
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
			request[s.instance] = string(s.SpanId)
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var below func(parent, indent string)
	below = func(parent, indent string) {
		for i, s := range children[parent] {
			branch, next := "├─ ", "│  "
			if i == len(children[parent])-1 {
				branch, next = "└─ ", "   "
			}
			if parent == "" {
				branch, next = "", ""
			}
			who := s.service
			if who == "askback" {
				who = fmt.Sprintf("instance %d", slices.Index(instances, s.instance)+1)
			}
			line := fmt.Sprintf("%-12s %-44s %s", who, indent+branch+s.Name, textOf(s.Attributes, "askback.outcome"))
			if asked := textOf(s.Attributes, "askback.asked"); asked != "" {
				line += ": " + asked
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			below(string(s.SpanId), indent+next)
		}
	}
	below("", "")
	return b.String()
}

// callBug sends a round of update_work_item and returns the state, or the text of the result.
func callBug(t *testing.T, url, members string) (state, text string) {
	t.Helper()
	body := harness.Message(1, "tools/call",
		`"name":"update_work_item","arguments":{"workItemId":4522,"fields":{"System.State":"Resolved"}}`+members,
		`{"elicitation":{}}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept":               "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "update_work_item"} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var reply struct {
		Result struct {
			RequestState string
			Content      []struct{ Text string }
		}
	}
	data, _ := io.ReadAll(res.Body)
	if err := json.Unmarshal(data, &reply); err != nil || reply.Result.RequestState == "" &&
		len(reply.Result.Content) != 1 {
		t.Fatalf("%d %s (%v)", res.StatusCode, data, err)
	}
	if len(reply.Result.Content) == 1 {
		return "", reply.Result.Content[0].Text
	}
	return reply.Result.RequestState, ""
}

// A call whose rounds three servers serve is one trace at their collector. docs/telemetry.md has its drawing.
//
// OpenTelemetry has one handler of errors in a process. So the tests that send telemetry from this one are not
// parallel.
func TestServeSendsOneTrace(t *testing.T) {
	collect, url := newCollector(t)
	var states []string
	t.Run("servers", func(t *testing.T) { // they send what is left when they stop, at the end of the subtest
		keys := filepath.Join(t.TempDir(), "my.keys")
		if code, _, stderr := command(t, "keys", "new", keys); code != exitOK {
			t.Fatal(stderr)
		}
		members := ""
		for _, answer := range []string{`"resolution":{"action":"accept","content":{"resolution":"Duplicate"}}`,
			`"duplicate_of":{"action":"accept","content":{"duplicateOfId":4301}}`, ""} {
			server := startServe(t, "--keys", keys, "--store", "none", "--otlp", url)
			state, text := callBug(t, server, members)
			if (text != "") != (answer == "") {
				t.Fatalf("the state is %.20q, the result %q", state, text)
			}
			states = append(states, state)
			members = `,"inputResponses":{` + answer + `},"requestState":"` + state + `"`
		}
	})
	collect.mu.Lock()
	defer collect.mu.Unlock()
	for _, s := range collect.spans {
		if string(s.TraceId) != string(collect.spans[0].TraceId) {
			t.Errorf("%s is in trace %x, another in %x", s.Name, s.TraceId, collect.spans[0].TraceId)
		}
	}
	drawing := draw(collect.spans)
	if page, err := os.ReadFile("../../docs/telemetry.md"); err != nil ||
		!strings.Contains(string(page), "```\n"+drawing+"```\n") {
		t.Errorf("docs/telemetry.md does not have this drawing (%v):\n%s", err, drawing)
	}
	for _, name := range []string{"mcp.server.operation.duration", "askback.requests", "askback.rounds",
		"askback.state.size"} {
		if !collect.metrics[name] {
			t.Errorf("the metric %s did not arrive", name)
		}
	}
	for _, secret := range append(states, "4301", "System.State") {
		if secret != "" && strings.Contains(collect.raw.String(), secret) {
			t.Errorf("%.20q was sent to the collector", secret)
		}
	}
}

// A client, and three servers of which one is killed with SIGKILL while it works on a task, send one trace.
// docs/telemetry.md has its drawing.
func TestOneTraceOverAKill(t *testing.T) {
	t.Parallel()
	collect, collector := newCollector(t)
	dir, pages := t.TempDir(), make(map[string]*url.URL)
	keys := filepath.Join(dir, "my.keys")
	if code, _, stderr := command(t, "keys", "new", keys); code != exitOK {
		t.Fatal(stderr)
	}
	start := func(name string, args ...string) *child.Process {
		var stderr bytes.Buffer
		cmd := exec.Command("askback", append([]string{"serve", "--addr", "127.0.0.1:0", "--drain-delay", "0s", "--lease",
			"2s", "--keys", keys, "--otlp", collector}, args...)...)
		cmd.Env = append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=10", "GORACE=atexit_sleep_ms=1")
		cmd.Stderr = &stderr
		p, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("%s wrote:\n%s", name, &stderr)
			}
		})
		line, err := p.Wait(time.Minute)
		if err == nil {
			pages[name], err = url.Parse(strings.TrimPrefix(line, "listening on "))
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := start("one", "--data", dir)
	two := start("two", "--data", dir, "--store", "none")  // so that only the first can continue the task of the third
	three := start("three", "--data", dir, "--pace", "2s") // it is killed long before the end of its second step

	to, err := url.Parse(collector)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := newTelemetry(t.Context(), to, resource.NewSchemaless(attribute.String("service.name", "agent")))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]map[string]any{"resolution": {"resolution": "Duplicate"},
		"duplicate_of": {"duplicateOfId": 4301}, "network": {"network": "nat"}}
	c := client.New(&client.Options{Observe: sent.observeClient,
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: answers[q.Key]}, nil
		}})
	turns := []string{"one", "two", "three", "three"} // of the requests that may ask: three rounds, and the task
	balance := func(r *http.Request) (*http.Response, error) {
		to := "one"
		if r.Header.Get("Mcp-Method") == "tools/call" {
			to, turns = turns[0], turns[1:]
		}
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = pages[to].Host, pages[to].Host
		return http.DefaultTransport.RoundTrip(r)
	}
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: pages["one"].String(),
		HTTPClient: &http.Client{Transport: roundTrip(balance)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, conversation := sent.tracers.Tracer("agent").Start(t.Context(), "conversation")
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "update_work_item", Arguments: map[string]any{
		"workItemId": 4522, "fields": map[string]string{"System.State": "Resolved"},
	}}); err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		for deadline := time.Now().Add(time.Minute); !collect.has("step create-directories") && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		three.Kill()
	}()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "provision_vm",
		Arguments: map[string]any{"name": "web1"}}); err != nil {
		t.Error(err)
	}
	<-killed
	conversation.End()
	session.Close()
	sent.close(slog.New(slog.DiscardHandler))
	for _, p := range []*child.Process{one, two} { // they send what is left
		_ = p.Signal(syscall.SIGTERM)
		<-p.Dead
	}

	collect.mu.Lock()
	defer collect.mu.Unlock()
	var drawn []received
	for _, s := range collect.spans {
		if string(s.TraceId) != string(collect.spans[0].TraceId) {
			t.Errorf("%s is in trace %x, another in %x", s.Name, s.TraceId, collect.spans[0].TraceId)
		}
		if s.Name != "tasks/get" && s.Name != "subscriptions/listen" { // as many as there is time
			drawn = append(drawn, s)
		}
	}
	drawing := draw(drawn)
	if page, err := os.ReadFile("../../docs/telemetry.md"); err != nil ||
		!strings.Contains(string(page), "```\n"+drawing+"```\n") {
		t.Errorf("docs/telemetry.md does not have this drawing (%v):\n%s", err, drawing)
	}
	for _, name := range []string{"mcp.client.operation.duration", "mcp.server.operation.duration", "askback.tasks"} {
		if !collect.metrics[name] {
			t.Errorf("the metric %s did not arrive", name)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// askback call --otlp sends its requests, and the server's spans are below them.
func TestCallSendsItsTrace(t *testing.T) {
	collect, collector := newCollector(t)
	t.Run("server", func(t *testing.T) { // it sends what is left at the end of the subtest
		server := startServe(t, "--store", "none", "--otlp", collector)
		code, _, stderr := command(t, "call", server, "update_work_item", "workItemId=4522",
			`fields={"System.State":"Resolved"}`,
			"--answer", `resolution={"resolution":"Fixed"}`, "--otlp", collector)
		if code != exitOK || stderr != "" {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	})
	collect.mu.Lock()
	defer collect.mu.Unlock()
	kinds := make(map[tracepb.Span_SpanKind]int)
	for _, s := range collect.spans {
		kinds[s.Kind]++
		if string(s.TraceId) != string(collect.spans[0].TraceId) {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	if kinds[tracepb.Span_SPAN_KIND_CLIENT] != 2 || kinds[tracepb.Span_SPAN_KIND_SERVER] != 2 ||
		!collect.metrics["mcp.client.operation.duration"] {
		t.Errorf("the collector received %v and %v", kinds, collect.metrics)
	}
}

// A collector that is gone costs a warning, and does not hold up a call or the end of the server.
func TestServeWithoutItsCollector(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	t.Run("server", func(t *testing.T) {
		callBug(t, startServe(t, "--store", "none", "--otlp", gone.URL), "")
	})
}

func TestOTLPAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"127.0.0.1:4318":               "want the URL of a collector",
		"grpc://127.0.0.1:4317":        "want the URL of a collector",
		"http://user:secret@localhost": "want a URL without a password",
		"http://localhost?key=secret":  "want a URL without a password",
	} {
		code, _, stderr := command(t, "serve", "--otlp", url)
		if code != exitUsage || !strings.Contains(stderr, "--otlp: "+want) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: exit code %d: %s", url, code, stderr)
		}
	}
}

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
	killed := &harness.CutOff{Store: open()}
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
						killed.Off.Store(true)
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
	one := harness.NewTaskServerOn(t, killed, options(), steps(true))
	id := one.Result(harness.WithExtension, "tools/call", "deploy", `"name":"deploy"`)["taskId"].(string)
	<-arrived
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
