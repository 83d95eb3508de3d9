package taskrun

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Options configure an [Engine]. A field that is zero has its default.
type Options struct {
	task.Settings

	// Handler runs the tasks that [Engine.Run] claims.
	Handler Handler

	// Failure makes the Outcome of a task that fails without its handler: at the end of
	// its time to live, or after too many attempts. Nil leaves the Outcome empty.
	Failure func(message string) []byte

	// Expire, if set, decides an open question whose deadline has passed, by setting its Decision. After an error
	// the question is left to other processes. Nil leaves all to them.
	Expire func(q *task.Question) error

	// Notify, if set, delivers a notice. It may be called for several at once, and again for one that it has delivered.
	Notify func(ctx context.Context, n *task.Notice) error

	// Called, if set, is called after each call of a method of the store. The error is nil if the store has answered,
	// also if it refused what it was asked for, and context.Canceled if the caller went away.
	Called func(ctx context.Context, method string, began time.Time, err error)

	// Delivered, if set, is called after each attempt to deliver a notice, and for one that is not delivered, with one of
	// the outcomes of a delivery.
	Delivered func(ctx context.Context, n *task.Notice, began time.Time, outcome string)

	// Events has the store log what becomes of the tasks that the engine creates. It must be a [task.EventLog].
	Events bool

	// Changed, if set, is called when a task may have changed, by this process or another one. It must not block.
	Changed func()

	// Grace is how long a task is kept beyond its time to live, and at least after its end; default 10 minutes.
	Grace time.Duration

	// Look is how often, on average, the engine looks for tasks that are due, changed or
	// expired without having been told; default 1 second.
	Look time.Duration

	// Logger receives what went wrong, of what happens again and again one line in five seconds. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// The outcomes of a delivery.
const (
	noticeDelivered = "completed"
	noticeFailed    = "failed"   // it is tried again
	noticeGivenUp   = "given_up" // nobody has taken it for days
	noticeRefused   = "refused"  // its principal had as many as it may
	noticeLeft      = "shutdown" // this process stops, and another delivers it
)

func (o *Options) setDefaults() error {
	if o.TTL == 0 && o.MaxTTL > 0 {
		o.TTL = min(24*time.Hour, o.MaxTTL)
	}
	setDefault(&o.TTL, 24*time.Hour)
	setDefault(&o.MaxTTL, max(7*24*time.Hour, o.TTL))
	setDefault(&o.Grace, 10*time.Minute)
	setDefault(&o.PollInterval, time.Second)
	setDefault(&o.MaxAnonymousTTL, time.Hour)
	o.MaxAnonymousTTL = min(o.MaxAnonymousTTL, o.MaxTTL)
	setQuotaDefaults(&o.PerPrincipal, task.Quota{Unfinished: 1000, Kept: 5000, Bytes: 256 << 20, Notices: 10_000})
	setQuotaDefaults(&o.Anonymous, task.Quota{Unfinished: 100, Kept: 1000, Bytes: 64 << 20, Notices: 10_000})
	setDefault(&o.TaskBytes, 16<<20)
	setDefault(&o.Workers, 32)
	setDefault(&o.Lease, 10*time.Second)
	setDefault(&o.StoreTimeout, 5*time.Second)
	setDefault(&o.Attempts, 25)
	setDefault(&o.Look, time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Failure == nil {
		o.Failure = func(string) []byte { return nil }
	}
	if min(int64(o.TTL), int64(o.MaxTTL), int64(o.MaxAnonymousTTL), int64(o.Grace), int64(o.PollInterval), o.TaskBytes,
		least(o.PerPrincipal), least(o.Anonymous), int64(o.Workers), int64(o.Lease), int64(o.StoreTimeout), int64(o.Attempts),
		int64(o.Look)) < 0 {
		return errors.New("task: a negative option; zero means the default")
	}
	if o.TTL > o.MaxTTL {
		return errors.New("task: TTL is more than MaxTTL")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setQuotaDefaults(q *task.Quota, d task.Quota) {
	setDefault(&q.Unfinished, d.Unfinished)
	setDefault(&q.Kept, d.Kept)
	setDefault(&q.Bytes, d.Bytes)
	setDefault(&q.Notices, d.Notices)
}

// least returns the least of the bounds of a quota.
func least(q task.Quota) int64 {
	return min(int64(q.Unfinished), int64(q.Kept), q.Bytes, int64(q.Notices))
}
