package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

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

// parseHook reads which subscription of a principal a request is about, and what it says.
func (s *Service) parseHook(principal string, params []byte) (*followed, *task.Subscription, *hook, error) {
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
	key := []string{principal, address, f.of.Name, string(strictjson.AppendCanonical(nil, arguments))}
	encoded, err := json.Marshal(key)
	if err != nil {
		return nil, nil, nil, err
	}
	sum := sha256.Sum256(encoded)
	sub := &task.Subscription{ID: "sub_" + hex.EncodeToString(sum[:16]), Principal: principal,
		Host: strings.TrimRight(strings.ToLower(u.Hostname()), ".")}
	h := &hook{hookTerms: hookTerms{URL: address}}
	h.Params, err = json.Marshal(map[string]any{"name": f.of.Name, "arguments": json.RawMessage(arguments)})
	return f, sub, h, err
}

func unsupportedMode(mode string) error {
	return wire.DataError(wire.CodeUnsupported, map[string]any{"feature": "deliveryMode", "value": wire.Cut(mode, 100)},
		"events are not delivered by this mode: see %s", wire.ListEvents)
}

// subscribe serves events/subscribe: it adds a subscription, or prolongs it. See change for its errors.
func (s *Service) subscribe(ctx context.Context, principal string, params []byte) ([]byte, error) {
	w := s.Events.Webhooks
	f, sub, h, err := s.parseHook(principal, params)
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
	n, verified, err := s.findSubscription(ctx, sub, h)
	if err != nil {
		return nil, err
	}
	if sub.Version == "" && n >= w.PerPrincipal { // before anything is sent to the endpoint
		return nil, wire.DataError(wire.CodeResourceExhausted,
			map[string]any{"limit": "subscriptions", "max": w.PerPrincipal},
			"a caller has at most %d subscriptions: unsubscribe, or wait until one has ended", w.PerPrincipal)
	}
	live := h.Cursor != ""
	if live { // it goes on where it is
		f.fromNow = true
	}
	b, err := s.readEvents(ctx, principal, f, mostEvents)
	if err != nil {
		return nil, err
	}
	result := map[string]any{"id": sub.ID, "truncated": b.truncated}
	if live {
		result["deliveryStatus"], result["truncated"] = h.status(), h.Envelope != nil
		h.resume()
	} else {
		h.Cursor, h.Deleted, h.Since = b.start(), b.deleted, f.since
	}
	if err := w.setSecret(ctx, sub, h, key); err != nil {
		return nil, s.storeFailed(ctx, "sealing a secret", err)
	}
	if !verified && (w.Allow == nil || !w.Allow(principal, h.URL)) {
		if err := w.challenge(ctx, sub, h.URL, key); err != nil {
			return nil, err
		}
	}
	if sub.State, err = json.Marshal(h); err != nil {
		return nil, err
	}
	sub.Expires, sub.Due = b.next.minted.Add(ttl), b.next.minted
	if err := s.change(ctx, sub); err != nil {
		return nil, err
	}
	w.Wake()
	result["refreshBefore"], result["cursor"] = sub.Expires, h.Cursor
	return membersOf(result)
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

// findSubscription looks for a subscription that is there already, and goes on: then h is as it was saved. It also
// returns how many the principal has, and whether one of them goes to the endpoint, which then is verified. The error
// is one for the client.
func (s *Service) findSubscription(
	ctx context.Context, sub *task.Subscription, h *hook,
) (n int, verified bool, err error) {
	all, err := s.subscribed(ctx, sub.Principal)
	for _, one := range all {
		var saved hook
		err = errors.Join(err, json.Unmarshal(one.State, &saved))
		verified = verified || saved.URL == h.URL
		if one.ID != sub.ID {
			continue
		}
		if sub.Version, sub.Leased = one.Version, one.Leased; !saved.ends() {
			*h = saved
		}
	}
	if err != nil {
		err = s.failed(ctx, "reading subscriptions", err)
	}
	return len(all), verified, err
}

// unsubscribe serves events/unsubscribe. See change for its errors.
func (s *Service) unsubscribe(ctx context.Context, principal string, params []byte) ([]byte, error) {
	_, sub, h, err := s.parseHook(principal, params)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.findSubscription(ctx, sub, h); err != nil {
		return nil, err
	}
	if sub.Version == "" {
		return nil, wire.DataError(wire.CodeNotFound, map[string]any{"kind": "subscription"},
			"there is no such subscription")
	}
	return nil, s.change(ctx, sub) // it has ended
}

// change saves what a subscriber has said. The error is one for the client, or task.ErrConflict: then somebody has
// changed the subscription meanwhile, or added others.
func (s *Service) change(ctx context.Context, sub *task.Subscription) error {
	err := s.saveSubscription(ctx, sub)
	if err != nil && !errors.Is(err, task.ErrConflict) {
		err = s.failed(ctx, "saving a subscription", err)
	}
	return err
}
