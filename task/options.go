package task

import (
	"errors"
	"log/slog"
	"time"
)

// Settings are what an operator chooses for an [Engine]. A field that is zero has its
// default; a negative one is an error.
type Settings struct {
	// TTL is the time to live of a task whose client asks for none; default 24 hours, or MaxTTL if that is less. A
	// task that has not ended by then fails, and is deleted a little later.
	TTL time.Duration

	// MaxTTL is the longest time to live that a client gets; default 7 days, or TTL if that
	// is more. It must not be less than TTL.
	MaxTTL time.Duration

	// PollInterval is how long clients are asked to wait between two looks at a task that
	// has no interval of its own; default 1 second.
	PollInterval time.Duration

	// MaxAnonymousTTL is the longest time to live that an anonymous caller gets; default 1 hour, or MaxTTL if that is
	// less. A longer one for callers who wait days for a person leaves their tasks in the store for as long.
	MaxAnonymousTTL time.Duration

	// PerPrincipal bounds what one principal has in the store; default 1000 unfinished tasks, 5000 kept ones and
	// 256 MiB. Beyond, a new task is refused, or an answer if it is for the bytes. Before that, ended tasks of the
	// principal make room, the oldest first, if they ended longer ago than [Options.Grace].
	PerPrincipal Quota

	// Anonymous is PerPrincipal for the anonymous principal, which is all anonymous callers together; default 100
	// unfinished tasks, 1000 kept ones and 64 MiB.
	Anonymous Quota

	// TaskBytes bounds the call, the journal, the questions and the outcome of one task together; default 16 MiB. A
	// task that passes it fails.
	TaskBytes int64

	// Workers bounds the tasks that run in this process at once; default 32. A principal gets another worker only while it
	// has fewer workers than are free: a principal who is alone has half of them, at least one, two have a third each, and
	// so on. The rest is free for the next principal.
	Workers int

	// Lease is how long a worker that is no longer heard of keeps a task; default 10
	// seconds. A worker that lives renews its lease.
	Lease time.Duration

	// StoreTimeout is how long a call of the store may take; default 5 seconds. Then it has failed: a client may
	// repeat its request, and the engine tries again.
	StoreTimeout time.Duration

	// Attempts bounds how often in a row a task is begun without recording anything, as
	// when its process dies each time; default 25. Then the task fails.
	Attempts int
}

// Options configure an [Engine]. A field that is zero has its default.
type Options struct {
	Settings

	// Handler runs the tasks that [Engine.Run] claims.
	Handler Handler

	// Failure makes the Outcome of a task that fails without its handler: at the end of
	// its time to live, or after too many attempts. Nil leaves the Outcome empty.
	Failure func(message string) []byte

	// Grace is how long a task is kept beyond its time to live, and at least after its end; default 10 minutes.
	Grace time.Duration

	// Look is how often, on average, the engine looks for tasks that are due, changed or
	// expired without having been told; default 1 second.
	Look time.Duration

	// Logger receives what went wrong, of what happens again and again one line in five seconds. Nil means
	// slog.Default().
	Logger *slog.Logger
}

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
	o.PerPrincipal.setDefaults(Quota{Unfinished: 1000, Kept: 5000, Bytes: 256 << 20})
	o.Anonymous.setDefaults(Quota{Unfinished: 100, Kept: 1000, Bytes: 64 << 20})
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
		o.PerPrincipal.least(), o.Anonymous.least(), int64(o.Workers), int64(o.Lease), int64(o.StoreTimeout), int64(o.Attempts), int64(o.Look)) < 0 {
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
