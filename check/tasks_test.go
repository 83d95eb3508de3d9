package check

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/check/planted/correct"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server of this library makes tasks at once, and after a round. Both are judged by each probe, without a finding.
func TestBothWaysToATaskAreJudged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	first, _, _, err := correct.Servers()[0].Start(ctx, &group)
	expect.Check(t, err)
	web := httptest.NewServer(first)
	defer web.Close()
	defer web.CloseClientConnections()
	report, err := runPatiently(ctx, Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
		Second: bearer(planted.Bob), Allow: []string{"*"}, MaxRequests: 5000, Only: []string{"tasks"}})
	expect.Check(t, err)
	passed := map[string]int{}
	for _, v := range report.Verdicts {
		switch {
		case v.Level == findings.Pass:
			passed[v.Target]++
		case v.Target == "tools/call detach" && (v.Probe == "task-answered-twice" || v.Probe == "task-after-end"):
			// Its task asks once, and for no text.
		default:
			t.Errorf("%s %s: %s by %s: %s", v.Probe, v.Target, v.Level, v.Proof, v.Reason)
		}
		t.Logf("%-10s %-20s %-30s %s", v.Level, v.Probe, v.Target, v.Reason)
	}
	t.Logf("%d requests, %v", report.Requests, report.Took)
	if len(passed) != 2 || passed["tools/call detach"] < 10 || passed["tools/call export"] < 10 {
		t.Errorf("passed: %v; stopped: %q", passed, report.Stopped)
	}
}

// ledger passes requests on, and notes which tasks were made and which of them were cancelled or have ended.
type ledger struct {
	http.Handler
	mu     sync.Mutex
	made   []string
	over   map[string]bool
	served int
	before func(n int, w http.ResponseWriter) bool // whether it serves the n-th request itself
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	l.served++
	n := l.served
	l.mu.Unlock()
	if r.Header.Get("Mcp-Method") != "tasks/cancel" && l.before != nil && l.before(n, w) {
		return
	}
	if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
		l.Handler.ServeHTTP(w, r)
		return
	}
	recorder := httptest.NewRecorder()
	l.Handler.ServeHTTP(recorder, r)
	var m struct {
		Result struct{ ResultType, TaskID, Status string }
	}
	_ = json.Unmarshal(recorder.Body.Bytes(), &m)
	l.mu.Lock()
	if m.Result.ResultType == "task" {
		l.made = append(l.made, m.Result.TaskID)
	}
	if r.Header.Get("Mcp-Method") == "tasks/cancel" && recorder.Code == http.StatusOK ||
		slices.Contains([]string{"completed", "failed", "cancelled"}, m.Result.Status) {
		l.over[r.Header.Get("Mcp-Name")] = true
	}
	l.mu.Unlock()
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// Each task that the check makes has ended or is cancelled in the end, however the run ends, and within its requests.
func TestNoTaskIsLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault  string
		ends   bool
		most   int
		before func(n int, w http.ResponseWriter, stop func()) bool
	}{
		"to the end":              {ends: true, most: 5000},
		"up to the first request": {most: 5000},
		"a task of everybody":     {fault: "task-undeclared", most: 5000},
		"few requests":            {ends: true, most: 40},
		"fewer requests":          {ends: true, most: 37},
		"quiet": {ends: true, most: 5000, before: func(n int, w http.ResponseWriter, _ func()) bool {
			if n == 45 {
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return n >= 45
		}},
		"out of time": {ends: true, most: 5000, before: func(n int, _ http.ResponseWriter, stop func()) bool {
			if n == 45 {
				stop()
			}
			return false
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := &ledger{Handler: planted.New(planted.Options{Fault: test.fault}), over: map[string]bool{}}
			if test.before != nil {
				l.before = func(n int, w http.ResponseWriter) bool { return test.before(n, w, cancel) }
			}
			web := httptest.NewServer(l)
			defer web.Close()
			defer web.CloseClientConnections()
			o := Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Second: bearer(planted.Bob),
				MaxRequests: test.most, Only: []string{"tasks"}}
			if test.ends {
				o.Allow = []string{"*"}
			}
			report := expect.Must(runPatiently(ctx, o))(t)
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.made) == 0 || l.served > test.most || report.Requests != l.served {
				t.Errorf("%d tasks, %d requests of %d, reported %d", len(l.made), l.served, test.most, report.Requests)
			}
			if (test.most < 5000 || test.before != nil) && report.Stopped == "" {
				t.Error("the run came to its end")
			}
			text := expect.Must(json.Marshal(report))(t)
			for _, id := range l.made {
				if bytes.Contains(text, []byte(id)) {
					t.Errorf("the ID of a task is in the report: %s", text)
				}
				if !l.over[id] {
					t.Errorf("a task is left; stopped: %q", report.Stopped)
				}
			}
		})
	}
}

// A task that the server does not let go of is told.
func TestTasksThatAreLeftAreTold(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tasks/cancel" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
		Only: []string{"task-undeclared-get"}})
	expect.Check(t, err)
	if !strings.HasSuffix(report.Stopped, "503; 1 tasks of the check could not be cancelled") {
		t.Errorf("stopped: %q", report.Stopped)
	}
}
