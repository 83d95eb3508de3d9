package client_test

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
	"github.com/askback-mcp/askback/task"
)

// exampleTasks serves those tools of this package's tests that become tasks.
func exampleTasks() (url string, stop func()) {
	m := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{
		Tasks:  &askback.Tasks{Store: new(task.MemoryStore), Settings: task.Settings{PollInterval: 100 * time.Millisecond}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	registerTasks(srv)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.RunTasks(ctx) }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	return web.URL, func() {
		web.Close()
		cancel()
		<-done
	}
}

// A host starts a task and stores only its ID. The task waits for its answer without the host.
func ExampleSession_StartTask() {
	url, stop := exampleTasks()
	defer stop()
	ctx := context.Background()
	c := client.New(&client.Options{
		Form: func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			fmt.Printf("%s asks: %s\n", q.Server.Name, q.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
	})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		log.Fatal(err)
	}
	task, result, err := session.StartTask(ctx, &mcp.CallToolParams{Name: "greet"}, time.Hour)
	session.Close()
	if err != nil {
		log.Fatal(err)
	}
	if result != nil {
		log.Fatal("the server answered at once")
	}
	fmt.Println(task.Status)

	// Later, maybe in another process.
	session, err = c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	result, err = session.WaitTask(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// working
	// example asks: What is your name?
	// Hello octocat
}

// The task continues when the waiting ends.
func ExamplePendingError() {
	url, stop := exampleTasks()
	defer stop()
	session, err := client.New(nil).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "long"})
	if waited, ok := errors.AsType[*client.PendingError](err); ok {
		fmt.Println(waited.Err)
		// waited.Pending can be stored and resumed. If the result is no longer needed, cancel the task:
		if err := session.CancelTask(context.Background(), waited.Pending.TaskID); err != nil {
			log.Fatal(err)
		}
		_, err = session.WaitTask(context.Background(), waited.Pending.TaskID)
		fmt.Println(errors.Is(err, client.ErrTaskCancelled))
	}
	// Output:
	// context deadline exceeded
	// true
}

// A host asks its user on its own page. It shows the open questions, and sends the answers when they
// come.
func ExampleSession_AnswerTask() {
	url, stop := exampleTasks()
	defer stop()
	ctx := context.Background()
	c := client.New(&client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, client.ErrPark },
	})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "greet"})
	parked, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		log.Fatal(err)
	}

	task, err := session.GetTask(ctx, parked.Pending.TaskID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.Status, "for", task.Questions[0].Message)
	err = session.AnswerTask(ctx, task.ID, map[string]any{
		task.Questions[0].Key: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := session.WaitTask(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// input_required for What is your name?
	// Hello octocat
}
