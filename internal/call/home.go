package call

import (
	"context"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/journal"
)

// Home is where the journal of a call lives between its rounds: carried by the client, held in memory for as long as a
// request, or stored with a task. Each request has a Home of its own.
type Home interface {
	// Open returns the call as the request finds it.
	Open(ctx context.Context) (Opened, error)
	// Begin starts run, which is zero, on the journal with the answers that the round has.
	Begin(run *journal.Run, j *journal.Journal, answers Answers, limits *bound.Limits)
	// Suspend keeps the journal of a round that ended with out, which needs input, and may complete out. If it has the
	// answers already, again is true, and the call goes on at once with them.
	Suspend(ctx context.Context, j *journal.Journal, out *Outcome) (answers Answers, again bool, err error)
	// End is told how the call ended: with out, or with err.
	End(ctx context.Context, j *journal.Journal, out *Outcome, err error)
}

// Mover moves a call with its journal to another home.
type Mover interface {
	Move(ctx context.Context, j *journal.Journal) (*Outcome, error)
}

// Opened is a call as its home has it.
type Opened struct {
	// Outcome is the outcome of a request whose call has ended, or has become a task, before. Everything else is zero
	// then.
	Outcome *Outcome
	// Follow is the handler of a request whose call has become a task before, which its client cannot take. It waits for
	// the task, and asks what the task asks.
	Follow *Handler

	Journal *journal.Journal
	Answers Answers // those that came with the request

	// Detach moves the call to a home in which it goes on without this request. Nil means that the call stays.
	Detach Mover
	// Wait moves the call to a home in which it waits for people, or for a time, apart from its client, once its client
	// has no open question. Nil means that it stays.
	Wait Mover
	// Sleeps says that the home itself waits for people and for a time.
	Sleeps bool
	// AtOnce says that the call is detached before its handler runs.
	AtOnce bool

	// Interrupted reports whether a run that returned err has no outcome, because another run continues the call. Nil
	// means that every run has one.
	Interrupted func(err error) bool
	// Audited says that the operator was told of the answers in the journal when they arrived.
	Audited bool
}

// Answers are a client's answers to the questions of a round, by their keys on the wire.
type Answers struct {
	Responses map[string][]byte
	Bare      bool // they came without a state, and count for any question with their key
}
