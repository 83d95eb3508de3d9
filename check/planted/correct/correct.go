// Package correct has servers on which a checker must find nothing: servers of this library, in every home and with
// every option that changes what a client sees, and the server of package planted without a fault.
package correct

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// A Server is a correct server. Its bearer tokens are [planted.Alice] and [planted.Bob].
type Server struct {
	Name string
	TTL  time.Duration // of states, if they end soon enough to wait for it
	Once []string      // tools whose calls happen once

	// Start returns the endpoints of two replicas, which share what replicas share, and of a server of another
	// deployment. What it starts ends with ctx and the tests that wait for the group.
	Start func(ctx context.Context, group *sync.WaitGroup) (first, replica, elsewhere http.Handler, err error)
}

// shortTTL is the time of states that a checker waits for.
const shortTTL = 4 * time.Second

// Servers are all correct servers.
func Servers() []Server {
	servers := []Server{
		// The default, for which a checker waits half a minute.
		oursOver("sealed", func() askback.Options { return askback.Options{} }, askback.HTTPOptions{}),
		ours("short", func() askback.Options {
			return askback.Options{Limits: askback.Limits{RoundTTL: shortTTL, CallTTL: shortTTL}}
		}),
		ours("single-use", func() askback.Options { return askback.Options{ReplayGuard: new(state.MemoryGuard)} }),
		ours("bare-first-round", func() askback.Options { return askback.Options{BareFirstRound: true} }),
		ours("dual", stored(state.Options{Mode: state.Dual})),
		ours("stateless-first", stored(state.Options{Mode: state.StatelessFirst})),
		ours("overflow", stored(state.Options{Overflow: 1})),
		ours("plain-forms", func() askback.Options {
			return askback.Options{PlainForms: func(*mcp.Implementation) bool { return true }}
		}),
		ours("desk", func() askback.Options {
			return askback.Options{Desk: &askback.DeskOptions{Fallback: true, Wait: 20 * time.Millisecond}}
		}),
		oursOver("drafts", func() askback.Options { return askback.Options{} },
			askback.HTTPOptions{ReadTimeout: readTimeout, Drafts: true}),
	}
	servers[1].TTL, servers[2].Once = shortTTL, []string{"book", "greet"}
	for _, name := range planted.Seals {
		servers = append(servers, byHand("by-hand-"+name, planted.Options{Seal: name}))
	}
	for _, name := range planted.Refusals[1:] {
		servers = append(servers, byHand("by-hand-"+name, planted.Options{Refusal: name}))
	}
	servers = append(servers, byHand("by-hand-stream", planted.Options{Stream: true}),
		byHand("by-hand-once", planted.Options{ActsOnce: true}),
		byHand("by-hand-once-counted", planted.Options{ActsOnce: true, Seal: "counted", Format: "uuid"}))
	short := byHand("by-hand-short", planted.Options{TTL: shortTTL})
	short.TTL = shortTTL
	return append(servers, short)
}

// stored returns options with a store that replicas share.
func stored(with state.Options) func() askback.Options {
	return func() askback.Options {
		with := with
		with.Store = new(state.MemoryStore)
		return askback.Options{States: &with}
	}
}

func byHand(name string, o planted.Options) Server {
	return Server{Name: name, Once: []string{"redeem"},
		Start: func(context.Context, *sync.WaitGroup) (first, replica, elsewhere http.Handler, err error) {
			first, replica = planted.Replicas(o)
			return first, replica, planted.New(o), nil
		}}
}

// readTimeout is short, so that a checker need not wait for the end of half a request.
const readTimeout = 3 * time.Second

func ours(name string, options func() askback.Options) Server {
	return oursOver(name, options, askback.HTTPOptions{ReadTimeout: readTimeout})
}

func oursOver(name string, options func() askback.Options, web askback.HTTPOptions) Server {
	return Server{Name: name, Start: func(ctx context.Context, group *sync.WaitGroup) (first, replica,
		elsewhere http.Handler, err error) {
		deployment := func(replicas int) (handlers []http.Handler, err error) {
			ring, err := seal.NewRing(seal.NewKey(time.Now()))
			if err != nil {
				return nil, fmt.Errorf("making a key: %w", err)
			}
			o := options()
			o.Keys, o.Logger = ring, slog.New(slog.DiscardHandler)
			o.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
			o.Tasks.PollInterval = 50 * time.Millisecond
			for range replicas {
				own := o
				srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "ours", Version: "1.0.0"}, nil), &own)
				if err != nil {
					return nil, fmt.Errorf("making the server: %w", err)
				}
				addTargets(srv)
				if o.Desk != nil {
					addReview(srv)
				}
				group.Go(func() { _ = srv.RunTasks(ctx) })
				handlers = append(handlers, auth.RequireBearerToken(verify, nil)(srv.HTTPHandler(&web)))
			}
			return handlers, nil
		}
		both, err := deployment(2)
		if err != nil {
			return nil, nil, nil, err
		}
		other, err := deployment(1)
		if err != nil {
			return nil, nil, nil, err
		}
		return both[0], both[1], other[0], nil
	}}
}

func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	names := map[string]string{planted.Alice: "alice", planted.Bob: "bob"}
	if names[token] == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: names[token], Expiration: time.Now().Add(time.Hour)}, nil
}
