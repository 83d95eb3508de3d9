package askback

import (
	"context"
	"errors"
	"time"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/throttle"
	"github.com/askback-mcp/askback/task"
)

// Tasks let calls of tools go on as durable tasks: see [Options.Tasks], [AddTaskTool]
// and [Server.RunTasks]. The Store is required.
type Tasks struct {
	// Store keeps the tasks, and is shared by all instances behind one endpoint. It stays
	// open when the Server is gone.
	Store task.Store

	// Settings are the settings of the engine that runs the tasks: times to live, limits, workers and leases. Zero means
	// the defaults.
	task.Settings

	// ListAnonymous lets callers without a principal list all tasks without one. Leave it
	// off where they are not all the same user.
	ListAnonymous bool
}

// newTasks makes the service of a Server's tasks.
func (s *Server) newTasks(calls *call.Engine, info []byte) (*tasks.Service, error) {
	o := s.opts.Tasks
	if o.Store == nil {
		return nil, errors.New("askback: Options.Tasks needs a Store")
	}
	service := &tasks.Service{
		Store: o.Store, Calls: calls, Handlers: s.handlers, Info: info, ListAnonymous: o.ListAnonymous,
		Log: throttle.New(s.log),
	}
	if authorize := s.opts.Authorize; authorize != nil && s.opts.AuthorizeContinues {
		service.Continues = func(ctx context.Context, principal, method, target string) error {
			return authorize(ctx, Access{Principal: principal, Method: method, Target: target, Continues: true})
		}
	}
	opts := &taskrun.Options{
		Settings: o.Settings,
		Handler:  service.Handle,
		Failure:  tasks.EncodeFailure,
		Expire:   tasks.Expire,
		Notify:   s.opts.Desk.notify(),
		// A round that detached can be repeated for as long as its state lives, and must find its task.
		Grace:  max(10*time.Minute, s.opts.Limits.RoundTTL),
		Logger: s.log,
	}
	tasks.Observe(opts, calls.Observer)
	var err error
	if opts.Events = s.opts.Events != nil; opts.Events {
		if service.Events, err = s.opts.Events.service(s); err != nil {
			return nil, err
		}
		if hooks := service.Events.Webhooks; hooks != nil {
			opts.Changed = hooks.Wake
		}
	}
	service.Engine, err = taskrun.NewEngine(o.Store, opts)
	return service, err
}

// RunTasks runs tasks in this process until ctx is done; then it gives what it has not finished to other instances
// and returns. Every deployment needs at least one process that does; those that only serve need not. The error is
// for a Server without [Options.Tasks].
func (s *Server) RunTasks(ctx context.Context) error {
	if s.opts.Tasks == nil {
		return errors.New("askback: RunTasks needs Options.Tasks")
	}
	return s.sdk.Tasks.Run(ctx)
}

// TaskSupport says how the calls of a tool become tasks. Nil or zero: a call of a client
// that can take a task is one from its beginning, any other client waits for the result.
type TaskSupport struct {
	// Required refuses clients that cannot take a task, with the protocol's error for a missing capability.
	Required bool

	// AtDetach makes a call a task only when its handler reaches [Call.Detach]. Until
	// then it is a call like any other: it may ask, and nothing is stored.
	AtDetach bool

	// Always makes a task of the calls of every client, also of one that cannot take a task. Such a client waits for the
	// outcome in its request, for at most [DeskOptions].Wait, and is asked there what the task asks it; then it is told
	// in words how to get the outcome. It needs [Options.Desk]. See [Server.AddResultTool].
	Always bool

	// If PollInterval is zero, the PollInterval of [Tasks] holds.
	PollInterval time.Duration
}

// Detach makes the call a task from here on. For a client that can take a task it ends the request, with
// [ErrInputRequired] like a question: the client gets the task's id, and the handler runs again in the background,
// where Detach returns nil and nothing that was answered or done before is asked or done again. In a task, and for any
// other client unless TaskSupport.Always is set, Detach returns nil. While a question is open the error is
// [ErrInputRequired] too, and the question is asked first. The tool must have been added with [AddTaskTool].
func (c *Call) Detach() error { return c.c.Detach() }

// OnCancel registers a function that cleans up if the call is a task that is cancelled, or
// that does not end within its time to live. Register it outside of [Do], and before the
// step that leaves something behind. Once the handler of such a task has returned,
//
//  1. the handler runs again as far as it came, so that it registers its functions again:
//     what is recorded is found, and everything else returns an error that is
//     context.Canceled;
//  2. the functions run, the last one first, with a context that ends when this process
//     stops running tasks;
//  3. if the handler failed otherwise, or a function did, all of it runs again later, here
//     or on another instance: each function should be repeatable.
//
// Outside of tasks the functions never run.
func (c *Call) OnCancel(cleanup func(context.Context) error) { c.c.OnCancel(cleanup) }
