package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// soundResults are results of a server by method, with an example of whatever the command reads.
var soundResults = map[string]string{
	"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"serverInfo":{"name":"s",
		"version":"1","icons":[{"src":"x"}]},
		"capabilities":{"tools":{},"prompts":{},"resources":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,
		"cacheScope":"public"}`,
	"tools/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","title":"T",
		"description":"d",
		"annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"a":{"type":"integer",
		"anyOf":[{"const":1}]}}},
		"outputSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}]}`,
	"prompts/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","prompts":[{"name":"p",
		"arguments":[{"name":"a"}]}]}`,
	"resources/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","resources":[{"name":"r",
		"uri":"doc://r","size":1,
		"annotations":{"audience":["user"]}}]}`,
	"resources/templates/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private",
		"resourceTemplates":[{"name":"r","uriTemplate":"doc://{a}"}]}`,
	"tools/call": `{"resultType":"complete","isError":false,"content":[{"type":"text","text":"x",
		"annotations":{"priority":1}},
		{"type":"image","data":"","mimeType":"image/png"},{"type":"resource_link","uri":"doc://r","name":"r","size":1},
		{"type":"resource","resource":{"uri":"doc://r","text":"x"}}],"structuredContent":{"a":1},"_meta":{"a":1}}`,
	"prompts/get": `{"resultType":"complete","description":"d","messages":[{"role":"user","content":{"type":"text",
		"text":"x"}}]}`,
	"resources/read": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[{"uri":"doc://r","text":"x",
		"_meta":{}}]}`,
	"tasks/get": `{"resultType":"complete","taskId":"id","status":"completed","createdAt":"2026-01-01T00:00:00Z","ttlMs":1,
		"lastUpdatedAt":"2026-01-01T00:00:00Z","pollIntervalMs":1,"statusMessage":"m","_meta":{},
		"result":{"resultType":"complete","content":[{"type":"text","text":"x"}],"_meta":{"a":1}}}`,
}

// other results, in the place of those above.
var otherResults = []struct{ method, result string }{
	{"tools/call", `{"resultType":"input_required","requestState":"s",
		"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form",
		"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"const":"x",
		"title":"X"}]}}},"required":["a"]}}},
		"u":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com",
		"elicitationId":"e"}},
		"m":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text",
		"text":"x"}}]}},
		"r":{"method":"roots/list","params":{}}}}`},
	{"tools/call", `{"resultType":"task","taskId":"id","status":"working","createdAt":"2026-01-01T00:00:00Z","ttlMs":1,
		"pollIntervalMs":1}`},
	{"tasks/get", `{"resultType":"complete","taskId":"id","status":"failed","error":{"code":-32603,"message":"m",
		"data":{}}}`},
	{"tasks/get", `{"resultType":"complete","taskId":"id","status":"input_required",
		"inputRequests":{"q":{"method":"elicitation/create",
		"params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","oneOf":[{"const":"x",
		"title":"X"}]}}}}}}}`},
}

// A server may send null, or nothing, in the place of anything that it should send. The command ends with a result or
// an error, and does not crash.
func TestServersThatSendNull(t *testing.T) {
	t.Parallel()
	var results atomic.Pointer[map[string]string]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if result := (*results.Load())[m.Method]; result != "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}))
	defer web.Close()
	answers := []string{"--answer", `q={"a":"x"}`, "--answer", "u=accept", "--answer", "m=x", "--timeout", "500ms"}
	commands := map[string][][]string{
		"server/discover":          {{"tools", web.URL}, {"call", web.URL, "t", "a=1"}},
		"tools/list":               {{"tools", web.URL}, {"call", web.URL, "t", "a=1"}},
		"prompts/list":             {{"tools", web.URL}, {"prompt", web.URL, "p", "a=1"}},
		"resources/list":           {{"tools", web.URL}},
		"resources/templates/list": {{"tools", web.URL}},
		"tools/call":               {append([]string{"call", web.URL, "t", "a=1"}, answers...)},
		"prompts/get":              {append([]string{"prompt", web.URL, "p", "a=1"}, answers...)},
		"resources/read":           {append([]string{"read", web.URL, "doc://r"}, answers...)},
		"tasks/get": {
			{"task", "get", web.URL, "id"}, {"task", "result", web.URL, "id", "--timeout", "500ms"},
			{"task", "answer", web.URL, "id", "--answer", `q={"a":"x"}`},
		},
	}
	tried := 0
	try := func(method, result string) {
		tried++
		all := maps.Clone(soundResults)
		all[method] = result
		results.Store(&all)
		for _, args := range commands[method] {
			_, stdout, stderr := command(t, args...)
			if said := stdout + stderr; strings.Contains(said, "nil pointer") || strings.Contains(said, "goroutine ") {
				t.Errorf("%s of %s:\n%s", strings.Join(args, " "), result, said)
			}
		}
	}
	for _, method := range slices.Sorted(maps.Keys(soundResults)) {
		for _, result := range withNulls(soundResults[method]) {
			try(method, result)
		}
	}
	for _, other := range otherResults {
		for _, result := range withNulls(other.result) {
			try(other.method, result)
		}
	}
	if tried < 200 {
		t.Errorf("%d results were tried", tried)
	}
}

// withNulls returns a JSON text, and copies of it in each of which one value is null or gone.
func withNulls(text string) []string {
	all := []string{text, "null"}
	var top any
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		panic(err)
	}
	add := func() { all = append(all, cli.Compact(top)) }
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				value := v[name]
				v[name] = nil
				add()
				delete(v, name)
				add()
				v[name] = value
				walk(value)
			}
		case []any:
			for i, value := range v {
				v[i] = nil
				add()
				v[i] = value
				walk(value)
			}
		}
	}
	walk(top)
	return all
}
