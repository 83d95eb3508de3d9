// Package webhook posts the notices of a desk to another program, with the headers and the signature of Standard
// Webhooks (standardwebhooks.com), for which most languages have a library that verifies them:
//
//	hook, err := webhook.New("https://hooks.example.com/askback", os.Getenv("WEBHOOK_SECRET"), nil)
//	…
//	opts.Desk = &askback.DeskOptions{Notify: hook.Send}
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
	"time"

	"github.com/askback-mcp/askback/desk"
)

// Options configure a [Hook]. The zero value is ready to use.
type Options struct {
	// Client sends the requests. Nil is one that follows no redirect, which could lead the notices elsewhere.
	Client *http.Client
}

// Hook posts notices to one address. It is safe for concurrent use.
type Hook struct {
	url    string
	key    []byte
	client *http.Client
}

// secretPrefix begins a secret of Standard Webhooks.
const secretPrefix = "whsec_"

// New returns the hook of an address, https or http. The secret signs each notice: "whsec_" and 24 to 64 random bytes
// in base64, as the receiver has it, too. The error says what is wrong with either, and never repeats the secret.
func New(address, secret string, opts *Options) (*Hook, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("webhook: the address must be an absolute URL, https or http")
	}
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New(`webhook: the secret must be "whsec_" and 24 to 64 random bytes in base64: ` +
			`make one with  echo "whsec_$(openssl rand -base64 32)"`)
	}
	h := &Hook{url: address, key: key}
	if opts != nil {
		h.client = opts.Client
	}
	if h.client == nil {
		h.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return h, nil
}

// message is the body of a request.
type message struct {
	Type string      `json:"type"`
	Time time.Time   `json:"timestamp"`
	Data desk.Notice `json:"data"`
}

// Send posts a notice, and returns nil once the receiver has answered with a status of 200 to 299. It takes as long as
// ctx lasts. The header webhook-id is the notice's ID, the same each time it is sent: a receiver that has seen it takes
// no further note. It is a Notify of askback.DeskOptions.
func (h *Hook) Send(ctx context.Context, n desk.Notice) error {
	body, err := json.Marshal(message{"question." + string(n.Kind), n.Time, n})
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	sent := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", n.ID)
	req.Header.Set("webhook-timestamp", sent)
	req.Header.Set("webhook-signature", h.sign(n.ID, sent, body))
	res, err := h.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // the address may have a secret in it
			err = failed.Err
		}
		return fmt.Errorf("webhook: posting a notice: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("webhook: the receiver answered %s", res.Status)
	}
	return nil
}

func (h *Hook) sign(id, sent string, body []byte) string {
	mac := hmac.New(sha256.New, h.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
