package check

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A logged server is one with tools that are marked in several ways, which asks in two rounds and keeps what came.
type logged struct {
	mu     sync.Mutex
	calls  []string // the tool, and how many answers came
	now    int      // requests that are being served
	most   int
	count  int
	before func(w http.ResponseWriter, count int) bool // it has answered
}

func (l *logged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name           string
			InputResponses map[string]any
		}
	}
	_ = json.Unmarshal(body, &m) // what cannot be read is answered with null
	l.mu.Lock()
	l.now++
	l.most = max(l.most, l.now)
	l.count++
	count := l.count
	if m.Method == "tools/call" {
		l.calls = append(l.calls, fmt.Sprint(m.Params.Name, " ", len(m.Params.InputResponses)))
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.now--
		l.mu.Unlock()
	}()
	if l.before != nil && l.before(w, count) {
		return
	}
	result := `{}`
	switch m.Method {
	case "tools/list":
		result = `{"tools":[{"name":"unmarked"},{"name":"reads","annotations":{"readOnlyHint":true}},
			{"name":"writes","annotations":{"readOnlyHint":false}},{"name":"destroys","annotations":{"destructiveHint":true}}]}`
	case "tools/call":
		result = `{"resultType":"input_required","requestState":"a-state-of-the-server","inputRequests":{"q":{"method":
			"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}},
			"required":["a"],"$ref":"http://127.0.0.1:1/schema"}}}}}`
		if m.Params.InputResponses != nil {
			result = `{"content":[{"type":"text","text":"done"}]}`
		}
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, strings.ReplaceAll(result, "\n", ""))
}

func (l *logged) called() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := slices.Clone(l.calls)
	slices.Sort(calls)
	return slices.Compact(calls)
}

func TestWhatMayBeCalled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		local bool
		allow []string
		want  string
	}{
		{"on this machine", true, nil, "reads 0,reads 1,unmarked 0,writes 0"},
		{"away", false, nil, "reads 0,reads 1"},
		{"away, with permission", false, []string{"writes"}, "reads 0,reads 1,writes 0,writes 1"},
		{"on this machine, with permission", true, []string{"destroys"},
			"destroys 0,destroys 1,reads 0,reads 1,unmarked 0,writes 0"},
	} {
		server := &logged{}
		web := httptest.NewServer(server)
		r := expect.Must(newRun(Options{Server: Endpoint{URL: web.URL}, Allow: test.allow}))(t)
		r.Line.Local = test.local
		r.judgeAll(t.Context())
		r.close()
		web.Close()
		expect.Equal(t, test.name+": called", strings.Join(server.called(), ","), test.want)
	}
}

// Requests come one by one, at most so many a second and so many in all.
func TestTheBoundsOfARun(t *testing.T) {
	t.Parallel()
	server := &logged{}
	web := httptest.NewServer(server)
	defer web.Close()
	const rate, most = 200, 40
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL}, Allow: []string{"*"},
		MaxRequests: most, PerSecond: rate})
	expect.Check(t, err)
	if server.count != most || report.Requests != most || server.most != 1 ||
		!strings.Contains(report.Stopped, "40 requests") {
		t.Errorf("%d requests came, %d at once; the report has %d: %s", server.count, server.most, report.Requests,
			report.Stopped)
	}
	if least := time.Second * (most - 1) / rate; report.Took < least {
		t.Errorf("it took %v, and the rate permits %v", report.Took, least)
	}
}

// A server that asks for quiet gets no further request, even if its response never ends.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			server := &logged{before: func(w http.ResponseWriter, count int) bool {
				if count < 4 {
					return false
				}
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Content-Length", "1000")
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":4,")
				return true
			}}
			web := httptest.NewServer(server)
			report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL}, Allow: []string{"*"}})
			expect.Check(t, err)
			web.Close()
			if server.count != 4 || !strings.Contains(report.Stopped, fmt.Sprint(status)) {
				t.Errorf("%d %s: %d requests came: %s", status, kind, server.count, report.Stopped)
			}
		}
	}
}

// Redirects are not followed, by whichever server, and servers that nobody has named get nothing.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := &logged{}
	trap := httptest.NewServer(elsewhere)
	defer trap.Close()
	away := httptest.NewServer(http.RedirectHandler(trap.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	web := httptest.NewServer(&logged{})
	defer web.Close()
	for _, o := range []Options{
		{Server: Endpoint{URL: away.URL, Header: bearer("a-token-of-one")}},
		{Server: Endpoint{URL: web.URL, Header: bearer("a-token-of-one")},
			Plan: Plan{Replica: away.URL, Elsewhere: away.URL}},
	} {
		o.Allow, o.MaxRequests = []string{"*"}, 300
		expect.Must(runPatiently(t.Context(), o))(t)
	}
	expect.Equal(t, "requests followed a redirect", elsewhere.count, 0)
}

// A form that cannot be filled is not judged.
func TestFormsThatCannotBeFilled(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(small(honestServers()["a pattern"]()))
	defer web.Close()
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL}, Allow: []string{"*"},
		MaxRequests: 5000, Only: []string{"answers"}})
	expect.Check(t, err)
	for _, v := range report.Verdicts {
		if v.Level != findings.NotJudged && v.Probe != "answers-end" {
			t.Errorf("%s: %s: %s", v.Probe, v.Level, v.Reason)
		}
	}
}
