package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// stateBenchmarks are the stores, each in the phases that it has a part in.
var stateBenchmarks = []struct {
	name     string
	store    func(testing.TB) state.Store // nil is none
	mode     state.Mode
	overflow int
}{
	{name: "none"},
	{"memory/stateless-only", memory, state.StatelessOnly, 0},
	{"memory/stateless-first", memory, state.StatelessFirst, 0},
	{"memory/dual", memory, state.Dual, 0},
	{"memory/overflow", memory, state.StatelessOnly, 1},
	{"sqlite/stateless-first", sqliteFile, state.StatelessFirst, 0},
	{"sqlite/dual", sqliteFile, state.Dual, 0},
	{"sqlite/overflow", sqliteFile, state.StatelessOnly, 1},
	{"postgres/stateless-first", postgresServer, state.StatelessFirst, 0},
	{"postgres/dual", postgresServer, state.Dual, 0},
	{"postgres/overflow", postgresServer, state.StatelessOnly, 1},
}

// BenchmarkStates is one interaction through the HTTP handler without a network, without a
// store and in each phase with each of them.
func BenchmarkStates(b *testing.B) {
	for _, c := range stateBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			interaction := interactionWith(b, c.store, c.mode, c.overflow)
			b.ReportAllocs()
			for b.Loop() {
				interaction(b)
			}
		})
	}
}

// Each of the benchmarks measures interactions that succeed.
func TestStatesInteract(t *testing.T) {
	for _, c := range stateBenchmarks {
		t.Run(c.name, func(t *testing.T) {
			interaction := interactionWith(t, c.store, c.mode, c.overflow)
			for range 2 {
				interaction(t)
			}
		})
	}
}

func interactionWith(tb testing.TB, store func(testing.TB) state.Store, mode state.Mode,
	overflow int) func(testing.TB) {
	tb.Helper()
	opts := askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }}
	if store != nil {
		opts.States = &state.Options{Store: store(tb), Mode: mode, Overflow: overflow}
	}
	srv, err := newAskback(opts)
	if err != nil {
		tb.Fatal(err)
	}
	handler := srv.HTTPHandler(nil)
	template := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	for line := range strings.SplitSeq(strings.TrimSpace(modernHeader+"greet"), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		template.Header.Set(name, value)
	}
	serve := func(tb testing.TB, body string) []byte {
		r := template.WithContext(tb.Context())
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Body.Bytes()
	}
	const arguments = `{"place":` + newYork + `}`
	ask := toolCall("greet", arguments, "")
	return func(tb testing.TB) {
		state := requestState(serve(tb, ask))
		done := serve(tb, toolCall("greet", arguments, answered(octocat, state, "login")))
		if err := greeted(done, octocat, newYork); err != nil {
			tb.Fatal(err)
		}
	}
}

func memory(testing.TB) state.Store { return new(state.MemoryStore) }

func sqliteFile(tb testing.TB) state.Store {
	store, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "states.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { store.Close() })
	return store
}

func postgresServer(tb testing.TB) state.Store {
	store, err := postgres.Open(tb.Context(), pgtest.DSN(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { store.Close() })
	return store
}
