package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// call is what a host wants, once.
type call struct {
	id, tool     string
	way          string // how its host calls
	began, ended time.Time
	end, text    string
}

// How a call ends for its host.
const (
	done    = "done"    // with its result
	unknown = "unknown" // as the words of the bridge say
	unsent  = "unsent"  // as the words of the bridge say: it did not run
	lost    = "lost"    // with its connection, before it had a name
	refused = "refused" // by an error of the server
)

const rounds, bridge = "rounds", "bridge"

// ways are the ways in which hosts call.
var ways = []struct {
	name, capabilities string
	hosts              int
	tools              []string
}{
	{"tasks", rawclient.AllTasks, 3, []string{"refund"}},
	{"words", "{}", 2, []string{"refund", "once"}}, // it asks for the result with askback_result
	{"session", "{}", 2, []string{"refund", "once"}},
	{rounds, `{"elicitation":{}}`, 2, []string{"quick"}},
	{bridge, "{}", 3, []string{"refund_task", "once", "quick"}},
}

// host makes a call in its way.
type host struct {
	*record
	way     string
	client  rawclient.Client
	session *rawclient.Client // nil if there is none
}

// startHosts lets hosts call until ctx is done. What has begun goes on.
func (w *world) startHosts(ctx context.Context) {
	for n, way := range slices.Repeat(ways, 3) {
		if n/len(ways) >= way.hosts {
			continue
		}
		name, url := fmt.Sprint("host", n), w.mcpURL
		if n == 0 {
			name = slowCaller
		}
		if way.name == bridge {
			url = w.bridgeURL
		}
		client := rawclient.Client{URL: url, Header: http.Header{userHeader: {name}}, Capabilities: way.capabilities}
		random := rand.New(rand.NewPCG(w.seed, uint64(100+n)))
		w.running.Go(func() {
			for i := 1; pause(ctx, rand.N(3*time.Second)); i++ {
				c := &call{id: fmt.Sprintf("%s.%d", name, i), way: way.name, tool: way.tools[random.IntN(len(way.tools))],
					began: time.Now()}
				arguments := map[string]any{"id": c.id, "millis": 1000 + random.IntN(4000)}
				params := map[string]any{"name": c.tool, "arguments": arguments}
				w.record.change(func() { w.record.calls = append(w.record.calls, c) })
				h := &host{record: w.record, way: way.name, client: client}
				w.running.Go(func() { h.make(w.ctx, c, params) })
			}
		})
	}
}

// make makes a call, and notes how it ends.
func (h *host) make(ctx context.Context, c *call, params map[string]any) {
	text, err := h.follow(ctx, c, params)
	if ctx.Err() != nil {
		return
	}
	end := done
	switch r, answered := errors.AsType[*rawclient.Error](err); {
	case answered && r.Code != 0:
		end, text = refused, err.Error()
	case err != nil:
		end, text = lost, err.Error()
	case h.way == bridge && mayHaveRun.MatchString(text):
		end = unknown
	case h.way == bridge && didNotRun.MatchString(text):
		end = unsent
	}
	h.change(func() { c.end, c.text, c.ended = end, text, time.Now() })
}

// The words of the bridge for a call that may have run, and for one that did not.
var (
	mayHaveRun = regexp.MustCompile(`outcome of this call is unknown|may have run|^The connection to the server of`)
	didNotRun  = regexp.MustCompile(`was not sent|did not run|was not called: `)
)

// taskName is in the words for a host that cannot wait.
var taskName = regexp.MustCompile(`askback_result with the name "([A-Z2-7]{26})"`)

// follow makes a call, answers what it asks, and then asks for its result until there is one.
func (h *host) follow(ctx context.Context, c *call, params map[string]any) (string, error) {
	res, err := h.send(ctx, "tools/call", params)
	if err == nil && res.Type == "input_required" {
		answers := make(map[string]any)
		for key := range res.Requests {
			answers[key] = rawclient.Accept(map[string]any{"name": "octocat"})
		}
		res, err = h.send(ctx, "tools/call", res.Retry(params, answers))
	}
	if err != nil {
		return "", err
	}
	method, name := "tools/call", taskName.FindStringSubmatch(res.Text())
	switch {
	case res.TaskID != "":
		method, params = "tasks/get", map[string]any{"taskId": res.TaskID}
	case name != nil:
		params = map[string]any{"name": "askback_result", "arguments": map[string]any{"name": name[1]}}
	default:
		return res.Text(), nil
	}
	for pause(ctx, 300*time.Millisecond) {
		switch now, err := h.send(ctx, method, params); {
		case err != nil:
			h.session = nil
			h.change(func() { c.text = err.Error() })
		case method == "tools/call" && !taskName.MatchString(now.Text()):
			return now.Text(), nil
		case now.Result != nil:
			return now.Result.Text(), nil
		case now.Status == "failed" || now.Status == "cancelled":
			return "the task is " + now.Status, nil
		}
	}
	return "", ctx.Err()
}

// send sends a request, in a session if the host has sessions. A round may be repeated, and is.
func (h *host) send(ctx context.Context, method string, params map[string]any) (*rawclient.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	client := &h.client
	if h.way == "session" || h.way == bridge {
		for h.session == nil {
			var err error
			if h.session, err = h.client.Initialize(ctx, "2025-11-25"); err != nil && !pause(ctx, 100*time.Millisecond) {
				return nil, err
			}
		}
		client = h.session
	}
	for {
		res := new(rawclient.Result)
		err := client.Call(ctx, method, params, res)
		if again := "send the request again"; err == nil && res.IsError && strings.HasSuffix(res.Text(), again) {
			err = &rawclient.Error{Code: -32603, Message: res.Text()} // which a tool says in a result
		}
		if err == nil || h.way != rounds || !pause(ctx, 100*time.Millisecond) {
			return res, err
		}
	}
}
