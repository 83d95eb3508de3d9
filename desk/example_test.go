package desk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Whoever runs the store of a server sees what waits in it, and for what.
func ExampleDesk_List() {
	ctx := context.Background()
	d := deskWithATask(ctx)
	for t, err := range d.List(ctx, task.Filter{Statuses: []task.Status{task.InputRequired}}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, q := range t.Questions {
			fmt.Printf("%s waits for %s, which is %s: %s\n", t.Target, q.Key, q.Method, q.Message)
		}
	}
	// Output: deploy waits for window, which is elicitation/create: When shall it go out?
}

// Who cancelled a task and why is kept with it. Its client sees that the operator did.
func ExampleDesk_Cancel() {
	ctx := context.Background()
	d := deskWithATask(ctx)
	var name string
	for t, err := range d.List(ctx, task.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		name = t.Name // such as 23WGRGG6Q7O2Y3S3GYIXBCT2UE; the first six characters are enough
	}
	t, err := d.Cancel(ctx, name, desk.Cancellation{By: "alice", Reason: "shop is being replaced"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is %s. The client sees: %s\n", t.Target, t.Status, t.Message)

	t, err = d.Show(ctx, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("It was %s: %s.\n", t.Cancellation.By, t.Cancellation.Reason)
	// Output:
	// deploy is cancelled. The client sees: The task was cancelled by the operator of the server.
	// It was alice: shop is being replaced.
}

// Show has all that is known of one task.
func ExampleDesk_Show() {
	ctx := context.Background()
	d := deskWithATask(ctx)
	show := func(t *desk.Task) {
		fmt.Printf("%s of %q, with %d question\n", t.Method, t.Principal, len(t.Questions))
	}
	for listed := range d.List(ctx, task.Filter{Targets: []string{"deploy"}}) {
		t, err := d.Show(ctx, listed.Name[:6])
		if err != nil {
			log.Fatal(err)
		}
		show(t)
	}
	// Output: tools/call of "", with 1 question
}

func ExampleOpen() {
	store := new(task.MemoryStore) // or that of task/sqlite or task/postgres, which a server in another process has open
	d, err := desk.Open(store, &desk.Options{StoreTimeout: 20 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	waiting := func(d *desk.Desk) (n int) {
		for _, err := range d.List(context.Background(), task.Filter{Statuses: []task.Status{task.InputRequired}}) {
			if err != nil {
				log.Fatal(err)
			}
			n++
		}
		return n
	}
	fmt.Println(waiting(d), "tasks wait")
	// Output: 0 tasks wait
}

type deployment struct {
	Service string `json:"service"`
}

type window struct {
	Hour int `json:"hour"`
}

// deskWithATask returns a desk on a store with a task that waits for an answer.
func deskWithATask(ctx context.Context) *desk.Desk {
	store := new(task.MemoryStore)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1.0.0"}, nil),
		&askback.Options{Tasks: &askback.Tasks{Store: store}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(_ context.Context, call *askback.Call, in deployment) (string, error) {
			_, err := askback.Elicit[window](call, "window", "When shall it go out?")
			return in.Service, err
		})
	running, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- srv.RunTasks(running) }()
	defer func() { stop(); <-done }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	park := func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark }
	session, err := client.New(&client.Options{Form: park}).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	t, _, err := session.StartTask(ctx, &mcp.CallToolParams{Name: "deploy", Arguments: deployment{"shop"}}, 0)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.WaitTask(ctx, t.ID); !errors.Is(err, client.ErrPark) {
		log.Fatal(err)
	}
	d, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	return d
}
