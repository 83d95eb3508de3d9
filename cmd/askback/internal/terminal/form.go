package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Form asks the person to fill in a form: the form mode of elicitation. Server is the name of the server. Schema is the
// requestedSchema of the request. If the specification does not allow the schema, the person is told so, and can only
// decline or cancel.
//
// The answer holds exactly what the person saw: it has no member for a field that was left empty. Numbers are float64,
// or json.Number where a float64 would change the value.
//
// The error is the cause of a context that is done, [ErrLater] if the person puts the question off, [ErrInterrupted]
// after Ctrl-C, or the reason why the terminal could not be used. There is no answer with an error.
func (t *Terminal) Form(ctx context.Context, server, message string,
	schema json.RawMessage) (*mcp.ElicitResult, error) {
	p := &prompt{server: serverName(server), asks: "asks:", body: messageBlocks(message)}
	fields, err := fieldsOf(schema)
	switch {
	case err != nil:
		p.body = append(p.body,
			block{kind: warning, text: "This question cannot be answered: the protocol does not allow its form."},
			block{kind: ours, text: "What is wrong with it: " + line(strings.TrimPrefix(err.Error(), "form: requestedSchema: "),
				maxMessage)})
	case len(fields) == 0:
		p.accept, p.done = "Accept", "Accepted."
	default:
		p.fields, p.accept, p.done = fields, "Send", "Sent."
		p.review = len(fields) > 1 // one answer is in view when it is sent
	}
	a, err := t.ask(ctx, p)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitResult{Action: string(a)}
	if a != accept {
		return result, nil
	}
	result.Content = make(map[string]any, len(p.fields))
	for _, f := range p.fields {
		value, err := f.value()
		if err != nil {
			return nil, fmt.Errorf("the answer to %q: %w", f.Name, err)
		}
		if value != nil {
			result.Content[f.Name] = value
		}
	}
	return result, nil
}

// serverName makes a server's name safe to show.
func serverName(server string) string {
	if s := line(server, maxServer); s != "" {
		return s
	}
	return "A server without a name"
}

// messageBlocks makes a server's message safe to show. It returns nil for an empty one.
func messageBlocks(message string) []block {
	text := lines(message, maxMessage)
	if text == "" {
		return nil
	}
	return []block{{kind: theirs, text: text}}
}
