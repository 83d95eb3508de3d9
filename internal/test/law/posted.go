package law

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/sim"
)

// postbox is a host that has the events of one type posted to its endpoint.
type postbox struct {
	*poller // of which it has what was seen, and how that is checked
	secret  string
	client.EventReceiver

	away    atomic.Bool
	mu      sync.Mutex
	refused map[string]int // how often a post with this ID was not accepted
}

// givenUp is how often an event is tried.
const givenUp = 5

// postboxes are the endpoints of all hosts, by the paths of their addresses.
type postboxes map[string]*postbox

// newPostboxes returns the endpoints of two callers, and of somebody who is asked. The hosts have subscribed.
func (r *run) newPostboxes(ctx context.Context) (all []follower) {
	r.posted = make(postboxes)
	for _, principal := range []string{"alice", "bob", "p1"} {
		for _, name := range []string{"question.asked", "question.decided", "call.ended"} {
			b := &postbox{poller: r.newPoller(principal, name, "postbox"), secret: client.NewEventSecret(),
				refused: make(map[string]int)}
			b.excused = make(map[string]int)
			b.Secrets = func(context.Context, string) ([]string, error) { return []string{b.secret}, nil }
			b.Receive = b.receive
			r.posted["/"+principal+"/"+name] = b
			all = append(all, b)
		}
	}
	for _, f := range all {
		b := f.(*postbox)
		for !b.subscribe(ctx) && b.part.Pause(ctx, 0.1) {
		}
	}
	return all
}

// posting is the way of one server to the endpoints.
type posting struct {
	*run
	part *sim.Part
}

// RoundTrip implements [http.RoundTripper].
func (p posting) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b := p.posted[r.URL.Path]
	res, err := sim.Get(r.Context(), p.part, "post to "+r.URL.Path, func(ctx context.Context) (*http.Response, error) {
		r := r.Clone(ctx)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		return w.Result(), nil
	})
	if err != nil || res.StatusCode/100 != 2 {
		b.refuses(r.Header.Get("Webhook-Id"), body)
	}
	return res, err
}

// refuses notes that a post was not accepted. After so many times its event need not come any more.
func (b *postbox) refuses(id string, body []byte) {
	var event struct{ Data any }
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refused[id]++; b.refused[id] == givenUp && json.Unmarshal(body, &event) == nil && event.Data != nil {
		b.excused[keyOf(event.Data)]++
	}
}

// ServeHTTP implements [http.Handler]: an endpoint that is away is seen as such.
func (b *postbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.away.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	b.EventReceiver.ServeHTTP(w, r)
}

func (b *postbox) receive(ctx context.Context, _ string, page *client.EventPage, ended error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ended != nil || page.Truncated && b.losses() == 0 {
		b.violate("%s: told of a gap, or of the end, although nothing was lost: %v, %v", b.part.Name, page, ended)
	}
	if ended != nil {
		return nil
	}
	for _, e := range page.Events {
		var data any
		_ = json.Unmarshal(e.Data, &data)
		if b.counted[e.ID]++; b.counted[e.ID] == 1 { // it may come again, and out of order
			b.note(ctx, data, b.losses())
		}
	}
	b.cursor, _ = json.Marshal(page.Cursor)
	b.caller.mu.Lock()
	defer b.caller.mu.Unlock()
	b.summary.Posted += len(page.Events)
	return nil
}

// subscribe subscribes, or prolongs the subscription, with the last cursor. It reports whether the server has agreed.
func (b *postbox) subscribe(ctx context.Context) bool {
	before := b.losses()
	b.mu.Lock()
	from := b.cursor
	b.mu.Unlock()
	granted, err := b.send(ctx, "events/subscribe", b.name, fmt.Sprintf(
		`"name":%q,"delivery":{"url":"https://hosts.example/%s/%s","secret":%q},"ttlMs":86400000,"cursor":%s`,
		b.name, b.principal, b.name, b.secret, from))
	if err != nil || granted == nil {
		return false
	}
	if granted["truncated"] != false && before == 0 && b.losses() == 0 {
		b.violate("%s: a subscription begins late: %v", b.part.Name, granted)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes.Equal(b.cursor, from) { // nothing has come meanwhile
		b.cursor, _ = json.Marshal(harness.At(granted, "cursor"))
	}
	return true
}

// run prolongs the subscription now and then. Sometimes the endpoint is away for long.
func (b *postbox) run(ctx context.Context) {
	for b.part.Pause(ctx, 20) {
		if b.part.Chance(0.2) {
			b.away.Store(true)
			b.part.Pause(ctx, 300)
			b.away.Store(false)
		}
		b.subscribe(ctx)
	}
}

// check wants to have got, after a while, each event that the store has. One of ten seeds has an endpoint
// that is away for long before: for days, where a unit is a minute.
func (b *postbox) check(ctx context.Context) {
	if b.Seed%10 == 3 && b.principal == "alice" && b.name == "call.ended" {
		b.away.Store(true)
		b.part.Pause(ctx, 3_000)
		b.away.Store(false)
	}
	for range 200 {
		b.subscribe(ctx)
		if len(b.missing(ctx)) == 0 || !b.part.Pause(ctx, 10) {
			break
		}
	}
	for _, one := range b.missing(ctx) {
		b.violate("%s: %s", b.part.Name, one)
	}
}

func (b *postbox) missing(ctx context.Context) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.poller.missing(ctx)
}
