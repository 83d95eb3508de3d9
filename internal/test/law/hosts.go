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
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// mostWait bounds how long a call may take in virtual time, in units. People look every few.
const mostWait = 2000

// follow makes a call and sees it to its end. Every other call is one of a client that takes no tasks, and can be asked
// nothing: some handlers ask it all the same.
func (r *run) follow(ctx context.Context, n int) {
	most := mostWait * r.Unit
	if !r.Virtual { // a busy machine takes its time, and go test has a limit of its own
		most = time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	undeclared, version := n%8 == 7, ""
	if r.Virtual { // a host of a session: it has no tasks, and asks nobody before 2025-06-18
		version = map[int]string{3: "2025-11-25", 5: "2025-03-26", 11: "2025-06-18"}[n%16]
	}
	var keys []string
	for key, a := range asks {
		if lasting := r.TTL > 0 && n%3 > 0 && !undeclared; lasting && a.within > 0 {
			continue // a deadline would keep the call alive
		}
		if n%2 == 0 || a.host == undeclared || version >= "2025-06-18" {
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
	number := r.number(n)
	c := &caller{
		run: r, part: r.sim.Part(fmt.Sprint("host ", n), Network), principal: []string{"alice", "bob"}[n/2%2],
		program: made.Program(2, rand.New(rand.NewPCG(0, uint64(number)+1)).IntN), capabilities: `{}`, whole: whole,
		version: version,
	}
	if n%2 == 0 {
		c.capabilities = harness.WithExtension
	}
	if n == 0 && r.Poisoned {
		c.program = program.Program{{Op: program.Ask, Keys: []string{"soon"}}}
	}
	// A client that has lost the first answer makes another call, until it has lost too many: it can wait in a request
	// only, and no server lives as long as its people take.
	for again := range 20 {
		c.number = number + 10_000_000*again // which no call of another seed has
		res, err := c.converse(ctx, name)
		switch {
		case ctx.Err() != nil:
			if n > 0 || !r.Poisoned {
				r.violate("call %d has not ended after %v: %s", c.number, most, c.program)
			}
			return
		case err == nil && res != nil:
			c.check(ctx, harness.Content(res))
			if c.version != "" {
				c.mu.Lock()
				c.summary.Sessions++
				c.mu.Unlock()
			}
			return
		case err == nil, errors.Is(err, errUnable):
			return
		}
		c.part.Pause(ctx, 1)
	}
}

// number returns the number of a call: other runs may use the store, too.
func (l *law) number(n int) int { return n + 1000*int(l.Seed) }

// converse makes a call and answers what it asks. It returns no result if the call may not have one. An error says that
// the client knows nothing of its call, and makes another one.
func (c *caller) converse(ctx context.Context, name string) (res map[string]any, err error) {
	in := `"name":` + harness.Quote(name) + `,"arguments":` + arguments{c.program.String(), c.number}.String()
	before := c.losses()
	if c.version != "" {
		res, err = c.inSession(ctx, name)
	} else {
		res, err = c.send(ctx, "tools/call", name, in)
	}
	if err != nil {
		return nil, err
	}
	for res["resultType"] == "input_required" {
		more := `,"inputResponses":` + c.answers(res["inputRequests"], true)
		if state, ok := res["requestState"].(string); ok {
			more += `,"requestState":` + harness.Quote(state)
		}
		c.part.Pause(ctx, 0.5)
		before = c.losses()
		if res, err = c.surely(ctx, "tools/call", name, in+more); err != nil {
			return nil, err
		}
	}
	if res["status"] == string(task.Failed) {
		return nil, c.checkFailure(ctx, res)
	}
	id, isTask := res["taskId"].(string)
	for isTask && ctx.Err() == nil {
		if !c.poisonous(id) && c.part.Chance(0.04) {
			if _, err := c.surely(ctx, "tasks/cancel", id, `"taskId":`+harness.Quote(id)); err != nil {
				return nil, err
			}
		}
		before = c.losses()
		now, err := c.surely(ctx, "tasks/get", id, `"taskId":`+harness.Quote(id))
		if err != nil {
			return nil, err
		}
		switch now["status"] {
		case "completed":
			res, isTask = now["result"].(map[string]any), before != c.losses()
		case "working", "input_required":
			if err := c.update(ctx, id, now["inputRequests"]); err != nil {
				return nil, err
			}
		case "cancelled":
			if c.cleanedUp() {
				return nil, nil
			}
			c.part.Pause(ctx, 1)
		default:
			return nil, c.checkFailure(ctx, now)
		}
	}
	if name := onItsOwn.FindStringSubmatch(fmt.Sprint(harness.Content(res))); name != nil {
		return c.outcome(ctx, name[1])
	}
	if before != c.losses() {
		return nil, errGone
	}
	return res, nil
}

// update answers some of what a task asks its client.
func (c *caller) update(ctx context.Context, id string, requests any) (err error) {
	answers := c.answers(requests, false)
	// Nobody has asked the client for what people decide: it cannot answer it.
	for key, a := range asks {
		if !a.host {
			answers = strings.Replace(answers, "{", "{"+harness.Quote(key)+`:{"action":"accept","content":{"n":77}},`, 1)
		}
	}
	answers = strings.Replace(answers, ",}", "}", 1)
	if c.part.Chance(0.7) {
		c.part.Pause(ctx, 0.3)
		var both sync.WaitGroup
		members := `"taskId":` + harness.Quote(id) + `,"inputResponses":`
		if c.part.Chance(0.3) {
			other := c.answers(requests, false) // of another window of the client
			both.Go(func() { _, _ = c.send(ctx, "tasks/update", id, members+other) })
		}
		_, err = c.surely(ctx, "tasks/update", id, members+answers)
		both.Wait()
	}
	c.part.Pause(ctx, 1)
	return err
}

// errGone says that the store has lost a call, or that its state was refused.
var errGone = errors.New("the call is gone")

// errUnable says that the client cannot be asked what its call asks.
var errUnable = errors.New("the call has ended")

func (c *caller) unable(message string) bool {
	return c.capabilities == `{}` && strings.HasPrefix(message, "Missing required client capability")
}

// losses counts how often the store has lost something.
func (l *law) losses() int64 { return l.restored.Load() }

// onItsOwn is what a client is told that could not wait for its call, such as when the store was out of reach.
var onItsOwn = regexp.MustCompile(`The call goes on by itself, under the name "(\w+)"`)

// outcome waits for the result of a call that goes on by itself.
func (c *caller) outcome(ctx context.Context, name string) (res map[string]any, err error) {
	for c.part.Pause(ctx, 1) {
		t := c.named(ctx, name)
		switch {
		case t == nil && c.losses() > 0:
			return nil, errGone
		case t != nil && c.version != "" && t.Status == task.InputRequired && !c.asksPeople(ctx, t):
			return nil, errUnable // what the session was asked dies with its call
		case t == nil || !t.Status.Terminal():
			continue
		case c.unable(t.Message):
			return nil, errUnable
		case t.Status != task.Completed:
			return nil, c.checkFailure(ctx, map[string]any{"status": string(t.Status)})
		}
		whole, err := c.Store.Get(ctx, t.ID) // a list leaves the outcome out
		if err == nil && json.Unmarshal(whole.Outcome, &res) == nil {
			return res, nil
		}
	}
	return nil, nil
}

// asksPeople reports whether a question of a task is open.
func (l *law) asksPeople(ctx context.Context, t *task.Task) bool {
	rows, err := l.Store.Questions(ctx, task.Name(t.ID))
	return err != nil || slices.ContainsFunc(rows, func(q *task.Question) bool { return q.Status == task.QuestionOpen })
}

func (l *law) named(ctx context.Context, name string) *task.Task {
	for _, t := range l.tasks(ctx) {
		if task.Name(t.ID) == name {
			return t
		}
	}
	return nil
}

// caller is the host of one call.
type caller struct {
	*run
	part         *sim.Part
	principal    string
	number       int
	program      program.Program
	capabilities string
	version      string // of the session in which it calls, or "" for none
	whole        bool   // the call is a task from its beginning
}

// surely sends a request until it is answered. The result is empty if that is an error, which happens to answers that
// come too late.
func (c *caller) surely(ctx context.Context, method, target, members string) (res map[string]any, err error) {
	for {
		res, err = c.send(ctx, method, target, members)
		if err == nil || errors.Is(err, errGone) || errors.Is(err, errUnable) || !c.part.Pause(ctx, 0.5) {
			return res, err
		}
	}
}

// send sends a request to one of the servers that live. An error says that the answer was lost, or that the server has
// asked for the request again.
func (c *caller) send(ctx context.Context, method, target, members string) (result map[string]any, err error) {
	if c.Virtual && method == "tools/call" && c.part.Happens("it hangs up", 0.05) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 4*c.Unit)
		defer cancel()
	}
	err = c.part.Do(ctx, method, func(ctx context.Context) error {
		s := c.choose()
		if s == nil {
			return sim.ErrLost
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		begun := new(atomic.Bool)
		request := harness.Request{
			Method: method, Target: target, Body: harness.Message(1, method, members, c.capabilities),
			Header: http.Header{"X-User": {c.principal}},
			Context: func(r *http.Request) *http.Request {
				return r.WithContext(context.WithValue(s.clock(ctx), begunKey{}, begun))
			},
		}
		answered := make(chan *harness.Response, 1)
		go func() { answered <- request.Send(c.t, s.handler) }()
		select {
		case <-s.part.Dead():
			return sim.ErrLost
		case res := <-answered:
			if res.Status/100 == 4 && begun.Load() {
				c.violate("call %d: the status %d says that nothing ran, and a step has begun", c.number, res.Status)
			}
			if s.part.IsDead() {
				return sim.ErrLost
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			result, err = c.read(method, res)
			return err
		}
	})
	return result, err
}

// choose chooses a server, or returns nil if none lives.
func (c *caller) choose() *server {
	var live []*server
	for place := range c.Servers {
		if s, lives := c.live.Load(place); lives {
			live = append(live, s.(*server))
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
	case strings.HasSuffix(e.Message, "send the request again"), strings.Contains(e.Message, "endpoint was not verified"):
		return nil, errors.New(e.Message)
	case c.losses() > 0 && (strings.Contains(e.Message, "not found") || strings.Contains(e.Message, "nknown")):
		return nil, errGone
	case c.Clocks > seal.MaxClockSkew && strings.HasSuffix(e.Message, "expired requestState"):
		return nil, errGone // it comes from a server whose clock is ahead
	case c.unable(e.Message):
		return nil, errUnable
	case c.TTL > 0 && strings.Contains(e.Message, "time to live"):
		return map[string]any{"status": string(task.Failed)}, nil
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
		given = append(given, harness.Quote(wire)+":"+c.answer(message))
	}
	return "{" + strings.Join(given, ",") + "}"
}

// answer answers a question of the client.
func (c *caller) answer(message string) string {
	n, outcome, answer := c.part.IntN(1000), "decline", `{"action":"decline"}`
	if n >= 200 {
		outcome, answer = fmt.Sprintf("accept %d", n), fmt.Sprintf(`{"action":"accept","content":{"n":%d}}`, n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := fmt.Sprint(c.number, message)
	c.given[of] = append(c.given[of], outcome)
	return answer
}

// inSession makes the call in a session of its own with one server, and answers what that asks meanwhile. A host that
// waits too long gives up. The session ends with its server.
func (c *caller) inSession(ctx context.Context, name string) (result map[string]any, err error) {
	ctx, cancel := context.WithTimeout(ctx, 400*c.Unit)
	defer cancel()
	opts := &client.Options{Tasks: client.TasksOff}
	if c.version >= "2025-06-18" {
		opts.Form = func(ctx context.Context, q *client.Question) (answer *mcp.ElicitResult, err error) {
			message, _, _ := strings.Cut(q.Message, "\n")
			c.part.Pause(ctx, 2)
			err = json.Unmarshal([]byte(c.answer(message)), &answer)
			return answer, err
		}
	}
	session, err := client.New(opts).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://" + address(c.part.IntN(c.Servers)), HTTPClient: c.client(),
	}, &mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments{c.program.String(), c.number}})
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return c.read("tools/call", &harness.Response{Raw: `{"error":{"message":` + harness.Quote(refused.Message) + `}}`})
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	return result, json.Unmarshal(data, &result)
}

// client returns what carries the requests of a session.
func (c *caller) client() *http.Client {
	return &http.Client{Transport: &sim.Link{Network: &c.network, From: c.part, User: c.principal}}
}
