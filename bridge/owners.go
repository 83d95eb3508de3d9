package bridge

import (
	"fmt"
	"sync"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/internal/broadcast"
)

// owned is a resource or a template, with the place of its server among the servers of the bridge.
type owned struct {
	*calls.Target
	index int
}

// owners know which server offers a resource or a template, by its URI.
type owners struct {
	freed func(by *calls.Server) // the others may offer what it was the owner of

	mu    sync.Mutex
	known map[string]*owned
	news  broadcast.Signal // there is something more to be found
}

// claim makes a server the owner of a name and offers it, unless it belongs to a server that stands before it.
func (o *owners) claim(kind, name string, t *owned, offer func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had := o.known[kind+name]; had != nil && had.index < t.index {
		return fmt.Errorf("%s offers it, too, and stands first", had.Title)
	}
	if o.known == nil {
		o.known = make(map[string]*owned)
	}
	offer()
	o.known[kind+name] = t
	return nil
}

// release ends what claim began, if the server is the owner. The others may offer it then.
func (o *owners) release(kind, name string, by *calls.Server, remove func(...string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had := o.known[kind+name]; had == nil || had.Server != by {
		return
	}
	remove(name)
	delete(o.known, kind+name)
	o.freed(by)
}

// of returns what has a name, or nil.
func (o *owners) of(kind, name string) *owned {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[kind+name]
}

// templates are the targets of all templates.
func (o *owners) templates() (all []*owned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.known {
		if t.Template != nil {
			all = append(all, t)
		}
	}
	return all
}
