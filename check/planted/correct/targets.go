package correct

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type trip struct {
	City string `json:"city"`
}

type guest struct {
	Name  string `json:"name" minLength:"1" maxLength:"60"`
	Class string `json:"class" enum:"first|second"`
}

type confirmation struct {
	Confirm bool `json:"confirm"`
	Seats   int  `json:"seats" minimum:"1" maximum:"8"`
}

func readOnly(name string) *mcp.Tool {
	return &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
}

// addTargets adds one of everything that asks.
func addTargets(srv *askback.Server) {
	askback.AddTool(srv, readOnly("book"), book)
	askback.AddTool(srv, readOnly("move"), book)
	askback.AddTool(srv, readOnly("greet"), greet)
	askback.AddTool(srv, readOnly("ticket"), ticket)
	askback.AddTool(srv, readOnly("together"), together)
	askback.AddTool(srv, readOnly("connect"), func(_ context.Context, call *askback.Call, in trip) (string, error) {
		return "Connected to " + in.City + ".", askback.ElicitURL(call, "page", "Connect your account.",
			"https://connect.example.com/start")
	})
	askback.AddTool(srv, readOnly("summarize"), summarize)
	askback.AddTool(srv, &mcp.Tool{Name: "approve"}, func(_ context.Context, call *askback.Call, in trip) (string,
		error) {
		return "Approved for " + in.City + ".", askback.Approve(call, "approval", askback.Question{Message: "Approve?"})
	})
	askback.AddInlineTool(srv, readOnly("inline"), inline)
	askback.AddTaskTool(srv, readOnly("export"), nil, book)
	askback.AddTaskTool(srv, readOnly("required"), &askback.TaskSupport{Required: true}, book)
	askback.AddTaskTool(srv, readOnly("detach"), &askback.TaskSupport{AtDetach: true}, detach)
	askback.AddTool(srv, readOnly("manual"), manual)
	srv.AddPrompt(&mcp.Prompt{Name: "book", Arguments: []*mcp.PromptArgument{{Name: "city"}}},
		func(ctx context.Context, call *askback.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
			text, err := book(ctx, call, trip{arguments["city"]})
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: text}}}}, err
		})
	srv.AddResource(&mcp.Resource{Name: "guests", URI: "ours://guests"},
		func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			text, err := book(ctx, call, trip{"Rome"})
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, err
		})
}

// addReview adds a tool that waits for somebody else, at the desk.
func addReview(srv *askback.Server) {
	askback.AddTool(srv, readOnly("review"), func(_ context.Context, call *askback.Call, in trip) (string, error) {
		return "Reviewed " + in.City, askback.Approve(call, "review", askback.Question{
			Message: "Review the trip to " + in.City + "?", For: []string{askback.User("carol")}})
	})
}

// book asks in two rounds, and the second question names the answer to the first.
func book(_ context.Context, call *askback.Call, in trip) (string, error) {
	who, err := askback.Elicit[guest](call, "guest", "Who is the guest?")
	if err != nil {
		return "", err
	}
	yes, err := askback.Elicit[confirmation](call, "confirm", "Is "+who.Name+" right?")
	return fmt.Sprint("Booked ", in.City, " for ", who, ": ", yes), err
}

func greet(_ context.Context, call *askback.Call, in trip) (string, error) {
	who, err := askback.Elicit[guest](call, "guest", "Who are you?")
	return "Hello " + who.Name + " in " + in.City, err
}

// ticket has another result each time, and a step before its question.
func ticket(ctx context.Context, call *askback.Call, in trip) (string, error) {
	number, err := askback.Do(ctx, call, "number", func(context.Context) (string, error) { return rand.Text(), nil })
	if err != nil {
		return "", err
	}
	who, err := askback.Elicit[guest](call, "guest", "Who takes ticket "+number+"?")
	return fmt.Sprint("Ticket ", number, " for ", who.Name, " to ", in.City, " is printed as ", rand.Text()), err
}

// together asks two questions in one round.
func together(_ context.Context, call *askback.Call, in trip) (string, error) {
	who, err1 := askback.Elicit[guest](call, "guest", "Who are you?")
	friend, err2 := askback.Elicit[guest](call, "friend", "And who is your friend?")
	return fmt.Sprint(who.Name, " and ", friend.Name, " in ", in.City), errors.Join(err1, err2)
}

func summarize(_ context.Context, call *askback.Call, in trip) (string, error) {
	res, err := askback.Sample(call, "summary", &mcp.CreateMessageWithToolsParams{MaxTokens: 100,
		Messages: []*mcp.SamplingMessageV2{{Role: "user",
			Content: []mcp.Content{&mcp.TextContent{Text: "Write about " + in.City}}}}})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String(), nil
}

func detach(ctx context.Context, call *askback.Call, in trip) (string, error) {
	who, err := askback.Elicit[guest](call, "guest", "Who is the guest?")
	if err != nil {
		return "", err
	}
	if err := call.Detach(); err != nil {
		return "", err
	}
	yes, err := askback.Elicit[confirmation](call, "confirm", "Is "+who.Name+" right?")
	return fmt.Sprint("Booked ", in.City, " for ", who, ": ", yes), err
}

// inline asks in the middle, as handlers of the SDK do in sessions.
func inline(ctx context.Context, req *mcp.CallToolRequest, in trip) (*mcp.CallToolResult, any, error) {
	res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: nameSchema})
	if err != nil {
		return nil, nil, err
	}
	text := "Nobody."
	if res.Action == "accept" {
		text = fmt.Sprint("Hello ", res.Content["name"], " in ", in.City)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

var nameSchema = json.RawMessage(
	`{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":60}},"required":["name"]}`)

// manual is written in the manual style of the SDK: its state is its own text, which the library seals.
func manual(_ context.Context, call *askback.Call, in trip) (*mcp.CallToolResult, error) {
	params := call.Request().(*mcp.CallToolRequest).Params
	said := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	ask := func(state, message string) *mcp.CallToolResult {
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
			"name": &mcp.ElicitParams{Message: message, RequestedSchema: nameSchema}}}
	}
	answer, _ := params.InputResponses["name"].(*mcp.ElicitResult)
	if answer != nil && answer.Action != "accept" {
		return said("Nobody."), nil
	}
	name := ""
	if answer != nil {
		name, _ = answer.Content["name"].(string)
	}
	fits := name != "" && utf8.RuneCountInString(name) <= 60
	before, second := strings.CutPrefix(params.RequestState, "second:")
	switch {
	case second && fits:
		return said(before + " and " + name + " in " + in.City), nil
	case second:
		return ask(params.RequestState, "And who is with "+before+"?"), nil
	case fits && params.RequestState == "first":
		return ask("second:"+name, "And who is with "+name+"?"), nil
	}
	return ask("first", "Who are you?"), nil
}
