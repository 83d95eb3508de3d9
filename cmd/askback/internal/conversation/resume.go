package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Resume continues the call that is parked in a file, or on standard input for "-". At is the server; empty is where
// the call began.
func (c *Conversation) Resume(file, at string) error {
	pending, err := readParked(file, c.Cmd.InOrStdin())
	if err != nil {
		return err
	}
	if at == "" {
		at = pending.Endpoint
		if err := trustEndpoint(c.Cmd, file, at, c.connect.headers); err != nil {
			return err
		}
	}
	c.answer.resumed, c.TaskID = file, pending.TaskID
	return c.Hold(at, callee(pending), func(ctx context.Context, s *client.Session) (func() error, error) {
		res, err := c.continueCall(ctx, s, pending)
		return func() error {
			err := c.printResult(res)
			if code, _ := cli.ExitCode(err); err == nil || code == cli.ExitToolError {
				removeParked(file)
			}
			return err
		}, explainRefusal(pending, err)
	})
}

// trustEndpoint checks the address that a parked call names, and tells the user where the call goes on. Anybody may
// have written the file: it may name a server, but it must not start a program or receive the user's headers.
func trustEndpoint(cmd *cobra.Command, file, endpoint string, headers []string) error {
	name := cli.HarmlessLine(file, 200)
	if file == "-" {
		name = "standard input"
	}
	if endpoint == "" {
		return cli.Usagef("the call in %s is to a program: name it, as in 'askback resume %s TARGET'", name,
			cli.ShellQuote(file))
	}
	t, err := cli.ParseTarget(endpoint)
	if err != nil || t.Address == nil {
		return cli.Usagef("%s names the server %.200q, and a file may name only an http:// or https:// URL: "+
			"name the server yourself, as in 'askback resume %s TARGET'", name, endpoint, cli.ShellQuote(file))
	}
	origin := (&url.URL{Scheme: t.Address.Scheme, Host: t.Address.Host}).String()
	if len(headers) > 0 {
		return cli.Usagef("--header would go to %s, which only %s names: if that is right, name it yourself, "+
			"as in 'askback resume %s %s …'",
			origin, name, cli.ShellQuote(file), cli.ShellQuote(t.Shown()))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "askback: continuing at %s, which %s names\n", cli.HarmlessLine(origin, 200), name)
	return nil
}

// callee names the tool, prompt or resource of a parked call.
func callee(p *client.Pending) string {
	var params struct{ Name, URI string }
	_ = json.Unmarshal(p.Params, &params) // Resume reports what is wrong with them
	return cmp.Or(params.Name+params.URI, "the task")
}

// continueCall goes on with a parked call.
func (c *Conversation) continueCall(ctx context.Context, s *client.Session, p *client.Pending) (mcp.Result, error) {
	c.asker.trace.resumed(p)
	if p.TaskID != "" { // somebody may have answered it meanwhile, or it may ask something else
		if p.Tasks == client.TasksProposal && Revision(s) >= "2026-07-28" {
			c.asker.watch.dialect = p.Tasks
		}
		return s.Resume(ctx, p)
	}
	var open []*client.Question
	for _, q := range p.Questions {
		if _, answered := p.Answers[q.Key]; !answered {
			q.Server = s.Server()
			open = append(open, q)
		}
	}
	if err := c.asker.begin(open); err != nil {
		return nil, err
	}
	p.Meta = mcp.Meta{"progressToken": ProgressToken}
	return s.Resume(ctx, p)
}

// explainRefusal tells why a server may have refused a parked call.
func explainRefusal(p *client.Pending, err error) error {
	refused, ok := errors.AsType[*client.RefusedError](err)
	switch {
	case !ok:
		return err
	case p.Expires != nil && time.Now().After(*p.Expires):
		return fmt.Errorf("the call waited for too long, it expired at %s: call again", p.Expires.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("the server refused the parked call: it is not the server that asked and has other keys, "+
		"or the call belongs to another user, or the call was continued before and may continue only once. "+
		"Call again (%w)",
		cli.FaultText(refused.Err))
}
