package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// Rules decide about every call of a server's tools before it runs. An approval is remembered here: the same call of
// carol passes without a question, twice within eight hours.
func ExampleDeskOptions_rules() {
	rules := func(_ context.Context, c *askback.ToolCall) *askback.Verdict {
		var in Release
		if err := json.Unmarshal(c.Arguments, &in); err != nil {
			return &askback.Verdict{Action: askback.RuleDeny, Reason: "The arguments cannot be read."}
		}
		if in.Version == "" {
			return &askback.Verdict{Action: askback.RuleAllow, Rule: "the same version"}
		}
		return &askback.Verdict{
			Action: askback.RuleAsk, Rule: "releases", For: []string{askback.Group("release")},
			Remember: 8 * time.Hour, Uses: 2, Digest: "releases 1",
		}
	}
	store := new(task.MemoryStore)
	srv := newServer(askback.Options{
		Tasks:     &askback.Tasks{Store: store},
		Desk:      &askback.DeskOptions{Rules: rules},
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		Audit: func(_ context.Context, e askback.AuditEvent) {
			if e.Kind == askback.AuditRecalled {
				fmt.Println("passes by the approval of", e.By)
			}
		},
	})
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
		func(ctx context.Context, call *askback.Call, in Release) (string, error) {
			return in.Version + " is deployed.", nil
		})
	defer runTasks(srv)()
	ada := desk.Person{Name: "ada", Groups: []string{"release"}}
	people := &client.Options{OnRound: atDesk(store, desk.Answer{By: ada, Action: "accept"})}
	for range 2 {
		callTool(srv, people, "deploy", Release{"4.2"})
	}
	// Output:
	// ada was asked: Call the tool "deploy"?
	//
	// Asked by the rule "releases".
	//
	// An approval is remembered: the same call of carol passes for 8h, up to 2 more times. {"version":"4.2"}
	// 4.2 is deployed.
	// passes by the approval of ada
	// 4.2 is deployed.
}
