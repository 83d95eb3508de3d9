package drafts

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// FuzzServe: whatever comes, the server behind the edge gets one request that claims the ratified version under the
// client's id, and the client gets one JSON message in the form of a draft, or nothing.
func FuzzServe(f *testing.F) {
	shared := text(f, envelope{State: "x", Keys: []string{"a"}})
	echo := text(f, envelope{State: "x", Keys: []string{"a"}, Call: sessionCall("gone")})
	for _, form := range append([]Form{""}, forms...) {
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"inputResponses":{"a":{"result":{}}},` +
				`"requestState":"s"}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"dependent_responses":{"state":` + shared +
				`,"responses":[{"result":{}}]}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"},"dependent_responses":{"responses":[{"state":` +
				shared + `,"result":{}}]}}`,
			`{"jsonrpc":"2.0","id":"x","method":"tasks/result","params":{"taskId":"t","_meta":{"n":1}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`,
			`{"jsonrpc":"2.0","id":7,"state":` + echo + `,"result":{}}`,
			`{"jsonrpc":"2.0","id":7,"state":` + echo + `,"error":{}}`,
			taskAnswer("t"), `{"id":1,"method":"tools/call","params":[]}`, `[]`, ``,
		} {
			f.Add(string(form), body, true)
			f.Add(string(form), body, false)
		}
	}
	f.Fuzz(func(t *testing.T, form, body string, asks bool) {
		requests := 0
		ratified := func(w http.ResponseWriter, r *http.Request, request []byte) {
			requests++
			// An envelope is decoded to a greater depth than the body that brings it.
			if err := strictjson.Check(request, 64); err != nil {
				t.Fatalf("%s: %v", request, err)
			}
			meta := strictjson.Get(strictjson.Get(request, "params"), "_meta")
			version, _ := strictjson.String(strictjson.Get(meta, "io.modelcontextprotocol/protocolVersion"))
			if r.Header.Get(wire.HeaderVersion) != wire.Version || version != wire.Version &&
				strictjson.TypeOf(meta) == strictjson.TypeObject {
				t.Fatalf("%v with %s", r.Header, request)
			}
			if strictjson.Get(request, "dependent_responses") != nil || strictjson.Get(request, "inputResponses") != nil ||
				strictjson.Get(request, "requestState") != nil {
				t.Fatalf("members of a draft in %s", request)
			}
			w.Header().Set("Content-Type", "application/json")
			id := strictjson.Get(request, "id")
			_, _ = w.Write(wire.AppendResult(nil, id, func(dst []byte) []byte {
				if asks && requests == 1 {
					return wire.InputRequired(dst, []wire.InputRequest{{Key: "k", Method: "roots/list", Params: []byte("{}")}}, "s",
						[]byte(`{"n":1}`))
				}
				return append(dst, `{"resultType":"complete","task":{"status":"working"},"tasks":[]}`...)
			}))
		}
		edge := &Edge{Depth: 16, HasSession: notHeld}
		r := httptest.NewRequest(http.MethodPost, "/mcp?draft="+url.QueryEscape(form), nil)
		w := httptest.NewRecorder()
		if !edge.Serve(w, r, []byte(body), true, ratified) {
			if requests != 0 || w.Body.Len() != 0 {
				t.Fatalf("%d requests, and %s, for what was passed on", requests, w.Body)
			}
			return
		}
		if requests > 2 {
			t.Fatalf("%d requests for one", requests)
		}
		if w.Body.Len() == 0 {
			if w.Code != http.StatusAccepted {
				t.Fatalf("status %d without a body", w.Code)
			}
			return
		}
		if !json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), `"resultType"`) {
			t.Fatalf("answered %s", w.Body)
		}
	})
}

// FuzzWithState: whatever a server's message is, its state is moved or the message stays as it is.
func FuzzWithState(f *testing.F) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/state":"x"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"_meta":{"io.github.askback-mcp/state":"x","n":1},"m":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.github.askback-mcp/state":"x"}}}`, `{}`, `[]`,
		`{"method":1,"params":{"_meta":{"io.github.askback-mcp/state":"\ud800"}}}`,
	} {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		moved, id, state := withState(message)
		if state == "" {
			if string(moved) != string(message) || id != nil {
				t.Fatalf("%s became %s", message, moved)
			}
			return
		}
		if strictjson.Check(message, 64) != nil {
			return
		}
		if err := strictjson.Check(moved, 64); err != nil {
			t.Fatalf("%s became %s: %v", message, moved, err)
		}
		got, _ := strictjson.String(strictjson.Get(moved, "state"))
		if got != state || strictjson.Get(strictjson.Get(strictjson.Get(moved, "params"), "_meta"), MetaState) != nil ||
			string(strictjson.Get(moved, "id")) != string(id) {
			t.Fatalf("%s became %s", message, moved)
		}
	})
}
