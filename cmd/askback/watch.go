package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client"
)

// watch follows the task that a command is about, or that its call becomes. It shows the status of the task, and names
// the command that continues it.
type watch struct {
	target  target
	dialect client.TaskDialect
	asker   *asker
	quiet   bool // the command does not wait for the task

	mu    sync.Mutex
	id    string // empty while there is no task
	ended bool
	shown bool // the user knows the task's ID
}

// configure adds the watch to a client's options.
func (w *watch) configure(opts *client.Options) {
	opts.Tasks = w.dialect
	observe := opts.Observe
	opts.Observe = func(ctx context.Context, r *client.Round) error {
		if r.Task == nil {
			return observe(ctx, r)
		}
		w.observe(r)
		if len(r.Questions) == 0 && !r.Final && r.Err == nil {
			if len(r.Answers) == 0 {
				w.asker.trace.line("← the task is %s, after %v", taskLine(r.Task), elapsed(r.Elapsed))
			}
			return nil
		}
		err := observe(ctx, r)
		if missing, ok := errors.AsType[*missingError](err); ok {
			return &unansweredError{missing, w.command("result")}
		}
		return err
	}
	w.asker.hasTask = func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.id != ""
	}
}

// follow sets the task to watch.
func (w *watch) follow(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = id
}

// observe shows a new status of the task.
func (w *watch) observe(r *client.Round) {
	w.mu.Lock()
	first := !w.shown
	w.id, w.ended, w.shown = r.Task.ID, r.Task.Ended(), true
	w.mu.Unlock()
	if w.quiet {
		return
	}
	if first {
		w.asker.console.line("askback: the call goes on as task %s", harmlessLine(r.Task.ID, maxID))
	}
	if !r.Task.Ended() && len(r.Questions) == 0 && len(r.Answers) == 0 {
		w.asker.console.status("task " + taskLine(r.Task))
	}
}

// command is the command line that continues the task with a subcommand of 'askback task'.
func (w *watch) command(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := "askback task " + name
	if w.dialect != client.TasksAuto {
		words += " --tasks " + string(w.dialect)
	}
	id := foreignQuote(w.id)
	if strings.HasPrefix(w.id, "-") {
		id = "-- " + id // otherwise it would be read as a flag
	}
	return harmless(fmt.Sprintf("%s %s %s", words, shellQuote(w.target.shown()), id))
}

// unfinishedTask returns the error of a call that became a task and ended here before the
// task did, other than by being parked.
func unfinishedTask(err error) (*client.PendingError, bool) {
	waited, ok := errors.AsType[*client.PendingError](err)
	return waited, ok && waited.Pending.TaskID != "" && !errors.Is(err, client.ErrPark)
}

// explain tells how to continue a task that outlives the command. It returns the error that remains to be reported.
func (w *watch) explain(err error) error {
	if waited, ok := unfinishedTask(err); ok {
		err = waited.Err
		w.follow(waited.Pending.TaskID)
		if _, told := errors.AsType[*unansweredError](err); !told {
			w.asker.console.line("askback: the task may still go on: '%s' waits for it", w.command("result"))
		}
	}
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams && w.id != "" && !w.ended {
		return fmt.Errorf("%w; it may have been forgotten, or belong to another user", faultText(err))
	}
	return err
}

// unansweredError names the answers that a task waits for, and the command that gives them.
type unansweredError struct {
	missing *missingError
	command string
}

func (e *unansweredError) Error() string {
	text, _, _ := strings.Cut(e.missing.Error(), "\nGive --answer as above")
	where := "as above"
	if strings.Contains(e.command, " -- ") {
		where += ", before the --"
	}
	return text + fmt.Sprintf("\nThe task waits. Go on with '%s'\nand --answer %s.", e.command, where)
}

func (e *unansweredError) Unwrap() error { return e.missing }
