package call

import (
	"context"
	"log/slog"
	"slices"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
)

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
