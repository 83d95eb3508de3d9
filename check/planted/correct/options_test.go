package correct_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/check/planted/correct"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// endpoint is the first replica of a server.
type endpoint struct {
	*testing.T
	url string
}

// send returns the members of a result. They are nil for an error.
func (e endpoint) send(query, method string, params map[string]any) (result map[string]json.RawMessage) {
	e.Helper()
	client := &rawclient.Client{URL: e.url + query, Header: http.Header{"Authorization": {"Bearer " + planted.Alice}},
		Capabilities: `{"elicitation":{"form":{}}}`}
	err := client.Call(e.Context(), method, params, &result)
	if _, refused := errors.AsType[*rawclient.Error](err); err != nil && !refused {
		e.Fatal(err)
	}
	return result
}

// book calls the tool with a state and an answer, if there are any.
func (e endpoint) book(state, answer string) map[string]json.RawMessage {
	e.Helper()
	params := map[string]any{"name": "book", "arguments": map[string]any{"city": "Rome"}, "_meta": map[string]any{
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "test", "version": "1"}}}
	if state != "" {
		params["requestState"] = json.RawMessage(state)
	}
	if answer != "" {
		params["inputResponses"] = json.RawMessage(answer)
	}
	return e.send("", "tools/call", params)
}

// Each option of a server changes what a client sees, so that a check meets it. The server without options shows
// nothing of the kind.
func TestEachOptionIsOn(t *testing.T) {
	guest := `{"guest":{"action":"accept","content":{"name":"` + strings.Repeat("Ada", 20) + `","class":"first"}}}`
	confirm := `{"confirm":{"action":"accept","content":{"confirm":true,"seats":1}}}`
	findsTheState := func(e endpoint) bool { // which the client has lost
		e.book(string(e.book("", "")["requestState"]), guest)
		return e.book("", confirm)["content"] != nil
	}
	options := map[string]func(endpoint) bool{
		"single-use": func(e endpoint) bool {
			state := string(e.book("", "")["requestState"])
			return e.book(state, guest) != nil && e.book(state, guest) == nil
		},
		"bare-first-round": func(e endpoint) bool {
			first := e.book("", "")
			return first["inputRequests"] != nil && first["requestState"] == nil
		},
		"dual":            findsTheState,
		"stateless-first": findsTheState,
		"overflow": func(e endpoint) bool { // a reference does not grow with the answers
			first := e.book("", "")["requestState"]
			second := e.book(string(first), guest)["requestState"]
			return second != nil && len(second) < len(first)+60
		},
		"plain-forms": func(e endpoint) bool {
			second := e.book(string(e.book("", "")["requestState"]), guest)
			return second != nil && !bytes.Contains(second["inputRequests"], []byte(`"maximum"`))
		},
		"desk": func(e endpoint) bool {
			return bytes.Contains(e.send("", "tools/list", nil)["tools"], []byte(`"name":"review"`))
		},
		"drafts": func(e endpoint) bool {
			result := e.send("?draft=mrtr-1", "tools/call",
				map[string]any{"name": "book", "arguments": map[string]any{"city": "Rome"}})
			return result["inputRequests"] != nil && result["resultType"] == nil
		},
	}
	var plain endpoint
	for _, server := range correct.Servers() {
		if shows := options[server.Name]; server.Name == "sealed" || shows != nil {
			e := start(t, server)
			if server.Name == "sealed" {
				plain = e
				continue
			}
			if !shows(e) {
				t.Errorf("the option of %q changes nothing", server.Name)
			}
			if shows(plain) {
				t.Errorf("the server without options is like %q", server.Name)
			}
			delete(options, server.Name)
		}
	}
	for name := range options {
		t.Errorf("there is no server %q", name)
	}
}

// start serves the first replica of a server until the test ends.
func start(t *testing.T, server correct.Server) endpoint {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	t.Cleanup(cancel)
	first, _, _, err := server.Start(ctx, &group)
	expect.Check(t, err)
	web := httptest.NewServer(first)
	t.Cleanup(web.Close)
	return endpoint{t, web.URL}
}
