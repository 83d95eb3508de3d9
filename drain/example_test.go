package drain_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- srv.RunTasks(ctx) }()

	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}); err != nil {
		log.Print(err)
	}
	stop()
	if err := <-worked; err != nil {
		log.Print(err)
	}
}
