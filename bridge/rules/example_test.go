package rules_test

import (
	"context"
	"fmt"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/rules"
)

func Example() {
	r, err := rules.Parse("rules.yaml", []byte(`
default:
  ask: {}   # the caller
rules:
  - name: payments
    when: tool == "pay" && arguments.amount > 1000
    ask: {for: [group:finance], votes: 2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	v := r.Decide(context.Background(), &askback.ToolCall{
		Server: "bank", Tool: "pay", Arguments: []byte(`{"amount":5000}`), Caller: "ada",
	})
	fmt.Println(v.Rule, v.Action, v.Votes, v.For, r.Edits())
	// Output: payments ask 2 [group:finance] false
}
