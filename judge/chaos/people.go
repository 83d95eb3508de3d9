package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// within is how long the group release may take to decide a call of deploy.
const within = 2 * time.Second

// people decide calls of deploy. Each of their votes is a process of its own, which at times is killed.
type people struct {
	*chaos
	store   task.Store
	desk    *desk.Desk
	moments chan struct{} // receives when a vote was given, or a deadline passes

	mu       sync.Mutex
	versions []string        // of the calls that were acknowledged
	votes    map[string]cast // by their reasons; each reason is given once
	down     []span          // when no server listened
}

// cast is a vote that somebody has tried to give.
type cast struct {
	task, key, who, action string
	taken                  bool // it was acknowledged
}

type span struct{ from, to time.Time }

// newPeople opens the store of the servers for those who vote, and for the judge.
func (c *chaos) newPeople(ctx context.Context) (p *people, err error) {
	p = &people{chaos: c, moments: make(chan struct{}, 1), votes: make(map[string]cast)}
	if path, ok := strings.CutPrefix(c.storeURL, "sqlite:"); ok {
		p.store, err = sqlite.Open(ctx, path)
	} else {
		p.store, err = postgres.Open(ctx, c.storeURL)
	}
	if err == nil {
		p.desk, err = desk.Open(p.store, nil)
	}
	return p, err
}

func (p *people) moment() {
	select {
	case p.moments <- struct{}{}:
	default:
	}
}

// work lets customers call deploy, and people vote, until each call that was acknowledged after the last fault has
// ended.
func (p *people) work(ctx, calling context.Context, customers *customers) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for _, who := range []desk.Person{
		{Name: "ada", Groups: []string{"release"}}, {Name: "bob", Groups: []string{"release"}},
		{Name: "cyd", Groups: []string{"release", "oncall"}}, {Name: "dan", Groups: []string{"oncall"}},
		{Name: "eve", Groups: []string{"oncall"}},
	} {
		all.Go(func() {
			for sleep(ctx, time.Duration(rand.Int64N(int64(time.Second)))) {
				p.vote(ctx, who)
			}
		})
	}
	all.Go(func() { p.watchServers(ctx) })
	for n := 1; sleep(calling, 300*time.Millisecond+time.Duration(rand.Int64N(int64(600*time.Millisecond)))); n++ {
		all.Go(func() { p.deploy(ctx, customers, n) })
	}
	for deadline := time.Now().Add(drain); !p.decided(ctx); {
		if time.Now().After(deadline) || !sleep(ctx, pause) {
			return
		}
	}
}

// watchServers notes when no server listens.
func (p *people) watchServers(ctx context.Context) {
	for sleep(ctx, 20*time.Millisecond) {
		if p.url() != "" {
			continue
		}
		now := time.Now()
		p.mu.Lock()
		if n := len(p.down); n > 0 && now.Sub(p.down[n-1].to) < 100*time.Millisecond {
			p.down[n-1].to = now
		} else {
			p.down = append(p.down, span{now, now})
		}
		p.mu.Unlock()
	}
}

var taskName = regexp.MustCompile(`"[A-Z2-7]{26}"`)

// deploy makes one call. Every other customer takes no tasks, and is told in words that the call waits.
func (p *people) deploy(ctx context.Context, customers *customers, n int) {
	capabilities := rawclient.AllTasks
	if n%2 == 0 {
		capabilities = `{}`
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		version := fmt.Sprintf("%d.%d", n, attempt)
		time.AfterFunc(within, p.moment)
		var res rawclient.Result
		err := customers.send(ctx, capabilities, "tools/call", map[string]any{
			"name": "deploy", "arguments": map[string]any{"version": version, "within": within.String()},
		}, &res)
		if err == nil && res.TaskID == "" && !taskName.MatchString(res.Text()) && !strings.HasPrefix(res.Text(), "Version") {
			p.ledger.violate(kindWrong, "deploy %s: the customer gets %q", version, res.Text())
		}
		if err == nil {
			p.mu.Lock()
			p.versions = append(p.versions, version)
			p.mu.Unlock()
			return
		}
		p.ledger.requestFailed(err)
		sleep(ctx, pause)
	}
}

// vote lets a person answer something that waits. One in ten processes is killed while it does.
func (p *people) vote(ctx context.Context, who desk.Person) {
	var waiting []*desk.Question
	for q, err := range p.desk.Waiting(ctx, desk.Waiting{As: &who}) {
		if err == nil {
			waiting = append(waiting, q)
		}
	}
	if len(waiting) == 0 {
		return
	}
	q := waiting[rand.IntN(len(waiting))]
	if time.Until(q.Deadline) > 0 && rand.IntN(2) == 0 {
		return // some deadlines pass
	}
	v := cast{task: q.Name, key: q.Key, who: who.Name, action: "accept"}
	if rand.IntN(12) == 0 {
		v.action = "decline"
	}
	p.mu.Lock()
	reason := fmt.Sprintf("reason %d", len(p.votes)+1)
	p.votes[reason] = v
	p.mu.Unlock()
	args := []string{"inbox", "answer", p.storeURL, q.Name, q.Key, "--as", who.Name, "--groups",
		strings.Join(who.Groups, ","), "--reason", reason, "--" + v.action}
	if v.action == "accept" {
		args = append(args, "{}")
	}
	voting, kill := context.WithCancel(ctx)
	defer kill()
	if rand.IntN(10) == 0 {
		p.ledger.count(votersKilled, 1)
		time.AfterFunc(time.Duration(rand.Int64N(int64(100*time.Millisecond))), kill)
	}
	out, err := exec.CommandContext(voting, p.program, args...).CombinedOutput()
	p.moment()
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		v.taken = true
		p.mu.Lock()
		p.votes[reason] = v
		p.mu.Unlock()
		p.ledger.count(votes, 1)
	case voting.Err() == nil && (exit == nil || exit.ExitCode() != 1):
		p.ledger.violate(kindWrong, "inbox answer: %v: %s", err, out)
	}
}

// decided reports whether all calls that were acknowledged have ended.
func (p *people) decided(ctx context.Context) bool {
	tasks, err := p.tasks(ctx)
	return err == nil && !slices.ContainsFunc(tasks, func(t *task.Task) bool { return !t.Status.Terminal() })
}

// tasks are all tasks of deploy, also those that nobody was told of.
func (p *people) tasks(ctx context.Context) (all []*task.Task, err error) {
	for after := ""; ; after = all[len(all)-1].ID {
		page, err := p.store.Select(ctx, task.Filter{Targets: []string{"deploy"}}, after, 100)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// version returns the version that a call of deploy is about.
func version(call []byte) string {
	var began struct {
		Params struct{ Arguments struct{ Version string } }
	}
	_ = json.Unmarshal(call, &began) // an empty version is of no call
	return began.Params.Arguments.Version
}
