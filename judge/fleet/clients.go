package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/process"
)

// kind is a kind of client.
type kind struct {
	name  string
	fresh bool // a connection for each request
	pause time.Duration
	call  func(id string) *call
}

var kinds = []*kind{
	{name: "keep-alive", pause: 40 * time.Millisecond, call: weather},
	{name: "no keep-alive", fresh: true, pause: 40 * time.Millisecond, call: weather},
	{name: "slow calls", pause: 200 * time.Millisecond, call: machine},
}

// perKind is how many clients of each kind there are.
const perKind = 4

// call is a call with one question, and the text that its result must have.
type call struct {
	tool      string
	arguments map[string]any
	key       string // of the question
	answer    map[string]any
	want      string
}

func weather(string) *call {
	return &call{"get_weather", map[string]any{"location": "New York"},
		"github_login", map[string]any{"name": "octocat"}, "New York"}
}

func machine(id string) *call {
	return &call{"provision_vm", map[string]any{"name": id, "diskMiB": 1},
		"network", map[string]any{"network": "nat", "hostname": id}, id}
}

// result counts calls by kind of client.
type result struct {
	restarts int

	mu       sync.Mutex
	counts   map[string]*count
	failures []string // the first ones
}

type count struct{ calls, failed int }

func newResult() *result {
	r := &result{counts: make(map[string]*count)}
	for _, k := range kinds {
		r.counts[k.name] = new(count)
	}
	return r
}

func (r *result) add(k *kind, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[k.name]
	c.calls++
	if err == nil {
		return
	}
	c.failed++
	if len(r.failures) < 20 {
		r.failures = append(r.failures, fmt.Sprintf("%s %s: %v", time.Now().UTC().Format(time.RFC3339Nano), k.name, err))
	}
}

func (r *result) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, failed := 0, 0
	for _, c := range r.counts {
		calls, failed = calls+c.calls, failed+c.failed
	}
	return fmt.Sprintf("%d calls, %d failed", calls, failed)
}

// run makes calls until ctx is done. The one that runs then is finished.
func (k *kind) run(ctx context.Context, url string, number int, r *result) {
	transport := &http.Transport{DisableKeepAlives: k.fresh}
	defer transport.CloseIdleConnections()
	c := &rawclient.Client{
		URL: url, Capabilities: `{"elicitation":{}}`,
		HTTP: &http.Client{Transport: transport, Timeout: process.Patience},
	}
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("vm%d-%d-%d", os.Getpid()%10000, number, n)
		r.add(k, k.call(id).make(context.WithoutCancel(ctx), c))
		select {
		case <-time.After(k.pause):
		case <-ctx.Done():
		}
	}
}

// make makes the call, and answers its question.
func (c *call) make(ctx context.Context, client *rawclient.Client) error {
	params := map[string]any{"name": c.tool, "arguments": c.arguments}
	var asked, done rawclient.Result
	if err := client.Call(ctx, "tools/call", params, &asked); err != nil {
		return fmt.Errorf("round 1: %w", err)
	}
	if asked.Type != "input_required" {
		return fmt.Errorf("round 1: want a question, got %.300v", asked)
	}
	params = asked.Retry(params, map[string]any{c.key: rawclient.Accept(c.answer)})
	if err := client.Call(ctx, "tools/call", params, &done); err != nil {
		return fmt.Errorf("round 2: %w", err)
	}
	text := done.Text() + string(done.Structured)
	if done.Type != "complete" || done.IsError || !strings.Contains(text, c.want) {
		return fmt.Errorf("round 2: want a result with %s, got %.300v", c.want, done)
	}
	return nil
}

// checkSessions opens sessions of 2025-11-25, and makes some requests in each: they must reach the instance that has
// it.
func checkSessions(ctx context.Context, url string) error {
	client := &rawclient.Client{URL: url, HTTP: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, Timeout: process.Patience,
	}}
	for n := range 10 {
		session, err := client.Initialize(ctx, "2025-11-25")
		if err != nil {
			return fmt.Errorf("open session %d: %w", n, err)
		}
		for range 2 {
			if err := session.Call(ctx, "tools/list", nil, nil); err != nil {
				return fmt.Errorf("session %d: %w", n, err)
			}
		}
	}
	return nil
}
