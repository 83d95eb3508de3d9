// Command slack is an MCP server whose tool publishes a page once an editor has approved it, in a channel of Slack.
//
//	go run ./cmd/askback keys new askback.keys
//	export SLACK_BOT_TOKEN=xoxb-… SLACK_SIGNING_SECRET=… SLACK_CHANNEL=C… INBOX_URL=https://inbox.example.com
//	go run ./examples/slack
//
// It stands behind a proxy that verifies the tokens of MCP clients. The proxy sets the header X-User, and removes one
// that is sent to it. It passes on what Slack sends to /slack, the request URL of the app's interactivity. With -demo
// the server stands in for Slack itself.
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
	"github.com/askback-mcp/askback/desk"
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
	isDemo := flag.Bool("demo", false, "stand in for Slack")
	flag.Parse()
	load := seal.File("askback.keys").Load // the same keys on every instance
	if *isDemo {
		load = func(context.Context) (*seal.Ring, error) { return seal.NewRing(seal.NewKey(time.Now())) }
	}
	keys, err := load(ctx)
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, "pages.db") // for several machines task/postgres
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	people, err := desk.Open(store, nil)
	if err != nil {
		return err
	}
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	defer listener.Close()
	mux := http.NewServeMux()
	c := config{token: os.Getenv("SLACK_BOT_TOKEN"), secret: os.Getenv("SLACK_SIGNING_SECRET"),
		channel: os.Getenv("SLACK_CHANNEL"), inbox: os.Getenv("INBOX_URL")}
	if *isDemo {
		c = demo(mux, "http://"+listener.Addr().String())
	}
	talk, err := newChat(people, store, c)
	if err != nil {
		return err
	}
	srv, err := newServer(keys, store, talk.Notify)
	if err != nil {
		return err
	}
	mux.Handle("/slack", talk)
	mux.Handle("/", srv.HTTPHandler(nil))
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return talk.Run(ctx) })
	work.Go(func() error { return srv.RunTasks(ctx) })
	work.Go(func() error { return drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}) })
	return work.Wait()
}

// newServer returns a server that keeps its questions and notices in the store, which all instances share.
func newServer(keys *seal.Ring, store task.Store,
	notify func(context.Context, desk.Notice) error) (*askback.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "pages", Version: "1.0.0"}, nil), &askback.Options{
		Keys:      keys,
		Principal: user,
		Tasks:     &askback.Tasks{Store: store},
		Desk:      &askback.DeskOptions{Notify: notify},
	})
	if err != nil {
		return nil, err
	}
	register(srv)
	srv.AddResultTool() // for hosts without tasks
	return srv, nil
}

// user returns who sent a request, as the proxy says. An anonymous caller cannot ask a group.
func user(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	if names := extra.Header.Values("X-User"); len(names) == 1 && names[0] != "" {
		return names[0], nil
	}
	return "", errors.New("the proxy has not set the header X-User")
}

type page struct {
	Title string `json:"title"`
}

func register(srv *askback.Server) {
	askback.AddTaskTool(srv, &mcp.Tool{Name: "publish", Description: "Publish a page once an editor has approved it"}, nil,
		func(ctx context.Context, call *askback.Call, in page) (string, error) {
			err := askback.Approve(call, "approve", askback.Question{
				Message: fmt.Sprintf("Publish the page %q?", in.Title),
				For:     []string{askback.Group("editors")},
				Within:  8 * time.Hour,
			})
			if err != nil {
				return "", err
			}
			err = call.Do(ctx, "publish", func(context.Context) error { // stands for your own system
				log.Printf("%q is published", in.Title)
				return nil
			})
			return fmt.Sprintf("%q is published.", in.Title), err
		})
}
