// Package seal protects state that a server hands to its client and takes back later.
//
// The requestState of a Multi Round-Trip Request is such state: a server that asks a question in the middle
// of a call keeps nothing while a person thinks, because the client carries everything to the next round. The
// client may be hostile, so the specification has the server treat what comes back as attacker-controlled
// input. This package turns a payload into a token that only the holders of the keys can read or make, and that
// opens for one server, one caller and one request only, for a limited time:
//
//	ring, err := seal.ParseRing(os.Getenv("STATE_KEYS")) // or seal.NewRing(seal.NewKey(time.Now()))
//
//	b := seal.Binding{
//		Audience: "tracker", Principal: user, Method: "tools/call", Target: "update_work_item", Arguments: digest,
//	}
//	token, err := ring.Seal(b, payload, now, now.Add(10*time.Minute))
//
//	state, err := ring.Open(token, b, now) // on the retry, with the binding of the retry
//	if err != nil {
//		log.Print(err)         // says why, for the operator
//		return seal.ErrInvalid // says the same for every reason, for the client
//	}
//
// It promises:
//
//   - A token shows nothing but its format version, the id of its key, a random nonce and its length ([Peek]).
//   - A token altered in any bit, or put together by anybody without a key, does not open.
//   - A token does not open for another audience, principal, method, target or arguments than it was sealed for,
//     or after it has expired.
//   - Every refusal is an [*OpenError] and matches [ErrInvalid].
//
// It does not promise:
//
//   - Single use. A token opens as often as it is presented until it expires, because a client whose response was
//     lost must be free to send the round again. [State.ID] is what a server remembers to enforce single use.
//   - To hide the length of the payload. Payloads are never compressed: answers of the client and secrets of the
//     server share the plaintext, and the length of the compressed text would leak one to the other.
//   - Revocation of one token. [Ring.RevokeBefore] withdraws all that were issued before a time, and a key that is
//     removed takes every token that it sealed with it.
//   - Forward secrecy. Anybody who obtains a key can read every token that was ever sealed with it.
//
// Keys are rotated without refusing a single token, see [Ring.Rotate]. FORMAT.md in this folder specifies tokens
// and keys for other implementations; version 1 of both will stay readable.
//
// The package has no clock, no goroutine and no global state. All functions and methods are safe for concurrent use,
// also while [Ring.Replace] changes the keys of a ring.
package seal

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
)

// MaxTokenSize is the length in bytes beyond which [Ring.Seal] makes no token, and beyond which [Ring.Open] refuses
// one before looking at it. Servers that want a lower limit compare len(token) themselves.
const MaxTokenSize = 1 << 20

// MaxClockSkew is the time by which a token may have been issued ahead of the opening instance's clock.
const MaxClockSkew = time.Minute

// Binding names the one request that a token belongs to. Strings are compared byte by byte, and an empty field is a
// value like any other: it matches the empty field only.
//
// The binding travels inside the encrypted part rather than as additional data. It is authenticated all the same,
// and so a refusal can tell the operator which field differed and [Ring.Inspect] needs nothing but the keys.
type Binding struct {
	// Audience is the name of the server. Servers that share keys must have different ones.
	Audience string
	// Principal is the authenticated caller, unique within the audience: if it comes from several issuers, it has
	// to contain the issuer. It is empty for callers that are not authenticated, who can use each other's tokens.
	Principal string
	// Method is the method of the request, such as "tools/call".
	Method string
	// Target is the tool, the prompt or the resource URI that the request names.
	Target string
	// Arguments is a digest, SHA-256 for example, of the request's arguments in a canonical form.
	Arguments [32]byte
}

// State is an opened token. Formatted or logged by itself, it does not show the payload or the principal.
type State struct {
	// ID is different for every token ever sealed, and a token has no other spelling with another ID. It is not
	// secret: the token begins with it, right after the key id.
	ID string
	// KeyID is the [Key.ID] of the key that sealed the token.
	KeyID string
	// Issued and Expires are UTC, in whole milliseconds.
	Issued, Expires time.Time
	// Binding holds everything to which the token is bound; after Open, it equals the binding given to Open.
	Binding Binding
	// Payload belongs to the caller, who may modify it.
	Payload []byte
}

// Seal makes a token that carries payload until expires and opens for b only. The first key of the ring seals it.
//
// The times are rounded down to milliseconds, so that no token lives longer than asked. Seal fails if they are not in
// order or not between the years 1970 and 9999, and if the token would exceed [MaxTokenSize].
func (r *Ring) Seal(b Binding, payload []byte, issued, expires time.Time) (string, error) {
	sealers := r.load().sealers
	if len(sealers) == 0 {
		return "", errors.New("seal: the ring is empty: make it with NewRing or ParseRing")
	}
	var nonce [nonceSize]byte
	rand.Read(nonce[:])
	return sealers[0].seal(nonce, &b, payload, issued, expires)
}

// Open opens a token that was presented on the request described by b. A token is expired from the very millisecond
// of its expiry on.
//
// The error is always an [*OpenError] and matches [ErrInvalid]. Log it; answer the client with one fixed message,
// because the reason tells an attacker what to change next.
//
// When several things differ, the reason names the first in this order: authentication, audience, principal, method,
// target, arguments, times, revocation. An incident is thus not reported as a mere expiry.
func (r *Ring) Open(token string, b Binding, now time.Time) (*State, error) {
	set := r.load()
	s, p, err := set.decrypt(token)
	if err != nil {
		return nil, err
	}
	switch {
	case string(p.audience) != b.Audience:
		return nil, refuse(ReasonAudience, "was sealed for server %s, presented to %s: give servers with different names "+
			"different keys, or every instance of one server the same name", clip(string(p.audience)), clip(b.Audience))
	case subtle.ConstantTimeCompare(p.principal, []byte(b.Principal)) == 0:
		return nil, refuse(ReasonPrincipal, "was sealed for another principal than the one who presents it: it may be "+
			"stolen, unless callers change identity between rounds")
	case string(p.method) != b.Method:
		return nil, refuse(ReasonMethod, "was sealed for method %s, presented on %s: the client mixes up its requests",
			clip(string(p.method)), clip(b.Method))
	case string(p.target) != b.Target:
		// Targets are not quoted: a resource URI may name a person or carry a secret.
		return nil, refuse(ReasonTarget, "was sealed for another tool, prompt or resource than the request names: the "+
			"client mixes up its requests")
	case subtle.ConstantTimeCompare(p.arguments, b.Arguments[:]) == 0:
		return nil, refuse(ReasonArguments, "was sealed for other arguments than the request has: "+
			"the client must retry with the arguments of the original request")
	}
	nowMillis := now.UnixMilli()
	if ahead := p.issued - nowMillis; ahead > MaxClockSkew.Milliseconds() {
		return nil, refuse(ReasonFuture, "was issued %v in the future, %v are allowed: synchronise the clocks of the "+
			"instances",
			milliseconds(ahead), MaxClockSkew)
	}
	if nowMillis >= p.expires {
		return nil, refuse(ReasonExpired, "expired %v ago after a life of %v: if people need longer to answer, raise the "+
			"time to live",
			milliseconds(nowMillis-p.expires), milliseconds(p.expires-p.issued))
	}
	if !set.revoked.IsZero() && p.issued < set.revoked.UnixMilli() {
		return nil, refuse(ReasonRevoked, "was issued at %s, and all that were issued before %s are revoked: the client "+
			"must start a new call",
			time.UnixMilli(p.issued).UTC().Format(time.RFC3339), set.revoked.Format(time.RFC3339))
	}
	return newState(s, token, &p, b), nil
}

// Inspect opens a token without comparing its binding or its times with anything. It is for operators' tools: never use
// it to serve a request, where it would accept anybody's state, on any request, without end. It returns the errors that
// Open returns.
func (r *Ring) Inspect(token string) (*State, error) {
	s, p, err := r.load().decrypt(token)
	if err != nil {
		return nil, err
	}
	return newState(s, token, &p, Binding{
		Audience:  string(p.audience),
		Principal: string(p.principal),
		Method:    string(p.method),
		Target:    string(p.target),
		Arguments: [32]byte(p.arguments),
	}), nil
}

// decrypt authenticates a token and reads its plaintext.
func (set *keySet) decrypt(token string) (*sealer, plaintext, error) {
	keyID, body, err := split(token)
	if err != nil {
		return nil, plaintext{}, err
	}
	s := set.sealer(keyID)
	if s == nil {
		return nil, plaintext{}, refuse(ReasonUnknownKey, "was sealed with key %s, which is not in this ring: give every "+
			"instance the same keys, and forget a key only after the longest time to live", keyID)
	}
	sealed, err := decodeBody(body)
	if err != nil {
		return nil, plaintext{}, err
	}
	opened, err := s.aead.Open(sealed[nonceSize:nonceSize], sealed[:nonceSize], sealed[nonceSize:], s.associated)
	if err != nil {
		return nil, plaintext{}, refuse(ReasonAuthentication, "names key %s but is not what that key sealed: "+
			"it was altered, cut off or forged", keyID)
	}
	p, ok := parsePlaintext(opened)
	if !ok {
		return nil, plaintext{}, refuse(ReasonMalformed, "is authentic but not laid out as %s says: another program seals "+
			"with key %s and does not follow FORMAT.md", version, keyID)
	}
	return s, p, nil
}

func newState(s *sealer, token string, p *plaintext, b Binding) *State {
	return &State{
		// Cloned, so that a guard that keeps IDs does not keep whole tokens alive.
		ID:      strings.Clone(tokenID(token[len(s.prefix):])),
		KeyID:   s.key.ID(),
		Issued:  time.UnixMilli(p.issued).UTC(),
		Expires: time.UnixMilli(p.expires).UTC(),
		Binding: b,
		Payload: p.payload,
	}
}

// String describes the state without its payload and principal.
func (s State) String() string {
	return fmt.Sprintf("seal.State(%s, key %s, %s %s, %s to %s, payload of %d bytes)", s.ID, s.KeyID, s.Binding.Method,
		clip(s.Binding.Audience), s.Issued.Format(time.RFC3339), s.Expires.Format(time.RFC3339), len(s.Payload))
}

// Format implements [fmt.Formatter]: every verb writes what String returns.
func (s State) Format(f fmt.State, _ rune) { writeString(f, s.String()) }

// LogValue implements [slog.LogValuer].
func (s State) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", s.ID),
		slog.String("key", s.KeyID),
		slog.Time("issued", s.Issued),
		slog.Time("expires", s.Expires),
		slog.Int("payload_bytes", len(s.Payload)),
	)
}

// milliseconds converts a number for a message. One that no duration can hold becomes the longest duration.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
