package askback_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Whatever body arrives, the server answers with JSON or a stream, and lives on.
func FuzzHTTP(f *testing.F) {
	h := newServer(f, nil, greet, rounds).HTTPHandler(nil)
	for _, r := range []request{
		{target: "greet", arguments: `{"place":"x"}`},
		{target: "rounds", responses: `{"login":{"action":"accept"}}`, state: "ab1.aaaaaaaa.AAAA"},
	} {
		body, err := io.ReadAll(r.http(f).Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(r.target, string(body))
	}
	f.Fuzz(func(t *testing.T, target, body string) {
		res := request{target: "greet", body: body, header: http.Header{"Mcp-Name": {target}}}.send(t, h)
		if kind := res.header.Get("Content-Type"); res.status >= 500 || kind == "application/json" && !json.Valid([]byte(res.raw)) {
			t.Fatalf("status %d, %s: %q", res.status, kind, res.raw)
		}
	})
}

// Whatever answers a client gives, they are taken, or asked for again.
func FuzzAnswers(f *testing.F) {
	h := newServer(f, nil, rounds).HTTPHandler(nil)
	first := request{target: "rounds"}
	first.state = first.send(f, h).asked(f, "login", "roots")
	f.Add(`{"action":"accept","content":{"name":"x"}}`, `{"roots":[{"uri":"file:///x"}]}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`)
	f.Add(`{"action":"decline"}`, `{"roots":null}`, `{"content":[{"type":"tool_use"}]}`)
	f.Fuzz(func(t *testing.T, login, roots, model string) {
		r := first
		r.responses = `{"login":` + login + `,"roots":` + roots + `}`
		res := r.send(t, h)
		if res.Result != nil && res.Result.Requests["model"] != nil {
			r.state, r.responses = res.Result.State, `{"model":`+model+`}`
			res = r.send(t, h)
		}
		if res.status >= 500 || res.Result == nil && res.Error == nil || res.Error != nil && res.Error.Code == -32603 {
			t.Fatalf("status %d: %s", res.status, res.raw)
		}
	})
}

// Whatever lines arrive on standard input, the connection ends only with the input.
func FuzzStdio(f *testing.F) {
	f.Add(greetLine)
	f.Add("{}\n[]\n[{}]\nnull\n\"\n")
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	f.Fuzz(func(t *testing.T, input string) {
		if strings.Contains(input, "subscriptions") || strings.Contains(input, "initialize") {
			return // these may go on for longer than a fuzz run
		}
		var out strings.Builder
		srv := newServer(t, nil, greet)
		in := input + "\n" + greetLine
		_ = srv.Run(t.Context(), &mcp.IOTransport{Reader: io.NopCloser(strings.NewReader(in)), Writer: nopCloser{&out}})
		if !strings.Contains(out.String(), `"id":7`) {
			t.Fatalf("no answer to the last line after %q: %s", input, out.String())
		}
	})
}
