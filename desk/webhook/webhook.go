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
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/desk"
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
		encoded, ok := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
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
	sent := strconv.FormatInt(time.Now().Unix(), 10)
	var signatures []string
	for _, key := range *h.keys.Load() {
		signatures = append(signatures, sign(key, n.ID, sent, body))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", n.ID)
	req.Header.Set("webhook-timestamp", sent)
	req.Header.Set("webhook-signature", strings.Join(signatures, " "))
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

func sign(key []byte, id, sent string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

const (
	// tolerance is how far the clocks of sender and receiver may differ. It bounds how long a request can be replayed.
	tolerance = 5 * time.Minute
	// longest is more than any notice has.
	longest = 1 << 20
)

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
	id, sent := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	at, err := strconv.ParseInt(sent, 10, 64)
	if age := time.Since(time.Unix(at, 0)); err != nil || age.Abs() > tolerance {
		return desk.Notice{}, errors.New("webhook: the notice was not sent now: compare the clocks of sender and receiver")
	}
	if !signed(keys, id, sent, body, r.Header.Get("webhook-signature")) {
		return desk.Notice{}, errors.New("webhook: no signature is one of the secrets: compare them with the sender's")
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil || m.Data.ID != id {
		return desk.Notice{}, errors.New("webhook: the body is not a notice with the ID of the header")
	}
	return m.Data, nil
}

// signed compares each signature with that of each key. The time that a comparison takes does not depend on the bytes.
func signed(keys [][]byte, id, sent string, body []byte, signatures string) (ok bool) {
	for _, key := range keys {
		want := []byte(sign(key, id, sent, body))
		for signature := range strings.FieldsSeq(signatures) {
			ok = hmac.Equal([]byte(signature), want) || ok
		}
	}
	return ok
}
