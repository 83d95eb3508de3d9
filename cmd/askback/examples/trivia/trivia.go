// Package trivia is an example of a tool that asks the user and the client's model in the same round: github_trivia
// tells what the model says the capital of France is, and who wanted to know.
package trivia

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type githubLogin struct {
	Name string `json:"name"`
}

var (
	errNoLogin = errors.New("a GitHub username is needed; please call github_trivia again and provide one")
	errNoText  = errors.New("the client's model gave no answer in words; please call github_trivia again")
)

var capitalOfFrance = &mcp.CreateMessageWithToolsParams{
	Messages: []*mcp.SamplingMessageV2{{
		Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "What is the capital of France?"}},
	}},
	ModelPreferences: &mcp.ModelPreferences{
		Hints:                []*mcp.ModelHint{{Name: "claude-3-sonnet"}},
		IntelligencePriority: 0.8,
		SpeedPriority:        0.5,
	},
	SystemPrompt: "You are a helpful assistant.",
	MaxTokens:    100,
}

// Register adds the tool github_trivia to s.
func Register(s *askback.Server) {
	tool := &mcp.Tool{Name: "github_trivia", Description: "The capital of France, from your model"}

	askback.AddTool(s, tool, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		login, asked := askback.Elicit[githubLogin](call, "github_login", "Please provide your GitHub username")
		answer, sampled := askback.Sample(call, "capital_of_france", capitalOfFrance)
		if _, declined := errors.AsType[*askback.DeclinedError](asked); declined && sampled == nil {
			return "", errNoLogin
		}
		if err := errors.Join(asked, sampled); err != nil {
			return "", err
		}
		name, said := strings.TrimSpace(login.Name), text(answer)
		if name == "" {
			return "", errNoLogin
		}
		if said == "" {
			return "", errNoText
		}
		return fmt.Sprintf("%s asked, %s answered: %s", name, answer.Model, said), nil
	})
}

// text returns what a model said in words, which it may mix with images and sound.
func text(answer *mcp.CreateMessageWithToolsResult) string {
	var words []string
	for _, content := range answer.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			words = append(words, t.Text)
		}
	}
	return strings.TrimSpace(strings.Join(words, "\n"))
}
