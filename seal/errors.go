package seal

import (
	"errors"
	"fmt"

	"github.com/askback-mcp/askback/internal/excerpt"
)

// ErrInvalid matches every error of [Ring.Open], [Ring.Inspect] and [Peek]. Its text is fit for the client: it is the
// same for every reason.
var ErrInvalid = errors.New("invalid or expired requestState")

// Reason says why a token was refused. Reasons are few, fixed and short, so they serve as a metric's label.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	ReasonTooLarge       Reason = "too_large"      // longer than MaxTokenSize
	ReasonMalformed      Reason = "malformed"      // not the text of a token
	ReasonVersion        Reason = "version"        // of another version of the format
	ReasonUnknownKey     Reason = "unknown_key"    // sealed with a key that the ring does not hold
	ReasonAuthentication Reason = "authentication" // altered or forged
	ReasonAudience       Reason = "audience"       // sealed for another server
	ReasonPrincipal      Reason = "principal"      // sealed for another caller
	ReasonMethod         Reason = "method"         // sealed for another method
	ReasonTarget         Reason = "target"         // sealed for another tool, prompt or resource
	ReasonArguments      Reason = "arguments"      // sealed for other arguments
	ReasonFuture         Reason = "future"         // issued more than MaxClockSkew from now
	ReasonExpired        Reason = "expired"        // expired
	ReasonRevoked        Reason = "revoked"        // issued before the time of Ring.RevokeBefore
)

// OpenError tells an operator why a token was refused and what to do about it. Never send its text or its reason to
// the client: they tell an attacker what to change next. Its text contains no part of the token but the key id, and
// no payload, principal, target or key, so it can be logged.
type OpenError struct {
	Reason Reason
	detail string
}

func (e *OpenError) Error() string {
	return "seal: refused (" + string(e.Reason) + "): the state " + e.detail
}

// Unwrap returns [ErrInvalid].
func (e *OpenError) Unwrap() error { return ErrInvalid }

func refuse(reason Reason, format string, args ...any) error {
	return &OpenError{Reason: reason, detail: fmt.Sprintf(format, args...)}
}

func malformed(defect string) error {
	return refuse(ReasonMalformed, "is not a token, it %s: the client must send back exactly what it received", defect)
}

// clip quotes a value for a log: foreign text must not forge lines or flood it.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q…", excerpt.Of(s, most))
	}
	return fmt.Sprintf("%q", s)
}
