package world

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// seam is the store as one bridge writes it.
type seam struct {
	*task.MemoryStore
	part *sim.Part
}

func (s *seam) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	return s.part.Do(ctx, "Create", func(ctx context.Context) error {
		return s.MemoryStore.Create(ctx, t, ttl, lease, call, entries, quota)
	})
}

func (s *seam) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) error {
	return sim.Change(ctx, s.part, "Insert", t, func(ctx context.Context, t *task.Task) error {
		return s.MemoryStore.Insert(ctx, t, ttl, call, u, quota)
	})
}

func (s *seam) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	return sim.Get(ctx, s.part, "Claim", func(ctx context.Context) ([]*task.Claimed, error) {
		return s.MemoryStore.Claim(ctx, after, load, lease, limit)
	})
}

func (s *seam) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	return s.part.Do(ctx, "Append", func(ctx context.Context) error {
		return s.MemoryStore.Append(ctx, id, claim, there, entry)
	})
}

func (s *seam) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	return sim.Get(ctx, s.part, "Renew", func(ctx context.Context) ([]task.Renewed, error) {
		return s.MemoryStore.Renew(ctx, leases, lease)
	})
}

func (s *seam) Update(ctx context.Context, t *task.Task, u task.Update) error {
	return sim.Change(ctx, s.part, "Update", t, func(ctx context.Context, t *task.Task) error {
		return s.MemoryStore.Update(ctx, t, u)
	})
}

// newBridge returns a bridge in front of the calm server and one other, whose calls are approved if they are gated.
func (w *world) newBridge(part *sim.Part, gated bool, user string) *bridge.Bridge {
	plenty := task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40, Notices: 1 << 20}
	opts := &bridge.Options{
		Implementation: &mcp.Implementation{Name: "bridge", Version: "1"},
		Server: askback.Options{
			Keys: w.keys, Logger: quiet, Desk: &askback.DeskOptions{Fallback: true, Wait: w.Unit},
			Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
				return cmp.Or(user, extra.Header.Get("X-User")), nil
			},
			Tasks: &askback.Tasks{Store: &seam{w.store, part}, Settings: task.Settings{
				Lease: 10 * w.Unit, Attempts: 10_000, PerPrincipal: plenty, Anonymous: plenty,
			}},
		},
	}
	for _, kind := range []string{w.Kind, calm} {
		opts.Servers = append(opts.Servers, bridge.Server{Identity: kind, Prefix: kind,
			Connect: func() (mcp.Transport, error) {
				if isProgram(kind) {
					return w.start(kind, part), nil
				}
				return &mcp.StreamableClientTransport{Endpoint: "http://" + kind + "/mcp",
					HTTPClient: &http.Client{Transport: &sim.Link{Network: w.Network, From: part, Calm: calm}}}, nil
			}})
	}
	if gated {
		opts.Approve = &bridge.Approval{Tools: []string{w.Kind + "_*"}}
	}
	return expect.Must(bridge.New(opts))(w.t)
}

// work has a bridge do what it does besides serving.
func (w *world) work(life context.Context, part *sim.Part, b *bridge.Bridge) {
	if err := b.Start(life); err != nil && life.Err() == nil {
		w.violate("%s did not start: %v", part.Name, err)
	}
	_ = b.Server().RunTasks(life)
	_ = b.Close()
}

// awaited is the state of an approval that nobody has given.
const awaited = "awaited"

// needs notes that a call needs an approval, because a bridge gets it that wants one.
func (w *world) needs(message []byte) {
	var call struct {
		Params struct {
			Name      string
			Arguments arguments
		}
	}
	_ = json.Unmarshal(message, &call)
	if id := call.Params.Arguments.ID; strings.HasPrefix(call.Params.Name, w.Kind+"_") {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.approvals[id] = cmp.Or(w.approvals[id], awaited)
	}
}

// gate looks at the requests to a bridge that wants approvals.
func (w *world) gate(bridge http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.needs(body)
		bridge.ServeHTTP(rw, r)
	})
}

// gatedLines are what such a bridge reads.
type gatedLines struct {
	io.ReadCloser
	*world
	read []byte
}

func (g *gatedLines) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.read = append(g.read, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(g.read, []byte("\n"))
		if !whole {
			return n, err
		}
		g.needs(line)
		g.read = rest
	}
}

func bridgeAt(place int) string { return fmt.Sprint("bridge", place) }

// startBridge starts a bridge as a program of a host, on the store of all bridges.
func (w *world) startBridge(host *sim.Part, user string) *program {
	n := w.programs.Add(1)
	part, gated := w.sim.Part(fmt.Sprintf("bridge %d of %s", n, host.Name), w.Bridge), w.Gated && n%2 == 0
	return w.run(host, part, func(life context.Context, stdio *mcp.IOTransport) {
		b := w.newBridge(part, gated, user)
		if gated {
			stdio.Reader = &gatedLines{ReadCloser: stdio.Reader, world: w}
		}
		w.others.Go(func() { w.work(life, part, b) })
		_ = b.Server().Run(life, stdio)
	})
}

// bridge runs one life of a bridge after the other at a place.
func (w *world) bridge(ctx context.Context, place int) {
	operator := w.sim.Part(fmt.Sprint("operator of bridge ", place), nil)
	for n := 0; ctx.Err() == nil; n++ {
		part, gated := w.sim.Part(fmt.Sprintf("bridge %d.%d", place, n), w.Bridge), w.Gated && (place+n)%2 == 0
		b := w.newBridge(part, gated, "")
		life, end := context.WithCancel(ctx)
		l := &sim.Listener{Part: part, Handler: b.Server().HTTPHandler(nil), Life: life}
		if gated {
			l.Handler = w.gate(l.Handler)
		}
		w.Listen(bridgeAt(place), l)
		w.others.Go(func() { w.work(life, part, b) })
		release := make(<-chan time.Time)
		if w.Gated && !gated { // calls may wait for a bridge that asks
			release = time.After(200 * w.Unit)
		}
		select {
		case <-part.Dead():
		case <-release:
		case <-ctx.Done():
		}
		w.HangUp(bridgeAt(place), l)
		end()
		operator.Pause(ctx, 1)
	}
}

// decide lets a person answer what waits. Most questions are accepted, also whether something is to run again.
func (w *world) decide(ctx context.Context) {
	part := w.sim.Part("people", nil)
	d := expect.Must(desk.Open(w.store, nil))(w.t)
	for part.Pause(ctx, 1) {
		var waiting []*desk.Question
		for q, err := range d.Waiting(ctx, desk.Waiting{}) {
			if err == nil {
				waiting = append(waiting, q)
			}
		}
		slices.SortFunc(waiting, func(a, b *desk.Question) int {
			return cmp.Or(strings.Compare(a.Message, b.Message), strings.Compare(a.Name, b.Name))
		})
		for _, q := range waiting {
			w.answer(ctx, d, part, q)
		}
	}
}

func (w *world) answer(ctx context.Context, d *desk.Desk, part *sim.Part, q *desk.Question) {
	a := desk.Answer{By: desk.Person{Name: q.Principal}, Action: "accept"}
	repeats := strings.HasPrefix(q.AuthorKey, "bridge_repeat")
	approves := strings.HasPrefix(q.AuthorKey, "bridge_approve")
	if part.Chance(0.1) || (repeats || approves) && part.Chance(0.4) {
		a.Action = "decline"
	} else if q.Schema != nil {
		a.Content = []byte(`{}`)
	}
	if whole, err := d.Question(ctx, q.Name, q.Key, nil); err == nil {
		var in arguments
		_ = json.Unmarshal(whole.Arguments, &in)
		w.mu.Lock() // before the answer, because the call may run at once
		if approves {
			w.approvals[in.ID] = a.Action
		} else if repeats && a.Action == "accept" {
			w.repeats[in.ID]++
		}
		w.mu.Unlock()
	}
	_, _ = d.Answer(ctx, q.Name, q.Key, a) // the call may have ended
}
