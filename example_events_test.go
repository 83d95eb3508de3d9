package askback_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// A host learns later, and over another connection, that a call has ended: it polls with the cursor of its last poll.
func ExampleEventOptions() {
	srv := newServer(askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
		Events:    &askback.EventOptions{PollInterval: time.Minute},
	})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(_ context.Context, _ *askback.Call, in Deployment) (string, error) {
			return in.Service + " is deployed.", nil
		})
	defer runTasks(srv)()

	var cursor *string
	poll := func() {
		page := poll(srv, map[string]any{"name": "call.ended", "cursor": cursor})
		for _, e := range page.Events {
			fmt.Println(e.Name, "of", e.Data["tool"], e.Data["status"])
		}
		fmt.Println("next poll in", page.NextPollMs, "ms")
		cursor = &page.Cursor
	}
	poll()
	callTool(srv, nil, "deploy", Deployment{Service: "shop"})
	poll()
	// Output:
	// next poll in 60000 ms
	// shop is deployed.
	// call.ended of deploy completed
	// next poll in 60000 ms
}

// Somebody whose group is asked learns of it without having called anything.
func ExampleEventOptions_groups() {
	store := new(task.MemoryStore)
	srv := newServer(askback.Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return cmp.Or(extra.Header.Get("From"), "alice"), nil // in a service, whom the token names
		},
		Tasks: &askback.Tasks{Store: store},
		Desk:  new(askback.DeskOptions),
		Events: &askback.EventOptions{Groups: func(_ context.Context, principal string) ([]string, error) {
			return map[string][]string{"ada": {"release"}}[principal], nil
		}},
	})
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
		func(_ context.Context, call *askback.Call, in Deployment) (string, error) {
			return in.Service + " is deployed.", askback.Approve(call, "approve", askback.Question{
				Message: "Deploy " + in.Service + "?",
				For:     []string{askback.Group("release")},
			})
		})
	defer runTasks(srv)()

	cursor := poll(srv, map[string]any{"name": "question.asked"}, "From: ada").Cursor
	answer := atDesk(store, desk.Answer{By: desk.Person{Name: "ada", Groups: []string{"release"}}, Action: "accept"})
	callTool(srv, &client.Options{OnRound: func(ctx context.Context, r *client.Round) error {
		page := poll(srv, map[string]any{"name": "question.asked", "cursor": cursor}, "From: ada")
		for _, e := range page.Events {
			fmt.Println(e.Name, "by", e.Data["tool"])
		}
		cursor = page.Cursor
		return answer(ctx, r)
	}}, "deploy", Deployment{Service: "shop"})
	// Output:
	// question.asked by deploy
	// ada was asked: Deploy shop? {"service":"shop"}
	// shop is deployed.
}

// Filter has the arguments of those who follow incidents.
type Filter struct {
	Severity string `json:"severity,omitempty" jsonschema:"such as P1; all if it is left out"`
}

type Incident struct {
	Team     string `json:"team"`
	Severity string `json:"severity"`
}

// A server tells what happens elsewhere, to those who may know it. Whatever brings the incidents may bring one twice.
func ExampleAddEvent() {
	srv := newServer(askback.Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("From"), nil // in a service, whom the token names
		},
		Tasks:  &askback.Tasks{Store: new(task.MemoryStore)},
		Events: &askback.EventOptions{Keep: 24 * time.Hour, MaxPayload: 4 << 10},
	})
	teams := map[string]string{"ada": "shop", "bob": "bank"}
	var match askback.EventMatch[Filter, Incident] = func(
		_ context.Context, principal string, args Filter, i Incident,
	) (bool, error) {
		return teams[principal] == i.Team && (args.Severity == "" || args.Severity == i.Severity), nil
	}
	created := askback.AddEvent(srv, &askback.EventType{Name: "incident.created", Description: "It begins."}, match)
	emit := func(e *askback.Event[Incident], id string, i Incident, to ...string) {
		if err := e.Emit(context.Background(), id, i, to...); err != nil {
			fmt.Println(err)
		}
	}

	p1 := map[string]any{"name": "incident.created", "arguments": Filter{Severity: "P1"}}
	p1["cursor"] = poll(srv, p1, "From: ada").Cursor
	emit(created, "PD-7", Incident{Team: "shop", Severity: "P1"})
	emit(created, "PD-7", Incident{Team: "shop", Severity: "P1"})
	emit(created, "PD-8", Incident{Team: "shop", Severity: "P3"})
	emit(created, "PD-9", Incident{Team: "bank", Severity: "P1"})
	emit(created, "drill", Incident{Team: "shop", Severity: "P1"}, "ada") // and nobody else
	for _, e := range poll(srv, p1, "From: ada").Events {
		fmt.Println(e.EventID, e.Data)
	}
	// Output:
	// PD-7 map[severity:P1 team:shop]
	// drill map[severity:P1 team:shop]
}

// eventPage is the result of events/poll.
type eventPage struct {
	Events []struct {
		EventID string
		Name    string
		Data    map[string]string
	}
	Cursor     string
	NextPollMs int
}

// poll sends one events/poll, as a client that is not connected.
func poll(srv *askback.Server, params map[string]any, header ...string) (page eventPage) {
	request(srv, "events/poll", params, &page, header...)
	return page
}

// request sends a request, as a client that is not connected, and reads its result.
func request(srv *askback.Server, method string, params map[string]any, result any, header ...string) {
	params["_meta"] = map[string]any{
		mcp.MetaKeyProtocolVersion: "2026-07-28", mcp.MetaKeyClientCapabilities: map[string]any{},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		log.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
	for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": method,
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28"} {
		r.Header.Set(name, value)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	srv.HTTPHandler(nil).ServeHTTP(w, r)
	response := struct{ Result any }{result}
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil {
		log.Fatal(err)
	}
}

// A receiver is told that a call has ended, while no client is there. It has shown before that it wants to be told.
func ExampleWebhookOptions() {
	secret, told := client.NewEventSecret(), make(chan string, 1)
	receiver := httptest.NewTLSServer(&client.EventReceiver{
		Secrets: func(context.Context, string) ([]string, error) { return []string{secret}, nil },
		Receive: func(_ context.Context, _ string, page *client.EventPage, ended error) error {
			for _, e := range page.Events {
				told <- e.Name
			}
			return ended
		},
	})
	defer receiver.Close()
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		log.Fatal(err)
	}
	srv := newServer(askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Keys:      keys, // of seal.ParseRing, the same on all instances
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
		Events: &askback.EventOptions{Webhooks: &askback.WebhookOptions{
			UncheckedTransport: receiver.Client().Transport, // because this receiver is on this machine
		}},
	})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(_ context.Context, _ *askback.Call, in Deployment) (string, error) {
			return in.Service + " is deployed.", nil
		})
	defer runTasks(srv)()

	var subscription struct{ ID string } // or by client.Session.Subscribe
	request(srv, "events/subscribe", map[string]any{
		"name": "call.ended", "delivery": map[string]any{"url": receiver.URL, "secret": secret},
	}, &subscription)
	fmt.Println("subscribed:", strings.HasPrefix(subscription.ID, "sub_"))
	callTool(srv, nil, "deploy", Deployment{Service: "shop"})
	fmt.Println(<-told)
	// Output:
	// subscribed: true
	// shop is deployed.
	// call.ended
}
