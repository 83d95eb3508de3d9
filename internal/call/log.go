package call

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
)

// Mistaken returns an error. If it is one that only the handler's author can mend, the operator is told, because the
// client that gets the error cannot: once for each mistake and handler.
func (c *Call) Mistaken(err error) error {
	m, ok := errors.AsType[*fault.Mistake](err)
	if !ok {
		return err
	}
	c.mistaken.Store(true)
	if c.Probe != nil {
		c.Probe.Mistaken(err)
	}
	text := err.Error()
	if tell, last := c.Handler.mistakes.note(m.Kind, text); tell {
		attrs := []any{"call", c.PublicID(), "method", c.Handler.Method, "target", c.Params.Target, "round", c.Round,
			"mistake", fmt.Sprintf("%.1000s", text)}
		if last {
			attrs = append(attrs, "note", "further mistakes of this kind are not logged")
		}
		c.log.WarnContext(c.ctx, "askback: a handler made a mistake, which its author has to mend", attrs...)
	}
	return err
}

// mistakes are those of a handler that were logged. A kind of mistake has several texts, because a handler asks more
// than one question; a client may be able to make ever new ones, with its arguments.
type mistakes struct {
	mu     sync.Mutex
	logged map[string][]uint64 // hashes of texts, by kind
}

const mostMistakes = 8 // of a kind

var mistakeSeed = maphash.MakeSeed()

// note reports whether a mistake is to be logged, and whether it is the last one of its kind.
func (m *mistakes) note(kind, text string) (tell, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := maphash.String(mistakeSeed, text)
	if of := m.logged[kind]; len(of) == mostMistakes || slices.Contains(of, hash) {
		return false, false
	}
	if m.logged == nil {
		m.logged = make(map[string][]uint64)
	}
	m.logged[kind] = append(m.logged[kind], hash)
	return true, len(m.logged[kind]) == mostMistakes
}

// LogRefused logs why an answer does not count.
func LogRefused(
	ctx context.Context, log *slog.Logger, callID, method, target string, round int, r journal.Refusal,
) {
	message := "askback: an answer does not fit; its question is asked again"
	if r.Final {
		message = "askback: an answer does not fit, and to ask again would not help; the call ends"
	}
	log.InfoContext(ctx, message, "call", callID, "method", method, "target", target, "round", round, "key", r.Key,
		"reason", r.Reason)
}

// LogLate logs an answer that came after the deadline of its question.
func LogLate(ctx context.Context, log *slog.Logger, callID, method, target string, round int, key string) {
	log.InfoContext(ctx, "askback: an answer came after the deadline of its question; it does not count", "call", callID,
		"method", method, "target", target, "round", round, "key", key)
}

// warnOfDropped warns of a handler that asked, and then ended the call with an error that is not about the questions.
func warnOfDropped(
	ctx context.Context, log *slog.Logger, c *Call, j *journal.Journal, asks []journal.Ask, err error,
) {
	// A panic, which is logged, is an error of the protocol, too.
	if len(asks) == 0 || c.mistaken.Load() || fault.Of(err) != fault.Handler || ctx.Err() != nil || declined(j) {
		return
	}
	log.WarnContext(ctx, "askback: a handler asked and then ended the call with another error, so that its questions "+
		"are not asked; it should return the error of the ask",
		"call", c.PublicID(), "method", c.Handler.Method, "target", c.Params.Target, "round", c.Round,
		"keys", keysOf(asks))
}

// warnOfStrayed warns of a handler that asked something new, and did not ask again for answers that the call has.
func warnOfStrayed(ctx context.Context, log *slog.Logger, c *Call, asks []journal.Ask, unread []string) {
	if len(unread) == 0 {
		return
	}
	log.WarnContext(ctx, "askback: a handler asked something new, but not again what was answered in an earlier round; "+
		"its questions must depend on its arguments and on answers alone",
		"call", c.PublicID(), "method", c.Handler.Method, "target", c.Params.Target, "round", c.Round,
		"asked", keysOf(asks), "answered", unread)
}

func keysOf(asks []journal.Ask) []string {
	keys := make([]string, len(asks))
	for i, a := range asks {
		keys[i] = a.Key
	}
	return keys
}

// declined reports whether the client has declined or cancelled a question of the call, or nobody has answered it in
// time. The handler may end the call because of that, even if it asks something else.
func declined(j *journal.Journal) bool {
	return slices.ContainsFunc(j.Entries, func(e journal.Entry) bool {
		if e.Kind != journal.Answer {
			return e.Kind == journal.Unanswered
		}
		action, err := question.Action(e.Value)
		return err == nil && action != "accept"
	})
}
