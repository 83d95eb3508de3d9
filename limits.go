package askback

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/gate"
)

// Limits bound calls and requests. A field that is zero has its default.
type Limits struct {
	Rounds       int           // rounds per call that end with input required, sleeps aside; default 32
	Questions    int           // questions per round; default 16
	StateBytes   int           // bytes of a requestState as sent; default 64 KiB
	StoredBytes  int           // bytes of a state that overflows into States.Store; default 16 MiB
	MessageBytes int64         // bytes of a message: an HTTP request's body, or a line of standard input; default 4 MiB
	Depth        int           // nesting of a request's JSON; default 64
	RoundTTL     time.Duration // how long a client may take to answer; default 1 hour
	// CallTTL is how long a whole call may take; default 24 hours, or RoundTTL if that is more. It counts anew from a
	// deadline, or from the client's return before it.
	CallTTL time.Duration
	// Within is the longest deadline that a handler may give to a question, or sleep; default 30 days.
	Within       time.Duration
	SessionCalls int // open requests of one session, or of one connection of standard input; default 64
	Batch        int // messages in one JSON-RPC batch; default 64

	// When one of these is full, what waits for a person or a silent peer gives way to newcomers: see
	// docs/proof/limits.md.

	Requests Share // HTTP requests in progress; default 2048
	Calls    Share // calls that run at once outside of sessions and tasks; default half of Requests; more are handed back
	Sessions Share // sessions of clients before 2026-07-28; default 2048

	// BodyBytes bounds the bytes of messages in progress, and separately the bytes of the open requests of sessions.
	// The default is max(32 MiB, 8 MessageBytes).
	BodyBytes Share

	// Streams bounds the subscriptions and streams of sessions, and separately the open requests of sessions.
	// The default is 2048.
	Streams Share

	// Waits bounds the calls that wait for people while their client, which cannot take a task, waits for the outcome.
	// They count nowhere else. One that gives way is told in words at once: see [DeskOptions]. The default is 2048.
	Waits Share
}

// Share bounds something that all callers share. A field that is zero has its default.
type Share struct {
	Total        int // for all callers together; see the field in Limits for the default
	PerPrincipal int // for each principal; default a quarter of Total
	Anonymous    int // for all anonymous callers together; default half of Total
}

func (l *Limits) setDefaults() error {
	setDefault(&l.Rounds, 32)
	setDefault(&l.Questions, 16)
	setDefault(&l.StateBytes, 64<<10)
	setDefault(&l.StoredBytes, 16<<20)
	setDefault(&l.MessageBytes, 4<<20)
	setDefault(&l.Depth, 64)
	setDefault(&l.RoundTTL, time.Hour)
	setDefault(&l.CallTTL, max(24*time.Hour, l.RoundTTL))
	setDefault(&l.Within, 30*24*time.Hour)
	setDefault(&l.SessionCalls, 64)
	setDefault(&l.Batch, 64)
	if min(l.Rounds, l.Questions, l.StateBytes, l.StoredBytes, l.Depth, l.SessionCalls, l.Batch) < 0 ||
		l.MessageBytes < 0 || min(l.RoundTTL, l.CallTTL, l.Within) < 0 {
		return errors.New("askback: a negative limit; zero means the default")
	}
	return nil
}

// shares makes the pools of what has a limit with owners.
func (l *Limits) shares(log *slog.Logger) (*gate.Shares, error) {
	shares := &gate.Shares{Log: log}
	message := int(min(l.MessageBytes, math.MaxInt/8))
	requests := l.Requests
	setDefault(&requests.Total, 2048)
	for _, s := range []struct {
		field        string
		share        Share
		total, least int // the default, and what serves one request
		what         string
		pool         **bound.Pool
	}{
		{"Requests", requests, requests.Total, 1, "requests in progress", &shares.Requests},
		{"Calls", l.Calls, max(requests.Total/2, 1), 1, "calls that run at once", &shares.Calls},
		{"BodyBytes", l.BodyBytes, max(32<<20, 8*message), message, "bytes of messages in progress", &shares.BodyBytes},
		{"BodyBytes", l.BodyBytes, max(32<<20, 8*message), message, "bytes of open requests of sessions", &shares.OpenBytes},
		{"Sessions", l.Sessions, 2048, 1, "sessions", &shares.Sessions},
		{"Streams", l.Streams, 2048, 1, "open streams and requests of sessions", &shares.Streams},
		{"Streams", l.Streams, 2048, 1, "open requests of sessions", &shares.Open},
		{"Waits", l.Waits, 2048, 1, "calls that wait for people", &shares.Waits},
	} {
		setDefault(&s.share.Total, s.total)
		setDefault(&s.share.PerPrincipal, max(s.share.Total/4, s.least))
		setDefault(&s.share.Anonymous, max(s.share.Total/2, s.least))
		if least := min(s.share.Total, s.share.PerPrincipal, s.share.Anonymous); least < s.least {
			return nil, fmt.Errorf("askback: a share of Limits.%s is %d, too little for one request: it must be at least %d, "+
				"and zero means the default", s.field, least, s.least)
		}
		*s.pool = bound.NewPool(s.what, bound.Share(s.share))
	}
	return shares, nil
}

// bounds are the limits that callers do not share.
func (l *Limits) bounds() bound.Limits {
	return bound.Limits{
		Rounds: l.Rounds, Questions: l.Questions, StateBytes: l.StateBytes, StoredBytes: l.StoredBytes,
		MessageBytes: l.MessageBytes, Depth: l.Depth, RoundTTL: l.RoundTTL, CallTTL: l.CallTTL, Within: l.Within,
		SessionCalls: l.SessionCalls, Batch: l.Batch,
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
