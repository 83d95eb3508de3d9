package desk_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Ada has approved a call, and the rules of the server let the same call of carol pass for a while. She sees that, and
// ends it.
func ExampleDesk_Remembered() {
	ctx := context.Background()
	store := new(task.MemoryStore)
	d, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	ada := desk.Person{Name: "ada"}
	approveACall(ctx, store, d, ada)
	var first *desk.Remembered
	for r, err := range d.Remembered(ctx, &ada) {
		if err != nil {
			log.Fatal(err)
		}
		first = r
		fmt.Printf("%s may call %s with %s %d more times, says %s.\n", r.Caller, r.Tool, r.Excerpt.Begin, r.Left, r.By[0].Who)
	}
	r, err := d.Forget(ctx, first.Name, &ada) // 64 hexadecimal digits; the first six are enough
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Tool, "is asked for again.")
	// Output:
	// carol may call deploy with {"service":"shop"} 5 more times, says ada.
	// deploy is asked for again.
}

// approveACall has carol call a tool, and somebody approve the call.
func approveACall(ctx context.Context, store task.Store, d *desk.Desk, by desk.Person) {
	rules := func(context.Context, *askback.ToolCall) *askback.Verdict {
		return &askback.Verdict{Action: askback.RuleAsk, For: []string{askback.User(by.Name)}, Remember: time.Hour, Uses: 5,
			Digest: "1"}
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Rules: rules},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"}, func(context.Context, *askback.Call, deployment) (string, error) {
		return "deployed", nil
	})
	running, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- srv.RunTasks(running) }()
	defer func() { stop(); <-done }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	answer := func(ctx context.Context, _ *client.Round) error {
		for q, err := range d.Waiting(ctx, desk.Waiting{As: &by}) {
			if err == nil {
				_, err = d.Answer(ctx, q.Name, q.Key, desk.Answer{By: by, Action: "accept"})
			}
			return err
		}
		return nil
	}
	session, err := client.New(&client.Options{OnRound: answer}).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "deploy", Arguments: deployment{"shop"}}); err != nil {
		log.Fatal(err)
	}
}
