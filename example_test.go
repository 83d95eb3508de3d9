package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
)

type Bug struct {
	ID int `json:"id" jsonschema:"the bug to close"`
}

type Resolution struct {
	Resolution string `json:"resolution" jsonschema:"how the bug was resolved" enum:"Fixed|Won't Fix|Duplicate"`
}

// A server with one tool that asks, over HTTP. Every instance that has the same key
// file can serve every round.
func Example() {
	text, err := os.ReadFile("askback.keys") // made by: askback keys new
	if err != nil {
		log.Fatal(err)
	}
	keys, err := seal.ParseRing(string(text))
	if err != nil {
		log.Fatal(err)
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, in Bug) (*mcp.CallToolResult, any, error) {
			res, err := askback.Elicit[Resolution](ctx, call, "resolution", "How was this bug resolved?")
			if err != nil {
				return nil, nil, err // not answered yet, declined or cancelled
			}
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution)},
			}}, nil, nil
		})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", srv.HTTPHandler(nil)))
}

func charge(ctx context.Context, amount int, idempotencyKey string) (string, error) {
	return "receipt-1", nil
}

// A step runs once, whatever the client repeats: its result is recorded.
func ExampleDo() {
	type approval struct {
		Approve bool `json:"approve" title:"Charge the card?"`
	}
	pay := func(ctx context.Context, call *askback.Call, amount int) (*mcp.CallToolResult, any, error) {
		ok, err := askback.Elicit[approval](ctx, call, "approve", fmt.Sprintf("This costs %d.", amount))
		if err != nil || !ok.Approve {
			return nil, nil, err
		}
		receipt, err := askback.Do(ctx, call, "charge", func(ctx context.Context) (string, error) {
			return charge(ctx, amount, call.IdempotencyKey("charge"))
		})
		if err != nil {
			return nil, nil, err
		}
		// Asking after a step is fine: the charge is not repeated when the answer comes.
		_, err = askback.Elicit[Resolution](ctx, call, "more", "And what else?")
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: receipt}}}, nil, err
	}
	_ = pay
}

// Several questions cost one round trip.
func ExampleCall_Ask() {
	type contact struct {
		Email string `json:"email" format:"email"`
	}
	handler := func(ctx context.Context, call *askback.Call) error {
		var (
			who     contact
			roots   []*mcp.Root
			summary *mcp.CreateMessageWithToolsResult
		)
		return call.Ask(ctx,
			askback.AskForm("contact", "Where shall the report go?", &who),
			askback.AskRoots("roots", &roots),
			askback.AskSample("summary", &mcp.CreateMessageWithToolsParams{
				MaxTokens: 500,
				Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Summarise the incident."}}}},
			}, &summary),
		)
	}
	_ = handler
}

// A handler may go on without an answer.
func ExampleDeclinedError() {
	handler := func(ctx context.Context, call *askback.Call) (string, error) {
		res, err := askback.Elicit[Resolution](ctx, call, "resolution", "How was this bug resolved?")
		if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
			return "left open: the user chose to " + declined.Action, nil
		}
		return res.Resolution, err
	}
	_ = handler
}
