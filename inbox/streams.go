package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/desk"
)

// The bounds of streams of events. Where one is reached the oldest stream goes: of the person, or of who has most.
const (
	mostStreamsEach = 5 // of a browser's six connections to a server by HTTP/1.1, one must be left for the page
	mostStreams     = 1000
	mostUnread      = 64 // events of one stream

	settleTime = 3 * time.Second // until the first query of the loop is surely done
)

// changed is the event that a question has changed. It has no more of the question, so that a viewer reads it with the
// rights of that moment. The zero value asks the viewer to read everything again.
type changed struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// text returns the event as it is sent.
func (c changed) text() string {
	data, err := json.Marshal(c)
	if err != nil || c == (changed{}) {
		return "event: refresh\ndata: {}\n\n"
	}
	return fmt.Sprintf("event: question\ndata: %s\n\n", data)
}

// stream is a stream of events to one viewer.
type stream struct {
	person desk.Person
	events chan changed
	missed atomic.Bool   // there was no room for one of them
	gone   chan struct{} // closed when the stream must end
}

// streams holds all streams of an instance. While there is one, a single loop asks the desk for changes, so that the
// store's load does not grow with the viewers.
type streams struct {
	changes func(context.Context) // runs until its context is done

	mu   sync.Mutex
	open []*stream // the oldest first
	stop context.CancelFunc
}

// add begins a stream. It may end others, but the person has a stream afterwards.
func (s *streams) add(p desk.Person) *stream {
	v := &stream{person: p, events: make(chan changed, mostUnread), gone: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	each := make(map[string]int)
	most := p.Name
	for _, o := range s.open {
		if each[o.person.Name]++; each[o.person.Name] > each[most] {
			most = o.person.Name
		}
	}
	switch {
	case each[p.Name] >= mostStreamsEach:
		s.end(s.oldest(p.Name))
	case len(s.open) >= mostStreams:
		s.end(s.oldest(most))
	}
	s.open = append(s.open, v)
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go s.changes(ctx)
		s.refreshLater()
	}
	return v
}

// oldest returns the oldest stream of a person who has one.
func (s *streams) oldest(name string) *stream {
	return s.open[slices.IndexFunc(s.open, func(o *stream) bool { return o.person.Name == name })]
}

// remove ends a stream and, with the last one, the loop.
func (s *streams) remove(v *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.open, v) {
		s.end(v)
	}
	if len(s.open) == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

func (s *streams) end(v *stream) {
	s.open = slices.DeleteFunc(s.open, func(o *stream) bool { return o == v })
	close(v.gone)
}

// tell sends an event to the viewers whom it concerns. It waits for nobody, because one slow viewer would delay all: a
// viewer without room for the event gets a refresh later.
func (s *streams) tell(c changed, concerns func(desk.Person) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.open {
		if !concerns(v.person) {
			continue
		}
		select {
		case v.events <- c:
		default:
			v.missed.Store(true)
		}
	}
}

// refreshLater has all viewers read everything again, because they may miss a change in the meantime.
func (s *streams) refreshLater() {
	time.AfterFunc(settleTime, func() { s.tell(changed{}, func(desk.Person) bool { return true }) })
}
