package bridge

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/names"
)

// shelf has what the servers offer under names that hosts choose by: the tools, or the prompts.
type shelf struct {
	kind string
	hide func(...string) // no longer offers names

	mu     sync.Mutex
	offers map[source]*offer
	latest map[source]*calls.Target // of all that was ever shown
	shown  map[string]*calls.Target // by the names that hosts see
}

// source is where something is from: a server, and the name there.
type source struct {
	*calls.Server
	own string
}

// offer is something that a server offers.
type offer struct {
	names.Label
	show    func(name string) *calls.Target // offers it to hosts under a name, or panics
	shownAs string                          // the name that hosts see, or empty
	stale   bool                            // hosts have to see it anew
}

func newShelf(kind string, hide func(...string)) *shelf {
	return &shelf{kind: kind, hide: hide, offers: make(map[source]*offer), latest: make(map[source]*calls.Target),
		shown: make(map[string]*calls.Target)}
}

// put lays something on the shelf, in place of what had its name at the server. Hosts see it after settle.
func (s *shelf) put(from *calls.Server, l names.Label, show func(name string) *calls.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &offer{Label: l, show: show, stale: true}
	if had := s.offers[source{from, l.Own}]; had != nil {
		o.shownAs = had.shownAs
	}
	s.offers[source{from, l.Own}] = o
}

// drop takes something from the shelf.
func (s *shelf) drop(of *calls.Server, own string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := source{of, own}
	if o := s.offers[from]; o != nil {
		s.withdraw(o)
		delete(s.offers, from)
	}
	if t := s.latest[from]; t != nil {
		t.Gone.Store(true)
	}
}

// withdraw hides something, with the lock held.
func (s *shelf) withdraw(o *offer) {
	if o.shownAs != "" {
		s.hide(o.shownAs)
		s.shown[o.shownAs].Hidden.Store(true)
		delete(s.shown, o.shownAs)
		o.shownAs = ""
	}
}

// settle shows hosts all that is on the shelf, under names that are distinct. What cannot be shown is left out.
func (s *shelf) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for again := true; again; {
		again = false
		var from []source
		var labels []names.Label
		for f, o := range s.offers {
			from, labels = append(from, f), append(labels, o.Label)
		}
		all := names.Distinct(labels)
		for i, f := range from { // first, so that a name is free when something else gets it
			if o := s.offers[f]; o.shownAs != all[i] {
				s.withdraw(o)
			}
		}
		for i, f := range from {
			o := s.offers[f]
			if o.shownAs == all[i] && !o.stale {
				continue
			}
			if err := s.show(f, o, all[i]); err != nil {
				leaveOut(f.Server, s.kind, f.own, err)
				if o.shownAs == "" { // and keeps nothing else from having its name
					delete(s.offers, f)
					again = true
				}
			}
		}
	}
}

// show shows something to hosts under a name, with the lock held.
func (s *shelf) show(from source, o *offer, name string) error {
	o.stale = false
	if name == "" {
		return errors.New("its name cannot be told from another one")
	}
	if short, _ := o.Short(); o.shownAs != name && name != short {
		from.Log.Warn("bridge: two would have one name, so each gets a digest; rename one of them", "server", from.Title,
			"kind", strings.TrimSpace(s.kind), "name", short, "as", name)
	}
	return safely(func() error {
		t := o.show(name)
		if before := s.latest[from]; before != nil && t.Strict() {
			before.Turned.Store(true)
		}
		s.latest[from], s.shown[name], o.shownAs = t, t, name
		return nil
	})
}

// of returns what hosts see under a name, or nil.
func (s *shelf) of(name string) *calls.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown[name]
}

// from returns what a server had last under its own name, or nil, and the name that hosts see, if they do.
func (s *shelf) from(of *calls.Server, own string) (t *calls.Target, shownAs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.offers[source{of, own}]; o != nil {
		shownAs = o.shownAs
	}
	return s.latest[source{of, own}], shownAs
}

// has reports whether something of a server is on the shelf.
func (s *shelf) has(of *calls.Server, own string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers[source{of, own}] != nil
}

// adopt adds the handler of a tool that is gone, if no other one has its name. Hosts do not see it.
func (s *shelf) adopt(name string, t *calls.Target, add func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown[name] != nil {
		return nil
	}
	t.Gone.Store(true)
	err := safely(func() error { add(); return nil })
	if err == nil {
		s.hide(name)
		t.Log.Warn("bridge: calls wait for a tool that is no longer offered under its name", "server", t.Title, "tool", name)
	}
	return err
}

// leaveOut tells the operator that something is not offered.
func leaveOut(s *calls.Server, kind, name string, err error) {
	s.Log.Warn("bridge: something of a server cannot be offered", "server", s.Title, "kind", strings.TrimSpace(kind),
		"name", fmt.Sprintf("%.200q", name), "error", err)
}

// safely returns a panic as an error: that is how a definition is refused that its author could have tested.
func safely(add func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return add()
}
