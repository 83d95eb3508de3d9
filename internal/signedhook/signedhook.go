// Package signedhook signs webhooks, and verifies them, as Standard Webhooks do (standardwebhooks.com): by HMAC-SHA256
// over an ID, the time and the body, with a secret that sender and receiver have.
package signedhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook.
const (
	HeaderID        = "Webhook-Id"
	HeaderTime      = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const prefix = "whsec_"

// Secret returns the secret that has this key.
func Secret(key []byte) string { return prefix + base64.StdEncoding.EncodeToString(key) }

// Key returns the key of a secret, which has 24 to 64 bytes.
func Key(secret string) (key []byte, ok bool) {
	encoded, ok := strings.CutPrefix(secret, prefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	return key, ok && err == nil && len(key) >= 24 && len(key) <= 64
}

// Sign sets the headers of a body that is sent now, with a signature of each key.
func Sign(h http.Header, keys [][]byte, id string, now time.Time, body []byte) {
	sent := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		signatures = append(signatures, sign(key, id, sent, body))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTime, sent)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}

func sign(key []byte, id, sent string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, sent, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// tolerance is how far the clocks of sender and receiver may differ. It bounds how long a request can be replayed.
const tolerance = 5 * time.Minute

// The errors of [Verify].
var (
	ErrTime      = errors.New("it was not sent now: compare the clocks of sender and receiver")
	ErrSignature = errors.New("no signature is one of the secrets: compare them with the sender's")
)

// Verify returns an error unless the headers were made for this body with one of the keys, and now. The time that a
// comparison takes does not depend on the bytes.
func Verify(h http.Header, keys [][]byte, now time.Time, body []byte) error {
	sent := h.Get(HeaderTime)
	at, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > tolerance {
		return ErrTime
	}
	found := false
	for _, key := range keys {
		want := []byte(sign(key, h.Get(HeaderID), sent, body))
		for signature := range strings.FieldsSeq(h.Get(HeaderSignature)) {
			found = hmac.Equal([]byte(signature), want) || found
		}
	}
	if !found {
		return ErrSignature
	}
	return nil
}
