// Command longjob is an MCP server with a job that takes longer than a host waits. The job goes on without its host,
// and after a restart of the server. A host that knows no tasks learns in words how to get the result.
//
//	go run ./cmd/askback keys new askback.keys
//	go run ./examples/longjob
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	wait := flag.Duration("wait", 45*time.Second, "how long a call waits for its result: less than hosts do")
	pace := flag.Duration("pace", 20*time.Second, "how long each part of the job takes")
	flag.Parse()
	keys, err := seal.File("askback.keys").Load(ctx) // the same keys on every instance
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, "jobs.db") // for several machines task/postgres
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	srv, err := newServer(keys, store, *wait, func(ctx context.Context, file string, part int) error {
		select { // stands for your own work
		case <-time.After(*pace):
			log.Printf("part %d of %s is loaded", part, file)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return err
	}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s/mcp", listener.Addr())
	server := &http.Server{Handler: srv.HTTPHandler(nil), ReadHeaderTimeout: 10 * time.Second}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return srv.RunTasks(ctx) })
	work.Go(func() error { return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}) })
	return work.Wait()
}

const parts = 3

type file struct {
	Name string `json:"name"`
}

// newServer returns a server with the tool import, whose parts load writes.
func newServer(keys *seal.Ring, store task.Store, wait time.Duration,
	load func(ctx context.Context, name string, part int) error) (*askback.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "warehouse", Version: "1.0.0"}, nil), &askback.Options{
		Keys:  keys,
		Tasks: &askback.Tasks{Store: store},
		Desk:  &askback.DeskOptions{Wait: wait},
	})
	if err != nil {
		return nil, err
	}
	srv.AddResultTool()
	askback.AddTaskTool(srv, &mcp.Tool{Name: "import", Description: "Import a file"}, &askback.TaskSupport{Always: true},
		func(ctx context.Context, call *askback.Call, in file) (string, error) {
			for part := range parts {
				step := fmt.Sprintf("part %d", part+1)
				if err := call.Progress(ctx, float64(part+1), parts, "loading "+in.Name); err != nil {
					return "", err
				}
				err := call.Do(ctx, step, func(ctx context.Context) error { return load(ctx, in.Name, part+1) })
				if err != nil {
					return "", err
				}
			}
			return in.Name + " is imported.", nil
		})
	return srv, nil
}
