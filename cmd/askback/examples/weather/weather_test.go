package weather_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/weather"
)

func TestTheFlowOfTheProposal(t *testing.T) {
	h := serve(t)

	asked := post(t, h, `"arguments": {"location": "New York"}`)
	want := `{
		"github_login": {
			"method": "elicitation/create",
			"params": {
				"message": "Please provide your GitHub username",
				"requestedSchema": {
					"type": "object",
					"properties": {"name": {"type": "string"}},
					"required": ["name"]
				}
			}
		}
	}`
	if diff := cmp.Diff(fromJSON(t, want), asked.questions()); diff != "" {
		t.Errorf("inputRequests (-want +got):\n%s", diff)
	}

	got := post(t, h, `
		"arguments": {"location": "New York"},
		"inputResponses": {"github_login": {"action": "accept", "content": {"name": "octocat"}}},
		"requestState": "`+asked.RequestState+`"`)
	if text := "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"; got.text() != text ||
		got.IsError {
		t.Errorf("got %+v, want %q", got, text)
	}
}

func TestAnUnknownCityIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	got := post(t, serve(t), `"arguments": {"location": "New Yrok"}`)
	if want := `unknown city "New Yrok"; did you mean New York?`; got.text() != want || !got.IsError {
		t.Errorf("got %+v, want the tool error %q", got, want)
	}
}

func TestWithoutAUsernameThereIsNoWeather(t *testing.T) {
	for _, response := range []string{
		`{"action": "decline"}`,
		`{"action": "cancel"}`,
		`{"action": "accept", "content": {"name": " "}}`,
	} {
		h := serve(t)
		asked := post(t, h, `"arguments": {"location": "Zurich"}`)
		got := post(t, h, `
			"arguments": {"location": "Zurich"},
			"inputResponses": {"github_login": `+response+`},
			"requestState": "`+asked.RequestState+`"`)
		if !got.IsError || !strings.HasPrefix(got.text(), "a GitHub username is needed") {
			t.Errorf("answered with %s: got %+v", response, got)
		}
	}
}

func serve(t *testing.T) http.Handler {
	t.Helper()
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil), &askback.Options{
		Logger: slog.New(slog.DiscardHandler), // it warns that no keys are configured
	})
	if err != nil {
		t.Fatal(err)
	}
	weather.Register(s)
	return s.HTTPHandler(nil)
}

// result is what the tests read of a result of tools/call.
type result struct {
	InputRequests map[string]struct {
		Method string
		Params map[string]any
	}
	RequestState string
	Content      []struct{ Text string }
	IsError      bool
}

// questions returns the input requests as the proposal writes them: without the mode, which is form unless told.
func (r result) questions() any {
	questions := make(map[string]any)
	for key, q := range r.InputRequests {
		if q.Params["mode"] == "form" {
			delete(q.Params, "mode")
		}
		questions[key] = map[string]any{"method": q.Method, "params": q.Params}
	}
	return questions
}

func (r result) text() string {
	if len(r.Content) != 1 {
		return ""
	}
	return r.Content[0].Text
}

// post calls get_weather once with the given params, a client's request on the wire.
func post(t *testing.T, h http.Handler, params string) result {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "get_weather", `+params+`, "_meta": {
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "get_weather")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	var response struct{ Result *result }
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil || response.Result == nil {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	return *response.Result
}

func fromJSON(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
