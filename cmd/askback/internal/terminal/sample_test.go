package terminal

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestSample(t *testing.T) {
	p := newPerson(t)
	a := askSample(t, p.terminal())
	p.sees("tracker asks for a completion", "System prompt", "│ Be brief.", "User", "│ Summarise:\n│ the bug",
		"At most 100 tokens; 1 tools are offered", "Your completion")
	p.types(tab, enter)
	p.sees("✗ write something first")
	p.types("It is wrong.", enter, "Very.", tab)
	p.sees("▸ Send")
	p.types(enter)
	wants(t, a, written)
	p.gotItBack()
}

func TestSampleRefused(t *testing.T) {
	for key, want := range map[string]error{tab + tab + enter: ErrDeclined, esc: ErrCanceled} {
		p := newPerson(t)
		a := askSample(t, p.terminal())
		p.sees("Your completion")
		p.types(key)
		if result, err := a.end(); result != nil || !errors.Is(err, want) {
			t.Errorf("got %v, %v", result, err)
		}
	}
}

func askSample(t *testing.T, on *Terminal) *asked[*mcp.CreateMessageWithToolsResult] {
	return ask(t, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
		return on.Sample(ctx, "tracker", &mcp.CreateMessageWithToolsParams{
			SystemPrompt: "Be brief.", MaxTokens: 100,
			Messages: []*mcp.SamplingMessageV2{{Role: "user",
				Content: []mcp.Content{&mcp.TextContent{Text: "Summarise:\nthe bug"}}}},
			Tools: []*mcp.Tool{{Name: "look"}},
		})
	})
}

var written = &mcp.CreateMessageWithToolsResult{
	Role: "assistant", Model: "human", StopReason: "endTurn",
	Content: []mcp.Content{&mcp.TextContent{Text: "It is wrong.\nVery."}},
}
