package bridge_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// A gateway has a person approve the calls of one tool before it passes them on to a server, whose host cannot ask.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	shop := shopServer()
	defer shop.Close()

	keys, err := seal.NewRing(seal.NewKey(time.Now())) // in a service from a file: see seal.File
	if err != nil {
		log.Fatal(err)
	}
	store := new(task.MemoryStore) // in a service one that outlives the process, such as task/sqlite
	people, err := desk.Open(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	b, err := bridge.New(&bridge.Options{
		Implementation: &mcp.Implementation{Name: "gateway", Version: "1.0.0"},
		Servers: []bridge.Server{{Name: "shop", Identity: shop.URL, Connect: func() (mcp.Transport, error) {
			return bridge.AtURL(shop.URL, nil), nil
		}}},
		Approve: &bridge.Approval{Tools: []string{"order"}, For: []string{askback.User("bob")}},
		Server: askback.Options{
			Keys: keys, Logger: quiet, Tasks: &askback.Tasks{Store: store},
			Desk: &askback.DeskOptions{Notify: func(ctx context.Context, n desk.Notice) error {
				return approve(ctx, people, n) // in a service bob is told, and answers on the page of the inbox
			}},
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) {
				return "ada", nil // in a service from the request's token
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	if err := b.Start(ctx); err != nil {
		log.Fatal(err)
	}
	go b.Server().RunTasks(ctx) // calls that wait go on here
	web := httptest.NewServer(b.Server().HTTPHandler(nil))
	defer web.Close()

	host, err := client.New(nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	res, err := host.CallTool(ctx, &mcp.CallToolParams{Name: "order", Arguments: map[string]any{"item": "a kettle"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output:
	// bob approves: Call the tool "order" of the server "shop"?
	// a kettle is ordered
}

// shopServer is the server behind the gateway. It may be written in any language.
func shopServer() *httptest.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	type order struct {
		Item string `json:"item"`
	}
	mcp.AddTool(m, &mcp.Tool{Name: "order"},
		func(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Item + " is ordered"}}}, nil, nil
		})
	return httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil))
}

// approve has bob approve what is asked.
func approve(ctx context.Context, people *desk.Desk, n desk.Notice) error {
	if n.Kind != task.NoticeAsked {
		return nil
	}
	fmt.Println("bob approves:", n.Message)
	_, err := people.Answer(ctx, n.Name, n.Key, desk.Answer{By: desk.Person{Name: "bob"}, Action: "accept"})
	return err // then it is told again
}
