package task

import "time"

// Settings are an operator's, for the tasks of a server. A field that is zero has its default; a negative one
// is an error.
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

	// PerPrincipal bounds what one principal has in the store; default 1000 unfinished tasks, 5000 kept ones, 256 MiB and
	// 10,000 notices. Beyond, a new task is refused, or an answer if it is for the bytes. Before that, ended tasks of the
	// principal make room, the oldest first, if they ended longer ago than ten minutes, or the RoundTTL of the server's
	// limits if that is more. A notice beyond is not kept: its question goes to the desk, and an error in the log says
	// that nobody was told.
	PerPrincipal Quota

	// Anonymous is PerPrincipal for the anonymous principal, which is all anonymous callers together; default 100
	// unfinished tasks, 1000 kept ones, 64 MiB and 10,000 notices.
	Anonymous Quota

	// TaskBytes bounds the call, the journal, the questions and the outcome of one task together; default 16 MiB. A
	// task that passes it fails.
	TaskBytes int64

	// Workers bounds the tasks that run in this process at once; default 32. A principal gets another worker only while it
	// has fewer workers than are free: a principal who is alone has half of them, at least one, two have a third each, and
	// so on. The rest is free for the next principal. As many again run for the first time while their requests wait.
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
