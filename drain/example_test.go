package drain_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/task"
)

// One of several instances behind a load balancer, which stops with SIGTERM.
func Example() {
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}})
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(srv); err != nil {
		log.Fatal(err)
	}
}

func serve(srv *askback.Server) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	listener, err := drain.Listen(":8080")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	work, ctx := errgroup.WithContext(ctx)             // golang.org/x/sync/errgroup
	work.Go(func() error { return srv.RunTasks(ctx) }) // gives its leases back when ctx is done
	work.Go(func() error {
		return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready})
	})
	return work.Wait() // only now close the store of the tasks
}
