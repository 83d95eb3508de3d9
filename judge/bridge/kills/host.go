package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/judge/bridge/rig"
)

// call is a call as its host wants it.
type call struct {
	number   int
	kind     string // of the server, or empty for the only one
	tool     string
	asks     bool // once, where the tool may
	attempts []*attempt
}

// attempt is one request for a call, under an ID of its own, and what became of it.
type attempt struct {
	id, end, text string
}

// How an attempt ends.
const (
	done    = "done"    // with its result
	unknown = "unknown" // as the words say
	unsent  = "unsent"  // as the words say: its last round did not run
	lost    = "lost"    // with its connection, before it had a name
	other   = "other"   // which must not be
)

var ends = []string{done, unknown, unsent, lost, other}

// host makes calls, one after the other.
type host struct {
	fleet   *fleet
	session *rig.Session // nil after its bridge was killed
}

// makeAll makes the calls, as many at a time as there are hosts. It spreads them over all kills.
func (f *fleet) makeAll(ctx context.Context, calls []*call, o options) {
	next := make(chan *call)
	var working sync.WaitGroup
	for range min(o.hosts, len(calls)) {
		working.Go(func() {
			h := &host{fleet: f}
			for c := range next {
				h.make(ctx, c)
			}
		})
	}
	for i, c := range calls {
		for int(f.kills.Load()) < (i+1)*o.kills/len(calls) && pause(ctx, 20*time.Millisecond) {
		}
		pause(ctx, time.Duration(rand.Int64N(int64(o.every)/4)))
		next <- c
	}
	close(next)
	working.Wait()
}

// make makes a call. One that is idempotent is repeated if its connection breaks before it has a name, and if its
// server was killed.
func (h *host) make(ctx context.Context, c *call) {
	for ctx.Err() == nil {
		a := &attempt{id: fmt.Sprintf("%d.%d", c.number, len(c.attempts)+1)}
		c.attempts = append(c.attempts, a)
		h.attempt(ctx, c, a)
		again := a.end == lost || c.kind != "" && (a.end == unknown || a.end == unsent)
		if !again || c.tool != idempotent {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// lastRound is the number of a round that did not run.
func (a *attempt) lastRound() int {
	if m := roundNumber.FindStringSubmatch(strings.ToLower(a.text)); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 1
}

var roundNumber = regexp.MustCompile(`round (\d+) of th`)

var taskName = regexp.MustCompile(`askback_result with the name "([A-Z2-7]{26})"`)

func (h *host) attempt(ctx context.Context, c *call, a *attempt) {
	if !h.open(ctx) {
		a.end = other
		return
	}
	tool := c.tool
	if c.kind != "" {
		tool = c.kind + "_" + tool
	}
	text, err := h.call(ctx, tool, map[string]any{"id": a.id, "asks": c.asks})
	switch name := taskName.FindStringSubmatch(text); {
	case err != nil:
		a.end = lost
	case name != nil:
		h.fetch(ctx, a, name[1])
	default:
		a.finish(text)
	}
}

// fetch asks for the outcome until there is one, from the bridge that runs.
func (h *host) fetch(ctx context.Context, a *attempt, name string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	a.end, a.text = other, "no outcome within two minutes"
	for h.open(ctx) {
		text, err := h.call(ctx, "askback_result", map[string]any{"name": name})
		if err == nil && !taskName.MatchString(text) {
			a.finish(text)
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

func (a *attempt) finish(text string) {
	a.text = text
	switch {
	case text == "done "+a.id:
		a.end = done
	case strings.Contains(text, "outcome of this call is unknown"), strings.Contains(text, "may have run"),
		strings.HasPrefix(text, "The connection to the server of"):
		a.end = unknown
	case strings.Contains(text, "was not sent"), strings.Contains(text, "did not run"),
		strings.Contains(text, "was not called: "):
		a.end = unsent
	default:
		a.end = other
	}
}

// open opens a session with a bridge that runs, if there is none. It reports whether there is one.
func (h *host) open(ctx context.Context) bool {
	if h.session != nil && !h.fleet.runs(h.session.URL) {
		h.session = nil
	}
	for h.session == nil && ctx.Err() == nil {
		url := h.fleet.url()
		if url != "" {
			h.session, _ = rig.OpenSession(ctx, url) // with an error it is tried again
		}
		if h.session == nil {
			pause(ctx, 50*time.Millisecond)
		}
	}
	return h.session != nil
}

// call returns the text of a result, or of an error of the server. The error says that there was no response.
func (h *host) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	result, err := h.session.Call(ctx, tool, arguments)
	if fault, ok := err.(*rawclient.Error); ok && fault.Code != 0 {
		return fault.Error(), nil
	}
	if err != nil {
		h.session = nil
		return "", err
	}
	var decoded rawclient.Result
	if err := json.Unmarshal(result, &decoded); err != nil {
		return "", err
	}
	return decoded.Text(), nil
}
