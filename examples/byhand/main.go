// Command byhand is a server that moves from the manual style of the SDK: the old tool stays beside the new one. Both
// ask for an amount, ask whether that is right, and refund it.
//
//	go run ./cmd/askback keys new askback.keys
//	go run ./examples/byhand
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/seal"
)

type Order struct {
	ID string `json:"id"`
}

// refundByHand is written in the manual style: each round is a request, which says how far the call is.
func refundByHand(ctx context.Context, req *mcp.CallToolRequest, in Order) (*mcp.CallToolResult, any, error) {
	if answer := accepted(req, "amount"); answer != nil {
		amount := fmt.Sprint(answer["amount"])
		return ask("sure", "Refund "+amount+"?", sureSchema, amount), nil, nil
	}
	amount := req.Params.RequestState // of the round before
	switch answer := accepted(req, "sure"); {
	case answer == nil:
		return ask("amount", "How much?", amountSchema, ""), nil, nil
	case answer["sure"] != true:
		return text("Nothing was refunded."), nil, nil
	}
	err := bank.Refund(ctx, in.ID, amount)
	return text("Refunded %s of order %s.", amount, in.ID), nil, err
}

type Amount struct {
	Amount int `json:"amount" minimum:"1" maximum:"500"`
}

type Sure struct {
	Sure bool `json:"sure"`
}

// refund is the same tool with Askback.
func refund(ctx context.Context, call *askback.Call, in Order) (string, error) {
	how, err := askback.Elicit[Amount](call, "amount", "How much?")
	if err != nil {
		return "", err
	}
	answer, err := askback.Elicit[Sure](call, "sure", fmt.Sprintf("Refund %d?", how.Amount))
	if err != nil {
		return "", err
	}
	if !answer.Sure {
		return "Nothing was refunded.", nil
	}
	err = call.Do(ctx, "refund", func(ctx context.Context) error {
		return bank.Refund(ctx, in.ID, fmt.Sprint(how.Amount))
	})
	return fmt.Sprintf("Refunded %d of order %s.", how.Amount, in.ID), err
}

// newServer returns a server with both tools.
func newServer(opts *askback.Options) (*askback.Server, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "refund_by_hand"}, refundByHand) // stays as it is
	srv, err := askback.New(m, opts)
	if err != nil {
		return nil, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "refund"}, refund)
	return srv, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)                     // a second signal ends the process at once
	keys, err := seal.File("askback.keys").Load(ctx) // the same keys on every instance
	check(err)
	srv, err := newServer(&askback.Options{Keys: keys})
	check(err)
	listener, err := drain.Listen(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	check(err)
	log.Printf("listening on http://%s/mcp", listener.Addr())
	server := &http.Server{Handler: srv.HTTPHandler(nil), ReadHeaderTimeout: 10 * time.Second}
	check(drain.Serve(ctx, listener, server, &drain.Options{Ready: srv.Ready}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// accepted returns the answer to a question, or nil if this request has none.
func accepted(req *mcp.CallToolRequest, key string) map[string]any {
	answer, ok := req.Params.InputResponses[key].(*mcp.ElicitResult)
	if !ok || answer.Action != "accept" {
		return nil
	}
	return answer.Content
}

// ask ends a round with a question.
func ask(key, message string, schema *jsonschema.Schema, state string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{Message: message, RequestedSchema: schema}},
		RequestState:  state,
	}
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

var (
	amountSchema = form("amount", &jsonschema.Schema{Type: "integer", Minimum: new(1.0), Maximum: new(500.0)})
	sureSchema   = form("sure", &jsonschema.Schema{Type: "boolean"})
)

func form(name string, field *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{name: field}, Required: []string{name},
	}
}

// bank stands for your own system.
var bank payments

type payments struct{}

func (payments) Refund(_ context.Context, order, amount string) error {
	log.Printf("%s of order %s is refunded", amount, order)
	return nil
}
