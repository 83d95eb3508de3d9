package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Form asks for a form: the form mode of elicitation. Server says who asks. Schema is the requestedSchema of the
// request; where it goes beyond what the specification allows, the person is told and can only decline or cancel.
//
// The answer holds what the person saw under "This will be sent" and nothing else: a field left empty is not in it.
// Numbers are float64, or json.Number where a float64 would be another number.
//
// The error is the context's cause once that is done, [ErrInterrupted] after Ctrl-C, or says why the terminal could not be used. There is then no
// answer.
func (t *Terminal) Form(ctx context.Context, server, message string, schema json.RawMessage) (*mcp.ElicitResult, error) {
	p := &prompt{server: who(server), asks: "asks:", body: said(message), review: true}
	fields, err := fieldsOf(schema)
	if err != nil {
		p.body = append(p.body,
			block{kind: warning, text: "This question cannot be answered: its form is not one that the protocol allows."},
			block{kind: ours, text: "What is wrong with it: " + line(strings.TrimPrefix(err.Error(), "form: requestedSchema: "), maxMessage)})
		p.review = false
	} else {
		p.fields, p.accept = fields, "Send"
		if len(fields) == 0 {
			p.accept, p.review = "Accept", false
		}
	}
	a, err := t.ask(ctx, p)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitResult{Action: a.String()}
	if a != accept {
		return result, nil
	}
	result.Content = make(map[string]any, len(p.fields))
	for _, f := range p.fields {
		value, given, err := f.value()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the answer to %q: %w", f.name, err)
		case given:
			result.Content[f.name] = value
		}
	}
	return result, nil
}

// who is a server's name as it is shown.
func who(server string) string {
	if s := line(server, maxServer); s != "" {
		return s
	}
	return "A server without a name"
}

// said is a server's message as it is shown.
func said(message string) []block {
	text := lines(message, maxMessage)
	if text == "" {
		return nil
	}
	return []block{{kind: theirs, text: text}}
}
