package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

type Bug struct {
	ID int `json:"id" jsonschema:"the bug to close"`
}

type Resolution struct {
	Resolution string `json:"resolution" jsonschema:"how the bug was resolved" enum:"Fixed|Won't Fix|Duplicate"`
}

// play serves a tool over HTTP, calls it, and answers its forms. It prints the questions
// and the tool's result.
func play[In any](name string, handler askback.ToolHandler[In, string], arguments In,
	answer func(q *client.Question) *mcp.ElicitResult) {
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: name}, handler)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()

	ctx := context.Background()
	caller := client.New(&client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", q.Message)
		return answer(q), nil
	}})
	session, err := caller.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
}

func accept(content map[string]any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

// A tool that asks one question.
func Example() {
	closeBug := func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if err != nil {
			return "", err // not answered yet, declined or cancelled
		}
		return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), nil
	}
	play("close_bug", closeBug, Bug{ID: 7}, func(*client.Question) *mcp.ElicitResult {
		return accept(map[string]any{"resolution": "Fixed"})
	})
	// Output:
	// asked: How was this bug resolved?
	// Bug #7 closed as Fixed.
}

// The handler runs from the top in every round; the step runs once.
func ExampleDo() {
	type approval struct {
		Approve bool `json:"approve" title:"Charge the card?"`
	}
	type email struct {
		Email string `json:"email" format:"email"`
	}
	pay := func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
		fmt.Println("round", call.Round())
		ok, err := askback.Elicit[approval](call, "approve", "This costs 42.")
		if err != nil {
			return "", err
		}
		receipt, err := askback.Do(ctx, call, "charge", func(ctx context.Context) (string, error) {
			fmt.Println("charged:", ok.Approve)
			return "receipt-1", nil // with call.IdempotencyKey("charge") for the bank
		})
		if err != nil {
			return "", err
		}
		to, err := askback.Elicit[email](call, "email", "Where shall the receipt go?")
		return receipt + " sent to " + to.Email, err
	}
	play("pay", pay, struct{}{}, func(q *client.Question) *mcp.ElicitResult {
		return accept(map[string]any{"approve": true, "email": "octocat@github.com"})
	})
	// Output:
	// round 1
	// asked: This costs 42.
	// round 2
	// charged: true
	// asked: Where shall the receipt go?
	// round 3
	// receipt-1 sent to octocat@github.com
}

// Several questions are asked in one round trip.
func ExampleElicit_together() {
	type name struct {
		Name string `json:"name"`
	}
	introduce := func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
		you, err1 := askback.Elicit[name](call, "you", "Who are you?")
		friend, err2 := askback.Elicit[name](call, "friend", "Who is your friend?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, meet %s, in round %d", you.Name, friend.Name, call.Round()), nil
	}
	play("introduce", introduce, struct{}{}, func(q *client.Question) *mcp.ElicitResult {
		return accept(map[string]any{"name": q.Key})
	})
	// Unordered output:
	// asked: Who are you?
	// asked: Who is your friend?
	// you, meet friend, in round 2
}

// A handler may continue without an answer.
func ExampleDeclinedError() {
	closeBug := func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
		text := "closed"
		_, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
			text, err = "left open: the user chose to "+declined.Action, nil
		}
		return text, err
	}
	play("close_bug", closeBug, Bug{ID: 7}, func(*client.Question) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "decline"}
	})
	// Output:
	// asked: How was this bug resolved?
	// left open: the user chose to decline
}
