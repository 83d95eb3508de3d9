package tasks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/egress"
	"github.com/askback-mcp/askback/internal/signedhook"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Webhooks posts events to addresses that callers have named (SEP-3415, "Webhook-Based Delivery"). It is safe for
// concurrent use, once its fields are set.
type Webhooks struct {
	Client   *egress.Client
	Keys     *seal.Ring // seal the secrets of subscribers
	Audience string
	// Allow, if set, reports whether an address wants events without being asked.
	Allow        func(principal, url string) bool
	TTL, MaxTTL  time.Duration // of a subscription
	PerPrincipal int           // how many subscriptions

	wake    chan struct{} // something may be due
	serving sync.WaitGroup

	mu         sync.Mutex
	principals map[string]int // how many subscriptions of each are being served
	hosts      map[string]int
	served     int
	challenges map[string]int // to each host, and of each principal, in this minute
	minute     time.Time
}

// The bounds of one process.
const (
	serveAtOnce = 64
	// challengesEach and challengesOfPrincipal bound the challenges in a minute: to one host, and for one principal.
	challengesEach        = 60
	challengesOfPrincipal = 20

	attemptTimeout = 10 * time.Second
)

// NewWebhooks returns webhooks without their options.
func NewWebhooks() *Webhooks {
	return &Webhooks{wake: make(chan struct{}, 1), principals: make(map[string]int), hosts: make(map[string]int)}
}

// Wake has those that are due be looked for.
func (w *Webhooks) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// claim returns what may be claimed now. A principal or a host gets more only while it has less than is free. So those
// that take long leave room for others, however many they are.
func (w *Webhooks) claim() task.SubscriptionClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := serveAtOnce - w.served
	full := func(of map[string]int) (names []string) {
		for name, n := range of {
			if n >= free {
				names = append(names, name)
			}
		}
		return names
	}
	return task.SubscriptionClaim{Principals: full(w.principals), Hosts: full(w.hosts), Limit: (free + 1) / 2,
		Lease: runLease}
}

// count counts a subscription that is being served, or no more.
func (w *Webhooks) count(sub *task.Subscription, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served += n
	if w.principals[sub.Principal] += n; w.principals[sub.Principal] == 0 {
		delete(w.principals, sub.Principal)
	}
	if w.hosts[sub.Host] += n; w.hosts[sub.Host] == 0 {
		delete(w.hosts, sub.Host)
	}
}

// mayChallenge reports whether another challenge may be sent, and counts it.
func (w *Webhooks) mayChallenge(ctx context.Context, sub *task.Subscription) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if minute := clock.Now(ctx).Truncate(time.Minute); !minute.Equal(w.minute) {
		w.minute, w.challenges = minute, make(map[string]int)
	}
	to, of := "to "+sub.Host, "of "+sub.Principal
	if w.challenges[to] >= challengesEach || w.challenges[of] >= challengesOfPrincipal {
		return false
	}
	w.challenges[to]++
	w.challenges[of]++
	return true
}

// challenge has the endpoint of a subscription show that it wants events. The error is one for the client.
func (w *Webhooks) challenge(ctx context.Context, sub *task.Subscription, url string, key []byte) error {
	if !w.mayChallenge(ctx, sub) {
		return wire.DataError(wire.CodeResourceExhausted, map[string]any{"limit": "verifications"},
			"too many endpoints are being verified: try again in a minute")
	}
	nonce := rand.Text()
	body, err := json.Marshal(map[string]string{"type": "verification", "challenge": nonce})
	if err != nil {
		return err
	}
	_, answer, failure := w.post(ctx, url, sub.ID, [][]byte{key}, "msg_verification_"+rand.Text(), body)
	if failure == "" {
		var echo string
		if strictjson.Check(answer, 8) == nil {
			echo, _ = strictjson.String(strictjson.Get(answer, "challenge"))
		}
		if subtle.ConstantTimeCompare([]byte(echo), []byte(nonce)) == 1 {
			return nil
		}
		failure = "challenge_failed"
	}
	return wire.DataError(wire.CodeCallbackEndpoint, map[string]any{"reason": failure},
		`the endpoint was not verified (%s): it must answer a "verification" with its challenge`, failure)
}

// post sends a body, signed, and returns the status and the beginning of the answer. The failure is a category of the
// extension: what the endpoint says is not for those who named it.
func (w *Webhooks) post(
	ctx context.Context, url, subscription string, keys [][]byte, id string, body []byte,
) (status int, answer []byte, failure string) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Mcp-Subscription-Id", subscription)
		signedhook.Sign(req.Header, keys, id, clock.Now(ctx), body)
		status, answer, err = w.Client.Do(req)
	}
	return status, answer, failureOf(status, err)
}

// failureOf returns the category of an attempt that failed. There is none for a redirect, which is not followed.
func failureOf(status int, err error) string {
	var network net.Error
	switch {
	case err == nil && status >= 200 && status <= 299:
		return ""
	case err == nil && status >= 500:
		return "http_5xx"
	case err == nil:
		return "http_4xx"
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case is[*tls.CertificateVerificationError](err), is[tls.RecordHeaderError](err), is[tls.AlertError](err):
		return "tls_error"
	}
	return "connection_refused"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// setSecret has the key of a subscriber sign. The one that it replaces signs for a while, too.
func (w *Webhooks) setSecret(ctx context.Context, sub *task.Subscription, h *hook, key []byte) error {
	keys, err := w.openKeys(ctx, sub, h)
	if err != nil { // the old ones cannot sign any more
		h.Secrets = nil
	} else if len(keys) > 0 && bytes.Equal(keys[0], key) {
		return nil
	}
	sealed, err := w.sealKey(ctx, sub, key)
	h.Secrets = append([]string{sealed}, h.Secrets[:min(1, len(h.Secrets))]...)
	h.Grace = clock.Now(ctx).Add(secretGrace)
	return err
}

// sealKey seals the key of a subscriber, so that nobody reads it in the store. It is deleted with its subscription.
func (w *Webhooks) sealKey(ctx context.Context, sub *task.Subscription, key []byte) (string, error) {
	now := clock.Now(ctx)
	return w.Keys.Seal(w.binding(sub), key, now, now.AddDate(100, 0, 0))
}

func (w *Webhooks) binding(sub *task.Subscription) seal.Binding {
	return seal.Binding{Audience: w.Audience, Principal: sub.Principal, Method: wire.SubscribeEvents, Target: sub.ID}
}

// openKeys returns the keys that sign now, and seals those again that an old key of the server has sealed.
func (w *Webhooks) openKeys(ctx context.Context, sub *task.Subscription, h *hook) (keys [][]byte, err error) {
	now, first := clock.Now(ctx), w.Keys.Keys()[0].ID()
	if now.After(h.Grace) && len(h.Secrets) > 1 {
		h.Secrets = h.Secrets[:1]
	}
	for i, sealed := range h.Secrets {
		state, err := w.Keys.Open(sealed, w.binding(sub), now)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, state.Payload); state.KeyID == first {
			continue
		}
		if h.Secrets[i], err = w.sealKey(ctx, sub, state.Payload); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
