// Package deploy is an example of a tool that waits for people: deploy asks two of the group release to approve a
// version and, if they have not decided in time, one of the group oncall. Who called does not count among them.
package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type args struct {
	Version string `json:"version"`
	Within  string `json:"within"`
}

// argsSchema is the schema of args. People read the version in a question, so that it must not be a text of its own.
var argsSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"version": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$",
			"description": "what to deploy, such as 4.2"},
		"within": {"type": "string", "default": "4h",
			"description": "how long the group release may take before somebody on call is asked, such as 90m"}
	},
	"required": ["version"],
	"additionalProperties": false
}`)

// Register adds the tool deploy to s, which needs Options.Desk. For a client that can take a task every call is one.
func Register(s *askback.Server) {
	tool := &mcp.Tool{
		Name:        "deploy",
		Description: "Deploy a version once two of the group release have approved it",
		InputSchema: argsSchema,
	}
	askback.AddTaskTool(s, tool, nil, deploy)
}

// deploy says what people have decided. A tool that does more does it in call.Do, where it says that the version is
// deployed.
func deploy(_ context.Context, call *askback.Call, in args) (string, error) {
	within, err := time.ParseDuration(in.Within)
	if err != nil || within <= 0 {
		return "", fmt.Errorf("within: %q is not a time above zero, such as 90m or 4h", in.Within)
	}

	asked := "approve"
	err = askback.Approve(call, asked, askback.Question{
		Message: "Deploy version " + in.Version + "?",
		For:     []string{askback.Group("release")},
		Votes:   2,
		Within:  within,
	})
	if _, late := errors.AsType[*askback.UnansweredError](err); late {
		asked = "escalate"
		err = askback.Approve(call, asked, askback.Question{
			Message: fmt.Sprintf("Deploy version %s? The group release has not decided within %v.", in.Version, within),
			For:     []string{askback.Group("oncall")},
		})
	}
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		by := call.Answers(asked)[0]
		text := fmt.Sprintf("Version %s is not deployed: %s declined", in.Version, by.Who)
		if by.Why != "" {
			text += ", because: " + by.Why
		}
		return text + ".", nil
	}
	if err != nil {
		return "", err // people are still to decide
	}

	var names []string
	for _, by := range call.Answers(asked) {
		names = append(names, by.Who)
	}
	return fmt.Sprintf("Version %s is deployed, approved by %s.", in.Version, strings.Join(names, " and ")), nil
}
