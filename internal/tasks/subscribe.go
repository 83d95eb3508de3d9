package tasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/signedhook"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

const (
	longestURL       = 2 << 10
	longestArguments = 4 << 10
	shortestTTL      = time.Minute
	// secretGrace is how long a secret that was replaced still signs, beside the one that replaced it.
	secretGrace = 10 * time.Minute
)

// hookTerms are what a subscriber has said.
type hookTerms struct {
	Params json.RawMessage `json:"params"` // the name and the arguments
	URL    string          `json:"url"`
	// Secrets are sealed: the one that was given last and, until Grace, the one before.
	Secrets []string  `json:"secrets"`
	Grace   time.Time `json:"grace,omitzero"`
}

// parseHook reads which subscription of a principal a request is about.
func (s *Service) parseHook(principal string, params []byte) (*followed, *task.Subscription, *hookTerms, error) {
	if principal == "" {
		return nil, nil, nil, wire.Errorf(wire.CodeForbidden, "anonymous callers have no webhooks: sign in, or poll")
	}
	f, invalid := s.parseFollowed(params)
	if invalid != nil {
		return nil, nil, nil, invalid
	}
	delivery := strictjson.Get(params, "delivery")
	if mode, isText := strictjson.String(strictjson.Get(delivery, "mode")); isText && mode != "webhook" {
		return nil, nil, nil, unsupportedMode(mode)
	}
	address, _ := strictjson.String(strictjson.Get(delivery, "url"))
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" ||
		len(address) > longestURL {
		return nil, nil, nil, invalidParam("delivery.url", "must be an absolute https URL without a user and a fragment")
	}
	arguments := strictjson.Get(params, "arguments")
	if !given(arguments) {
		arguments = []byte("{}")
	}
	if len(arguments) > longestArguments {
		return nil, nil, nil, invalidParam("arguments", "are too long")
	}
	key := []string{principal, address, f.of.name, string(strictjson.AppendCanonical(nil, arguments))}
	encoded, err := json.Marshal(key)
	if err != nil {
		return nil, nil, nil, err
	}
	sum := sha256.Sum256(encoded)
	sub := &task.Subscription{ID: "sub_" + hex.EncodeToString(sum[:16]), Principal: principal,
		Host: strings.TrimRight(strings.ToLower(u.Hostname()), ".")}
	t := &hookTerms{URL: address}
	t.Params, err = json.Marshal(map[string]any{"name": f.of.name, "arguments": json.RawMessage(arguments)})
	return f, sub, t, err
}

func unsupportedMode(mode string) error {
	return wire.DataError(wire.CodeUnsupported, map[string]any{"feature": "deliveryMode", "value": wire.Cut(mode, 100)},
		"events are not delivered by this mode: see %s", wire.ListEvents)
}

// subscribe serves events/subscribe: it adds a subscription, or prolongs it.
func (s *Service) subscribe(ctx context.Context, principal string, params []byte) ([]byte, error) {
	w := s.Events.Webhooks
	f, sub, terms, err := s.parseHook(principal, params)
	if err != nil {
		return nil, err
	}
	secret, _ := strictjson.String(strictjson.Get(strictjson.Get(params, "delivery"), "secret"))
	key, ok := signedhook.Key(secret)
	if !ok {
		return nil, invalidParam("delivery.secret", `must be "whsec_" and 24 to 64 random bytes in base64`)
	}
	ttl, ok := w.ttl(strictjson.Get(params, "ttlMs"))
	if !ok {
		return nil, invalidParam("ttlMs", "must be a number of milliseconds")
	}
	old, oldTerms, verified, err := s.subscribed(ctx, sub, terms.URL)
	if err != nil {
		return nil, err
	}
	var p hookProgress
	if old != nil {
		if err := json.Unmarshal(old.Progress, &p); err != nil {
			return nil, s.storeFailed(ctx, "reading a subscription", err)
		}
	}
	if p.Envelope != nil && p.Envelope.Error != nil { // it has ended, and its subscriber is about to be told
		if err := s.endSubscription(ctx, old); err != nil && !errors.Is(err, task.ErrNotFound) {
			return nil, s.failed(ctx, "subscribing", err)
		}
		old, p = nil, hookProgress{}
	}
	if old != nil {
		f.fromNow, f.maxAge = false, 0
		f.from, _ = parseEventCursor(p.Cursor)
	}
	b, err := s.beginAt(ctx, principal, f)
	if err != nil {
		return nil, err
	}
	truncated := b.truncated && !f.fromNow
	if old != nil {
		truncated = p.missed(b) || p.Envelope != nil
	} else {
		p = hookProgress{Cursor: b.start(), Deleted: b.deleted}
	}
	if err := w.setSecrets(ctx, sub, terms, oldTerms, key); err != nil {
		return nil, s.storeFailed(ctx, "sealing a secret", err)
	}
	if !verified && (w.Allow == nil || !w.Allow(principal, terms.URL)) {
		if err := w.challenge(ctx, sub, terms.URL, key); err != nil {
			return nil, err
		}
	}
	if sub.Terms, err = json.Marshal(terms); err == nil {
		sub.Progress, err = json.Marshal(&p)
	}
	if err == nil {
		err = s.Engine.Subscriptions(ctx, "Subscribe", func(ctx context.Context, store task.Subscriptions) error {
			return store.Subscribe(ctx, sub, ttl, w.PerPrincipal)
		})
	}
	if errors.Is(err, task.ErrQuota) {
		return nil, w.tooMany()
	}
	if err != nil {
		return nil, s.failed(ctx, "subscribing", err)
	}
	w.Wake()
	result := map[string]any{"id": sub.ID, "refreshBefore": sub.Expires, "cursor": b.start(),
		"truncated": truncated}
	if old != nil {
		result["deliveryStatus"] = p.status()
	}
	return membersOf(result)
}

func (w *Webhooks) tooMany() error {
	return wire.DataError(wire.CodeResourceExhausted, map[string]any{"limit": "subscriptions", "max": w.PerPrincipal},
		"a caller has at most %d subscriptions: unsubscribe, or wait until one has ended", w.PerPrincipal)
}

// ttl grants a time to live. It is always finite.
func (w *Webhooks) ttl(asked []byte) (time.Duration, bool) {
	if asked == nil {
		return w.TTL, true
	}
	most := w.MaxTTL.Milliseconds()
	ms, ok := integer(asked, most)
	return time.Duration(max(min(ms, most), shortestTTL.Milliseconds())) * time.Millisecond, ok
}

// subscribed looks for a subscription that is there already, and reports whether its endpoint is verified: another
// subscription of the principal goes there. The error is one for the client, who may have as many as it may.
func (s *Service) subscribed(
	ctx context.Context, sub *task.Subscription, url string,
) (old *task.Subscription, terms *hookTerms, verified bool, err error) {
	var all []*task.Subscription
	err = s.Engine.Subscriptions(ctx, "Subscribed", func(ctx context.Context, store task.Subscriptions) (err error) {
		all, err = store.Subscribed(ctx, sub.Principal)
		return err
	})
	for _, one := range all {
		t := new(hookTerms)
		err = errors.Join(err, json.Unmarshal(one.Terms, t))
		if verified = verified || t.URL == url; one.ID == sub.ID {
			old, terms = one, t
		}
	}
	if err != nil {
		return nil, nil, false, s.failed(ctx, "reading subscriptions", err)
	}
	if old == nil && len(all) >= s.Events.Webhooks.PerPrincipal {
		return nil, nil, false, s.Events.Webhooks.tooMany() // before anything is sent to the endpoint
	}
	return old, terms, verified, nil
}

// beginAt reads where a subscription begins: at its cursor, or behind the events that it is too late for.
func (s *Service) beginAt(ctx context.Context, principal string, f *followed) (*eventBatch, error) {
	truncated := false
	for {
		b, err := s.readEvents(ctx, principal, f, mostEvents)
		if err != nil {
			return nil, err
		}
		if b.truncated = b.truncated || truncated; len(b.events) > 0 {
			return b, nil
		}
		if b.from = b.next; !b.more {
			return b, nil
		}
		f.from, truncated = b.next, b.truncated
	}
}

// setSecrets seals the key of a subscriber. If it replaces another one, that signs for a while, too.
func (w *Webhooks) setSecrets(
	ctx context.Context, sub *task.Subscription, t, old *hookTerms, key []byte,
) error {
	sealed, err := w.sealKey(ctx, sub, key)
	if err != nil {
		return err
	}
	if t.Secrets = []string{sealed}; old == nil {
		return nil
	}
	keys, err := w.openKeys(ctx, sub, old)
	if err != nil {
		return nil // the old ones cannot sign any more
	}
	switch {
	case !bytes.Equal(keys[0], key):
		t.Secrets, t.Grace = append(t.Secrets, old.Secrets[0]), clock.Now(ctx).Add(secretGrace)
	case len(keys) > 1:
		t.Secrets, t.Grace = append(t.Secrets, old.Secrets[1]), old.Grace
	}
	return nil
}

// unsubscribe serves events/unsubscribe.
func (s *Service) unsubscribe(ctx context.Context, principal string, params []byte) ([]byte, error) {
	_, sub, _, err := s.parseHook(principal, params)
	if err != nil {
		return nil, err
	}
	err = s.endSubscription(ctx, sub)
	if errors.Is(err, task.ErrNotFound) {
		return nil, wire.DataError(wire.CodeNotFound, map[string]any{"kind": "subscription"}, "there is no such subscription")
	}
	if err != nil {
		return nil, s.failed(ctx, "unsubscribing", err)
	}
	return nil, nil
}

func (s *Service) endSubscription(ctx context.Context, sub *task.Subscription) error {
	return s.Engine.Subscriptions(ctx, "Unsubscribe", func(ctx context.Context, store task.Subscriptions) error {
		return store.Unsubscribe(ctx, sub.ID)
	})
}
