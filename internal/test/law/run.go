package law

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Summary counts what runs of [People] have tried: calls, votes that were taken, questions that were decided, questions
// that nobody answered in time, and leases that may have been lost.
type Summary struct{ Calls, Votes, Decided, Unanswered, Lost int }

// Add adds what another run has tried.
func (s *Summary) Add(other Summary) {
	s.Calls += other.Calls
	s.Votes += other.Votes
	s.Decided += other.Decided
	s.Unanswered += other.Unanswered
	s.Lost += other.Lost
}

// Check fails the test if runs with these options have not tried the law.
func (s *Summary) Check(t testing.TB, o Options) {
	t.Helper()
	if s.Votes == 0 || s.Unanswered == 0 || s.Decided <= s.Unanswered || s.Lost == 0 && (o.Kills > 0 || o.Thefts > 0) {
		t.Errorf("the law was not tried: %+v", *s)
	}
}

// People lets programs run that ask their client and other people, on three instances of one store: people vote,
// decline, or let a deadline pass, and workers are killed, lose leases, and lose what the store answers. It fails the
// test unless each call ends as the interpreter says, with each decision seen once and the same by every replay.
func People(t testing.TB, o Options) Summary {
	l := &law{
		Options: o, t: t, random: rand.New(rand.NewPCG(o.Seed, 0)), steps: make(map[int]*program.Runs),
		outcomes: make(map[string][]string), given: make(map[string][]string), cast: make(map[string][]vote),
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &run{law: l, stores: new(stores), ring: harness.NewRing(t)}
	var others, callers sync.WaitGroup
	for i := range 3 {
		others.Go(func() { r.work(ctx, i) })
	}
	for i := range 5 {
		others.Go(func() { r.vote(ctx, i) })
	}
	opts := r.options(newFaulty(l, r.stores, false))
	opts.Tasks.StoreTimeout = time.Minute // a disk that is slow for a while fails a worker's attempt, and no call
	front := harness.NewServer(t, opts, register(l, 1)).HTTPHandler(nil)
	for i := range o.Calls {
		callers.Go(func() { r.follow(ctx, front, i) })
	}
	callers.Wait()
	stop()
	others.Wait()
	for _, bad := range l.bad {
		t.Error(bad)
	}
	r.summary.Lost, r.summary.Calls = l.lost, o.Calls
	return r.summary
}

type run struct {
	*law
	stores  *stores
	ring    *seal.Ring
	summary Summary
}

func (r *run) options(s task.Store) *askback.Options {
	plenty := task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40}
	return &askback.Options{
		Keys:      r.ring,
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Desk:      &askback.DeskOptions{Wait: 24 * time.Hour},
		Tasks: &askback.Tasks{Store: s, Settings: task.Settings{
			Lease: 10 * r.Unit, StoreTimeout: 10 * r.Unit, Attempts: 10_000, PerPrincipal: plenty, Anonymous: plenty,
		}},
	}
}

// work runs one worker after the other: each is killed at some point of its work, until there have been enough.
func (r *run) work(ctx context.Context, instance int) {
	for kill := instance; ctx.Err() == nil; kill += 3 {
		f := newFaulty(r.law, r.stores, true)
		if kill < r.Kills {
			f.dies.Store(int64(r.intN(150)))
		}
		release := 1
		if r.Reworded {
			release = 1 + r.intN(2)
		}
		srv := harness.NewServer(r.t, r.options(f), register(r.law, release))
		living, end := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			if err := srv.RunTasks(living); err != nil {
				r.violate("running tasks: %v", err)
			}
		})
		select {
		case <-f.dead:
			r.mu.Lock()
			r.lost += 32 // each of its workers may have been in a step
			r.mu.Unlock()
			time.AfterFunc(r.Unit, end)
		case <-ctx.Done():
		}
		end()
		running.Wait()
	}
}

// vote lets a person answer what waits. Alice, whose calls they are, is one of them.
func (r *run) vote(ctx context.Context, who int) {
	d, err := desk.Open(newFaulty(r.law, r.stores, true), nil)
	if err != nil {
		r.violate("opening a desk: %v", err)
		return
	}
	person := desk.Person{Name: fmt.Sprintf("p%d", who), Groups: []string{"g", "h"}}
	if who == 4 {
		person.Name = "alice"
	}
	busy := []float64{0.2, 0.5, 1, 2}[r.Seed%4]
	for r.pause(ctx, busy) {
		var waiting []*desk.Question
		for q, err := range d.Waiting(ctx, desk.Waiting{}) {
			if err == nil {
				waiting = append(waiting, q)
			}
		}
		if len(waiting) > 0 {
			r.answer(ctx, d, person, waiting[r.intN(len(waiting))])
		}
	}
}

func (r *run) answer(ctx context.Context, d *desk.Desk, person desk.Person, q *desk.Question) {
	a := desk.Answer{By: person, Action: "accept", Reason: "why not"}
	switch n := r.intN(20); {
	case n == 0:
		a.Action = "decline"
	case n == 1:
		a.Action = "cancel"
	case asks[q.AuthorKey].form:
		a.Content = fmt.Appendf(nil, `{"n":%d}`, max(0, n-16))
	}
	at := time.Now()
	_, err := d.Answer(ctx, q.Name, q.Key, a)
	switch {
	case err == nil && person.Name == q.Principal && !slices.Contains(q.For, "user:"+person.Name):
		r.violate("%q has answered their own call: %q", person.Name, q.Key)
	case err == nil:
		r.mu.Lock()
		of := q.Name + " " + q.Key
		r.cast[of] = append(r.cast[of], vote{person.Name, a.Action, string(a.Content), at})
		r.summary.Votes++
		r.mu.Unlock()
	}
}

// follow makes a call and sees it to its end. Every other call is one of a client that takes no tasks, and can be asked
// nothing.
func (r *run) follow(ctx context.Context, front http.Handler, n int) {
	var keys []string
	for key, a := range asks {
		if n%2 == 0 || !a.host {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	name, made := "program", choices
	made.Keys = keys
	if n%4 == 0 { // only a task can sleep
		name, made.Ops = "whole", append(slices.Clip(made.Ops), program.Sleep)
	}
	n += 1000 * int(r.Seed) // other runs may use the store, too
	p := made.Program(2, rand.New(rand.NewPCG(0, uint64(n)+1)).IntN)
	in := arguments{p.String(), n}.String()
	c := &caller{run: r, front: front, number: n, program: p, capabilities: `{}`}
	if n%2 == 0 {
		c.capabilities = harness.WithExtension
	}
	res := c.send("tools/call", name, `"name":`+harness.Quote(name)+`,"arguments":`+in)
	for res["resultType"] == "input_required" {
		more := `,"inputResponses":` + c.answers(res["inputRequests"], true)
		if state, ok := res["requestState"].(string); ok {
			more += `,"requestState":` + harness.Quote(state)
		}
		r.pause(ctx, 0.5)
		res = c.send("tools/call", name, `"name":`+harness.Quote(name)+`,"arguments":`+in+more)
	}
	id, isTask := res["taskId"].(string)
	for isTask && ctx.Err() == nil {
		now := c.send("tasks/get", id, `"taskId":`+harness.Quote(id))
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
			if r.chance(0.7) {
				r.pause(ctx, 0.3)
				c.send("tasks/update", id, `"taskId":`+harness.Quote(id)+`,"inputResponses":`+answers)
			}
			r.pause(ctx, 1)
		default:
			r.violate("call %d is %v: %v of %s", n, now["status"], now, p)
			return
		}
	}
	c.check(ctx, harness.Content(res))
}

// caller is the client of one call.
type caller struct {
	*run
	front        http.Handler
	number       int
	program      program.Program
	capabilities string
}

// send sends a request. The result is empty if it has an error, which happens to answers that come too late.
func (c *caller) send(method, target, members string) map[string]any {
	r := harness.Request{Method: method, Target: target, Body: harness.Message(1, method, members, c.capabilities)}
	res := r.Send(c.t, c.front)
	var message struct {
		Result map[string]any
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(res.Raw), &message); err != nil {
		c.violate("call %d: %s: %v in %s", c.number, method, err, res.Raw)
	}
	if e := message.Error; e != nil && strings.HasPrefix(method, "tasks/") &&
		strings.HasSuffix(e.Message, "send the request again") { // a busy machine, whose store was silent for seconds
		return c.send(method, target, members)
	}
	if e := message.Error; e != nil && (method != "tasks/update" || !strings.Contains(e.Message, "too late")) {
		c.violate("call %d: %s: %s", c.number, method, e.Message)
	}
	return message.Result
}

// answers answers some of what the client is asked, or all of it.
func (c *caller) answers(requests any, all bool) string {
	given := []string{}
	asked, _ := requests.(map[string]any)
	for wire := range asked {
		message, _ := harness.At(asked[wire], "params", "message").(string)
		message, _, _ = strings.Cut(message, "\n")
		if !all && c.chance(0.4) {
			continue
		}
		n, outcome, answer := c.intN(1000), "", ""
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
