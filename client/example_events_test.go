package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// A host asks where the log of its caller is, goes away, and reads later what has become of the calls meanwhile. It
// keeps the cursor for the next time.
func ExampleSession_EventPages() {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Events: new(askback.EventOptions),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, &askback.TaskSupport{Required: true},
		func(context.Context, *askback.Call, struct{}) (string, error) { return "deployed", nil })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	defer func() { stop(); <-done }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	session, err := client.New(nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	now, err := session.PollEvents(ctx, &client.EventPoll{Name: "call.ended"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "deploy"}); err != nil {
		log.Fatal(err)
	}
	// Later, maybe in another process.
	since := client.EventPoll{Name: "call.ended", Arguments: map[string]any{"tool": "deploy"}, Cursor: now.Cursor}
	var page *client.EventPage
	for page, err = range session.EventPages(ctx, since) {
		break // or wait for the next page
	}
	if err != nil {
		log.Fatal(err)
	}
	tell := func(e *client.Event) { fmt.Println(e.Name) }
	for _, e := range page.Events {
		tell(e)
	}
	// Output: call.ended
}

// A host has events posted to its endpoint, where a receiver verifies them. Here the endpoint is on the same machine.
// The server allows that for this example alone.
func ExampleEventReceiver() {
	secret := client.NewEventSecret()
	arrived := make(chan string)
	endpoint := httptest.NewTLSServer(&client.EventReceiver{
		Secrets: func(ctx context.Context, id string) ([]string, error) { return []string{secret}, nil },
		Receive: func(ctx context.Context, id string, page *client.EventPage, ended error) error {
			for _, e := range page.Events { // store them, and the page's Cursor
				arrived <- e.Name
			}
			return nil
		},
	})
	defer endpoint.Close()
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		log.Fatal(err)
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Keys: keys,
		Events:    &askback.EventOptions{Webhooks: &askback.WebhookOptions{UncheckedTransport: endpoint.Client().Transport}},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, &askback.TaskSupport{Required: true},
		func(context.Context, *askback.Call, struct{}) (string, error) { return "deployed", nil })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	defer func() { stop(); <-done }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	session, err := client.New(nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	sub := &client.EventSubscription{Name: "call.ended", URL: endpoint.URL + "/hooks/calls", Secret: secret}
	grant, err := session.Subscribe(ctx, sub) // again before grant.RefreshBefore, with the last Cursor
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("subscribed:", grant.ID != "")
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "deploy"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-arrived)
	if err := session.Unsubscribe(ctx, sub); err != nil {
		log.Fatal(err)
	}
	// Output:
	// subscribed: true
	// call.ended
}

// A host that stays connected is told at once what becomes of the calls, as long as it wants to know.
func ExampleSession_StreamEvents() {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Events: new(askback.EventOptions),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, &askback.TaskSupport{Required: true},
		func(context.Context, *askback.Call, struct{}) (string, error) { return "deployed", nil })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	defer func() { stop(); <-done }()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	session, err := client.New(nil).Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	called := false
	for page, err := range session.StreamEvents(ctx, client.EventPoll{Name: "call.ended"}) {
		if err != nil {
			log.Fatal(err)
		}
		if !called { // the first page says that the stream is open
			called = true
			if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "deploy"}); err != nil {
				log.Fatal(err)
			}
		}
		if len(page.Events) > 0 {
			fmt.Println(page.Events[0].Name)
			break
		}
	}
	// Output: call.ended
}
