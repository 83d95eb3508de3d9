package tasks

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback/internal/call"
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

	ListAnonymous bool // anonymous callers may list the tasks of all of them

	Log *slog.Logger

	runs     atomic.Bool
	warnIdle sync.Once
}

// Run runs tasks until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	s.runs.Store(true)
	return s.Engine.Run(ctx)
}
