package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
)

// askerMain is the program asker of the scripts: a server whose tools ask for everything there is, and behave badly.
func askerMain() {
	stdio := flag.Bool("stdio", false, "")
	keys := flag.String("keys", "", "")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runAsker(ctx, *stdio, *keys); err != nil {
		fmt.Fprintln(os.Stderr, "asker:", err)
		os.Exit(1)
	}
}

// newAsker is a server with everything that asks. Nil keys are random ones.
func newAsker(keys *seal.Ring) (*askback.Server, error) {
	m := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		addAskerTools(srv, m)
	}
	return srv, err
}

func runAsker(ctx context.Context, stdio bool, keys string) error {
	var ring *seal.Ring
	if keys != "" {
		text, err := os.ReadFile(keys)
		if err != nil {
			return err
		}
		if ring, err = seal.ParseRing(string(text)); err != nil {
			return err
		}
	}
	srv, err := newAsker(ring)
	if err != nil {
		return err
	}
	if stdio {
		return srv.Run(ctx, &mcp.StdioTransport{})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s/mcp\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(nil))
	mux.HandleFunc("/private", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		srv.HTTPHandler(nil).ServeHTTP(w, r)
	})
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		// To another origin: the header must not come along.
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		http.Redirect(w, r, "http://localhost:"+port+"/private", http.StatusTemporaryRedirect)
	})
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type who struct {
	Zip   string   `json:"zip"`
	Name  string   `json:"name"`
	Age   int64    `json:"age,omitempty" default:"42"`
	Likes []string `json:"likes,omitempty" enum:"tea|coffee"`
}

const nasty = "\x1b[2Jgone\x1b]0;title\a\u202ekcab\u009b31m\rover"

func addAskerTools(srv *askback.Server, m *mcp.Server) {
	said := func(format string, args ...any) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
	}
	prompt := &mcp.CreateMessageWithToolsParams{MaxTokens: 10,
		Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Say hello"}}}}}

	askback.AddTool(srv, &mcp.Tool{Name: "everything"}, func(ctx context.Context, call *askback.Call,
		_ struct{}) (string, error) {
		person, err1 := askback.Elicit[who](call, "who", "Who are you?")
		hello, err2 := askback.Sample(call, "hello", prompt)
		roots, err3 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		if err := askback.ElicitURL(call, "page", "Sign in", "https://example.com/in?a=b"); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s, %d, at %s: %s, %d roots", hello.Content[0].(*mcp.TextContent).Text, person.Name,
			person.Age, person.Zip, roots[0].URI, len(roots)), nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "page"}, func(ctx context.Context, call *askback.Call,
		_ struct{}) (string, error) {
		if err := askback.ElicitURL(call, "page", "Sign in", "https://example.com/in?a=b&c=$(d)"); err != nil {
			return "", err
		}
		return "signed in", nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "two"}, func(ctx context.Context, call *askback.Call,
		_ struct{}) (string, error) {
		type word struct {
			Word string `json:"word"`
		}
		first, err1 := askback.Elicit[word](call, "b", "The first word?")
		second, err2 := askback.Elicit[word](call, "a", "The second word?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s", first.Word, second.Word), nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call,
		_ struct{}) (*mcp.CallToolResult, error) {
		for i := range 3 {
			if err := call.Progress(ctx, float64(i), 3, "step\x1b[2J"); err != nil {
				return nil, err
			}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	// Each step ends when its file is there: a notification and the response after it may reach the user in any order.
	type steps struct {
		First, Second string
	}
	askback.AddTool(srv, &mcp.Tool{Name: "steps"}, func(ctx context.Context, call *askback.Call,
		in steps) (string, error) {
		step := func(progress, total float64, file string) error {
			err := call.Progress(ctx, progress, total, "copying")
			for err == nil && ctx.Err() == nil {
				if _, missing := os.Stat(file); missing == nil {
					return nil
				}
				time.Sleep(time.Millisecond)
			}
			return cmp.Or(err, ctx.Err())
		}
		if err := step(1, 2, in.First); err != nil {
			return "", err
		}
		person, err := askback.Elicit[struct{ Name string }](call, "who", "Who are you?")
		if err != nil {
			return "", err
		}
		return person.Name, step(2, 0, in.Second)
	})
	askback.AddTool(srv, &mcp.Tool{Name: "stubborn"}, func(ctx context.Context, call *askback.Call,
		_ struct{}) (*mcp.CallToolResult, error) {
		for i := 0; ; i++ {
			if _, err := askback.Elicit[who](call, "who", fmt.Sprintf("Wrong. Who are you? (%d)", i)); err != nil {
				return nil, err
			}
		}
	})
	askback.AddTool(srv, &mcp.Tool{Name: "crash"}, func(context.Context, *askback.Call,
		struct{}) (*mcp.CallToolResult, error) {
		fmt.Fprint(os.Stderr, "asker: out of luck")
		os.Exit(7)
		return nil, nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "media"}, func(context.Context, *askback.Call,
		struct{}) (*mcp.CallToolResult, error) {
		size := int64(12)
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}, &mcp.AudioContent{Data: []byte("wav!"),
				MIMEType: "audio/wav"},
			&mcp.ResourceLink{URI: "file:///a", Name: "a", Size: &size},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "doc://b", MIMEType: "text/plain", Text: "hello"}},
		}}, nil
	})
	m.AddTool(&mcp.Tool{Name: "structured", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"temperature": 22.5,
				"text": nasty}}, nil
		})
	m.AddTool(&mcp.Tool{Name: "hostile", Description: "Does harm " + nasty,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"x` + `\u001b[2J` +
			`":{"type":"string","description":"\u001b[2J"}}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return said("%s", nasty), nil
		})
	askback.AddTool(srv, &mcp.Tool{Name: "fails"}, func(context.Context, *askback.Call,
		struct{}) (*mcp.CallToolResult, error) {
		return nil, errors.New("no luck " + nasty)
	})
	// Without end for who follows references.
	m.AddTool(&mcp.Tool{Name: "circles",
		InputSchema: json.RawMessage(`{"type":"object","allOf":[{"$ref":"#"}],"$defs":{"a":{"$ref":"#/$defs/a"}},` +
			`"properties":{"x":{"$ref":"#/$defs/a"}}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return said("round and round"), nil
		})
	m.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{
		"type": "object", "additionalProperties": false, "required": ["s"],
		"$defs": {"count": {"type": "integer", "minimum": 1}},
		"properties": {
			"s": {"type": "string", "description": "a text"}, "n": {"$ref": "#/$defs/count"}, "f": {"type": "number"},
			"yes": {"type": "boolean"},
			"o": {"type": "object"}, "l": {"type": "array", "items": {"type": "string"}}, "level": {"enum": ["low", "high"]},
			"maybe": {"type": ["string", "null"]}, "any": {}
		}}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return said("%s", req.Params.Arguments), nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "region",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			person, err := askback.Elicit[who](call, "who", "Who are you?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s in %v", person.Name, in["region"]), nil
		})
	srv.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "tone", Description: "such as warm",
		Required: true}}},
		func(ctx context.Context, call *askback.Call, in map[string]string) (*mcp.GetPromptResult, error) {
			person, err := askback.Elicit[who](call, "who", "Who are you?")
			if err != nil {
				return nil, err
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: "Greet " + person.Name + ", " + in["tone"]}}}}, nil
		})
	m.AddResource(&mcp.Resource{Name: "notes", URI: "note://all", Description: "All notes " + nasty, MIMEType: "text/" +
		nasty}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://all", Text: "none"}}}, nil
	})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "doc", URITemplate: "doc://{id}"},
		func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			if uri == "doc://blob" {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "image/png",
					Blob: []byte("png")}}}, nil
			}
			person, err := askback.Elicit[who](call, "who", "Who are you?")
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: uri + " for " + person.Name}}}, nil
		})
}
