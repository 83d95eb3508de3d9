package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

// The response to the round that charged the card is lost. The client has only the earlier state, so the step runs
// again in the round that it repeats. The bank recognises the key.
func ExampleCall_IdempotencyKey() {
	charged := make(map[string]bool) // by the bank
	pay := func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
		_, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if err != nil {
			return "", err
		}
		err = call.Do(ctx, "charge", func(context.Context) error {
			key := call.IdempotencyKey("charge")
			fmt.Println("the bank has done this before:", charged[key])
			charged[key] = true
			return nil
		})
		return fmt.Sprintf("charged for bug #%d", in.ID), err
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "pay"}, pay)

	parked, done := connect(srv, &client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return nil, client.ErrPark
	}})
	defer done()
	_, err := parked.CallTool(context.Background(), &mcp.CallToolParams{Name: "pay", Arguments: Bug{ID: 7}})
	pending, ok := errors.AsType[*client.PendingError](err)
	if !ok {
		log.Fatal(err)
	}
	answering, done := connect(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})})
	defer done()
	for range 2 { // as if the first response had been lost
		if _, err := answering.Resume(context.Background(), pending.Pending); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// asked: How was this bug resolved?
	// the bank has done this before: false
	// asked: How was this bug resolved?
	// the bank has done this before: true
}

// The client shows how far a call is.
func ExampleCall_Progress() {
	build := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		for i, part := range []string{"compile", "test"} {
			if err := call.Progress(ctx, float64(i+1), 2, part); err != nil {
				return "", err
			}
		}
		return "built", nil
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "build"}, build)
	shown := make(chan string, 2)
	session, done := connect(srv, &client.Options{SDK: mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			shown <- fmt.Sprintf("%v of %v: %s", req.Params.Progress, req.Params.Total, req.Params.Message)
		},
	}})
	defer done()
	params := &mcp.CallToolParams{Name: "build"}
	params.SetProgressToken("my build")
	res, err := session.CallTool(context.Background(), params)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-shown)
	fmt.Println(<-shown)
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// 1 of 2: compile
	// 2 of 2: test
	// built
}

// A handler sees the request that it serves. Headers belong to the round and are not bound to the call: what the rest
// of the call depends on is recorded in a step before the first question.
func ExampleCall_Request() {
	greet := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		region, err := askback.Do(ctx, call, "region", func(context.Context) (string, error) {
			return call.Request().GetExtra().Header.Get("X-Region"), nil
		})
		if err != nil {
			return "", err
		}
		_, err = askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return "from " + region, err
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "greet"}, greet)
	handler, regions := srv.HTTPHandler(nil), []string{"north", "south"} // a proxy's, of the two rounds
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			r.Header.Set("X-Region", regions[0])
			regions = regions[1:]
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	session, err := client.New(&client.Options{Form: form(map[string]any{"resolution": "Fixed"})}).
		Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "greet"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// asked: How was this bug resolved?
	// from north
}

// A handler that was written for the SDK records a step before its question.
func ExampleCallFrom() {
	schema, err := jsonschema.For[Resolution](nil)
	if err != nil {
		log.Fatal(err)
	}
	closeBug := func(ctx context.Context, req *mcp.CallToolRequest, in Bug) (*mcp.CallToolResult, any, error) {
		call := askback.CallFrom(ctx)
		err := call.Do(ctx, "lock", func(context.Context) error {
			fmt.Printf("locked bug #%d\n", in.ID)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "How was this bug resolved?", RequestedSchema: schema})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: fmt.Sprintf("Bug #%d closed as %v.", in.ID, res.Content["resolution"])},
		}}, nil, nil
	}
	srv := newServer(askback.Options{})
	askback.AddInlineTool(srv, &mcp.Tool{Name: "close_bug"}, closeBug)
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "close_bug", Bug{ID: 7})
	// Output:
	// locked bug #7
	// asked: How was this bug resolved?
	// Bug #7 closed as Fixed.
}
