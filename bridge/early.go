package bridge

import (
	"cmp"
	"context"
	"time"
)

// A host that starts the bridge waits a few seconds for its first answer, and a server behind may need longer to start.
// So the bridge is there at once, and says what its servers offer as soon as it knows:
//
//	initialize, server/discover    wait up to a second, for the instructions of the servers
//	lists                          wait up to Options.Lists, and are then what is known; hosts hear of what comes later
//	calls, reads and the like      wait for their server, or for the end of the start

// helloTime is how long a host waits to hear who the bridge is, while its servers start.
const helloTime = time.Second

// early says how long requests of hosts wait for the servers behind: until one of its contexts is done.
type early struct {
	hello, lists, started context.Context
	over                  context.CancelFunc // the servers have said what they offer
}

func newEarly(lists time.Duration) *early {
	e := new(early)
	e.started, e.over = context.WithCancel(context.Background())
	after := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(e.started, d)
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	lists = cmp.Or(lists, 5*time.Second)
	e.hello, e.lists = after(min(lists, helloTime)), after(lists)
	return e
}

// isOver reports whether the servers that are there have said what they offer.
func (e *early) isOver() bool { return e.started.Err() != nil }
