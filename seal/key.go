package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

const (
	keySize    = 32
	keyIDSize  = 8
	keyIDLabel = "askback key id\n"
	keyPrefix  = "askback-key-1_"
	timeLayout = "20060102T150405Z"
)

// Key is a secret that seals and opens tokens. Its zero value is no key. It can be printed, logged and marshalled
// without giving its secret away; only [Key.EncodeSecret] and [Ring.EncodeSecrets] write that. Compare keys by ID.
type Key struct {
	id      string
	created time.Time
	// A function, because fmt prints the unexported fields of a foreign struct without asking their methods, and
	// follows a pointer there if the verb does not suit it.
	secret func() [keySize]byte
}

// NewKey makes a random key. The time of creation orders the keys of a ring when it is rotated.
func NewKey(now time.Time) Key {
	var secret [keySize]byte
	rand.Read(secret[:])
	return newKey(secret, now)
}

func newKey(secret [keySize]byte, created time.Time) Key {
	return Key{
		id:      deriveKeyID(secret),
		created: created.UTC().Truncate(time.Second),
		secret:  func() [keySize]byte { return secret },
	}
}

func (k Key) isZero() bool { return k.secret == nil }

const keyIDAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

var keyIDEncoding = base32.NewEncoding(keyIDAlphabet).WithPadding(base32.NoPadding)

// deriveKeyID names a key after its secret, so that no key can be filed under the name of another one.
func deriveKeyID(secret [keySize]byte) string {
	sum := sha256.Sum256(append([]byte(keyIDLabel), secret[:]...))
	return keyIDEncoding.EncodeToString(sum[:])[:keyIDSize]
}

func isKeyID(s string) bool {
	return len(s) == keyIDSize && strings.Trim(s, keyIDAlphabet) == ""
}

// ID is the name of the key: eight characters derived from the secret, which they do not reveal. Every token shows
// the ID of its key.
func (k Key) ID() string { return k.id }

// Created is when the key was made, in UTC and whole seconds. It is not secret, and nothing authenticates it.
func (k Key) Created() time.Time { return k.created }

// EncodeSecret writes the key with its secret, in the form that [ParseRing] reads. It returns "" for the zero Key.
func (k Key) EncodeSecret() string {
	if k.isZero() {
		return ""
	}
	secret := k.secret()
	return keyPrefix + k.created.Format(timeLayout) + "_" + bodyEncoding.EncodeToString(secret[:])
}

// String names the key without its secret.
func (k Key) String() string {
	if k.isZero() {
		return "seal.Key(none)"
	}
	return fmt.Sprintf("seal.Key(%s, created %s)", k.id, k.created.Format(time.RFC3339))
}

// Format implements [fmt.Formatter]: every verb writes what String returns.
func (k Key) Format(f fmt.State, _ rune) { writeString(f, k.String()) }

// LogValue implements [slog.LogValuer] with what String returns.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText implements [encoding.TextMarshaler] with what String returns, so that a configuration dumped as JSON
// does not contain the secret. It cannot be read back: use EncodeSecret to store a key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// parseKey reads what EncodeSecret writes. Its errors say nothing of the text that was read, which may be a secret
// with a typing error.
func parseKey(text string) (Key, error) {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	if !ok {
		if strings.HasPrefix(text, "askback-key-") {
			return Key{}, fmt.Errorf("a key of a format other than %q: read it with the release that wrote it", keyPrefix)
		}
		return Key{}, fmt.Errorf("does not begin with %q: want a key as 'askback keys new' writes it", keyPrefix)
	}
	stamp, secretText, ok := strings.Cut(rest, "_")
	if !ok {
		return Key{}, fmt.Errorf("the key ends before its secret: want %sTIME_SECRET", keyPrefix)
	}
	created, err := parseTime(stamp)
	if err != nil {
		return Key{}, fmt.Errorf("the key's time of creation is not of the form %s", timeLayout)
	}
	if want := bodyEncoding.EncodedLen(keySize); len(secretText) != want {
		return Key{}, fmt.Errorf("the key's secret has %d characters, want %d: it was cut off or has grown",
			len(secretText), want)
	}
	decoded, err := bodyEncoding.DecodeString(secretText)
	if err != nil || len(decoded) != keySize {
		return Key{}, fmt.Errorf("the key's secret is not unpadded base64url of %d bytes: it was altered", keySize)
	}
	secret := [keySize]byte(decoded)
	if secret == [keySize]byte{} {
		return Key{}, fmt.Errorf("the key's secret is all zeroes: a placeholder is not a key, make one with 'askback keys " +
			"new'")
	}
	return newKey(secret, created), nil
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(timeLayout, text)
	// time.Parse accepts fractions of a second that the layout does not have.
	if err == nil && t.Format(timeLayout) != text {
		err = fmt.Errorf("not of the form %s", timeLayout)
	}
	return t, err
}

func writeString(f fmt.State, s string) { _, _ = io.WriteString(f, s) }
