// Command closebug is the server of README.md: its one tool asks how a bug was resolved before it closes it.
//
//	go run ./cmd/askback keys new askback.keys
//	go run ./examples/closebug
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/seal"
)

type Bug struct {
	ID int `json:"id"`
}

type Resolution struct {
	Resolution string `json:"resolution" enum:"Fixed|Won't Fix|Duplicate"`
}

func register(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			if err != nil {
				return "", err // not answered yet, declined or cancelled
			}
			err = call.Do(ctx, "close", func(ctx context.Context) error {
				return tracker.Close(ctx, in.ID, res.Resolution) // recorded: does not run again
			})
			return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), err
		})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)                     // a second signal ends the process at once
	keys, err := seal.File("askback.keys").Load(ctx) // the same keys on every instance
	check(err)
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: keys})
	check(err)
	register(srv)
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	check(err)
	log.Printf("listening on http://%s/mcp", listener.Addr())
	server := &http.Server{Handler: srv.HTTPHandler(nil), ReadHeaderTimeout: 10 * time.Second}
	// After a signal it tells load balancers, and finishes the requests that run.
	check(drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// tracker stands for your own system.
var tracker bugTracker

type bugTracker struct{}

func (bugTracker) Close(_ context.Context, id int, resolution string) error {
	log.Printf("bug %d is closed as %s", id, resolution)
	return nil
}
