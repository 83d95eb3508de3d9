package tasks

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Service serves tasks. It is safe for concurrent use, once its fields are set.
type Service struct {
	Engine   *taskrun.Engine
	Store    task.Store
	Calls    *call.Engine
	Handlers *call.Registry
	Info     []byte // the _meta of every result, which names the server

	// Desk is nil if the store keeps no questions, or the operator wants none to go to people.
	Desk *Desk

	// Continues, if set, decides whether the call of a principal goes on once other people have decided what it asked. An
	// error is a refusal, unless it wraps [fault.ErrUndecided].
	Continues func(ctx context.Context, principal, method, target string) error

	// Events is nil if callers get no events. Otherwise the store is a [task.EventLog].
	Events *Events

	ListAnonymous bool // anonymous callers may list the tasks of all of them

	Log *slog.Logger

	runs     atomic.Bool
	warnIdle sync.Once
}

// Desk says how calls wait for people.
type Desk struct {
	Wait   time.Duration // how long a client that cannot take a task waits for the outcome
	Page   string        // the URL where people answer, or empty
	Remind float64       // the share of the time until a deadline after which people are reminded
	People *desk.Desk    // on the store of the service
	// Receipts, if set, signs how people decide, in the name of Server.
	Receipts home.Receipts
	Server   string
}

// Run runs tasks until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	s.runs.Store(true)
	if s.Events != nil && s.Events.Webhooks != nil {
		var delivering sync.WaitGroup
		defer delivering.Wait()
		delivering.Go(func() { s.deliverEvents(ctx) })
	}
	return s.Engine.Run(ctx)
}
