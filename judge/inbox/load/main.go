// Command load measures an inbox with very many questions and viewers: how long its lists and cards take, and how much
// memory it needs, while each viewer has a stream of events and people claim questions.
//
//	cd judge && go run ./inbox/load
//
// The inbox is a process of its own on a store in a file. The command exits with 1 if the first pages of the list take
// 100 ms or more at the 95th percentile, or if the process needs 200 MB or more. It needs Linux.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

const (
	questions = 10_000 // that wait
	viewers   = 200    // who look at the page
	requests  = 500    // of each kind

	// The bars.
	slowest = 100 * time.Millisecond
	largest = 200 << 20 // bytes
)

func main() {
	serve := flag.String("serve", "", "serve the store in this `FILE`, as the process that is measured")
	flag.Parse()
	var err error
	if ctx := context.Background(); *serve != "" {
		err = serveInbox(ctx, *serve)
	} else {
		err = new(measurement).run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func serveInbox(ctx context.Context, file string) error {
	store, err := sqlite.Open(ctx, file)
	if err != nil {
		return err
	}
	defer store.Close()
	d, err := desk.Open(store, nil)
	if err != nil {
		return err
	}
	page, err := inbox.New(d, &inbox.Options{Title: "load", Identity: inbox.TrustedHeader{Name: "X-User",
		Groups: "X-Groups", Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}})
	if err != nil {
		return err
	}
	return process.Serve(ctx, &http.Server{ReadHeaderTimeout: time.Minute}, page)
}

type measurement struct {
	url    string
	events atomic.Int64
}

func (m *measurement) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "inbox-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tasks.db")
	name, err1 := fill(ctx, file)
	cmd, err2 := process.Self("-serve", file)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	server, err := process.StartServer(cmd, "")
	if err != nil {
		return err
	}
	defer server.Kill()
	m.url = server.URL

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range viewers {
		running.Go(func() { m.watch(ctx, i) })
	}
	running.Go(func() { m.claim(ctx, name) })
	time.Sleep(5 * time.Second) // until every viewer has a stream
	failed := m.measure(ctx, server, name)
	size, peak, err := process.Memory(server.PID())
	fmt.Printf("memory: %d MB, at most %d MB; the viewers got %d events\n", size>>20, peak>>20, m.events.Load())
	if peak >= largest {
		failed = append(failed, fmt.Errorf("the inbox needs %d MB: want less than %d", peak>>20, largest>>20))
	}
	if m.events.Load() < viewers {
		failed = append(failed, errors.New("not every viewer got an event"))
	}
	return errors.Join(append(failed, err)...)
}

// fill makes the questions, and returns the name of one.
func fill(ctx context.Context, file string) (name string, err error) {
	store, err := sqlite.Open(ctx, file)
	if err != nil {
		return "", err
	}
	defer store.Close()
	for i := range questions {
		id := fmt.Sprint("task ", i)
		content, err := stored.Encode(&stored.Asking{
			Key: "approve", Digest: make([]byte, len(journal.Digest{})), Method: input.MethodElicit, Votes: 2,
			Params: fmt.Appendf(nil, `{"mode":"form","message":"Deploy version %d of the shop to production?",`+
				`"requestedSchema":{"type":"object","properties":{"hour":{"type":"integer"}}}}`, i),
		})
		if err != nil {
			return "", err
		}
		row := &task.Task{ID: id, Principal: fmt.Sprint("caller ", i%50), Target: "deploy", Status: task.Working}
		call := stored.Call{ID: id, Params: fmt.Appendf(nil, `{"name":"deploy","arguments":{"version":"%d"}}`, i)}
		if err := store.Create(ctx, row, 24*time.Hour, time.Minute, call.Append(nil), nil, task.Quota{}); err != nil {
			return "", err
		}
		row.Status = task.InputRequired
		q := &task.Question{Key: "approve", For: []string{"group:release"}, Content: content}
		if i%2 == 0 {
			q.Within = time.Duration(1+i%1000) * time.Hour
		}
		if err := store.Update(ctx, row, task.Update{Leased: true, Due: -1, Ask: []*task.Question{q}}); err != nil {
			return "", err
		}
		name = task.Name(id)
	}
	return name, nil
}

// request sends a request as somebody of the group that is asked.
func (m *measurement) request(ctx context.Context, who int, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-User", fmt.Sprint("viewer ", who))
	req.Header.Set("X-Groups", "release")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return http.DefaultTransport.RoundTrip(req) // no redirect
}

// watch reads the stream of events of a viewer.
func (m *measurement) watch(ctx context.Context, who int) {
	res, err := m.request(ctx, who, http.MethodGet, "/events", "")
	if err != nil {
		return
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event:") {
			m.events.Add(1)
		}
	}
}

// claim claims and releases a question all the time, so that there is something to tell.
func (m *measurement) claim(ctx context.Context, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		do := []string{"do=claim&for=1h", "do=release"}[n%2]
		if res, err := m.request(ctx, 0, http.MethodPost, "/q/"+name+"/approve", do); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// measure sends requests of each kind, four at a time, and returns which bars they miss. The processor time of each
// has in it what the streams and the claims need meanwhile.
func (m *measurement) measure(ctx context.Context, server *process.Server, name string) (failed []error) {
	for _, kind := range []struct {
		what, path string
		bar        bool
	}{
		{"the list, oldest first", "/", true},
		{"the list, newest first", "/?order=newest", true},
		{"the list, nearest deadline first", "/?order=deadline", true},
		{"the list, third page", "/?page=3", true},
		{"a card", "/q/" + name + "/approve", true},
		{"the list, last page", "/?page=1000000", false}, // there are fewer
		{"a search that finds little", "/?search=version+77+of", false},
	} {
		n := requests
		if !kind.bar {
			n /= 10
		}
		before, err1 := server.CPU()
		took, err2 := m.time(ctx, kind.path, n)
		after, err3 := server.CPU()
		if err := errors.Join(err1, err2, err3); err != nil {
			return append(failed, fmt.Errorf("%s: %w", kind.what, err))
		}
		p95 := took[len(took)*95/100]
		fmt.Printf("%-34s %v, %v at p95, %v at most; %v of a processor\n", kind.what, took[len(took)/2], p95,
			took[len(took)-1], ((after - before) / time.Duration(len(took))).Round(100*time.Microsecond))
		if kind.bar && p95 >= slowest {
			failed = append(failed, fmt.Errorf("%s takes %v at p95: want less than %v", kind.what, p95, slowest))
		}
	}
	return failed
}

func (m *measurement) time(ctx context.Context, path string, n int) ([]time.Duration, error) {
	var all errgroup.Group
	took := make([]time.Duration, n)
	for worker := range 4 {
		all.Go(func() error {
			for i := worker; i < n; i += 4 {
				began := time.Now()
				res, err := m.request(ctx, i%viewers, http.MethodGet, path, "")
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err == nil && res.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", res.StatusCode)
				}
				if took[i] = time.Since(began).Round(100 * time.Microsecond); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	slices.Sort(took)
	return took, err
}
