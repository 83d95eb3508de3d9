package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
)

// customers place orders and see to it that they are executed.
type customers struct {
	http     *http.Client
	url      func() string // of a server that listens, or ""
	ledger   *ledger
	rotation *rotation
}

// tool is the tool that every customer calls.
const tool = "provision_vm"

// timeout is how long a customer waits for a response, before the request is sent again to any server.
const timeout = 10 * time.Second

// serve places one order and follows it until its task has ended or ctx is done.
func (c *customers) serve(ctx context.Context, o *order) {
	if !c.create(ctx, o) {
		return
	}
	if o.cancel {
		sleep(ctx, o.patience)
		c.repeat(ctx, o, "tasks/cancel", o.params())
	}
	for sleep(ctx, pause) {
		status, err := c.look(ctx, o)
		if err != nil {
			c.ledger.requestFailed(err)
		} else if isTerminal(status) {
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
			rawclient.Result
			Task rawclient.Result `json:"task"`
		}
		err := c.call(ctx, o, "tools/call", params, &created)
		if id := created.TaskID + created.Task.TaskID; err == nil && id != "" {
			c.ledger.acknowledge(o, id)
			return true
		} else if err == nil {
			err = errors.New("tools/call gave no task")
		}
		c.ledger.requestFailed(err)
		sleep(ctx, pause)
	}
	return false
}

// look sees how the task stands, and does what the customer has to.
func (c *customers) look(ctx context.Context, o *order) (status string, err error) {
	if !o.extension && !o.cancel {
		return c.await(ctx, o)
	}
	var now rawclient.Result
	if err := c.call(ctx, o, "tasks/get", o.params(), &now); err != nil {
		return "", c.lost(o, err)
	}
	if now.Status == "input_required" && o.extension && !o.cancel {
		return "", c.answer(ctx, o, now.Requests)
	}
	return now.Status, c.take(o, now.Result)
}

// take notes the result of an order, if it is there.
func (c *customers) take(o *order, res *rawclient.Result) error {
	if res == nil {
		return nil
	}
	if res.IsError {
		c.ledger.violate(kindWrong, "%s: the tool failed: %v", o, res.Content)
	}
	if res.Structured == nil {
		return nil
	}
	o.result = outcome{}
	return json.Unmarshal(res.Structured, &o.result)
}

// await waits in the proposals' way, with one request for as long as it takes.
func (c *customers) await(ctx context.Context, o *order) (status string, err error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var now rawclient.Result
	err = c.call(bounded, o, "tasks/result", o.params(), &now)
	switch {
	case err == nil && now.Type == "input_required":
		return "", c.answer(ctx, o, now.Requests)
	case err == nil:
		return "completed", c.take(o, &now)
	case bounded.Err() != nil && ctx.Err() == nil:
		return "", nil
	}
	// A task that failed has an error for its result.
	if _, ok := errors.AsType[*rawclient.Error](err); ok {
		var row rawclient.Result
		if e := c.call(ctx, o, "tasks/get", o.params(), &row); e != nil {
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
	if r, ok := errors.AsType[*rawclient.Error](err); ok && strings.Contains(r.Message, "not found") {
		c.ledger.violate(kindLost, "%s: a server does not know it: %v", o, err)
	}
	return err
}

// answer answers questions.
func (c *customers) answer(ctx context.Context, o *order, questions map[string]json.RawMessage) error {
	answers := map[string]any{}
	for key := range questions {
		var content map[string]any
		switch name, _, _ := strings.Cut(key, "#"); {
		case name != "network" && strings.HasPrefix(name, "hostname-"):
			content = map[string]any{"hostname": o.hostname}
		case name != "network":
			c.ledger.violate(kindWrong, "%s: it asks %q, which nobody expects", o, key)
			return nil
		case o.misfit && key == "network":
			content = map[string]any{"network": "a network that there is not"}
		case o.badHostname:
			content = map[string]any{"network": o.network, "hostname": "not a host name"}
		default:
			content = map[string]any{"network": o.network, "hostname": o.hostname}
		}
		answers[key] = rawclient.Accept(content)
	}
	method, params := "tasks/update", o.params()
	if !o.extension {
		method, params = "tasks/input_response", map[string]any{"_meta": map[string]any{
			"io.modelcontextprotocol/related-task": o.params(),
		}}
	}
	params["inputResponses"] = answers
	if !c.repeat(ctx, o, method, params) {
		return ctx.Err()
	}
	for key := range questions {
		if o.answered[key] {
			c.ledger.violate(kindLost, "%s: it asked %q again, although the answer was acknowledged", o, key)
		}
		o.answered[key] = true
	}
	return nil
}

// repeat sends a request that may be repeated until a server has acknowledged it; false if ctx is done before.
func (c *customers) repeat(ctx context.Context, o *order, method string, params map[string]any) bool {
	for {
		err := c.call(ctx, o, method, params, nil)
		if r, ok := errors.AsType[*rawclient.Error](err); err == nil || ok && strings.Contains(r.Message, "terminal status") {
			return true // an earlier one was received
		}
		c.ledger.requestFailed(c.lost(o, err))
		if !sleep(ctx, pause) {
			return false
		}
	}
}

// call sends a request about an order to some server. Any error except a [*rawclient.Error] means that the request may
// have had its effect.
func (c *customers) call(ctx context.Context, o *order, method string, params map[string]any, result any) error {
	capabilities := `{"elicitation":{}}`
	if o.extension {
		capabilities = rawclient.AllTasks
	}
	return c.send(ctx, capabilities, method, params, result)
}

// send sends a request to some server that listens.
func (c *customers) send(ctx context.Context, capabilities, method string, params map[string]any, result any) error {
	url := c.url()
	for ; url == ""; url = c.url() {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := rawclient.Client{URL: url, HTTP: c.http, Capabilities: capabilities}
	return client.Call(ctx, method, params, result)
}

// revisit looks at tasks that have ended until ctx is done: they must not change any more.
func (c *customers) revisit(ctx context.Context) {
	for sleep(ctx, pause/2) {
		if all := c.ledger.endedOrders(); len(all) > 0 {
			c.lookAgain(ctx, all[rand.IntN(len(all))])
		}
	}
}

// lookAgain looks at a task that has ended. It returns false if it got no answer.
func (c *customers) lookAgain(ctx context.Context, o *order) bool {
	var now rawclient.Result
	if err := c.call(ctx, o, "tasks/get", o.params(), &now); err != nil {
		c.ledger.requestFailed(c.lost(o, err))
		return false
	}
	if now.Status != o.ended {
		c.ledger.violate(kindChanged, "%s: it was %s, and is %s", o, o.ended, now.Status)
		return true
	}
	if again := (&order{}); o.extension && c.take(again, now.Result) == nil && !reflect.DeepEqual(again.result, o.result) {
		c.ledger.violate(kindChanged, "%s: its result was %+v, and is %+v", o, o.result, again.result)
	}
	return true
}
