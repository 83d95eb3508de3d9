package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// kind is a kind of client.
type kind struct {
	name    string
	clients int
	fresh   bool // a connection for each request
	pause   time.Duration
	call    func(id string) *call
}

var kinds = []*kind{
	{name: "keep-alive", clients: 4, pause: 40 * time.Millisecond, call: weather},
	{name: "no keep-alive", clients: 4, fresh: true, pause: 40 * time.Millisecond, call: weather},
	{name: "slow calls", clients: 4, pause: 200 * time.Millisecond, call: machine},
}

// call is a call with one question.
type call struct {
	tool, arguments, answers, want string
}

func weather(string) *call {
	return &call{"get_weather", `{"location":"New York"}`,
		`{"github_login":{"action":"accept","content":{"name":"octocat"}}}`, "New York"}
}

func machine(id string) *call {
	return &call{"provision_vm", fmt.Sprintf(`{"name":%q,"diskMiB":1}`, id),
		`{"network":{"action":"accept","content":{"network":"nat","hostname":"` + id + `"}}}`, id}
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
	client := &http.Client{Transport: transport, Timeout: patience}
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("vm%d-%d-%d", os.Getpid()%10000, number, n)
		r.add(k, k.call(id).make(client, url))
		select {
		case <-time.After(k.pause):
		case <-ctx.Done():
		}
	}
}

// make makes the call, and answers its question.
func (c *call) make(client *http.Client, url string) error {
	asked, err := c.send(client, url, "")
	if err != nil {
		return fmt.Errorf("round 1: %w", err)
	}
	var round struct {
		Result struct {
			ResultType, RequestState string
		}
	}
	if err := json.Unmarshal(asked, &round); err != nil || round.Result.ResultType != "input_required" {
		return fmt.Errorf("round 1: want a question, got %.300s", asked)
	}
	done, err := c.send(client, url, fmt.Sprintf(`"inputResponses":%s,"requestState":%q,`, c.answers, round.Result.RequestState))
	if err != nil {
		return fmt.Errorf("round 2: %w", err)
	}
	if text := string(done); !strings.Contains(text, `"complete"`) || !strings.Contains(text, c.want) || strings.Contains(text, `"isError":true`) {
		return fmt.Errorf("round 2: want a result with %s, got %.300s", c.want, text)
	}
	return nil
}

func (c *call) send(client *http.Client, url, members string) ([]byte, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,%s"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, c.tool, c.arguments, members)
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": c.tool,
	} {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %.200s", res.Status, text)
	}
	return text, err
}

// checkSessions opens sessions of 2025-11-25, and makes some requests in each: they must reach the instance that has it.
func checkSessions(url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	send := func(session, body string) (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode/100 != 2 {
			return nil, fmt.Errorf("status %s: %.200s (%v)", res.Status, text, err)
		}
		return res, nil
	}
	for n := range 10 {
		res, err := send("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fleet","version":"1"}}}`)
		if err != nil {
			return fmt.Errorf("opening session %d: %w", n, err)
		}
		session := res.Header.Get("Mcp-Session-Id")
		for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`} {
			if _, err := send(session, body); err != nil {
				return fmt.Errorf("session %d: %s: %w", n, body, err)
			}
		}
	}
	return nil
}
