package law

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
)

// questions are the keys of questions. Their first letter says what they are: a form, a form that is declined or
// cancelled, a URL, a question to the model, or one for the roots.
var questions = []string{"form1", "form2", "form3", "declined", "cancelled", "url", "model", "roots"}

// programs makes programs that ask their client.
func programs(depth int) *rapid.Generator[program.Program] {
	made := program.Choices{Keys: questions, Ops: []program.Op{
		program.Ask, program.Ask, program.Ahead, program.AtOnce, program.Step, program.Step, program.Failing,
		program.Panicking, program.Checkpoint, program.Branch,
	}}
	return rapid.Custom(func(t *rapid.T) program.Program {
		return made.Program(depth, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
	})
}

type runsKey struct{}

// run runs the program of a call. The steps that run are noted in the request's context or, without one, in elsewhere.
func (a arguments) run(ctx context.Context, w program.World, elsewhere *program.Runs) (string, error) {
	p, err := a.decode()
	if err != nil {
		return "", err
	}
	runs, ok := ctx.Value(runsKey{}).(*program.Runs)
	if !ok {
		runs = elsewhere
	}
	trace, err := p.Run(ctx, w, askback.ErrInputRequired, runs)
	return strings.Join(trace, "\n"), err
}

// Ask asks the client.
func (w world) Ask(key string) (string, error) {
	switch key {
	case "url":
		return "accept", askback.ElicitURL(w.call, key, "Please log in.", "https://example.com/login")
	case "model":
		res, err := askback.Sample(w.call, key, harness.Sampling("Which?"))
		if err != nil {
			return "", err
		}
		return res.Content[0].(*mcp.TextContent).Text, nil
	case "roots":
		roots, err := askback.Roots(w.call, key)
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	}
	n, err := askback.Elicit[number](w.call, key, howMany(key))
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return declined.Action, nil
	}
	return fmt.Sprint(n.N), err
}

// reply is the answer of one of several clients to a question: as the program sees it, and as it travels.
func reply(client int, key string) (seen, travels string) {
	switch key {
	case "url":
		return "accept", `{"action":"accept"}`
	case "model":
		seen = fmt.Sprintf("model %d%s", client, strings.Repeat("!", client%2))
		return seen, `{"role":"assistant","model":"m","content":{"type":"text","text":` + harness.Quote(seen) + `}}`
	case "roots":
		seen = fmt.Sprintf("file:///client/%d", client)
		return seen, `{"roots":[{"uri":` + harness.Quote(seen) + `}]}`
	case "declined":
		return "decline", `{"action":"decline"}`
	case "cancelled":
		return "cancel", `{"action":"cancel"}`
	}
	seen = fmt.Sprint(int(key[4]-'0')*7 + client*95) // of one, two or three digits
	return seen, `{"action":"accept","content":{"n":` + seen + `}}`
}

// unfit is an answer that does not fit the question, or "" if any fits.
func unfit(key string) string {
	if strings.HasPrefix(key, "form") {
		return `{"action":"accept","content":{"n":"many"}}`
	}
	return ""
}

// howMany are the words of a form.
func howMany(key string) string { return "How many " + key + "?" }
