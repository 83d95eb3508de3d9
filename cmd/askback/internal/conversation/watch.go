package conversation

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// watch follows the task that a command is about, or that its call becomes. It shows the status of the task, and names
// the command that waits for it.
type watch struct {
	dialect client.TaskDialect
	asker   *asker
	quiet   bool // the command does not wait for the task

	mu    sync.Mutex
	id    string // empty while there is no task
	ended bool
	shown bool // the user knows the task's ID
}

func (w *watch) hasTask() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id != ""
}

// follow sets the task to watch.
func (w *watch) follow(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = id
}

// observe shows the status of the task after a round. It reports whether the round asks something or is the last one.
func (w *watch) observe(r *client.Round) bool {
	w.mu.Lock()
	first := !w.shown
	w.id, w.ended, w.shown = r.Task.ID, r.Task.Ended(), true
	w.mu.Unlock()
	if first && !w.quiet {
		w.asker.console.line("askback: the call goes on as task %s", cli.HarmlessLine(r.Task.ID, MaxID))
	}
	if len(r.Questions) > 0 || r.Final || r.Err != nil {
		return true
	}
	if len(r.Answers) == 0 {
		if !w.quiet && !r.Task.Ended() {
			w.asker.console.status("", "task "+TaskLine(r.Task))
		}
		w.asker.trace.line("← the task is %s, after %v", TaskLine(r.Task), r.Elapsed.Round(100*time.Microsecond))
	}
	return false
}

// command is the command line that waits for the task.
func (w *watch) command() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := "askback task result"
	if w.dialect != client.TasksAuto {
		words += " --tasks " + string(w.dialect)
	}
	id := cli.ForeignQuote(w.id)
	if strings.HasPrefix(w.id, "-") {
		id = "-- " + id // otherwise it would be read as a flag
	}
	return cli.Harmless(fmt.Sprintf("%s %s %s", words, cli.ShellQuote(w.asker.target.Shown()), id))
}

// UnfinishedTask returns the error of a call that became a task and ended here before the task did, unless it is
// parked.
func UnfinishedTask(err error) (*client.PendingError, bool) {
	waited, ok := errors.AsType[*client.PendingError](err)
	return waited, ok && waited.Pending.TaskID != "" && !errors.Is(err, client.ErrPark)
}

// explain tells how to continue a task that outlives the command. It returns the error that remains to be reported.
func (w *watch) explain(err error) error {
	if waited, ok := UnfinishedTask(err); ok {
		err = waited.Err
		w.follow(waited.Pending.TaskID)
		if code, _ := cli.ExitCode(err); code != cli.ExitWaits || w.asker.session != "" {
			w.asker.console.line("askback: the task may still go on: '%s' waits for it", w.command())
		}
	}
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams && w.id != "" &&
		!w.ended {
		return fmt.Errorf("%w; it may have been forgotten, or belong to another user", cli.FaultText(err))
	}
	return err
}
