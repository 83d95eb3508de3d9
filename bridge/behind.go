package bridge

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/legacy"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/task"
)

// behind is one of the servers behind a bridge, with all that the bridge has for it alone.
type behind struct {
	*calls.Server
	Name     string // that the operator has given it, or empty
	index    int    // among the servers of the bridge
	scheme   names.Scheme
	sessions *legacy.Sessions // of its callers, if it is of a revision before 2026-07-28
	catalog  *catalog
	relay    relay

	front    *askback.Server // the bridge's own, which offers what this one does
	store    task.Store
	approval *calls.Approval
	reviewed func(context.Context) // is called when it has listed its tools
	events   *tasks.Events         // of the bridge, if it passes on the events of this server
	types    atomic.Pointer[[]*tasks.EventType]
	others   []string // what stands before the names of the other servers

	lists    lists
	missing  error                    // why it is not there at the start of the bridge
	unlisted error                    // why a list of it was not read at the start
	offered  atomic.Pointer[[]string] // its names of its tools, once they were listed
	guarded  atomic.Bool              // people have to approve, or had to, calls of one of its tools
}

// lists are the offers of one server behind, as the bridge offers them.
type lists struct {
	mu                                  sync.Mutex // one refresh at a time
	tools, prompts, resources, template map[string]string

	adopted bool

	reads  atomic.Int64  // how often they were read, with the reading that is under way
	read   atomic.Int64  // the number of the last reading that has ended
	poke   chan struct{} // something has changed; has room for one
	lost   chan struct{} // the connection was; has room for one
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// changed has the lists read again soon.
func (l *lists) changed() { signal(l.poke) }

// signal says something to a goroutine that has perhaps not yet heard it the last time.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

func (l *lists) stop() {
	if l.cancel != nil {
		l.cancel()
		l.done.Wait()
	}
}

// introduce connects to the server, and learns its name.
func (b *behind) introduce(ctx context.Context) error {
	session, err := b.Conn.Session(ctx)
	if err != nil {
		return err
	}
	if info := session.Server(); info != nil && info.Name != "" && b.Name == "" {
		b.Title = cmp.Or(names.OneLine(info.Name, 64), b.Title)
	}
	return nil
}

// checkPlain returns an error for a name that could pass by a pattern unseen.
func (b *behind) checkPlain(name string) error {
	whole := b.scheme.Before() + name
	if b.approval == nil && b.Rules == nil || names.IsPlain(name) && names.IsPlain(whole) {
		return nil
	}
	return fmt.Errorf("the name %.200q is not 1 to 128 of A-Z, a-z, 0-9, _, - and ., so nobody can tell whether its "+
		"calls have to be approved", whole)
}
