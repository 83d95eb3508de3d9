// Package throttle keeps a log readable, and the disk under it free, while something fails all the time.
package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// every is how often a kind of record is logged.
const every = 5 * time.Second

// New returns a logger that writes to log. Of warnings and errors with the same level and message it passes one in five
// seconds; the attribute "suppressed" of the next one says how many it did not. The messages must be few.
func New(log *slog.Logger) *slog.Logger {
	return slog.New(handler{log.Handler(), &kinds{seen: make(map[kind]*count)}})
}

type handler struct {
	slog.Handler
	kinds *kinds
}

type kinds struct {
	mu   sync.Mutex
	seen map[kind]*count
}

type kind struct {
	level   slog.Level
	message string
}

type count struct {
	passed     time.Time // when the last record passed
	suppressed int       // since then
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		suppressed, pass := h.kinds.count(kind{r.Level, r.Message}, time.Now())
		if !pass {
			return nil
		}
		if suppressed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("suppressed", suppressed))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// count counts a record, and reports whether it passes.
func (k *kinds) count(of kind, now time.Time) (suppressed int, pass bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.seen[of]
	if c == nil {
		c = new(count)
		k.seen[of] = c
	}
	if !c.passed.IsZero() && now.Sub(c.passed) < every {
		c.suppressed++
		return 0, false
	}
	suppressed = c.suppressed
	c.passed, c.suppressed = now, 0
	return suppressed, true
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.kinds}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.kinds}
}
