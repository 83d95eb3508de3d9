package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// Tool is a tool that asks, in the style of the peers for Multi Round-Trip Requests: its handler returns questions and
// a state, and is called again with these and the answers. A real server would also sign the state.
type Tool func(state string, answers map[string]string) Round

// Round is what a handler returns: its text, or what it asks.
type Round struct {
	Text  string
	Ask   []Question
	State string
}

// Question is a question of a tool. Its answer is the name in the form, the text of the model or the first root. The
// answer to a form that is not accepted is the action.
type Question struct{ Kind, Key, Message string }

// The kinds of questions.
const (
	Form   = "form" // with [NameSchema]
	Prompt = "prompt"
	Roots  = "roots"
)

// NameSchema is the schema of every form.
var NameSchema = map[string]any{
	"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
}

var (
	person  = Question{Form, "person", "What is your name?"}
	capital = Question{Prompt, "capital", "What is the capital of France?"}
	roots   = Question{Roots, "roots", ""}
)

// Tools are the tools of the servers of peers that are written in Go.
var Tools = map[string]Tool{
	"t_elicit": once("Hello, %s.", person),
	"t_sample": once("The model says: %s", capital),
	"t_roots":  once("Roots: %s", roots),
	"t_three":  once("%s, %s, %s", person, capital, roots),
	"t_rounds": func(state string, answers map[string]string) Round {
		name, city, _ := strings.Cut(state, " of ")
		if signer := answers["signer"]; signer != "" {
			return Round{Text: fmt.Sprintf("%s of %s, signed %s", name, city, signer)}
		} else if city = answers["city"]; city != "" {
			both := name + " of " + city
			return Round{Ask: []Question{{Form, "signer", both + ": who signs?"}}, State: both}
		} else if name = answers["person"]; name != "" {
			return Round{Ask: []Question{{Prompt, "city", "Where does " + name + " live?"}}, State: name}
		}
		return Round{Ask: []Question{person}}
	},
	"t_state": func(state string, _ map[string]string) Round {
		if state == "" {
			return Round{State: "busy"}
		}
		return Round{Text: "served the second time"}
	},
	"t_decline": func(state string, answers map[string]string) Round {
		if answers["person"] == "decline" {
			return Round{Text: "Nothing was deleted."}
		}
		return once("Deleted for %s", Question{Form, "person", "Delete everything? Sign with your name."})(state, answers)
	},
}

// once is a tool that asks everything at once. Its text has the answers.
func once(text string, questions ...Question) Tool {
	return func(_ string, answers map[string]string) Round {
		if len(answers) == 0 {
			return Round{Ask: questions}
		}
		var values []any
		for _, q := range questions {
			values = append(values, answers[q.Key])
		}
		return Round{Text: fmt.Sprintf(text, values...)}
	}
}

// Sample asks the client's model from a tool of Askback, and returns the text of its answer.
func Sample(call *askback.Call, key, prompt string) (string, error) {
	answer, err := askback.Sample(call, key, &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: prompt}}}},
	})
	if err != nil {
		return "", err
	}
	for _, content := range answer.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			return t.Text, nil
		}
	}
	return "", errors.New("the model answered without a text")
}
