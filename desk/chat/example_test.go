package chat_test

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/chat"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// bulletin is a chat of one's own: all that another chat needs is here.
type bulletin struct {
	secret string // what the chat sends with each request
	// send posts a text, in place of an earlier one unless that is empty, and returns its ID.
	send func(ctx context.Context, channel, id, text string, buttons map[string]string) (string, error)
}

// Post implements chat.Service.
func (b *bulletin) Post(ctx context.Context, m *chat.Message) (ref string, err error) {
	return b.send(ctx, m.Channel, "", b.text(m), b.buttons(m))
}

// Update implements chat.Service. It returns chat.ErrGone if the chat says that the message has been removed.
func (b *bulletin) Update(ctx context.Context, ref string, m *chat.Message) error {
	_, err := b.send(ctx, m.Channel, ref, b.text(m), b.buttons(m))
	return err
}

// text is for a chat without markup. One with markup has to escape the texts.
func (b *bulletin) text(m *chat.Message) string {
	lines := []string{m.Title, m.Text, m.Preview, m.Arguments}
	for _, f := range m.Facts {
		lines = append(lines, f.Name+": "+f.Value)
	}
	return strings.Join(append(lines, m.Standing, m.Link), "\n")
}

// buttons has what each button sends. A question with a form is answered on its page.
func (b *bulletin) buttons(m *chat.Message) map[string]string {
	if !m.Open || m.Form != nil || m.PageOnly {
		return nil
	}
	all := make(map[string]string)
	for _, action := range []string{"accept", "decline"} {
		raw, err := json.Marshal(pressed{m.Name, m.Key, action})
		if err != nil {
			return nil
		}
		all[action] = string(raw)
	}
	return all
}

type pressed struct{ Name, Key, Action string }

// Receive implements chat.Service. Only a request with the secret is the chat's.
func (b *bulletin) Receive(r *http.Request) (*chat.Click, error) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Secret")), []byte(b.secret)) != 1 {
		return nil, errors.New("bulletin: the request has another secret")
	}
	var in struct {
		ID, Workspace, User string
		Button              pressed
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, fmt.Errorf("bulletin: a request: %w", err)
	}
	return &chat.Click{
		ID: in.ID, Account: chat.Account{Workspace: in.Workspace, User: in.User},
		Name: in.Button.Name, Key: in.Button.Key, Answer: desk.Answer{Action: in.Button.Action},
		Reply: func(_ context.Context, w http.ResponseWriter, r *chat.Reply) error {
			return json.NewEncoder(w).Encode(map[string]string{"tell": r.Refused}) // to this user alone
		},
	}, nil
}

// Another chat is a type with three methods.
func ExampleService() {
	b := &bulletin{secret: "…", send: func(context.Context, string, string, string, map[string]string) (string, error) {
		return "1", nil // in place of a request to the chat
	}}
	people, err := desk.Open(new(task.MemoryStore), nil)
	if err != nil {
		panic(err)
	}
	talk, err := chat.Open(people, b, chat.Options{
		Name: "bulletin", Store: new(state.MemoryStore),
		Channel: func(q *desk.Question) string { return strings.Join(q.For, " ") },
		Person: func(_ context.Context, a chat.Account) (desk.Person, error) {
			return desk.Person{}, nil // nobody has this account
		},
	})
	if err != nil {
		panic(err)
	}
	for _, secret := range []string{"…", "guessed"} {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"ID":"1","User":"eve",
			"Button":{"Name":"NAME42","Key":"approve","Action":"accept"}}`))
		req.Header.Set("Secret", secret)
		w := httptest.NewRecorder()
		talk.ServeHTTP(w, req)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 {"tell":"Nothing was answered: your account here is not known to the server as a person's."}
	//
	// 401 the request cannot be verified
}
