package httpfront_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// Proxies route, limit and authorize by headers. So on every path of the endpoint a header that is there occurs once
// and agrees with each message of the body, or nothing of the request runs.
func TestRoutingHeadersOnEveryPath(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	region := map[string]any{"type": "object", "properties": map[string]any{
		"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
	}}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "foreign", InputSchema: region}, harness.CountedTool(&ran))
	tasks := &askback.Tasks{Store: new(task.MemoryStore)}
	srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t), Tasks: tasks})
	expect.Check(t, err)
	for _, name := range []string{"harmless", "own"} {
		tool := func(context.Context, *askback.Call, map[string]any) (string, error) {
			ran.Add(1)
			return name, nil
		}
		askback.AddTool(srv, &mcp.Tool{Name: name, InputSchema: region}, tool)
	}
	srv.AddPrompt(&mcp.Prompt{Name: "own"}, harness.CountedPrompt(&ran))
	srv.AddResource(&mcp.Resource{Name: "own", URI: "file:///own"}, harness.CountedResource(&ran))
	web := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer web.Close()

	send := func(t *testing.T, url, body string, header http.Header) (status int, text string, res *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+url, strings.NewReader(body))
		expect.Check(t, err)
		req.Header = header.Clone()
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err = http.DefaultClient.Do(req)
		expect.Check(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		expect.Check(t, err)
		return res.StatusCode, string(data), res
	}
	open := func(t *testing.T, version string) (session string) {
		t.Helper()
		hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `",` +
			`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		status, text, res := send(t, "", hello, http.Header{})
		if session = res.Header.Get("Mcp-Session-Id"); session == "" {
			t.Fatalf("status %d: %s", status, text)
		}
		in := http.Header{"Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {version}}
		send(t, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, in)
		return session
	}
	// request is a message, with its ID in front, or none for a notification.
	request := func(id, method, params, meta string) string {
		return `{"jsonrpc":"2.0",` + id + `"method":"` + method + `","params":{` + params + meta + `}}`
	}
	const modernMeta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`

	type path struct {
		name, url, meta string
		header          http.Header // what every request has
		complete        bool        // the revision requires the headers
		batches         bool
	}
	paths := []path{
		{"2026-07-28", "", modernMeta, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, true, false},
		{"draft", "?draft=mrtr-1", "", http.Header{}, false, false},
		{"draft without a name", "", "", http.Header{}, false, false},
	}
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		header := http.Header{"Mcp-Session-Id": {open(t, version)}, "Mcp-Protocol-Version": {version}}
		paths = append(paths, path{"session of " + version, "", "", header, false, version == "2025-03-26"})
	}
	type call struct {
		name, method, params, target string
	}
	calls := []call{
		{"tool", "tools/call", `"name":"own","arguments":{"region":"eu"}`, "own"},
		{"tool of the SDK", "tools/call", `"name":"foreign","arguments":{"region":"eu"}`, "foreign"},
		{"prompt", "prompts/get", `"name":"own"`, "own"},
		{"resource", "resources/read", `"uri":"file:///own"`, "file:///own"},
	}
	for _, p := range paths {
		for _, c := range calls {
			right := func() http.Header {
				h := p.header.Clone()
				h["Mcp-Method"], h["Mcp-Name"] = []string{c.method}, []string{c.target}
				if c.method == "tools/call" {
					h["Mcp-Param-Region"] = []string{"eu"}
				}
				return h
			}
			isTool := c.method == "tools/call"
			for name, test := range map[string]struct {
				header string
				values []string // in place of those that agree
				ok     bool
			}{
				"all agree":                {"", nil, true},
				"no method":                {"Mcp-Method", nil, !p.complete},
				"no name":                  {"Mcp-Name", nil, !p.complete},
				"no parameter":             {"Mcp-Param-Region", nil, !p.complete || !isTool},
				"an encoded parameter":     {"Mcp-Param-Region", []string{"=?base64?ZXU=?="}, true},
				"another name":             {"Mcp-Name", []string{"harmless"}, false},
				"an empty name":            {"Mcp-Name", []string{""}, false},
				"the name twice":           {"Mcp-Name", []string{c.target, c.target}, false},
				"two names":                {"Mcp-Name", []string{c.target, "harmless"}, false},
				"two names, other order":   {"Mcp-Name", []string{"harmless", c.target}, false},
				"another method":           {"Mcp-Method", []string{"tools/list"}, false},
				"the method twice":         {"Mcp-Method", []string{c.method, c.method}, false},
				"the method in capitals":   {"Mcp-Method", []string{strings.ToUpper(c.method)}, false},
				"two versions":             {"Mcp-Protocol-Version", []string{"2025-06-18", "2026-07-28"}, false},
				"two versions, the other":  {"Mcp-Protocol-Version", []string{"2026-07-28", "2025-06-18"}, false},
				"the version twice":        {"Mcp-Protocol-Version", []string{"2025-06-18", "2025-06-18"}, false},
				"two sessions":             {"Mcp-Session-Id", []string{p.header.Get("Mcp-Session-Id"), "x"}, false},
				"another parameter":        {"Mcp-Param-Region", []string{"us"}, !isTool},
				"a parameter twice":        {"Mcp-Param-Region", []string{"eu", "us"}, false},
				"a parameter of no schema": {"Mcp-Param-Planet", []string{"mars"}, true},
			} {
				if !p.complete && c.target == "foreign" && strings.HasPrefix(p.name, "draft") && name == "no parameter" {
					continue // the SDK requires the header of what a draft is translated into
				}
				t.Run(p.name+"/"+c.name+"/"+name, func(t *testing.T) {
					header := right()
					if header[test.header] = test.values; test.values == nil {
						delete(header, test.header)
					}
					before := ran.Load()
					status, text, _ := send(t, p.url, request(`"id":1,`, c.method, c.params, p.meta), header)
					if test.ok != (status == 200 && ran.Load() == before+1) {
						t.Errorf("status %d, ran %d times: %s", status, ran.Load()-before, text)
					}
					refused := status == 400 && strings.Contains(text, `"code":-32020`) && strings.Contains(text, `"id":1`)
					if !test.ok && (!refused || ran.Load() != before) {
						t.Errorf("status %d, ran %d times: %s", status, ran.Load()-before, text)
					}
				})
			}
		}
		// Messages that name nothing, and those without a method.
		for name, test := range map[string]struct {
			body   string
			header http.Header
		}{
			"a list with a name": {request(`"id":1,`, "tools/list", `"x":1`, p.meta),
				http.Header{"Mcp-Method": {"tools/list"}, "Mcp-Name": {"harmless"}}},
			"a notification": {request("", "notifications/cancelled", `"requestId":7`, p.meta),
				http.Header{"Mcp-Method": {"ping"}}},
			"a notification with a name": {request("", "tools/call", `"name":"own","arguments":{}`, p.meta),
				http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"harmless"}}},
			"a task": {request(`"id":1,`, "tasks/get", `"taskId":"mine"`, p.meta),
				http.Header{"Mcp-Method": {"tasks/get"}, "Mcp-Name": {"yours"}}},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				header := p.header.Clone()
				for name, values := range test.header {
					header[name] = values
				}
				before := ran.Load()
				status, text, _ := send(t, p.url, test.body, header)
				if status != 400 || !strings.Contains(text, `"code":-32020`) || ran.Load() != before {
					t.Errorf("status %d: %s", status, text)
				}
			})
		}
		if !strings.HasPrefix(p.name, "session") {
			continue
		}
		t.Run(p.name+"/a response", func(t *testing.T) {
			header := p.header.Clone()
			header.Set("Mcp-Method", "tools/call")
			status, text, _ := send(t, p.url, `{"jsonrpc":"2.0","id":1,"result":{}}`, header)
			if status != 400 || !strings.Contains(text, `"code":-32020`) {
				t.Errorf("status %d: %s", status, text)
			}
		})
		if !p.batches {
			continue
		}
		batch := func(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }
		own := func(id string) string { return request(id, "tools/call", calls[0].params, "") }
		harmless := func(id string) string { return strings.Replace(own(id), `"own"`, `"harmless"`, 1) }
		first, second := `"id":1,`, `"id":2,`
		for name, test := range map[string]struct {
			batch  string
			header http.Header
			runs   int32 // -1: it is refused
		}{
			"without headers": {batch(own(first), harmless(second)), http.Header{}, 2},
			"all agree": {batch(own(first), own(second)),
				http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"own"}, "Mcp-Param-Region": {"eu"}}, 2},
			"the second names another": {batch(harmless(first), own(second)),
				http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"harmless"}}, -1},
			"another parameter": {batch(own(first)), http.Header{"Mcp-Param-Region": {"us"}}, -1},
			"another method": {batch(own(first), `{"jsonrpc":"2.0","id":2,"method":"ping"}`),
				http.Header{"Mcp-Method": {"tools/call"}}, -1},
		} {
			t.Run(p.name+"/batch/"+name, func(t *testing.T) {
				header := p.header.Clone()
				for name, values := range test.header {
					header[name] = values
				}
				before := ran.Load()
				status, text, _ := send(t, p.url, test.batch, header)
				refused := status == 400 && strings.Contains(text, `"code":-32020`)
				if got := ran.Load() - before; got != max(test.runs, 0) || refused != (test.runs < 0) {
					t.Errorf("status %d, ran %d times: %s", status, got, text)
				}
			})
		}
	}
}
