package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The test binary is also a server over standard input and output.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "planted" {
		serveProgram(planted.New(planted.Options{Fault: os.Args[2]}))
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most tests wait for a server
	os.Exit(m.Run())
}

// serveProgram hands each line of the input to a handler, and writes its response as a line.
func serveProgram(h http.Handler) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			Method string
			Params struct{ Name, URI string }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(lines.Bytes()))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {m.Method}, "Authorization": {"Bearer " + planted.Alice}}
		if name := m.Params.Name + m.Params.URI; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
		res := httptest.NewRecorder()
		h.ServeHTTP(res, req)
		fmt.Println(strings.ReplaceAll(res.Body.String(), "\n", ""))
	}
}

func TestAProgramIsJudged(t *testing.T) {
	t.Parallel()
	for fault, fails := range map[string]bool{"": false, "any-state": true} {
		report, err := runPatiently(t.Context(), Options{Server: Endpoint{Program: []string{os.Args[0], "planted", fault}},
			Allow: []string{"*"}, MaxRequests: 5000, Only: []string{"state-made-up"}})
		expect.Check(t, err)
		if report.Stopped != "" || (report.Count(findings.Fail) > 0) != fails || report.Count(findings.Pass) == 0 {
			t.Errorf("%q: %+v; %s", fault, report.Verdicts, report.Stopped)
		}
	}
}

// A tool that waits for somebody is called once, and neither ends the run nor keeps the others from being judged.
func TestSlowToolsDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls, ids := map[string]int{}, map[string]bool{}
	server := planted.New(planted.Options{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("Mcp-Name")
		body, _ := io.ReadAll(r.Body)
		var m struct{ ID json.RawMessage }
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		calls[name]++
		if ids[string(m.ID)] {
			t.Errorf("the ID %s came twice", m.ID)
		}
		ids[string(m.ID)] = true
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch name {
		case "greet", "thank", "connect", "summarize", "redeem", "clock":
			<-r.Context().Done()
		default:
			server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
		Allow: []string{"*"}, MaxRequests: 5000, Only: []string{"state-made-up"}, patience: 2 * time.Second})
	expect.Check(t, err)
	mu.Lock()
	defer mu.Unlock()
	if report.Stopped != "" || report.Count(findings.Pass) == 0 || calls["greet"] != 1 || calls["redeem"] != 1 {
		t.Errorf("%q, %d pass, calls %v", report.Stopped, report.Count(findings.Pass), calls)
	}
}
