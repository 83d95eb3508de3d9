package askback_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// A program of the operator's is told what becomes of each question. Here it also answers, where another would send a
// message.
func ExampleDeskOptions_notify() {
	store := new(task.MemoryStore)
	people, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	told := make(chan string, 10)
	srv := newServer(askback.Options{
		Tasks: &askback.Tasks{Store: store},
		Desk: &askback.DeskOptions{
			Remind: 0.5, // when half of the time until the deadline has passed
			Notify: func(ctx context.Context, n desk.Notice) error {
				told <- fmt.Sprintf("%s: %s asks %v: %s", n.Kind, n.Target, n.For, n.Message)
				if n.Kind != task.NoticeAsked {
					return nil
				}
				yes := desk.Answer{By: desk.Person{Name: "ada"}, Action: "accept"}
				_, err := people.Answer(ctx, n.Name, n.Key, yes)
				return err // it is told again
			},
		},
	})
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			err := askback.Approve(call, "approve", askback.Question{
				Message: "Deploy 4.2?", For: []string{askback.User("ada")}, Within: time.Hour,
			})
			return "4.2 is deployed.", err
		})
	defer runTasks(srv)()
	callTool(srv, nil, "deploy", struct{}{})
	for range 3 {
		fmt.Println(<-told)
	}
	// Output:
	// 4.2 is deployed.
	// asked: deploy asks [user:ada]: Deploy 4.2?
	// decided: deploy asks [user:ada]: Deploy 4.2?
	// ended: deploy asks [user:ada]: Deploy 4.2?
}
