package askback

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/task"
)

// Tasks let calls of tools go on as durable tasks: see [Options.Tasks], [AddTaskTool]
// and [Server.RunTasks]. A field that is zero has its default.
type Tasks struct {
	// Store keeps the tasks, and is shared by all instances behind one endpoint. It is
	// required, and stays open when the Server is gone.
	Store task.Store

	// TTL is a task's time to live where the client asks for none; default 24 hours.
	// MaxTTL caps what it asks for; default 7 days, or TTL if that is more. A task that
	// has not ended by then fails, and is deleted a little later.
	TTL, MaxTTL time.Duration

	// PollInterval is what clients are told to wait between two looks; default 1 second.
	PollInterval time.Duration

	// PerPrincipal bounds the unfinished tasks of one principal; default 1000.
	PerPrincipal int

	// Workers is how many tasks this process runs at once; default 16.
	Workers int

	// Lease is how long a worker that says nothing more keeps a task; default 10 seconds.
	Lease time.Duration

	// Attempts is how often a task may be begun again without having recorded anything
	// since, as after a crash, before it fails; default 25.
	Attempts int

	// ListAnonymous lets callers without a principal list all tasks without one. Leave it
	// off where they are not all the same user.
	ListAnonymous bool
}

// TaskSupport says how the calls of a tool become tasks. Nil or zero: a call of a client
// that can take a task is one from its beginning, any other client waits for the result.
type TaskSupport struct {
	// Required refuses clients that cannot take a task, with the protocol's error for a
	// missing capability.
	Required bool

	// AtDetach makes a call a task only when its handler reaches [Call.Detach]. Until
	// then it is a call like any other: it may ask, and nothing is stored.
	AtDetach bool

	// PollInterval is that of [Tasks] if it is zero.
	PollInterval time.Duration
}

// AddTaskTool is [AddTool] for a tool whose calls may go on as tasks. Without
// [Options.Tasks] no client can take one.
func AddTaskTool[In, Out any](s *Server, t *mcp.Tool, support *TaskSupport, h ToolHandler[In, Out]) {
	if support == nil {
		support = new(TaskSupport)
	}
	if s.tasks == nil && support.Required {
		s.log.Error("askback: a tool that runs as a task only needs Options.Tasks; every call of it will be refused", "tool", t.Name)
	}
	own := *support
	addTool(s, t, &own, h)
}

// Detach says: from here on this is a task. For a client that can take one it ends the
// request, with [ErrInputRequired] like a question; the client gets the task's id, and
// the handler runs again in the background, where Detach is nil and nothing that was
// answered or done before is asked or done again. For any other client, and in a task,
// Detach is nil. While a question is open the error is [ErrInputRequired] too, and the
// question is asked first. The tool must have been added with [AddTaskTool].
func (c *Call) Detach(ctx context.Context) error {
	switch {
	case c.support == nil:
		return errors.New("Detach: the tool must be added with AddTaskTool")
	case c.run.Suspended():
		return ErrInputRequired
	case c.task || !c.Can(KindTasks):
		return nil
	}
	return c.run.Detach()
}

// OnCancel registers what cleans up if the call is a task that is cancelled, or that
// does not end in its time to live: register it before the step that leaves something
// behind, outside of [Do]. Then the handler, once it has returned, runs again as far as it
// came, so that it registers what it registered before: what is recorded is found, and
// everything else gives an error that is context.Canceled. After that the functions run, the
// last first, and all of it again later, here or elsewhere, if the handler failed otherwise
// or one of them did: each should be repeatable. Their context ends when this process stops
// running tasks. Outside of tasks they never run.
func (c *Call) OnCancel(cleanup func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, cleanup)
}
