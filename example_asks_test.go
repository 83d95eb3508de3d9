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

// newServer returns a server for an example, which does not log.
func newServer(opts askback.Options) *askback.Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), &opts)
	if err != nil {
		log.Fatal(err)
	}
	return srv
}

// connect serves over HTTP until the connection is closed.
func connect(srv *askback.Server, opts *client.Options) (session *client.Session, done func()) {
	web := httptest.NewServer(srv.HTTPHandler(nil))
	session, err := client.New(opts).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return session, func() {
		session.Close()
		web.Close()
	}
}

// callTool connects with the client's options, calls a tool, and prints the text of its result, or the error.
func callTool(srv *askback.Server, opts *client.Options, tool string, arguments any) {
	session, done := connect(srv, opts)
	defer done()
	res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
}

// form answers every form with the same content, and prints what it was asked.
func form(content map[string]any) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", q.Message)
		return accept(content), nil
	}
}

// A report of a user, as a form.
type Contact struct {
	Name  string   `json:"name" title:"Your name" minLength:"1"`
	Email string   `json:"email" format:"email" jsonschema:"where the report goes"`
	Kind  string   `json:"kind" enum:"bug=A bug|idea=An idea" default:"bug"`
	Tags  []string `json:"tags,omitempty" enum:"ui|network|storage" maxItems:"2"`
	Age   *int     `json:"age,omitempty" minimum:"18"`
}

// Tags of the struct say what the form asks for. What is optional may be missing.
func ExampleElicit() {
	report := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		who, err := askback.Elicit[Contact](call, "contact", "Who reports this?")
		return fmt.Sprintf("%s reports: %s %q, with an age: %v", who.Name, who.Kind, who.Tags, who.Age != nil), err
	}
	srv := newServer(askback.Options{})
	askback.MustForm[Contact]() // panics, and names the field and the remedy
	askback.AddTool(srv, &mcp.Tool{Name: "report"}, report)
	answer := map[string]any{"name": "Ada", "email": "ada@example.com", "kind": "idea", "tags": []string{"ui"}}
	callTool(srv, &client.Options{Form: form(answer)}, "report", nil)
	// Output:
	// asked: Who reports this?
	// Ada reports: idea ["ui"], with an age: false
}

// The choices are known only when the tool is called.
func ExampleElicitWith() {
	assign := func(_ context.Context, call *askback.Call, in Bug) (string, error) {
		team := []string{"ada", "grace"} // from a database
		answer, err := askback.ElicitWith[map[string]string](call, "assignee", askback.Question{
			Message: fmt.Sprintf("Who takes bug #%d?", in.ID),
			Schema: map[string]any{
				"type":       "object",
				"properties": map[string]any{"name": map[string]any{"type": "string", "enum": team}},
				"required":   []string{"name"},
			},
		})
		return "assigned to " + answer["name"], err
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "assign"}, assign)
	callTool(srv, &client.Options{Form: form(map[string]any{"name": "grace"})}, "assign", Bug{ID: 7})
	// Output:
	// asked: Who takes bug #7?
	// assigned to grace
}

// The user pays on a page. The answer means only that the user opened it, so the handler asks the bank, and waits with
// one checkpoint after another, each in a round of its own.
func ExampleElicitURL() {
	bank := []bool{false, false, true} // whether it has been paid, each time it is asked
	paid := func() bool {
		now := bank[0]
		bank = bank[1:]
		return now // after a moment, so that clients do not come back at once
	}
	pay := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		page := "https://bank.example/pay?call=" + call.ID() // the page checks who opens it
		if err := askback.ElicitURL(call, "pay", "Please pay 42.", page); err != nil {
			return "", err
		}
		if !paid() {
			return "", call.Checkpoint(ctx, fmt.Sprint("not paid in round ", call.Round()))
		}
		return fmt.Sprintf("paid, in round %d", call.Round()), nil
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "pay"}, pay)
	callTool(srv, &client.Options{URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		fmt.Println("opened a page:", q.Message)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}}, "pay", nil)
	// Output:
	// opened a page: Please pay 42.
	// paid, in round 4
}

// A tool uses the client's model if it has one that may be asked, and does without otherwise.
func ExampleSample() {
	summarize := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		const report = "The server was slow. Then it was restarted. Now it is fast."
		if !call.Can(askback.CapabilitySampling) {
			return report[:20], nil
		}
		res, err := askback.Sample(call, "summary", &mcp.CreateMessageWithToolsParams{
			MaxTokens: 100,
			Messages: []*mcp.SamplingMessageV2{{
				Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "In four words: " + report}},
			}},
		})
		if err != nil {
			return "", err
		}
		return res.Content[0].(*mcp.TextContent).Text, nil
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "summarize"}, summarize)
	callTool(srv, &client.Options{}, "summarize", nil)
	callTool(srv, &client.Options{Sample: func(context.Context, *client.Question,
		*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{
			Role: "assistant", Model: "small", Content: []mcp.Content{&mcp.TextContent{Text: "A restart cured slowness."}},
		}, nil
	}}, "summarize", nil)
	// Output:
	// The server was slow.
	// A restart cured slowness.
}

func ExampleRoots() {
	where := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		roots, err := askback.Roots(call, "roots")
		if err != nil {
			return "", err
		}
		return "will look in " + roots[0].Name, nil
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "where"}, where)
	callTool(srv, &client.Options{Roots: func(context.Context) ([]*mcp.Root, error) {
		return []*mcp.Root{{Name: "shop", URI: "file:///src/shop"}}, nil
	}}, "where", nil)
	// Output: will look in shop
}

// A form with a mistake ends the program when it starts, and not a call a week later.
func ExampleMustForm() {
	type Window struct {
		When string `json:"when" maxLenght:"10"`
	}
	defer func() { fmt.Println(recover()) }()
	askback.MustForm[Window]()
	// Output: askback.MustForm: form: field askback_test.Window.When: no tag is called maxLenght; did you mean maxLength?
}

// A client that is known to show text alone is asked for a number as text. The handler gets a number all the same.
func ExampleOptions_plainForms() {
	type Order struct {
		Copies int `json:"copies" minimum:"1"`
	}
	srv := newServer(askback.Options{
		PlainForms: func(client *mcp.Implementation) bool { return client.Name == "pager" },
	})
	askback.AddTool(srv, &mcp.Tool{Name: "print"},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			order, err := askback.Elicit[Order](call, "order", "How many copies?")
			return fmt.Sprint("copies: ", order.Copies), err
		})
	callTool(srv, &client.Options{
		Implementation: &mcp.Implementation{Name: "pager", Version: "1.0.0"},
		Form:           form(map[string]any{"copies": "2"}),
	}, "print", nil)
	// Output:
	// asked: How many copies?
	// copies: 2
}

// Middleware of a handler, such as one that counts failures, must not take a question for one.
func ExampleErrInputRequired() {
	failures := 0
	counted := func(handler askback.ToolHandler[Bug, string]) askback.ToolHandler[Bug, string] {
		return func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
			text, err := handler(ctx, call, in)
			if err != nil && !errors.Is(err, askback.ErrInputRequired) {
				failures++
			}
			return text, err // which has to reach the caller, or the question is not asked
		}
	}
	closeBug := func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		return res.Resolution, err
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, counted(closeBug))
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "close_bug", Bug{ID: 7})
	fmt.Println(failures, "failures")
	// Output:
	// asked: How was this bug resolved?
	// Fixed
	// 0 failures
}

// A client that cannot ask its user gets a result all the same.
func ExampleCapabilityError() {
	closeBug := func(_ context.Context, call *askback.Call, _ Bug) (string, error) {
		res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
		if lacking, ok := errors.AsType[*askback.CapabilityError](err); ok {
			return fmt.Sprintf("not closed: nobody was asked for the %s, because this client lacks %v", lacking.Key,
				lacking.Need), nil
		}
		return res.Resolution, err
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"}, closeBug)
	callTool(srv, &client.Options{}, "close_bug", Bug{ID: 7})
	// Output: not closed: nobody was asked for the resolution, because this client lacks elicitation.form
}

// What a client declares decides what a tool can do for it.
func ExampleCall_Can() {
	can := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		for _, c := range []askback.Capability{
			askback.CapabilityForm, askback.CapabilityURL,
			askback.CapabilitySampling, askback.CapabilitySampling | askback.CapabilitySamplingTools,
			askback.CapabilityRoots, askback.CapabilityTasks,
		} {
			fmt.Println(c, call.Can(c))
		}
		return "", nil
	}
	srv := newServer(askback.Options{})
	askback.AddTool(srv, &mcp.Tool{Name: "can"}, can)
	callTool(srv, &client.Options{
		Form: form(nil),
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult,
			error) {
			return nil, nil
		},
	}, "can", nil)
	// Output:
	// elicitation.form true
	// elicitation.url false
	// sampling true
	// sampling.tools, sampling false
	// roots false
	// io.modelcontextprotocol/tasks false
}

// Asking beyond a limit ends the call with an error that names the limit.
func ExampleLimitError() {
	survey := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		var errs []error
		for i := range 3 {
			_, err := askback.Elicit[Resolution](call, fmt.Sprint("question ", i), "How was this bug resolved?")
			if limit, ok := errors.AsType[*askback.LimitError](err); ok {
				fmt.Printf("question %d is beyond the limit of %d %s\n", i, limit.Max, limit.Limit)
			}
			errs = append(errs, err)
		}
		return "", errors.Join(errs...)
	}
	srv := newServer(askback.Options{Limits: askback.Limits{Questions: 2}})
	askback.AddTool(srv, &mcp.Tool{Name: "survey"}, survey)
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "survey", nil)
	// Output:
	// question 2 is beyond the limit of 2 questions per round
	// error: calling "tools/call": the limit of 2 questions per round is reached
}
