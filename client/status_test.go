package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/askback-mcp/askback/internal/test/harness"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// beginning is a server that answers these two methods with a status and nothing else, unless the status is 0.
func beginning(t *testing.T, discover, initialize int, call func(w http.ResponseWriter, m message)) mcp.Transport {
	t.Helper()
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		_ = json.NewDecoder(r.Body).Decode(&m)
		status := http.StatusAccepted
		switch m.Method {
		case "server/discover":
			status = discover
		case "initialize":
			status = initialize
		case "tools/call":
			call(w, m)
			return
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		respond(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
	}))
	return &mcp.StreamableClientTransport{Endpoint: web.URL, DisableStandaloneSSE: true}
}

// A server that answers the probe with nothing is an older one, and a call in its session tells its status.
func TestStatusesInASession(t *testing.T) {
	for _, discover := range []int{200, 202, 204, 400, 404, 408} {
		for status, notRun := range map[int]bool{200: false, 202: false, 400: true, 401: true, 403: true, 404: true,
			408: false, 429: true, 500: false, 503: false} {
			for _, kind := range []string{"", "application/json"} {
				session := connect(t, client.Options{}, beginning(t, discover, 0, func(w http.ResponseWriter, _ message) {
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
				}), "")
				_, err := called(t, session, "t")
				_, refused := errors.AsType[*client.NotRunError](err)
				if err == nil || !strings.Contains(err.Error(), fmt.Sprint("HTTP status ", status)) || refused != notRun {
					t.Errorf("probe %d, call %d of type %q: got %T %v", discover, status, kind, err, err)
				}
			}
		}
	}
}

func TestStatusesOfTheBeginning(t *testing.T) {
	for _, status := range []int{200, 202, 400, 401, 403, 404, 408} {
		for _, discover := range []int{404, status} {
			_, err := client.New(nil).Connect(t.Context(), beginning(t, discover, status, nil), nil)
			want := fmt.Sprint("connecting: the server answered with HTTP status ", status)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("probe %d: got %v, want the status %d", discover, err, status)
			}
		}
	}
}
