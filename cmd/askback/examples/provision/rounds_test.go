package provision_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
)

const (
	web1    = `"name": "provision_vm", "arguments": {"name": "web-1", "diskMiB": 2}`
	answers = `"inputResponses": {"network": {"action": "accept", "content": {"network": "nat"}}}`
)

func TestALastRoundSentAgainHasTheSameResult(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	asked := callTool(t, h, web1)
	var results []provision.Outcome
	for range 2 {
		got := callTool(t, h, web1+`, `+answers+`, "requestState": "`+asked.RequestState+`"`)
		checkMachine(t, got.StructuredContent, filepath.Join(host.Root, "web-1"))
		results = append(results, got.StructuredContent)
	}
	if diff := cmp.Diff(results[0], results[1]); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	// The response was not lost, but the server cannot know: what the state does not have is done again.
	if diff := cmp.Diff(slices.Concat(allSteps, allSteps[4:]), effects(t, host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestWhatWasMadeIsCheckedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		meddle func(dir string) error
		want   string
	}{
		{"removed", os.RemoveAll, "nothing is left of web-1, somebody removed it meanwhile: call provision_vm again"},
		{"another's", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "claim"), []byte("another call"), 0o600)
		}, "another call began to provision web-1 at "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := newHost(t)
			h := serve(t, host)
			asked := callTool(t, h, web1)
			dir := filepath.Join(host.Root, "web-1")
			if err := tt.meddle(dir); err != nil {
				t.Fatal(err)
			}
			before := slices.DeleteFunc(entries(t, host), func(name string) bool { return strings.HasPrefix(name, ".work-") })
			got := callTool(t, h, web1+`, `+answers+`, "requestState": "`+asked.RequestState+`"`)
			if !got.IsError || !strings.Contains(got.text(), tt.want) {
				t.Errorf("got %q, want the tool error %q", got.text(), tt.want)
			}
			wantOnly(t, host, before...)
		})
	}
}

func TestAFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	asked := callTool(t, h, web1)
	// A directory where a file is to be written.
	if err := os.MkdirAll(filepath.Join(host.Root, "web-1", "boot.log", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := callTool(t, h, web1+`, `+answers+`, "requestState": "`+asked.RequestState+`"`)
	if !got.IsError || !strings.HasPrefix(got.text(), "boot: ") {
		t.Errorf("got %q, want a tool error", got.text())
	}
	wantOnly(t, host, "effects.log")
}

func TestOfManyCallsOneGetsTheName(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	results := make([]result, 8)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = callTool(t, h, web1) })
	}
	all.Wait()
	var winners int
	for _, r := range results {
		switch {
		case r.RequestState != "":
			winners++
			got := callTool(t, h, web1+`, `+answers+`, "requestState": "`+r.RequestState+`"`)
			checkMachine(t, got.StructuredContent, filepath.Join(host.Root, "web-1"))
		case !r.IsError || !strings.Contains(r.text(), "another call began to provision web-1 at "):
			t.Errorf("got %q", r.text())
		}
	}
	if winners != 1 {
		t.Errorf("%d calls got the name", winners)
	}
	wantOnly(t, host, "effects.log", "web-1")
}

// A call in rounds that is given up leaves its machine behind; the next one is told what to do.
func TestACallThatIsGivenUpKeepsItsName(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	h := serve(t, host)
	callTool(t, h, web1)
	dir := filepath.Join(host.Root, "web-1")
	got := callTool(t, h, web1)
	if !got.IsError || !strings.HasSuffix(got.text(), "if that call was given up, remove "+dir) {
		t.Errorf("got %q", got.text())
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := callTool(t, h, web1); got.RequestState == "" {
		t.Errorf("got %q, want a question", got.text())
	}
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	h := serve(t, newHost(t))
	w := request(t, h, "tools/call", "provision_vm", web1, `"progressToken": "p",`, noTasks)
	var got []string
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		var message struct {
			Params struct {
				Progress, Total float64
				Message         string
			}
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &message) == nil &&
			message.Params.Total > 0 {
			got = append(got, fmt.Sprintf("%g/%g %s", message.Params.Progress, message.Params.Total, message.Params.Message))
		}
	}
	want := []string{
		"0/8 Creating the directories",
		"1/8 Writing the disk image",
		"2/8 Writing the disk image: 1 of 2 MiB",
		"3/8 Writing the configuration",
		"4/8 Verifying the files",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// serve serves the tool without tasks.
func serve(t *testing.T, host *provision.Host) http.Handler {
	t.Helper()
	h, _, err := server(host, new(askback.Options))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func server(host *provision.Host, options *askback.Options) (http.Handler, *askback.Server, error) {
	options.Logger = slog.New(slog.DiscardHandler) // it warns that no keys are configured
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "hosts", Version: "1.0.0"}, nil), options)
	if err != nil {
		return nil, nil, err
	}
	provision.Register(s, host)
	return s.HTTPHandler(nil), s, nil
}

// result is what the tests read of a result of tools/call.
type result struct {
	RequestState      string
	Content           []struct{ Text string }
	StructuredContent provision.Outcome
	IsError           bool
}

func (r result) text() string {
	if len(r.Content) != 1 {
		return ""
	}
	return r.Content[0].Text
}

func callTool(t *testing.T, h http.Handler, params string) (r result) {
	t.Helper()
	decode(t, request(t, h, "tools/call", "provision_vm", params, "", noTasks), &r)
	return r
}

// Client capabilities, with and without the extension for tasks.
const (
	noTasks   = `"elicitation": {}`
	withTasks = `"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}`
)

// request sends one request, as a client does on the wire. The name is that of its header.
func request(t *testing.T, h http.Handler, method, name, params, meta, capabilities string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "`+method+`",
		"params": {`+params+`, "_meta": {`+meta+`
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {`+capabilities+`}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	r.Header.Set("Mcp-Name", name)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode(t *testing.T, w *httptest.ResponseRecorder, into any) {
	t.Helper()
	var response struct{ Result json.RawMessage }
	err := json.Unmarshal(w.Body.Bytes(), &response)
	if err == nil {
		err = json.Unmarshal(response.Result, into)
	}
	if err != nil {
		t.Errorf("%d %s (%v)", w.Code, w.Body, err)
	}
}
