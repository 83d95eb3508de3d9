package desk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// A program shows a person what waits for them.
func ExampleDesk_Waiting() {
	ctx := context.Background()
	d, _ := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	for q, err := range d.Waiting(ctx, desk.Waiting{As: &alice, ByDeadline: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s of %s asks %v for %d votes: %s\n", q.Target, q.Principal, q.For, q.Votes, q.Message)
	}
	// Output: deploy of carol asks [group:release] for 2 votes: Deploy shop?
}

// Two must accept. Whoever comes later is told who was first.
func ExampleDesk_Answer() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	for _, who := range []string{"alice", "bob", "dave"} {
		q, err := d.Answer(ctx, name, "approval", desk.Answer{
			By:     desk.Person{Name: who, Groups: []string{"release"}}, // as the program has just found out
			Action: "accept", Reason: "It runs on staging.", Channel: "chat",
		})
		closed, late := errors.AsType[*desk.ClosedError](err)
		switch {
		case late && closed.Decision != nil:
			fmt.Printf("%s comes too late: %s said %s\n", who, closed.Decision.By[0].Who, closed.Decision.Action)
		case err != nil:
			log.Fatal(err)
		case q.Decision == nil:
			fmt.Printf("%s is vote %d of %d\n", who, len(q.Count), q.Votes)
		default:
			fmt.Printf("%s is the last: %s\n", who, q.Decision.Action)
		}
	}
	// Output:
	// alice is vote 1 of 2
	// bob is the last: accept
	// dave comes too late: alice said accept
}

// What a desk cannot take says what is wrong with it, and the question stays open.
func ExampleInvalidError() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	_, err := d.Answer(ctx, name, "approval", desk.Answer{
		By: desk.Person{Name: "alice", Groups: []string{"release"}}, Action: "maybe",
	})
	if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
		fmt.Println(invalid.Reason)
	}
	// Output: the action must be "accept", "decline" or "cancel"
}

// Nobody answers what their own call asks.
func ExampleErrOwnCall() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	carol := desk.Person{Name: "carol", Groups: []string{"release"}}
	_, err := d.Answer(ctx, name, "approval", desk.Answer{By: carol, Action: "accept"})
	fmt.Println(errors.Is(err, desk.ErrOwnCall))
	// Output: true
}

// What a person has answered stays in their list, and what their calls have asked in another one.
func ExampleDesk_Answered() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	if _, err := d.Answer(ctx, name, "approval", desk.Answer{By: alice, Action: "decline"}); err != nil {
		log.Fatal(err)
	}
	for q, err := range d.Answered(ctx, desk.Person{Name: "alice"}) { // who has left the group
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Message, q.Summary())
	}
	// Output: Deploy shop? declined by alice
}

// Whose call asks a question sees what becomes of it.
func ExampleDesk_Began() {
	ctx := context.Background()
	d, _ := deskWithAQuestion(ctx)
	for q, err := range d.Began(ctx, desk.Person{Name: "carol"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Message, q.Status, len(q.Count), "of", q.Votes)
	}
	// Output: Deploy shop? open 0 of 2
}

// One loop tells all who look at a page what changes for them.
func ExampleDesk_Changes() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	d, name := deskWithAQuestion(ctx)
	viewers := []desk.Person{{Name: "carol"}, {Name: "bob", Groups: []string{"release"}}, {Name: "mallory"}}
	time.AfterFunc(500*time.Millisecond, func() {
		alice := desk.Person{Name: "alice", Groups: []string{"release"}}
		if _, err := d.Answer(ctx, name, "approval", desk.Answer{By: alice, Action: "accept"}); err != nil {
			log.Print(err)
		}
	})
	for q, err := range d.Changes(ctx, time.Second) {
		if err != nil {
			log.Print(err) // and it goes on
			continue
		}
		for _, p := range viewers {
			if q.Concerns(p) {
				fmt.Println(p.Name, "sees", len(q.Count), "of", q.Votes)
			}
		}
		stop()
	}
	// Output:
	// carol sees 1 of 2
	// bob sees 1 of 2
}

// A page shows the form only to those who may answer.
func ExampleQuestion_May() {
	ctx := context.Background()
	d, _ := deskWithAQuestion(ctx)
	carol := desk.Person{Name: "carol", Groups: []string{"release"}}
	for q, err := range d.Began(ctx, carol) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Concerns(carol), q.May(carol))
	}
	// Output: true the call is your own: somebody else must answer
}

// Arguments of more than 32 KB are not on a card, and can be read by themselves.
func ExampleDesk_Arguments() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	q, err := d.Question(ctx, name, "approval", &alice)
	if err != nil {
		log.Fatal(err)
	}
	show := func(e *desk.Excerpt) { fmt.Printf("%s… (%d bytes, SHA-256 %s)\n", e.Begin, e.Size, e.SHA256) }
	if q.Excerpt != nil {
		show(q.Excerpt)
	}
	all, err := d.Arguments(ctx, name, "approval", &alice)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", all)
	// Output: {"service":"shop"}
}

// A card has all that a person needs for a decision.
func ExampleDesk_Question() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	q, err := d.Question(ctx, name, "approval", &alice)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Message, "It is the question", q.AuthorKey, "of", q.Target+".")
	if q.Preview != "" && !q.Markdown { // otherwise it is to be rendered, as q.Message is
		fmt.Println(q.Preview)
	}
	fmt.Printf("It was called with %s.\n", q.Arguments)
	if q.Shown != "" { // the server of this example has stored none
		fmt.Println("Whoever answers has seen", q.Shown)
	}
	if q.Changed {
		fmt.Println("The tool is not what you accepted last.")
	}
	if q.Fallback {
		fmt.Println("Your host could not ask you.")
	}
	if q.Proposal != nil {
		fmt.Printf("%d of %d have accepted with %s.\n", len(q.Count), q.Votes, q.Proposal)
	}
	if q.Progress != "" {
		fmt.Println("It is decided, and the task says:", q.Progress)
	}
	for _, name := range q.Equal {
		fmt.Println("An equal call waits, too:", name)
	}
	log.Printf("%s of the call %s has waited for %v", q.Name, q.Call, time.Since(q.Asked))
	// Output:
	// Deploy shop? It is the question approval of deploy.
	// It was called with {"service":"shop"}.
}

// All that a task has asked, and what has become of it.
func ExampleDesk_Questions() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	questions, err := d.Questions(ctx, name, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range questions {
		fmt.Println(q.Key, q.Status)
		for _, v := range append(q.Earlier, q.Count...) {
			show := func(v desk.Vote) { fmt.Println(v.Who, v.Action, v.Why) }
			show(v)
		}
		if d := q.Decision; d != nil {
			show := func(d desk.Decision) { fmt.Println(d.Action, len(d.By)) }
			show(*d)
		}
	}
	// Output: approval open
}

// Others see that somebody is about to answer, and can answer all the same.
func ExampleDesk_Claim() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	q, err := d.Claim(ctx, name, "approval", alice, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	show := func(c desk.Claim) { fmt.Printf("%s answers within %v\n", c.By, time.Until(c.Until).Round(time.Hour)) }
	show(*q.Claim)
	// Output: alice answers within 1h0m0s
}

// A question that somebody was about to answer goes to somebody else.
func ExampleDesk_HandOver() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	q, err := d.HandOver(ctx, name, "approval", alice, "bob", time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	show := func(e desk.Event) { fmt.Println(e.Who, e.Kind, e.Text[:8]) }
	for _, e := range q.Events {
		show(e)
	}
	// Output: alice handed over to "bob"
}

// Who may answer can say that it takes longer.
func ExampleDesk_Extend() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	q, err := d.Extend(ctx, name, "approval", alice, time.Now().Add(8*time.Hour), "We meet at noon.")
	if err != nil {
		log.Fatal(err)
	}
	show := func(q *desk.Question) { fmt.Println(time.Until(q.Deadline).Round(time.Hour)) }
	show(q)
	// Output: 8h0m0s
}

// deskWithAQuestion returns a desk on a store with a task that waits for people, and the name of the task.
func deskWithAQuestion(ctx context.Context) (*desk.Desk, string) {
	const params = `{"mode":"form","message":"Deploy shop?","requestedSchema":{"type":"object","properties":{}}}`
	content, err := stored.Encode(&stored.Asking{
		Key: "approval", Digest: make([]byte, 16), Method: input.MethodElicit, Params: json.RawMessage(params), Votes: 2,
	})
	if err != nil {
		log.Fatal(err)
	}
	store := new(task.MemoryStore)
	t := &task.Task{ID: "ID", Principal: "carol", Target: "deploy", Status: task.Working}
	call := []byte(`{"version":1,"call":"ID","can":0,"params":{"name":"deploy","arguments":{"service":"shop"}}}`)
	if err := store.Create(ctx, t, 4*time.Hour, time.Minute, call, nil, task.Quota{}); err != nil {
		log.Fatal(err)
	}
	t.Status = task.InputRequired
	q := &task.Question{Key: "approval", For: []string{"group:release"}, Content: content, Within: 4 * time.Hour}
	if err := store.Update(ctx, t, task.Update{Leased: true, Due: -1, Ask: []*task.Question{q}}); err != nil {
		log.Fatal(err)
	}
	d, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	return d, task.Name(t.ID)
}

// A program gives the receipt of a decision to a person who may read the question.
func ExampleDesk_Receipt() {
	ctx := context.Background()
	d, name := deskWithAQuestion(ctx)
	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
	var receipt *desk.Receipt
	receipt, err := d.Receipt(ctx, name, "approval", &alice)
	if errors.Is(err, desk.ErrNoReceipt) {
		fmt.Println("There is none yet:", receipt)
	}
	// Output: There is none yet: <nil>
}
