package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/taskrun"
)

// callStart is the first record of a call in its journal.
type callStart struct {
	Instance string `json:"instance"` // the process that has the open call
	Behind   string `json:"behind"`   // the server
	Once     bool   `json:"once"`     // the tool was not to be called again when the call began
}

// mostAttempts bounds how often a tool that can be called again is called again because its session was lost.
const mostAttempts = 5

// call is one run of a call of a tool.
type call struct {
	*calls.Call
	*Sessions
	attempt int
	once    bool // as in callStart
}

// Repeated implements [outcome.Subject].
func (c *call) Repeated() bool { return c.attempt > 1 }

// Pass passes a call of a tool on in its caller's session.
func (s *Sessions) Pass(ctx context.Context, of *calls.Call) (*outcome.Record, error) {
	back := of.Asks.Mark()
	for attempt := 1; ; attempt++ {
		r, err := (&call{Call: of, Sessions: s, attempt: attempt}).pass(ctx)
		if r != nil && r.Sealed != "" {
			return outcome.Endf("The server of the tool %q now has sessions in place of rounds, so this call, which began "+
				"by rounds, cannot go on. The tool may have run up to its question, and it was not called again.", of.Name), nil
		}
		if r != nil || err != nil {
			return r, err
		}
		back()
	}
}

// pass passes the call on once. It returns nil if the session was lost and the tool is to be called again.
func (c *call) pass(ctx context.Context) (*outcome.Record, error) {
	suffix := "1"
	if c.attempt > 1 {
		suffix = fmt.Sprintf("1 again %d", c.attempt-1)
	}
	key := callKey{c.Host.ID(), c.attempt}
	stored, round := c.Host.Nonce() != "", "round "+suffix
	if !stored && c.Host.Round() > 1 || c.Noted(ctx, journal.Begun, round) || c.Noted(ctx, journal.Step, round) {
		if r, err := c.brought(ctx, round); r != nil || err != nil {
			return r, err
		}
	}
	if !stored {
		return c.first(ctx, key, suffix)
	}
	begins := false // and did not begin in an earlier run
	start, err := askback.Do(ctx, c.Host, "begin "+suffix, func(context.Context) (*callStart, error) {
		if err := c.MaySend(); err != nil {
			return nil, err
		}
		begins = true
		return c.start(), nil
	})
	if err != nil {
		return nil, c.Raise(ctx, err)
	}
	if start == nil { // a round began, when the server was not older
		start = new(callStart)
	}
	c.once = start.Once
	open := c.calls.find(key)
	if open == nil && begins {
		var refused *outcome.Record
		if open, refused, err = c.open(ctx, key); err != nil {
			return nil, err
		}
		if refused != nil {
			return c.record(ctx, suffix, refused)
		}
	}
	if open == nil {
		return c.endLost(ctx, suffix, start)
	}
	return c.follow(ctx, open, suffix)
}

// brought returns how the call has ended, by its journal, or how far it came by rounds when the server was not older.
// It returns nil if the journal does not say.
func (c *call) brought(ctx context.Context, round string) (*outcome.Record, error) {
	r, err := askback.Do(ctx, c.Host, round, func(context.Context) (*outcome.Record, error) {
		return nil, errNotThere
	})
	if _, unknown := errors.AsType[*askback.UnknownOutcomeError](err); unknown {
		return &outcome.Record{Words: c.lost("")}, nil
	}
	if errors.Is(err, errNotThere) {
		return nil, nil
	}
	return r, err
}

// start makes the first record of a call that begins here.
func (c *call) start() *callStart {
	return &callStart{Instance: c.instance, Behind: c.Identity, Once: c.Strict()}
}

// record records how the call ended.
func (c *call) record(ctx context.Context, suffix string, r *outcome.Record) (*outcome.Record, error) {
	return askback.Do(ctx, c.Host, "round "+suffix, func(context.Context) (*outcome.Record, error) {
		return c.Kept(r), nil
	})
}

// first makes a call that nobody has stored. Nothing is stored of it unless the server asks: then it goes on as
// a task.
func (c *call) first(ctx context.Context, key callKey, suffix string) (*outcome.Record, error) {
	open, refused, err := c.open(ctx, key)
	if refused != nil || err != nil {
		return refused, err
	}
	leave := open.enter(c.Host, nil)
	_, result, err := open.next(ctx, 0)
	leave()
	if err != nil {
		open.forget(errCancelled)
		return nil, err
	}
	if result != nil {
		open.forget(nil)
		if open.modern {
			return nil, calls.ErrModern
		}
		return result, nil
	}
	_, err = askback.Do(ctx, c.Host, "begin "+suffix, func(context.Context) (*callStart, error) { return c.start(), nil })
	if err == nil {
		if err = c.Host.Detach(); err == nil {
			err = errors.New("the server asked, and this call cannot wait for an answer")
		}
	}
	if !errors.Is(err, askback.ErrInputRequired) {
		open.forget(errOrphaned)
		return nil, err
	}
	open.expectTask(c.holder)
	return nil, err
}

// follow is one run of a task whose open call this process has.
func (c *call) follow(ctx context.Context, open *openCall, suffix string) (*outcome.Record, error) {
	defer open.enter(c.Host, taskrun.HolderOf(ctx))()
	c.Host.OnCancel(func(context.Context) error { open.forget(errCancelled); return nil })
	var keys []string // of the questions that are recorded
	for {
		questions, result, err := open.next(ctx, len(keys))
		if err != nil {
			return nil, err
		}
		if result != nil && open.lost && c.mayCallAgain() {
			return nil, c.Host.Do(ctx, "lost "+suffix, func(context.Context) error { return nil })
		}
		if result != nil {
			return c.record(ctx, suffix, result)
		}
		known := len(keys) // are answered, because an open question ends the run
		for _, q := range questions[known:] {
			step := fmt.Sprintf("question %d of %s", len(keys)+1, suffix)
			_, err := askback.Do(ctx, c.Host, step, func(context.Context) (string, error) { return label(q.Question), nil })
			if err != nil {
				return nil, err
			}
			keys = append(keys, c.Asks.Key(q.Key))
		}
		if err := c.answer(open, questions[known:], keys[known:]); err != nil {
			return nil, err
		}
	}
}

// answer asks what the server waits for, and gives it the answers that there are.
func (c *call) answer(open *openCall, questions []*openQuestion, keys []string) error {
	var unanswered []error
	for i, q := range questions {
		if !open.waits(q) {
			continue
		}
		data, err := c.Asks.AskOne(keys[i], q.Question)
		_, unable := errors.AsType[*askback.CapabilityError](err)
		_, limit := errors.AsType[*askback.LimitError](err)
		switch {
		case err == nil:
			open.give(q, answerOf(q.Method, data))
		case unable, limit:
			open.give(q, answer{err: err})
		default:
			unanswered = append(unanswered, err)
		}
	}
	return errors.Join(unanswered...)
}

// endLost ends a call that this process does not have, once nobody else can have it. It returns nil if the tool is to
// be called again. The journal has the time since which the call is left to the process that had it, by the store's
// clock, because some hosts start a bridge for each call, and it does not live long enough. This process leaves it for
// a moment of its own, too: after the machine slept, the process that has the call is the first to go on.
func (c *call) endLost(ctx context.Context, suffix string, start *callStart) (*outcome.Record, error) {
	n, asked, err := c.lastQuestion(ctx, suffix)
	if err != nil {
		return nil, err
	}
	if start.Instance != c.instance {
		left := fmt.Sprintf("left at %d of %s", n, suffix)
		now, err := taskrun.HolderOf(ctx).Now(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", taskrun.ErrHeld, err)
		}
		since, err := askback.Do(ctx, c.Host, left, func(context.Context) (time.Time, error) { return now, nil })
		if err != nil {
			return nil, err
		}
		if !c.waited.Expired(c.Host.ID()+left, c.holder/6) || now.Sub(since) < c.holder {
			return nil, taskrun.ErrHeld
		}
	}
	if c.mayCallAgain() && start.Behind == c.Identity {
		return nil, c.Host.Do(ctx, "lost "+suffix, func(context.Context) error { return nil })
	}
	return askback.Do(ctx, c.Host, "round "+suffix, func(context.Context) (*outcome.Record, error) {
		return &outcome.Record{Words: c.lost(asked)}, nil
	})
}

// mayCallAgain reports whether the tool is called again after this attempt. It is not if the server says by now that it
// must not be.
func (c *call) mayCallAgain() bool { return !c.Strict() && !c.once && c.attempt < mostAttempts }

// errNotThere says that a journal lacks a record.
var errNotThere = errors.New("it is not recorded")

// lastQuestion returns how many questions a call has that this process does not have, and what the last one was.
func (c *call) lastQuestion(ctx context.Context, suffix string) (n int, last string, err error) {
	for ; ; n++ {
		asked, err := askback.Do(ctx, c.Host, fmt.Sprintf("question %d of %s", n+1, suffix),
			func(context.Context) (string, error) { return "", errNotThere })
		if errors.Is(err, errNotThere) {
			return n, last, nil
		}
		if err != nil {
			return 0, "", err
		}
		last = asked
	}
}

// lost says that the open call is lost.
func (c *call) lost(asked string) string {
	if asked == "" {
		return fmt.Sprintf("The session with the server of the tool %q was lost while the tool ran: the bridge that had it "+
			"stopped. The tool may have run, and it was not called again.", c.Name)
	}
	return fmt.Sprintf("The session with the server of the tool %q was lost while it waited for the answer to %q: the "+
		"bridge that had it stopped. The tool may have run up to this question, and it was not called again.", c.Name, asked)
}
