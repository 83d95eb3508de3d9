package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// order is one machine that a customer wants.
type order struct {
	number    int
	extension bool // the dialect of its task: the extension's or that of the proposals
	cancel    bool // the customer will change their mind
	patience  time.Duration

	cpus, memory      int
	network, hostname string
	misfit            bool // the first answer does not fit the question
	badHostname       bool // the first host name is not valid

	// The outcome.
	name     string          // of the machine: a new one for each attempt at creating the task
	id       string          // of the task, once it is acknowledged
	answered map[string]bool // questions, by their keys, whose answer was acknowledged
	ended    string          // status
	result   outcome
}

// outcome is the structured result of provision_vm.
type outcome struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	ID       string `json:"id"`
	Path     string `json:"path"`
	Network  string `json:"network"`
	Hostname string `json:"hostname"`
	Files    []file `json:"files"`
	SHA256   string `json:"sha256"`
}

type file struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// newOrder makes the choices of one customer.
func newOrder(seed uint64, number int) *order {
	r := rand.New(rand.NewPCG(seed, uint64(number)+1))
	return &order{
		number:      number,
		answered:    make(map[string]bool),
		extension:   r.IntN(3) > 0,
		cancel:      r.IntN(8) == 0,
		patience:    time.Duration(r.Int64N(int64(2500 * time.Millisecond))),
		cpus:        1 + r.IntN(8),
		memory:      128 << r.IntN(6),
		network:     []string{"bridge", "nat", "isolated"}[r.IntN(3)],
		hostname:    fmt.Sprintf("host-%d", r.IntN(1_000_000)),
		misfit:      r.IntN(8) == 0,
		badHostname: r.IntN(8) == 0,
	}
}

// customers place orders and see to it that they are executed.
type customers struct {
	http     http.Client
	url      func() string // of a server that listens, or ""
	ledger   *ledger
	rotation *rotation
}

// tool is the tool that every customer calls.
const tool = "provision_vm"

// pause is how long a customer waits between two looks, and after a failure.
const pause = 200 * time.Millisecond

// timeout is how long a customer waits for a response, before the request is sent again to any server.
const timeout = 10 * time.Second

// serve places one order and follows it until its task has ended or ctx is done.
func (c *customers) serve(ctx context.Context, o *order) {
	if !c.create(ctx, o) {
		return
	}
	if o.cancel {
		sleep(ctx, o.patience)
		c.insist(ctx, o, "tasks/cancel", map[string]any{"taskId": o.id})
	}
	for sleep(ctx, pause) {
		status, err := c.look(ctx, o)
		if err != nil {
			c.ledger.stumbled(err)
			continue
		}
		switch status {
		case "completed", "failed", "cancelled":
			c.ledger.end(o, status)
			return
		}
	}
}

// create makes the task. If nobody knows whether it was made, the customer wants another
// machine: a task may be left then that nobody has an id of.
func (c *customers) create(ctx context.Context, o *order) bool {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		o.name = fmt.Sprintf("vm-%d-%d", o.number, attempt)
		params := map[string]any{"name": tool, "arguments": map[string]any{
			"name": o.name, "cpus": o.cpus, "memoryMiB": o.memory, "diskMiB": 1,
		}}
		if !o.extension {
			params["task"] = map[string]any{"ttl": time.Hour.Milliseconds()}
		}
		var created struct {
			TaskID string                  `json:"taskId"`
			Task   struct{ TaskID string } `json:"task"`
		}
		err := c.call(ctx, o, "tools/call", params, &created)
		if id := created.TaskID + created.Task.TaskID; err == nil && id != "" {
			c.ledger.acknowledge(o, id)
			return true
		} else if err == nil {
			err = errors.New("tools/call gave no task")
		}
		c.ledger.stumbled(err)
		sleep(ctx, pause)
	}
	return false
}

// look sees how the task stands, and does what the customer has to.
func (c *customers) look(ctx context.Context, o *order) (status string, err error) {
	if !o.extension && !o.cancel {
		return c.await(ctx, o)
	}
	var now struct {
		Status        string
		InputRequests map[string]any
		Result        toolResult
	}
	if err := c.call(ctx, o, "tasks/get", map[string]any{"taskId": o.id}, &now); err != nil {
		return "", c.lost(o, err)
	}
	if now.Status == "input_required" && o.extension && !o.cancel {
		return "", c.answer(ctx, o, slices.Collect(maps.Keys(now.InputRequests)))
	}
	c.take(o, now.Result)
	return now.Status, nil
}

// toolResult is the result of provision_vm.
type toolResult struct {
	IsError           bool
	Content           any
	StructuredContent outcome
}

// take notes the result of an order.
func (c *customers) take(o *order, res toolResult) {
	if res.IsError {
		c.ledger.violate(wrong, "%s: the tool failed: %v", o, res.Content)
	}
	o.result = res.StructuredContent
}

// await waits in the proposals' way, with one request for as long as it takes.
func (c *customers) await(ctx context.Context, o *order) (status string, err error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var now struct {
		ResultType    string
		InputRequests map[string]any
		toolResult
	}
	err = c.call(bounded, o, "tasks/result", map[string]any{"taskId": o.id}, &now)
	switch {
	case err == nil && now.ResultType == "input_required":
		return "", c.answer(ctx, o, slices.Collect(maps.Keys(now.InputRequests)))
	case err == nil:
		c.take(o, now.toolResult)
		return "completed", nil
	case bounded.Err() != nil && ctx.Err() == nil:
		return "", nil
	}
	// A task that failed has an error for its result.
	if _, ok := errors.AsType[*refused](err); ok {
		var row struct{ Status string }
		if e := c.call(ctx, o, "tasks/get", map[string]any{"taskId": o.id}, &row); e != nil {
			return "", c.lost(o, e)
		}
		if row.Status == "failed" || row.Status == "cancelled" {
			return row.Status, nil
		}
	}
	return "", err
}

// lost notes a task that a server does not know, although it gave its id.
func (c *customers) lost(o *order, err error) error {
	if r, ok := errors.AsType[*refused](err); ok && strings.Contains(r.Message, "not found") {
		c.ledger.violate(lost, "%s: a server does not know it: %v", o, err)
	}
	return err
}

// answer answers the questions with these keys.
func (c *customers) answer(ctx context.Context, o *order, keys []string) error {
	responses := map[string]any{}
	for _, key := range keys {
		var content map[string]any
		switch name, _, _ := strings.Cut(key, "#"); {
		case name != "network" && strings.HasPrefix(name, "hostname-"):
			content = map[string]any{"hostname": o.hostname}
		case name != "network":
			c.ledger.violate(wrong, "%s: it asks %q, which nobody expects", o, key)
			return nil
		case o.misfit && key == "network":
			content = map[string]any{"network": "a network that there is not"}
		case o.badHostname:
			content = map[string]any{"network": o.network, "hostname": "not a host name"}
		default:
			content = map[string]any{"network": o.network, "hostname": o.hostname}
		}
		responses[key] = map[string]any{"action": "accept", "content": content}
	}
	method, params := "tasks/update", map[string]any{"taskId": o.id, "inputResponses": responses}
	if !o.extension {
		method, params = "tasks/input_response", map[string]any{"inputResponses": responses, "_meta": map[string]any{
			"io.modelcontextprotocol/related-task": map[string]any{"taskId": o.id},
		}}
	}
	if !c.insist(ctx, o, method, params) {
		return ctx.Err()
	}
	for _, key := range keys {
		if o.answered[key] {
			c.ledger.violate(lost, "%s: it asked %q again, although the answer was acknowledged", o, key)
		}
		o.answered[key] = true
	}
	return nil
}

// insist repeats a request that may be repeated until a server has acknowledged it; false if ctx is done before.
func (c *customers) insist(ctx context.Context, o *order, method string, params map[string]any) bool {
	for {
		err := c.call(ctx, o, method, params, new(json.RawMessage))
		if r, ok := errors.AsType[*refused](err); err == nil || ok && strings.Contains(r.Message, "terminal status") {
			return true // an earlier one was heard
		}
		c.ledger.stumbled(c.lost(o, err))
		if !sleep(ctx, pause) {
			return false
		}
	}
}

// refused is an error that a server answered with.
type refused struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *refused) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// call sends a request about an order to some server. Any error except a *[refused] means that the request may have had
// its effect.
func (c *customers) call(ctx context.Context, o *order, method string, params map[string]any, result any) error {
	return c.send(ctx, cmp.Or(o.id, tool), o.extension, method, params, result)
}

// send sends a request to some server, in MCP of 2026-07-28 over HTTP. The name is that of the tool or the task.
func (c *customers) send(ctx context.Context, name string, extension bool, method string, params map[string]any, result any) error {
	url := c.url()
	for ; url == ""; url = c.url() {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	capabilities := map[string]any{"elicitation": map[string]any{}}
	if extension {
		capabilities["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	}
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	if more, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, more)
	}
	all := maps.Clone(params)
	all["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": all})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	req.Header.Set("Mcp-Name", name)
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  *refused        `json:"error"`
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return fmt.Errorf("%s: %w in %.200q", res.Status, err, data)
	}
	if response.Error != nil {
		return response.Error
	}
	return json.Unmarshal(response.Result, result)
}

// revisit looks at tasks that have ended until ctx is done: they must not change any more.
func (c *customers) revisit(ctx context.Context) {
	for sleep(ctx, pause/2) {
		if all := c.ledger.endedOrders(); len(all) > 0 {
			c.recall(ctx, all[rand.IntN(len(all))])
		}
	}
}

// recall looks at a task that has ended. It returns false if it got no answer.
func (c *customers) recall(ctx context.Context, o *order) bool {
	var now struct {
		Status string
		Result toolResult
	}
	if err := c.call(ctx, o, "tasks/get", map[string]any{"taskId": o.id}, &now); err != nil {
		c.ledger.stumbled(c.lost(o, err))
		return false
	}
	if now.Status != o.ended {
		c.ledger.violate(changed, "%s: it was %s, and is %s", o, o.ended, now.Status)
	} else if o.extension && !reflect.DeepEqual(now.Result.StructuredContent, o.result) {
		c.ledger.violate(changed, "%s: its result was %+v, and is %+v", o, o.result, now.Result.StructuredContent)
	}
	return true
}

func (o *order) String() string {
	dialect := "proposal"
	if o.extension {
		dialect = "extension"
	}
	return fmt.Sprintf("task %s (%s, %s)", o.id, o.name, dialect)
}

// sleep returns false if ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
