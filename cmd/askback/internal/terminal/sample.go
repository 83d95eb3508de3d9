package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/form"
)

// The parts of a sampling request that are shown.
const (
	maxMessages = 40
	maxContents = 20   // of one message
	maxContent  = 4000 // characters
)

// Sample shows a sampling request and asks the person to write the completion. It returns [ErrDeclined] if the person
// declines and [ErrCanceled] if the person leaves. For other errors see [Terminal.Form]. The model of the result is
// "human".
func (t *Terminal) Sample(ctx context.Context, server string,
	params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	if params == nil {
		params = &mcp.CreateMessageWithToolsParams{}
	}
	p := &prompt{
		server: serverName(server),
		asks:   "asks for a completion, which you can write:",
		body:   conversation(params),
		fields: []*field{{Property: &form.Property{Required: true}, label: "Your completion", kind: prose}},
		accept: "Send",
		done:   "Sent.",
	}
	switch a, err := t.ask(ctx, p); {
	case err != nil:
		return nil, err
	case a == decline:
		return nil, ErrDeclined
	case a == cancel:
		return nil, ErrCanceled
	}
	return &mcp.CreateMessageWithToolsResult{
		Role:       "assistant",
		Content:    []mcp.Content{&mcp.TextContent{Text: p.fields[0].text}},
		Model:      "human",
		StopReason: "endTurn",
	}, nil
}

var roles = map[mcp.Role]string{"user": "User", "assistant": "Assistant"}

// conversation makes a sampling request safe to show.
func conversation(params *mcp.CreateMessageWithToolsParams) []block {
	var all []block
	if params.SystemPrompt != "" {
		all = append(all, block{kind: heading, text: "System prompt"},
			block{kind: theirs, text: lines(params.SystemPrompt, maxContent)})
	}
	messages := params.Messages
	if hidden := len(messages) - maxMessages; hidden > 0 {
		messages = messages[hidden:]
		all = append(all, block{kind: warning, text: fmt.Sprintf("The first %d messages are not shown.", hidden)})
	}
	for _, m := range messages {
		if m == nil {
			continue
		}
		all = append(all, block{kind: heading, text: cmp.Or(roles[m.Role], line(string(m.Role), maxServer), "Nobody")})
		for i, c := range m.Content {
			if i == maxContents {
				all = append(all, block{kind: warning, text: fmt.Sprintf("%d more parts are not shown.", len(m.Content)-i)})
				break
			}
			all = append(all, block{kind: theirs, text: lines(describe(c), maxContent)})
		}
	}
	limits := fmt.Sprintf("At most %d tokens", params.MaxTokens)
	if n := len(params.StopSequences); n > 0 {
		limits += fmt.Sprintf("; %d stop sequences", n)
	}
	if n := len(params.Tools); n > 0 {
		limits += fmt.Sprintf("; %d tools are offered, which only a model can call", n)
	}
	return append(all, block{kind: ours, text: limits + "."})
}

// describe returns one part of a message as text, which is not safe to show yet.
func describe(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("(an image, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("(a sound, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.ToolUseContent:
		input, _ := json.Marshal(c.Input)
		return fmt.Sprintf("(calls the tool %s with %s)", c.Name, input)
	case *mcp.ToolResultContent:
		parts := []string{"(the tool's result)"}
		for _, part := range c.Content[:min(len(c.Content), maxContents)] {
			parts = append(parts, describe(part))
		}
		return strings.Join(parts, "\n")
	case nil:
		return "(nothing)"
	}
	text, _ := json.Marshal(c)
	return string(text)
}
