package askback

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/askback-mcp/askback/internal/egress"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/task"
)

// EventOptions let callers learn what becomes of their tasks, and people what they are asked, without a connection and
// from any host, by the extension io.modelcontextprotocol/events (SEP-3415). They need [Options.Tasks] with a store
// that is a task.EventLog. The zero value is ready to use.
//
// With events/list a client lists the types: question.asked, question.decided, call.ended, and what [AddEvent] has
// added. With events/poll it reads the events of one type since its last poll, and events/stream brings them as they
// come. A named caller reads the events of its own calls. An anonymous one must know the ID of a task, and reads the
// events of that. An event names the call, the task and the tool, and holds nothing of questions and results, which the
// caller fetches.
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

	// Keep is how long what [Event.Emit] emits can be read, at most 30 days; zero means 7 days. Of each type the newest
	// 10,000 are kept, and as many of each principal that they are for.
	Keep time.Duration

	// MaxPayload bounds the JSON of a payload, in bytes, at most 256 KiB; zero means 16 KiB.
	MaxPayload int

	// Webhooks let callers have events posted to an address. Nil: they cannot.
	Webhooks *WebhookOptions
}

// WebhookOptions let named callers subscribe to events with events/subscribe, and have them posted to an https address
// of theirs, signed with their secret as Standard Webhooks say. They need [Options.Keys], which seal the secrets, and a
// store that is a task.Subscriptions. [Server.RunTasks] delivers. The zero value is ready to use.
//
// An endpoint has to answer a challenge first. Requests go to globally routable addresses only, as they are when the
// connection is made, without a proxy and without following redirects. A message is tried five times in a quarter of an
// hour. If its endpoint accepts nothing meanwhile, it waits until that does, or until the subscriber comes back.
//
// With [Options.AuthorizeContinues] the operator is asked before each delivery: Access.Method is "events/subscribe",
// and Target is the type of the events. A refusal ends the subscription, and its endpoint is told.
type WebhookOptions struct {
	// Allow, if set, reports whether an address needs no challenge, because the operator knows that it wants the events
	// of this principal. It is called concurrently.
	Allow func(principal, url string) bool

	// TTL is how long a subscription lasts that asks for no time; zero means one hour. MaxTTL is the longest time, also
	// for one that asks for no end; zero means 24 hours, or TTL if that is more. The shortest is one minute.
	TTL, MaxTTL time.Duration

	// PerPrincipal is how many subscriptions a caller may have; zero means 100.
	PerPrincipal int

	// UncheckedTransport, if set, sends all requests, in place of the transport that checks addresses. It alone decides
	// what callers can reach from here, such as by an egress proxy. With http.DefaultTransport that is everything: this
	// machine, its network, and the metadata of a cloud.
	UncheckedTransport http.RoundTripper
}

// webhooks checks the options of a server.
func (o WebhookOptions) webhooks(s *Server) (*tasks.Webhooks, error) {
	setDefault(&o.TTL, time.Hour)
	setDefault(&o.MaxTTL, max(24*time.Hour, o.TTL))
	setDefault(&o.PerPrincipal, 100)
	_, keeps := s.opts.Tasks.Store.(task.Subscriptions)
	switch {
	case s.opts.Keys == nil:
		return nil, errors.New("askback: Options.Events.Webhooks needs Options.Keys: they seal the secrets of subscribers")
	case !keeps:
		return nil, errors.New("askback: Options.Events.Webhooks needs a store that keeps subscriptions: it is not a " +
			"task.Subscriptions")
	case min(o.TTL, o.MaxTTL) < time.Minute || o.TTL > o.MaxTTL || o.PerPrincipal < 0:
		return nil, errors.New("askback: Options.Events.Webhooks has a time of less than a minute, a TTL of more than " +
			"MaxTTL, or a negative number; zero means the default")
	}
	w := tasks.NewWebhooks()
	w.Client, w.Keys, w.Audience = egress.New(o.UncheckedTransport), s.opts.Keys, s.opts.Audience
	w.Allow, w.TTL, w.MaxTTL, w.PerPrincipal = o.Allow, o.TTL, o.MaxTTL, o.PerPrincipal
	return w, nil
}

// service checks the options of a server.
func (o EventOptions) service(s *Server) (_ *tasks.Events, err error) {
	setDefault(&o.PollInterval, 30*time.Second)
	if o.PollInterval < time.Millisecond {
		return nil, errors.New("askback: Options.Events.PollInterval is less than a millisecond; zero means the default")
	}
	setDefault(&o.Keep, 7*24*time.Hour)
	setDefault(&o.MaxPayload, 16<<10)
	if o.Keep < time.Millisecond || o.Keep > task.EventGapsKept {
		return nil, errors.New("askback: Options.Events.Keep must be a millisecond to 30 days; zero means the default")
	}
	if o.MaxPayload < 2 || o.MaxPayload > 256<<10 {
		return nil, errors.New("askback: Options.Events.MaxPayload must be 2 bytes to 256 KiB; zero means the default")
	}
	e := &tasks.Events{PollInterval: o.PollInterval, Groups: o.Groups, Keep: o.Keep, MaxPayload: o.MaxPayload}
	if o.Webhooks != nil {
		e.Webhooks, err = o.Webhooks.webhooks(s)
	}
	return e, err
}

func init() {
	tasks.EventsOf = func(server any) *tasks.Events { return server.(*Server).sdk.Tasks.Events }
}
