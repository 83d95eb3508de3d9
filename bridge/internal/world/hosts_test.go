package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/sim"
)

// How an attempt at a call ends for its host.
const (
	done     = "done"     // with its result
	unknown  = "unknown"  // as the words say
	unsent   = "unsent"   // as the words say: its last round did not run
	declined = "declined" // by somebody
	lost     = "lost"     // with its connection, or because its host did not wait
	again    = "again"    // the bridge wants the request once more
	other    = "other"    // anything else is a violation
)

// host makes one call. It has a user of its own, or shares one.
type host struct {
	*world
	part    *sim.Part
	server  string
	tool    string
	version string
	form    string // how it answers what it is asked
	patient time.Duration
	user    string
	starts  bool     // its bridge, as a program
	lives   int      // in which it has started one
	bridge  *program // the last of them
	dies    float64  // the chance that it does while it waits

	session *client.Session
}

// How hosts answer.
const (
	answers  = "answers"
	declines = "declines" // at once, so nobody has seen the question
	cannot   = "cannot"
)

// mostPatience bounds how long an attempt takes, in units: the answer to a question may be lost. And mostWait bounds
// how long a call takes, with all its attempts.
const (
	mostPatience = 300
	mostWait     = 20_000
)

// mostAttempts bounds how often a call is made. One whose host can be asked may wait for it, and keep others waiting,
// if the host has lost the name of the call.
const mostAttempts = 40

// call makes a call to its end. One that is idempotent is made again until it is done.
func (h *host) call(ctx context.Context, number int) {
	ctx, cancel := context.WithTimeout(ctx, mostWait*h.Unit)
	defer cancel()
	defer func() {
		if h.session != nil {
			_ = h.session.Close()
		}
		if h.bridge != nil {
			<-h.bridge.life.Done()
		}
	}()
	for n := 1; ; n++ {
		id := fmt.Sprintf("%d.%d", number, n)
		end, text := h.attempt(ctx, id)
		if ctx.Err() != nil {
			h.violate("call %s of %s has not ended after %v: %s", id, h.tool, mostWait*h.Unit, text)
			return
		}
		h.mu.Lock()
		h.attempts = append(h.attempts, attempt{id, h, end, text})
		h.mu.Unlock()
		if !isIdempotent(h.tool) || end == done || end == declined || end == other {
			return
		}
		if n == mostAttempts {
			if h.form == cannot {
				h.violate("not done: call %s: %s", id, text)
			}
			return
		}
		h.patient = mostPatience * h.Unit
		h.part.Pause(ctx, float64(2*n)) // at first, others may wait for an answer
	}
}

// attempt makes a call under an ID, and returns how it ended.
func (h *host) attempt(ctx context.Context, id string) (end, text string) {
	began := time.Now()
	if h.starts && h.open(ctx) && h.part.Happens("it dies while it waits", h.dies) {
		life := h.bridge.by
		h.others.Go(func() {
			h.part.Pause(ctx, 2)
			life.Kill()
		})
	}
	text, err := h.send(ctx, h.patient, h.server+"_"+h.tool, map[string]any{"id": id})
	if took := time.Since(began); h.server == calm && took > calmTime*h.Unit {
		h.violate("call %s of the calm server took %v", id, took)
	}
	name := waitsAs(text)
	for name != "" {
		if !h.part.Pause(ctx, 2) {
			return other, text
		}
		var now string
		if now, err = h.send(ctx, time.Minute, "askback_result", map[string]any{"name": name}); err == nil {
			text, name = now, waitsAs(now)
		}
	}
	if _, notRun := errors.AsType[*client.NotRunError](err); notRun {
		return unsent, err.Error()
	}
	if err != nil {
		return lost, err.Error()
	}
	return ending(id, text), text
}

// calmTime is how long a call may take, in units, at a server to which nothing happens: as long as a bridge that starts
// waits for its other servers.
const calmTime = 20

var taskName = regexp.MustCompile(`askback_result with the name "([A-Z2-7]{26})"`)

// waitsAs returns the name under which a call waits, or nothing: a call that was not sent is told the name of another.
func waitsAs(text string) string {
	if name := taskName.FindStringSubmatch(text); name != nil && !strings.Contains(text, "not sent: ") {
		return name[1]
	}
	return ""
}

// ending is what the words of an attempt say.
func ending(id, text string) string {
	says := func(any ...string) bool {
		return slices.ContainsFunc(any, func(words string) bool { return strings.Contains(text, words) })
	}
	switch {
	case text == "done "+id:
		return done
	case says("may have run") || strings.HasPrefix(text, "The connection to the server of"):
		return unknown
	case says("was not sent", "did not run", "was not called: ", "unknown tool"):
		return unsent
	case says("send the request again", "the limit of 16 questions per round"):
		return again
	case says(errDeclined.Error(), "declined", "was not continued: "):
		return declined
	}
	return other
}

// send calls a tool of a bridge, and returns the text of its result, or of the server's error.
func (h *host) send(ctx context.Context, wait time.Duration, tool string, in map[string]any) (string, error) {
	if !h.open(ctx) {
		return "", context.Cause(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	res, err := h.session.CallTool(waiting, &mcp.CallToolParams{Name: tool, Arguments: in})
	_, notRun := errors.AsType[*client.NotRunError](err)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && !notRun {
		return fmt.Sprint(fault.Message, " (", fault.Code, ")"), nil
	}
	if err != nil {
		if waiting.Err() == nil {
			_ = h.session.Close()
			h.session = nil
		}
		return "", err
	}
	text := ""
	for _, c := range res.Content {
		text += c.(*mcp.TextContent).Text
	}
	return text, nil
}

// open opens a session with a bridge that runs, if there is none.
func (h *host) open(ctx context.Context) bool {
	for h.session == nil && ctx.Err() == nil {
		opts := &client.Options{Tasks: client.TasksOff}
		if h.form != cannot {
			opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
				if h.form == declines {
					return &mcp.ElicitResult{Action: "decline"}, nil
				}
				h.part.Pause(ctx, 2)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			}
		}
		connecting, cancel := context.WithTimeout(ctx, time.Minute)
		var err error
		h.session, err = client.New(opts).Connect(connecting, h.transport(),
			&mcp.ClientSessionOptions{ProtocolVersion: h.version})
		cancel()
		if err != nil {
			h.session = nil
			h.part.Pause(ctx, 1)
		}
	}
	return h.session != nil
}

// transport is the way to a bridge. A host that starts one does so in a life of its own, which may end with a message.
func (h *host) transport() mcp.Transport {
	if h.starts {
		h.lives++
		h.bridge = h.startBridge(h.sim.Part(fmt.Sprintf("%s, life %d", h.part.Name, h.lives), fragile), h.user)
		return h.bridge
	}
	return &mcp.StreamableClientTransport{Endpoint: "http://" + bridgeAt(h.part.IntN(h.Bridges)) + "/mcp",
		HTTPClient: &http.Client{Transport: &sim.Link{Network: h.Network, From: h.part, User: h.user}}}
}
