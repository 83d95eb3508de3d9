package tasks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/procfs"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// subscribers takes what is posted, and says when and to whom.
type subscribers chan string

func (s subscribers) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	s <- r.URL.Path
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}}, nil
}

// BenchmarkWebhooks measures how long an event takes to its ten subscribers, of 10,000 of a thousand principals, and
// what of a processor the server and its database take while nothing happens. Another instance writes the event.
func BenchmarkWebhooks(b *testing.B) {
	const principals, each, idle = 1000, 10, 30 * time.Second
	dsn := pgtest.DSN(b)
	open := func() *postgres.Store {
		store := expect.Must(postgres.Open(b.Context(), dsn))(b)
		b.Cleanup(func() { store.Close() })
		return store
	}
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(b)
	got := make(subscribers, principals*each)
	sdk := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	srv := expect.Must(askback.New(sdk, &askback.Options{
		Keys: keys, Logger: slog.New(slog.DiscardHandler), Tasks: &askback.Tasks{Store: open()},
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) { return extra.Header.Get("From"), nil },
		Events: &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: got,
			Allow: func(string, string) bool { return true }}},
	}))(b)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	defer func() { stop(); <-done }()
	h := srv.HTTPHandler(nil)
	for i := range principals * each {
		subscribeHook(b, h, fmt.Sprint("user ", i%principals), fmt.Sprintf("https://hooks.example/%d/%d", i%principals, i))
	}
	time.Sleep(5 * time.Second) // each is looked at once
	before := processorTime(b, dsn)
	time.Sleep(idle)
	share := float64(processorTime(b, dsn)-before) / float64(idle)

	writer := open()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		t := &task.Task{ID: rand.Text(), Principal: fmt.Sprint("user ", i%principals), Method: "tools/call", Target: "deploy",
			Status: task.Completed, Events: true}
		began := time.Now()
		expect.Check(b, writer.Insert(b.Context(), t, time.Hour, nil, task.Update{Due: -1}, task.Quota{}))
		for range each {
			if path := <-got; !strings.HasPrefix(path, fmt.Sprintf("/%d/", i%principals)) {
				b.Fatalf("the event of user %d went to %s", i%principals, path)
			}
		}
		took = append(took, time.Since(began))
		time.Sleep(200 * time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms/median")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "ms/longest")
	b.ReportMetric(100*share, "%idle")
}

func subscribeHook(b *testing.B, h http.Handler, principal, url string) {
	b.Helper()
	params := map[string]any{
		"name": "call.ended", "ttlMs": nil,
		"delivery": map[string]string{"url": url, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		"_meta":    map[string]any{mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientCapabilities: map[string]any{}},
	}
	body := expect.Must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "events/subscribe",
		"params": params}))(b)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": "events/subscribe",
		"Mcp-Name": "call.ended", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"From": principal} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); !strings.Contains(w.Body.String(), `"refreshBefore"`) {
		b.Fatalf("the answer is %s", w.Body)
	}
}

// processorTime is what this process, and all processes of the database's server, have used of processors.
func processorTime(b *testing.B, dsn string) time.Duration {
	b.Helper()
	conn := expect.Must(pgx.Connect(b.Context(), dsn))(b)
	defer conn.Close(context.Background())
	var backend int
	expect.Check(b, conn.QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	server := expect.Must(expect.Must(procfs.NewProc(backend))(b).Stat())(b).PPID
	var ticks int
	for _, p := range expect.Must(procfs.AllProcs())(b) {
		stat, err := p.Stat()
		if err == nil && (stat.PID == server || stat.PPID == server || stat.PID == os.Getpid()) {
			ticks += int(stat.UTime+stat.STime) + stat.CUTime + stat.CSTime // with children that have ended
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
