package bridge

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// receiving is the middleware of the bridge's server. A call of a handler that is registered may be served past it.
func (b *Bridge) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		for !b.early.isOver() {
			news := b.owners.listen()
			until := b.waitsFor(method, req)
			if until == nil || until.Err() != nil {
				break
			}
			select {
			case <-until.Done():
			case <-news:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		b.find(ctx, req)
		result, err := next(ctx, method, req)
		if tell := tellings[method]; tell != nil && err == nil {
			return b.retell(result, tell)
		}
		return result, err
	}
}

// waitsFor is what a request waits for while the bridge starts, or nil.
func (b *Bridge) waitsFor(method string, req mcp.Request) context.Context {
	kind, name := kindResource, ""
	switch p := req.GetParams().(type) {
	case *mcp.InitializeParams, *mcp.DiscoverParams:
		return b.early.hello
	case *mcp.CallToolParamsRaw:
		kind, name = kindTool, p.Name
	case *mcp.GetPromptParams:
		kind, name = kindPrompt, p.Name
	case *mcp.ReadResourceParams:
		name = p.URI
	case *mcp.SubscribeParams:
		name = p.URI
	case *mcp.CompleteParams:
	default:
		if strings.HasSuffix(method, "/list") {
			return b.early.lists
		}
		return nil
	}
	if ownTools[name] || b.seen(kind, name) != nil {
		return nil
	}
	return b.early.started
}
