package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
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

	changesEvery = time.Second
	settleTime   = 3 * time.Second // until the first query of a loop is surely done
	beatTime     = 15 * time.Second
	writeTime    = 10 * time.Second
	streamTime   = 15 * time.Minute // then the browser comes again, through the proxy that signs people in
	awayTime     = time.Minute      // until a stream comes again that had to go
)

// changed is the event that a question has changed. It has no more of the question, so that a viewer reads it with the
// rights of that moment. The zero value asks the viewer to read everything again.
type changed struct {
	Name string `json:"name"`
	Key  string `json:"key"`
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

// follow passes changes on to the streams, until ctx is done.
func (in *Inbox) follow(ctx context.Context) {
	for q, err := range in.desk.Changes(ctx, changesEvery) {
		switch {
		case q != nil:
			in.streams.tell(changed{q.Name, q.Key}, q.Concerns)
		case ctx.Err() == nil:
			in.log.ErrorContext(ctx, "inbox: cannot read which questions have changed", "error", err)
			in.streams.refreshLater()
		}
	}
}

// serveEvents serves a stream of events: "question" with the name and key of one that has changed, and "refresh" where
// some may have been missed, as at the beginning.
func (in *Inbox) serveEvents(w http.ResponseWriter, r *http.Request) {
	p, err := in.person(r)
	if err != nil {
		in.refuseUnknown(w, r, err)
		return
	}
	v := in.streams.add(p)
	defer in.streams.remove(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events to itself
	send := func(text string) bool {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // a connection without deadlines has its server's
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send(fmt.Sprintf("retry: %d\n\n%s", 2000+rand.IntN(3000), changed{}.text())) {
		return
	}
	beat, life := time.NewTicker(beatTime), time.NewTimer(streamTime)
	defer beat.Stop()
	defer life.Stop()
	for {
		next := ": beat\n\n"
		select {
		case c := <-v.events:
			if next = c.text(); len(v.events) == 0 && v.missed.Swap(false) {
				next += changed{}.text()
			}
		case <-beat.C:
		case <-v.gone:
			send(fmt.Sprintf("retry: %d\n\n", awayTime.Milliseconds()))
			return
		case <-life.C:
			return
		case <-r.Context().Done():
			return
		}
		// The connection outlives the check at its beginning. Somebody who has signed out, or is in other groups now, must
		// come again before they see another event.
		if is, err := in.person(r); err != nil || is.Name != p.Name || !slices.Equal(is.Groups, p.Groups) || !send(next) {
			return
		}
	}
}

// text returns the event as it is sent.
func (c changed) text() string {
	data, err := json.Marshal(c)
	if err != nil || c == (changed{}) {
		return "event: refresh\ndata: {}\n\n"
	}
	return fmt.Sprintf("event: question\ndata: %s\n\n", data)
}
