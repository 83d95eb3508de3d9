package askback

import (
	"context"
	"errors"
	"time"

	"github.com/askback-mcp/askback/internal/tasks"
)

// EventOptions let callers learn what becomes of their tasks, and people what they are asked, without a connection and
// from any host, by the extension io.modelcontextprotocol/events (SEP-3415). They need [Options.Tasks] with a store
// that is a task.EventLog. The zero value is ready to use.
//
// With events/list a client lists the types: question.asked, question.decided and call.ended. With events/poll it reads
// the events of one type since its last poll, and events/stream brings them as they come. A named caller reads the
// events of its own calls. An anonymous one must know the ID of a task, and reads the events of that. An event names
// the call, the task and the tool, and holds nothing of questions and results, which the caller fetches.
//
// A user whom [Question.For] names, as [Options.Principal] names callers, reads question.asked and question.decided of
// the question: with its key, and without the ID of the task. Such a user needs to be let in by what authenticates the
// callers of the server, and no more: see also Groups.
//
// A call has events if it becomes a task, on a server with these options. An event is kept as long as its task. A
// caller who comes later than that is told, by truncated, that there may have been others. [Options.Authorize] sees
// each request, with the name of the type as its Target, and an open stream again every 20 seconds.
type EventOptions struct {
	// PollInterval is how long clients are asked to wait between two polls; zero means 30 seconds.
	PollInterval time.Duration

	// Groups returns the groups of a principal, at most 64, by the names that [Group] has. Their members read what the
	// group is asked. It is called for each read of these events. After an error the request fails, and the client sends
	// it again. Nil: nobody is in a group.
	Groups func(ctx context.Context, principal string) ([]string, error)
}

// service checks the options.
func (o EventOptions) service() (*tasks.Events, error) {
	setDefault(&o.PollInterval, 30*time.Second)
	if o.PollInterval < time.Millisecond {
		return nil, errors.New("askback: Options.Events.PollInterval is less than a millisecond; zero means the default")
	}
	return &tasks.Events{PollInterval: o.PollInterval, Groups: o.Groups}, nil
}
