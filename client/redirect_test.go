package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// mounted serves a server at /mcp/ and redirects /mcp there, as the router of many a web framework does.
func mounted(t *testing.T, srv *askback.Server, status int) (_ mcp.Transport, redirected func() []string) {
	var mu sync.Mutex
	var methods []string
	mux := http.NewServeMux()
	mux.Handle("/mcp/", srv.HTTPHandler(nil))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		methods = append(methods, r.Method)
		mu.Unlock()
		http.Redirect(w, r, "/mcp/", status)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &mcp.StreamableClientTransport{Endpoint: s.URL + "/mcp"}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(methods)
		return slices.Compact(methods)
	}
}

// HTTP lets a client repeat a POST only after 307 and 308. After others it would send a GET, without the message.
func TestRedirectsThatLoseTheMessage(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
			transport, redirected := mounted(t, newTaskServer(t), status)
			opts := answers()
			_, err := client.New(&opts).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("with HTTP status ", status)) ||
				!strings.Contains(err.Error(), "redirect with 307 or 308") {
				t.Errorf("%s, %d: %v", version, status, err)
			}
			if got := redirected(); !slices.Equal(got, []string{"POST"}) {
				t.Errorf("%s, %d: redirected %q", version, status, got)
			}
		}
	}
}

func TestEverythingWorksBehindARedirect(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			t.Run(fmt.Sprint(version, " ", status), func(t *testing.T) {
				t.Parallel()
				srv := newTaskServer(t)
				register(srv)
				transport, redirected := mounted(t, srv, status)
				session := connect(t, answers(), transport, version)
				expect.Equal(t, "a call that asks", textOf(expect.Must(called(t, session, "everything"))(t)),
					"{0150 octocat 42}file:///srchello")
				started := start(t, session, "work", time.Minute)
				expect.Equal(t, "a task", textOf(expect.Must(session.WaitTask(t.Context(), started.ID))(t)), worked)
				long := start(t, session, "long", time.Minute)
				if err := session.CancelTask(t.Context(), long.ID); err != nil {
					t.Errorf("cancelling: %v", err)
				}
				expect.Equal(t, "after it", expect.Must(session.GetTask(t.Context(), long.ID))(t).Status, "cancelled")
				expect.Is(t, "a task that does not exist", expect.Err(session.GetTask(t.Context(), "none")),
					client.ErrTaskUnknown)
				if err := session.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
				want := []string{"POST"}
				if version == "2025-11-25" {
					want = []string{"DELETE", "GET", "POST"}
				}
				expect.Same(t, "redirected", redirected(), want)
			})
		}
	}
}
