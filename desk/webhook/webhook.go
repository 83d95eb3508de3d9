// Package webhook posts the notices of a desk to another program, with the headers and the signature of Standard
// Webhooks (standardwebhooks.com), for which most languages have a library that verifies them:
//
//	hook, err := webhook.New("https://hooks.example.com/askback", os.Getenv("WEBHOOK_SECRET"), nil)
//	…
//	opts.Desk = &askback.DeskOptions{Notify: hook.Send}
//
// While a secret is rotated, both are given, and each notice has two signatures. [Receive] verifies a notice in a
// receiver that is written in Go.
//
// The body is a JSON object with the members type ("question." and the kind of the notice), timestamp and data, which
// is a desk.Notice. It never has an answer in it, and a link in it would have no authority: people answer at the desk.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/signedhook"
)

// Options configure a [Hook]. The zero value is ready to use.
type Options struct {
	// Client sends the requests. Nil is one with the default transport. No redirect is followed: it could lead the
	// notices elsewhere, or lose their bodies.
	Client *http.Client
}

// Hook posts notices to one address. It is safe for concurrent use.
type Hook struct {
	url    string
	keys   atomic.Pointer[[][]byte]
	client http.Client
}

// New returns the hook of an address, https or http. The secrets sign each notice: one, or while it is rotated two with
// a space between them. A secret is "whsec_" and 24 to 64 random bytes in base64, as the receiver has it, too. The
// error says what is wrong, and never repeats a secret.
func New(address, secrets string, opts *Options) (*Hook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("webhook: the address must be an absolute URL, https or http")
	}
	h := &Hook{url: address}
	if opts != nil && opts.Client != nil {
		h.client = *opts.Client
	}
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if err := h.SetSecrets(secrets); err != nil {
		return nil, err
	}
	return h, nil
}

// SetSecrets replaces the secrets without a restart: see [New]. A notice that is being sent keeps its signatures. After
// an error the hook signs as before.
func (h *Hook) SetSecrets(secrets string) error {
	keys, err := parse(secrets)
	if err == nil {
		h.keys.Store(&keys)
	}
	return err
}

// parse returns the keys of one secret or of two.
func parse(secrets string) (keys [][]byte, err error) {
	for _, secret := range strings.Fields(secrets) {
		key, ok := signedhook.Key(secret)
		if !ok {
			return nil, errSecrets
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > 2 {
		return nil, errSecrets
	}
	return keys, nil
}

var errSecrets = errors.New(`webhook: want one secret, or two with a space between them, each "whsec_" and 24 to 64 ` +
	`random bytes in base64: make one with  echo "whsec_$(openssl rand -base64 32)"`)

// message is the body of a request.
type message struct {
	Type string      `json:"type"`
	Time time.Time   `json:"timestamp"`
	Data desk.Notice `json:"data"`
}

// Send posts a notice, and returns nil once the receiver has answered with a status of 200 to 299. It takes as long as
// ctx lasts. The header webhook-id is the notice's ID, the same each time it is sent: a receiver that has seen it takes
// no further note. So it answers only when a crash cannot lose the notice. It is a Notify of askback.DeskOptions.
func (h *Hook) Send(ctx context.Context, n desk.Notice) error {
	body, err := json.Marshal(message{"question." + string(n.Kind), n.Time, n})
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	signedhook.Sign(req.Header, *h.keys.Load(), n.ID, time.Now(), body)
	res, err := h.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // the address may have a secret in it
			err = failed.Err
		}
		return fmt.Errorf("webhook: posting a notice: %w", err)
	}
	defer res.Body.Close()
	defer time.AfterFunc(time.Second, cancel).Stop()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again, if that takes no longer
	if res.StatusCode < 200 || res.StatusCode > 299 {
		// Without the receiver's own words, which may repeat the address.
		return fmt.Errorf("webhook: the receiver answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return nil
}

// longest is more than any notice has.
const longest = 1 << 20

// Receive returns the notice of a request that was signed with one of the secrets: see [New]. It reads at most 1 MiB,
// and refuses a request that is older or newer than five minutes. Answer an error with status 401, and nil with 204
// once the notice is stored. An ID that was seen before is the same notice, sent again.
func Receive(r *http.Request, secrets string) (desk.Notice, error) {
	keys, err := parse(secrets)
	if err != nil {
		return desk.Notice{}, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, longest))
	if err != nil {
		return desk.Notice{}, fmt.Errorf("webhook: reading a notice: %w", err)
	}
	if err := signedhook.Verify(r.Header, keys, time.Now(), body); err != nil {
		return desk.Notice{}, fmt.Errorf("webhook: %w", err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil || m.Data.ID != r.Header.Get(signedhook.HeaderID) {
		return desk.Notice{}, errors.New("webhook: the body is not a notice with the ID of the header")
	}
	return m.Data, nil
}
