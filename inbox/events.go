package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// The times of streams and of the loop that asks for changes.
const (
	changesEvery = time.Second
	beatTime     = 15 * time.Second
	writeTime    = 10 * time.Second
	streamTime   = 15 * time.Minute // then the browser comes again, through the proxy that signs people in
	awayTime     = time.Minute      // until a stream comes again that had to go
)

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
