package talk

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/internal/transport"
)

const (
	// TasksExtension is the name under which a server declares tasks.
	TasksExtension = "io.modelcontextprotocol/tasks"

	// TaskCapabilities are all capabilities, with the extension.
	TaskCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}`

	maxTaskID = 500 // bytes
)

// leftovers are the tasks of a run that have to be cancelled.
type leftovers struct {
	line *transport.Line
	list []leftover
	IDs  []string // of the first identity's tasks, in their order
}

// A leftover is a task that has to be cancelled.
type leftover struct {
	as, at, id string
}

// made notes a task. Until it is cancelled, a few requests are kept back to do so. One that nobody has declared the
// extension for is cancelled at once, since nothing follows it.
func (ts *leftovers) made(ctx context.Context, q transport.Request, id string) {
	if !usableID(id) {
		return
	}
	o := leftover{q.As, q.At, id}
	ts.set(append(ts.list, o))
	if q.As == "" && q.At == "" && !slices.Contains(ts.IDs, id) {
		ts.IDs = append(ts.IDs, id)
	}
	if !strings.Contains(q.Capabilities, TasksExtension) {
		if _, err := ts.line.Send(ctx, o.cancel()); err == nil {
			ts.ended(id)
		}
	}
}

// ended forgets a task that needs no cancelling any more.
func (ts *leftovers) ended(id string) {
	ts.set(slices.DeleteFunc(ts.list, func(o leftover) bool { return o.id == id }))
}

func (ts *leftovers) set(list []leftover) {
	ts.list, ts.line.Reserved = list, transport.CancelTries*len(list)
}

// Cancel cancels the tasks that are left, also when the run has stopped. It returns how many it could not cancel.
func (ts *leftovers) Cancel(ctx context.Context) int {
	for _, o := range slices.Clone(ts.list) {
		for range transport.CancelTries {
			res, err := ts.line.TrySend(ctx, o.cancel())
			if errors.Is(err, transport.ErrStopped) {
				return len(ts.list)
			}
			if err == nil {
				if !res.IsQuiet() {
					ts.ended(o.id)
				}
				break
			}
		}
	}
	return len(ts.list)
}

// cancel is the request that cancels the task.
func (o leftover) cancel() transport.Request {
	return transport.Request{As: o.as, At: o.at, Method: "tasks/cancel", Params: map[string]any{"taskId": o.id},
		Capabilities: TaskCapabilities}
}

// usableID reports whether an ID can be sent in a header.
func usableID(id string) bool {
	return len(id) <= maxTaskID && !strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c == 0x7f })
}
