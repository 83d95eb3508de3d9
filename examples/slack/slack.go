package main

import (
	"context"
	"errors"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/slack"
	"github.com/askback-mcp/askback/state"
)

// config is what the environment says.
type config struct {
	token, secret string // of the app: SLACK_BOT_TOKEN and SLACK_SIGNING_SECRET
	channel       string // the ID of a channel of which the app is a member: SLACK_CHANNEL
	inbox         string // the URL of the page on which people answer, too: INBOX_URL; may be empty
	api           string // of the stand-in; empty for Slack
}

// newChat returns the channel of a desk. The store is the one of the tasks.
func newChat(people *desk.Desk, store state.Store, c config) (*chat.Chat, error) {
	if c.channel == "" {
		return nil, errors.New("SLACK_CHANNEL: want the ID of a channel, such as C0123456789")
	}
	app, err := slack.New(slack.Options{Token: c.token, SigningSecret: c.secret, API: c.api})
	if err != nil {
		return nil, err
	}
	return chat.Open(people, app, chat.Options{
		Name: "slack", Store: store, Person: person, Page: c.inbox,
		Channel: func(*desk.Question) string { return c.channel },
	})
}

// person returns whose account it is. The table stands for your own directory, which is asked for each answer, so that
// who has left a group no longer answers for it.
func person(_ context.Context, a chat.Account) (desk.Person, error) {
	editors := map[chat.Account]string{
		{Workspace: "T0EXAMPLE", User: "U0ADA"}: "ada",
		{Workspace: "T0EXAMPLE", User: "U0BOB"}: "bob",
	}
	if name, ok := editors[a]; ok {
		return desk.Person{Name: name, Groups: []string{"editors"}}, nil
	}
	return desk.Person{}, nil // nobody's; an error would say that the directory cannot tell now
}
