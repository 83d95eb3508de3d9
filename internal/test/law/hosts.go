package law

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// mostWait bounds how long a call may take, in units. People look every few.
const mostWait = 2000

// follow makes a call and sees it to its end. Every other call is one of a client that takes no tasks, and can be asked
// nothing.
func (r *run) follow(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, mostWait*r.Unit)
	defer cancel()
	var keys []string
	for key, a := range asks {
		if n%2 == 0 || !a.host {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	whole := n%4 == 0
	name, made := "program", choices
	made.Keys = keys
	if whole { // only a task can sleep
		name, made.Ops = "whole", append(slices.Clip(made.Ops), program.Sleep)
	}
	number := n + 1000*int(r.Seed) // other runs may use the store, too
	network := sim.Chances{sim.LostBefore: 0.03, sim.LostAfter: 0.03, sim.Delayed: 0.03}
	c := &caller{
		run: r, part: r.sim.Part(fmt.Sprint("host ", n), network),
		program: made.Program(2, rand.New(rand.NewPCG(0, uint64(number)+1)).IntN), capabilities: `{}`, whole: whole,
	}
	if n%2 == 0 {
		c.capabilities = harness.WithExtension
	}
	var res map[string]any
	var in string
	for again := 0; ; again++ { // a client that has lost the first answer makes another call
		c.number = number + 100*again
		in = arguments{c.program.String(), c.number}.String()
		var err error
		if res, err = c.send(ctx, "tools/call", name, `"name":`+harness.Quote(name)+`,"arguments":`+in); err == nil {
			break
		}
		if !c.part.Pause(ctx, 1) {
			return
		}
	}
	for res["resultType"] == "input_required" {
		more := `,"inputResponses":` + c.answers(res["inputRequests"], true)
		if state, ok := res["requestState"].(string); ok {
			more += `,"requestState":` + harness.Quote(state)
		}
		c.part.Pause(ctx, 0.5)
		res = c.surely(ctx, "tools/call", name, `"name":`+harness.Quote(name)+`,"arguments":`+in+more)
	}
	id, isTask := res["taskId"].(string)
	for isTask && ctx.Err() == nil {
		now := c.surely(ctx, "tasks/get", id, `"taskId":`+harness.Quote(id))
		switch now["status"] {
		case "completed":
			res, isTask = now["result"].(map[string]any), false
		case "working", "input_required":
			answers := c.answers(now["inputRequests"], false)
			// Nobody has asked the client for what people decide: it cannot answer it.
			for key, a := range asks {
				if !a.host {
					answers = strings.Replace(answers, "{", "{"+harness.Quote(key)+`:{"action":"accept","content":{"n":77}},`, 1)
				}
			}
			answers = strings.Replace(answers, ",}", "}", 1)
			if c.part.Chance(0.7) {
				c.part.Pause(ctx, 0.3)
				c.surely(ctx, "tasks/update", id, `"taskId":`+harness.Quote(id)+`,"inputResponses":`+answers)
			}
			c.part.Pause(ctx, 1)
		default:
			r.violate("call %d is %v: %v of %s", c.number, now["status"], now, c.program)
			return
		}
	}
	if name := onItsOwn.FindStringSubmatch(fmt.Sprint(harness.Content(res))); name != nil {
		res = c.outcome(ctx, name[1])
	}
	if ctx.Err() != nil {
		r.violate("call %d has not ended after %v: %s", c.number, mostWait*r.Unit, c.program)
		return
	}
	c.check(ctx, harness.Content(res))
}

// onItsOwn is what a client is told that could not wait for its call, such as when the store was out of reach.
var onItsOwn = regexp.MustCompile(`The call goes on by itself, under the name "(\w+)"`)

// outcome waits for the result of a call that goes on by itself.
func (c *caller) outcome(ctx context.Context, name string) map[string]any {
	for c.part.Pause(ctx, 1) {
		for _, t := range c.tasks(ctx) {
			if task.Name(t.ID) != name || !t.Status.Terminal() {
				continue
			}
			var res map[string]any
			whole, err := c.Store.Get(ctx, t.ID) // a list leaves the outcome out
			if err == nil && json.Unmarshal(whole.Outcome, &res) == nil {
				return res
			}
		}
	}
	return nil
}

// caller is the host of one call.
type caller struct {
	*run
	part         *sim.Part
	number       int
	program      program.Program
	capabilities string
	whole        bool // the call is a task from its beginning
}

// surely sends a request until it is answered. The result is empty if that is an error, which happens to answers that
// come too late.
func (c *caller) surely(ctx context.Context, method, target, members string) map[string]any {
	for {
		res, err := c.send(ctx, method, target, members)
		if err == nil || !c.part.Pause(ctx, 0.5) {
			return res
		}
	}
}

// send sends a request to one of the servers that live. An error says that the answer was lost, or that the server has
// asked for the request again.
func (c *caller) send(ctx context.Context, method, target, members string) (result map[string]any, err error) {
	err = c.part.Do(ctx, method, func(ctx context.Context) error {
		s := c.choose()
		if s == nil {
			return sim.ErrLost
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request := harness.Request{
			Method: method, Target: target, Body: harness.Message(1, method, members, c.capabilities),
			Context: func(r *http.Request) *http.Request { return r.WithContext(ctx) },
		}
		answered := make(chan *harness.Response, 1)
		go func() { answered <- request.Send(c.t, s.handler) }()
		select {
		case <-s.part.Dead():
			return sim.ErrLost
		case res := <-answered:
			select {
			case <-s.part.Dead():
				return sim.ErrLost
			default:
			}
			result, err = c.read(method, res)
			return err
		}
	})
	return result, err
}

// choose chooses a server, or returns nil if none lives.
func (c *caller) choose() *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	var live []*server
	for place := range 3 {
		if s := c.live[place]; s != nil {
			live = append(live, s)
		}
	}
	if len(live) == 0 {
		return nil
	}
	return live[c.part.IntN(len(live))]
}

func (c *caller) read(method string, res *harness.Response) (map[string]any, error) {
	var message struct {
		Result map[string]any
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(res.Raw), &message); err != nil {
		c.violate("call %d: %s: %v in %q", c.number, method, err, res.Raw)
	}
	switch e := message.Error; {
	case e == nil:
	case strings.HasSuffix(e.Message, "send the request again"):
		return nil, errors.New(e.Message)
	case method != "tasks/update" || !strings.Contains(e.Message, "too late"):
		c.violate("call %d: %s: %s", c.number, method, e.Message)
	}
	return message.Result, nil
}

// answers answers some of what the client is asked, or all of it.
func (c *caller) answers(requests any, all bool) string {
	given := []string{}
	asked, _ := requests.(map[string]any)
	for _, wire := range slices.Sorted(maps.Keys(asked)) {
		message, _ := harness.At(asked[wire], "params", "message").(string)
		message, _, _ = strings.Cut(message, "\n")
		if !all && c.part.Chance(0.4) {
			continue
		}
		n, outcome, answer := c.part.IntN(1000), "", ""
		switch {
		case n < 200:
			outcome, answer = "decline", `{"action":"decline"}`
		default:
			outcome, answer = fmt.Sprintf("accept %d", n), fmt.Sprintf(`{"action":"accept","content":{"n":%d}}`, n)
		}
		c.mu.Lock()
		of := fmt.Sprint(c.number, message)
		c.given[of] = append(c.given[of], outcome)
		c.mu.Unlock()
		given = append(given, harness.Quote(wire)+":"+answer)
	}
	return "{" + strings.Join(given, ",") + "}"
}
