package askback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
)

// A tool added to the SDK's server and one that asks are served side by side.
func ExampleNew() {
	m := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "ping"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "pong"}}}, nil, nil
		})
	keys, err := seal.NewRing(seal.NewKey(time.Now())) // in a service from a file: see seal.File
	if err != nil {
		log.Fatal(err)
	}
	srv, err := askback.New(m, &askback.Options{Keys: keys, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return "closed as " + res.Resolution, err
	})
	callTool(srv, nil, "ping", nil)
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "close_bug", Bug{ID: 7})
	// Output:
	// pong
	// asked: How was this bug resolved?
	// closed as Fixed
}

// A prompt and a resource ask like a tool.
func ExampleServer_AddPrompt() {
	var srv *askback.Server = newServer(askback.Options{})
	var review askback.PromptHandler = func(_ context.Context, call *askback.Call,
		arguments map[string]string) (*mcp.GetPromptResult, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("Review bug #%s, which is %s.", arguments["id"], res.Resolution)
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
			Content: &mcp.TextContent{Text: text}}}}, nil
	}
	srv.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "id", Required: true}}}, review)

	session, done := connect(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})})
	defer done()
	res, err := session.GetPrompt(context.Background(),
		&mcp.GetPromptParams{Name: "review", Arguments: map[string]string{"id": "7"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Messages[0].Content.(*mcp.TextContent).Text)
	// Output:
	// asked: How was this bug resolved?
	// Review bug #7, which is Fixed.
}

func ExampleServer_AddResourceTemplate() {
	var read askback.ResourceHandler = func(_ context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult,
		error) {
		if uri == "bug:///0" {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri,
			Text: "resolved as " + res.Resolution}}}, nil
	}
	srv := newServer(askback.Options{})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "bug", URITemplate: "bug:///{id}"}, read)
	srv.AddResource(&mcp.Resource{Name: "the latest bug", URI: "bug:///latest"}, read)

	session, done := connect(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})})
	defer done()
	for _, uri := range []string{"bug:///7", "bug:///latest", "bug:///0"} {
		res, err := session.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(res.Contents[0].URI, res.Contents[0].Text)
	}
	// Output:
	// asked: How was this bug resolved?
	// bug:///7 resolved as Fixed
	// asked: How was this bug resolved?
	// bug:///latest resolved as Fixed
	// calling "resources/read": Resource not found
}

// What a server offers can change while it runs.
func ExampleServer_RemoveTools() {
	srv := newServer(askback.Options{})
	text := func(context.Context, *askback.Call, struct{}) (string, error) { return "", nil }
	prompt := func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	resource := func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) { return nil, nil }
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, text)
	askback.AddTool(srv, &mcp.Tool{Name: "open_bug"}, text)
	srv.AddPrompt(&mcp.Prompt{Name: "review"}, prompt)
	srv.AddResource(&mcp.Resource{Name: "latest", URI: "bug:///latest"}, resource)
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "bug", URITemplate: "bug:///{id}"}, resource)

	session, done := connect(srv, nil)
	defer done()
	offers := func() {
		ctx, count := context.Background(), make([]int, 4)
		for range session.SDK().Tools(ctx, nil) {
			count[0]++
		}
		for range session.SDK().Prompts(ctx, nil) {
			count[1]++
		}
		for range session.SDK().Resources(ctx, nil) {
			count[2]++
		}
		for range session.SDK().ResourceTemplates(ctx, nil) {
			count[3]++
		}
		fmt.Println("tools, prompts, resources, templates:", count)
	}
	offers()
	srv.RemoveTools("open_bug")
	srv.RemovePrompts("review")
	srv.RemoveResources("bug:///latest")
	srv.RemoveResourceTemplates("bug:///{id}")
	offers()
	// Output:
	// tools, prompts, resources, templates: [2 1 1 1]
	// tools, prompts, resources, templates: [1 0 0 0]
}

// Middleware of the SDK's type sees every round.
func ExampleServer_AddReceivingMiddleware() {
	srv := newServer(askback.Options{})
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				fmt.Println("before the handler")
			}
			return next(ctx, method, req)
		}
	})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return res.Resolution, err
	})
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "close_bug", Bug{ID: 7})
	// Output:
	// before the handler
	// asked: How was this bug resolved?
	// before the handler
	// Fixed
}

// A server for one client, at the other end of a connection: with mcp.StdioTransport on standard input and output.
func ExampleServer_Run() {
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return res.Resolution, err
	})
	ctx, stop := context.WithCancel(context.Background())
	serverSide, clientSide := mcp.NewInMemoryTransports()
	ended := make(chan error)
	go func() { ended <- srv.Run(ctx, serverSide) }()

	session, err := client.New(&client.Options{Form: form(map[string]any{"resolution": "Fixed"})}).Connect(ctx, clientSide,
		nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	session.Close()
	stop()
	<-ended
	// Output:
	// asked: How was this bug resolved?
	// Fixed
}

// Connect serves in the background. A program that serves several connections waits for each session.
func ExampleServer_Connect() {
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "ping"},
		func(context.Context, *askback.Call, struct{}) (string, error) { return "pong", nil })
	serverSide, clientSide := mcp.NewInMemoryTransports()
	served, err := srv.Connect(context.Background(), serverSide, nil)
	if err != nil {
		log.Fatal(err)
	}
	session, err := client.New(nil).Connect(context.Background(), clientSide, nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "ping"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	session.Close()
	fmt.Println("ended:", served.Wait())
	// Output:
	// pong
	// ended: <nil>
}

// What a server that others reach over a network sets.
func ExampleHTTPOptions() {
	srv := newServer(askback.Options{})
	handler := srv.HTTPHandler(&askback.HTTPOptions{
		AllowedHosts:   []string{"mcp.example.com"},         // how the proxy in front names this server
		TrustedOrigins: []string{"https://app.example.com"}, // whose pages are clients
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   10 * time.Second,
		Drafts:         true, // there are peers that were built on the drafts
		Streamable:     mcp.StreamableHTTPOptions{SessionTimeout: 10 * time.Minute},
	})
	for _, from := range []struct{ host, origin string }{
		{"mcp.example.com", ""},
		{"mcp.example.com", "https://app.example.com"},
		{"mcp.example.com", "https://elsewhere.example"},
		{"rebound.example", ""},
	} {
		req := httptest.NewRequest(http.MethodGet, "http://"+from.host+"/mcp", nil)
		req.Header.Set("Accept", "text/event-stream")
		if from.origin != "" {
			req.Header.Set("Origin", from.origin)
		}
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		fmt.Printf("%s from %q: refused %v\n", from.host, from.origin, res.Code == http.StatusForbidden)
	}
	// Output:
	// mcp.example.com from "": refused false
	// mcp.example.com from "https://app.example.com": refused false
	// mcp.example.com from "https://elsewhere.example": refused true
	// rebound.example from "": refused true
}
