package askback_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

type Release struct {
	Version string `json:"version"`
}

// Two of the group release approve a deployment. The caller is not one of them, even as a member of the group. If one
// of them declines, the question ends.
func ExampleApprove() {
	deploy := func(ctx context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message: "Deploy " + in.Version + "?",
			For:     []string{askback.Group("release")},
			Votes:   2,
			Within:  4 * time.Hour,
			Preview: "https://ci.example/releases/" + in.Version, // instead of the arguments
		})
		if err != nil {
			return "", err
		}
		err = call.Do(ctx, "deploy", func(context.Context) error { return nil })
		return in.Version + " is deployed.", err
	}
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	bob := desk.Person{Name: "bob", Groups: []string{"release", "oncall"}}
	callWithPeople(deploy, desk.Answer{By: ada, Action: "accept"}, desk.Answer{By: bob, Action: "accept"})
	// Output:
	// ada was asked: Deploy 4.2? https://ci.example/releases/4.2 {"version":"4.2"}
	// bob was asked: Deploy 4.2? https://ci.example/releases/4.2 {"version":"4.2"}
	// 4.2 is deployed.
}

// Slot is an hour for a deployment.
type Slot struct {
	Hour int `json:"hour" title:"Hour" minimum:"0" maximum:"23"`
}

// Other people fill in a form, with a deadline. Without a Schema it is the form of the struct, as Elicit asks it.
func ExampleElicitWith_people() {
	askback.MustForm[Slot]() // where the tool is added
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		slot, err := askback.ElicitWith[Slot](call, "slot", askback.Question{
			Message: "When shall " + in.Version + " be deployed?",
			For:     []string{askback.Group("release")},
			Within:  4 * time.Hour,
		})
		return fmt.Sprintf("%s will be deployed at %d:00.", in.Version, slot.Hour), err
	}
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	callWithPeople(deploy, desk.Answer{By: ada, Action: "accept", Content: []byte(`{"hour":22}`)})
	// Output:
	// ada was asked: When shall 4.2 be deployed? {"version":"4.2"}
	// 4.2 will be deployed at 22:00.
}

// A page for people may render what the author says is Markdown. What somebody else wrote is escaped, or left out.
func ExampleQuestion_markdown() {
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message:  "Deploy to **production**?",
			Preview:  "See [the release](https://ci.example/releases/" + url.PathEscape(in.Version) + ").",
			Markdown: true,
			For:      []string{askback.User("ada")},
		})
		return in.Version + " is deployed.", err
	}
	callWithPeople(deploy, desk.Answer{By: desk.Person{Name: "ada"}, Action: "accept"})
	// Output:
	// ada was asked: Deploy to **production**? See [the release](https://ci.example/releases/4.2). {"version":"4.2"}
	// 4.2 is deployed.
}

// If the deadline passes without a decision, somebody else is asked. A reminder and a default are written in the same
// way: the handler goes on after the error.
func ExampleUnansweredError() {
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message: "Deploy " + in.Version + "?",
			For:     []string{askback.Group("release")},
			Votes:   2,
			Within:  50 * time.Millisecond, // in a service hours
		})
		if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
			waited := late.Deadline.Sub(late.Asked)
			err = askback.Approve(call, "escalate", askback.Question{
				Message: fmt.Sprintf("Nobody has decided within %v. Deploy %s?", waited, in.Version),
				For:     []string{askback.Group("oncall"), askback.User("head of releases")},
			})
		}
		if err != nil {
			return "", err
		}
		return in.Version + " is deployed.", nil
	}
	dora := desk.Person{Name: "dora", Groups: []string{"oncall"}}
	callWithPeople(deploy, desk.Answer{By: dora, Action: "accept"})
	// Output:
	// dora was asked: Nobody has decided within 50ms. Deploy 4.2? {"version":"4.2"}
	// 4.2 is deployed.
}

// The result says who decided, and why.
func ExampleCall_Answers() {
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message: "Deploy " + in.Version + "?",
			For:     []string{askback.Group("release")},
			Votes:   2,
		})
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
			by := call.Answers(declined.Key)[0]
			return fmt.Sprintf("%s is not deployed: %s declined (%s), through the %s.", in.Version, by.Who, by.Why,
				by.Channel), nil
		}
		if err != nil {
			return "", err
		}
		receipt := call.Receipt("approve") // to be kept beside the release; this server signs none
		return in.Version + " is deployed." + receipt, nil
	}
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	bob := desk.Person{Name: "bob", Groups: []string{"release"}}
	callWithPeople(deploy, desk.Answer{By: ada, Action: "accept"},
		desk.Answer{By: bob, Action: "decline", Reason: "not on a Friday", Channel: "chat"})
	// Output:
	// ada was asked: Deploy 4.2? {"version":"4.2"}
	// bob was asked: Deploy 4.2? {"version":"4.2"}
	// 4.2 is not deployed: bob declined (not on a Friday), through the chat.
}

// A deployment begins with one machine, and goes on an hour later. Meanwhile nothing is held, and any instance may be
// the one that goes on.
func ExampleCall_Sleep() {
	hour := 20 * time.Millisecond // as long as an example may take
	playTask(nil, func(ctx context.Context, call *askback.Call, in Deployment) (string, error) {
		deploy := func(where string) error {
			return call.Do(ctx, where, func(context.Context) error {
				fmt.Println(in.Service, "is on", where)
				return nil
			})
		}
		if err := deploy("one machine"); err != nil {
			return "", err
		}
		if err := call.Sleep("watch it", hour); err != nil {
			return "", err
		}
		return "Deployed.", deploy("all machines")
	})
	// Output:
	// shop is on one machine
	// shop is on all machines
	// Deployed.
}

// A host that cannot show a form leaves its user without a question. With Fallback the question waits for the same user
// on the desk.
func ExampleDeskOptions() {
	store := new(task.MemoryStore)
	srv := newServer(askback.Options{
		Tasks:     &askback.Tasks{Store: store},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Desk: &askback.DeskOptions{
			Fallback: true,
			NotShown: 100 * time.Millisecond, // what is declined faster goes to the desk, too
			Wait:     time.Minute,            // for the result, where the host cannot take a task
		},
	})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(_ context.Context, call *askback.Call, in Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), err
		})
	people := atDesk(store, desk.Answer{
		By: desk.Person{Name: "carol"}, Action: "accept", Content: []byte(`{"resolution":"Fixed"}`),
	})
	defer runTasks(srv)()
	callTool(srv, &client.Options{OnRound: people}, "close_bug", Bug{ID: 7})
	// Output:
	// carol was asked: How was this bug resolved? {"id":7}
	// Bug #7 closed as Fixed.
}

// The audit says what each person said, through what and why, and what came of it.
func ExampleOptions_audit_people() {
	audit := func(_ context.Context, e askback.AuditEvent) {
		switch e.Kind {
		case askback.AuditVoted:
			fmt.Printf("%s: %s says %s through the %s: %s\n", e.Key, e.By, e.Action, e.Channel, e.Why)
		case askback.AuditDecided:
			fmt.Printf("%s: decided for %s: %s\n", e.Key, e.Principal, e.Action)
		case askback.AuditUnanswered:
			fmt.Printf("%s: unanswered by %s\n", e.Key, e.For)
		}
	}
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message: "Deploy " + in.Version + "?",
			For:     []string{askback.Group("release")},
			Within:  20 * time.Millisecond, // in a service hours
		})
		if _, late := errors.AsType[*askback.UnansweredError](err); late {
			err = askback.Approve(call, "escalate", askback.Question{
				Message: "Deploy " + in.Version + " all the same?",
				For:     []string{askback.Group("oncall")},
			})
		}
		return in.Version + " is deployed.", err
	}
	dora := desk.Person{Name: "dora", Groups: []string{"oncall"}}
	playDeployment(askback.Options{Audit: audit}, deploy,
		desk.Answer{By: dora, Action: "accept", Reason: "all tests pass", Channel: "chat"})
	// Output:
	// approve: unanswered by group:release
	// dora was asked: Deploy 4.2 all the same? {"version":"4.2"}
	// escalate: dora says accept through the chat: all tests pass
	// escalate: decided for carol: accept
	// 4.2 is deployed.
}

// How long people took to decide, and what went wrong in the store or on the way to whom it told, in metrics of one's
// own.
func ExampleOptions_observe_people() {
	observe := func(ctx context.Context, op *askback.Operation) (context.Context, func()) {
		switch op.Kind {
		case askback.OperationQuestion: // after op.Waited
			fmt.Println("question", op.Asked, "of", op.Target, "with a deadline:", !op.Deadline.IsZero(), op.Outcome)
		case askback.OperationStore: // for time.Since(op.Began)
			if op.Outcome == "failed" {
				fmt.Println("the store did not answer", op.Step)
			}
		case askback.OperationNotice:
			if op.Outcome == "given_up" {
				fmt.Println("nobody has taken the notice", op.Step, "of the task", op.Task)
			}
		}
		return ctx, func() {}
	}
	deploy := func(_ context.Context, call *askback.Call, in Release) (string, error) {
		err := askback.Approve(call, "approve", askback.Question{
			Message: "Deploy " + in.Version + "?",
			For:     []string{askback.Group("release")},
			Within:  4 * time.Hour,
		})
		return in.Version + " is deployed.", err
	}
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	playDeployment(askback.Options{Observe: observe}, deploy, desk.Answer{By: ada, Action: "accept"})
	// Output:
	// ada was asked: Deploy 4.2? {"version":"4.2"}
	// question [approve] of deploy with a deadline: true accept
	// 4.2 is deployed.
}

// callWithPeople has carol call a tool that deploys version 4.2, and people answer what it asks them.
func callWithPeople(deploy askback.ToolHandler[Release, string], answers ...desk.Answer) {
	playDeployment(askback.Options{}, deploy, answers...)
}

// playDeployment is callWithPeople on a server with further options.
func playDeployment(opts askback.Options, deploy askback.ToolHandler[Release, string], answers ...desk.Answer) {
	store := new(task.MemoryStore) // in a service one of task/sqlite or task/postgres
	opts.Tasks = &askback.Tasks{Store: store}
	opts.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil }
	if opts.Desk == nil {
		opts.Desk = new(askback.DeskOptions)
	}
	srv := newServer(opts)
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"}, deploy)
	defer runTasks(srv)()
	callTool(srv, &client.Options{OnRound: atDesk(store, answers...)}, "deploy", Release{"4.2"})
}

// runTasks runs the tasks of a server until stop is called.
func runTasks(srv *askback.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	return func() { cancel(); <-done }
}

// atDesk has people answer in turn, each the first question that is for them, as soon as the client learns that there
// is one.
func atDesk(store task.Store, answers ...desk.Answer) func(context.Context, *client.Round) error {
	d, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context, r *client.Round) error {
		if r.Task == nil || !strings.HasPrefix(r.Task.Message, "Waiting for") {
			return nil
		}
		for len(answers) > 0 {
			asked, err := answerFirst(ctx, d, answers[0])
			if !asked || err != nil {
				return err
			}
			answers = answers[1:]
		}
		return nil
	}
}

// answerFirst answers the first question that is for somebody, if there is one.
func answerFirst(ctx context.Context, d *desk.Desk, a desk.Answer) (asked bool, err error) {
	for q, err := range d.Waiting(ctx, desk.Waiting{As: &a.By}) {
		if err != nil {
			return false, err
		}
		if q, err = d.Question(ctx, q.Name, q.Key, &a.By); err != nil { // a list leaves out what is shown of the call
			return false, err
		}
		fmt.Println(a.By.Name, "was asked:", q.Message, strings.TrimSpace(q.Preview+" "+string(q.Arguments)))
		_, err = d.Answer(ctx, q.Name, q.Key, a)
		return true, err
	}
	return false, nil
}

// vault signs with a key that stays where it is, such as in a KMS. Package receipt has one for a key in a file.
type vault struct{ key ed25519.PrivateKey }

func (v vault) Sign(_ context.Context, statement []byte) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","kid":"2026","typ":"askback-receipt"}`)) + "." + encode(statement)
	return text + "." + encode(ed25519.Sign(v.key, []byte(text))), nil
}

// Decisions are signed by a key of the operator's own.
func ExampleReceiptSigner() {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	var signer askback.ReceiptSigner = vault{key}
	opts := askback.Options{Desk: &askback.DeskOptions{Receipts: signer}}
	signed, err := opts.Desk.Receipts.Sign(context.Background(), []byte(`{"version":1}`))
	fmt.Println(strings.Count(signed, "."), err)
	// Output: 2 <nil>
}
