package slack_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/slack"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// Questions are posted to a channel, and two accounts may answer them.
func Example() {
	store := new(task.MemoryStore)
	people, err := desk.Open(store, nil)
	if err != nil {
		panic(err)
	}
	app, err := slack.New(slack.Options{Token: "xoxb-…", SigningSecret: "the app's signing secret"})
	fmt.Println(err) // "…" is in no token
	app, err = slack.New(slack.Options{Token: "xoxb-123", SigningSecret: "the app's signing secret"})
	if err != nil {
		panic(err)
	}
	talk, err := chat.Open(people, app, chat.Options{
		Name:  "slack",
		Store: new(state.MemoryStore), // of several instances the store of the tasks
		Person: func(_ context.Context, a chat.Account) (desk.Person, error) {
			switch a { // your own directory
			case chat.Account{Workspace: "T0123", User: "U0ADA"}:
				return desk.Person{Name: "ada", Groups: []string{"editors"}}, nil
			}
			return desk.Person{}, nil // nobody has this account
		},
		Channel: func(*desk.Question) string { return "C0123" },
		Page:    "https://inbox.example.com/",
	})
	if err != nil {
		panic(err)
	}
	_ = &askback.Options{Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Notify: talk.Notify}}
	http.Handle("/slack", talk) // the request URL of the app's interactivity
	go func() { _ = talk.Run(context.Background()) }()
	// Output: slack: Options.Token must be the bot token of the app, which begins with "xoxb-"
}
