package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func resumeCommand() *cobra.Command {
	return conversationCommand(&cobra.Command{
		Use:   "resume FILE [TARGET]",
		Short: "Continue a parked call",
		Long: `Continue a call that --park or "Later" left in FILE, at the URL where it began
or at TARGET, another instance of the same server. Name TARGET if the server is
a program, or if you send headers: a file from somebody else must not start a
program on your machine, or get your headers. 'askback call --help' explains
answers and exit codes.

FILE stays unchanged, unless --park names it again or you choose Later again:
then it holds the call with the new answers. A file that Later has made is
removed when there is a result. Remove any other FILE then: to resume it again
repeats the last round, and the tool may act a second time. FILE contains
arguments and answers: keep it as secret as they are. - stands for standard
input.`,
		Example: `  askback call http://127.0.0.1:8080/mcp update_work_item workItemId=4522 \
    fields='{"System.State":"Resolved"}' --park bug.json
  askback resume bug.json --answer resolution='{"resolution":"Fixed"}'`,
	}, withAnswers, func(c *conversation, args []string) error {
		if err := oneStdin(map[string]string{"FILE": args[0], "--answers": c.answer.file}); err != nil {
			return err
		}
		pending, err := readParked(args[0], c.cmd.InOrStdin())
		if err != nil {
			return err
		}
		at := pending.Endpoint
		if len(args) > 1 {
			at = args[1]
		} else if err := trustEndpoint(c.cmd, args[0], at, c.connect.headers); err != nil {
			return err
		}
		c.answer.resumed, c.taskID = args[0], pending.TaskID
		return c.hold(at, callee(pending), func(ctx context.Context, s *client.Session) (func() error, error) {
			res, err := c.resume(ctx, s, pending)
			return func() error {
				err := c.printResult(res)
				if exit, ok := errors.AsType[*exitError](err); err == nil || ok && exit.code == exitToolError {
					removeParked(args[0])
				}
				return err
			}, explainRefusal(pending, err)
		})
	})
}

// trustEndpoint checks the address that a parked call names, and tells the user where the call goes on. Anybody may
// have written the file: it may name a server, but it must not start a program or receive the user's headers.
func trustEndpoint(cmd *cobra.Command, file, endpoint string, headers []string) error {
	name := harmlessLine(file, 200)
	if file == "-" {
		name = "standard input"
	}
	if endpoint == "" {
		return usagef("the call in %s is to a program: name it, as in 'askback resume %s TARGET'", name, shellQuote(file))
	}
	t, err := parseTarget(endpoint)
	if err != nil || t.address == nil {
		return usagef("%s names the server %.200q, and a file may name only an http:// or https:// URL: "+
			"name the server yourself, as in 'askback resume %s TARGET'", name, endpoint, shellQuote(file))
	}
	origin := (&url.URL{Scheme: t.address.Scheme, Host: t.address.Host}).String()
	if len(headers) > 0 {
		return usagef("--header would go to %s, which only %s names: if that is right, name it yourself, "+
			"as in 'askback resume %s %s …'",
			origin, name, shellQuote(file), shellQuote(t.shown()))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "askback: continuing at %s, which %s names\n", harmlessLine(origin, 200), name)
	return nil
}

// callee names the tool, prompt or resource of a parked call.
func callee(p *client.Pending) string {
	var params struct{ Name, URI string }
	_ = json.Unmarshal(p.Params, &params) // Resume reports what is wrong with them
	return cmp.Or(params.Name+params.URI, "the task")
}

// resume goes on with a parked call.
func (c *conversation) resume(ctx context.Context, s *client.Session, p *client.Pending) (mcp.Result, error) {
	c.asker.trace.resumed(p)
	if p.TaskID != "" { // somebody may have answered it meanwhile, or it may ask something else
		if p.Tasks == client.TasksProposal && revision(s) >= "2026-07-28" {
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
	p.Meta = mcp.Meta{"progressToken": progressToken}
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
		faultText(refused.Err))
}

// readParked reads a parked call from a file, or from stdin for "-".
func readParked(file string, stdin io.Reader) (*client.Pending, error) {
	text, err := readInput(file, stdin)
	if err != nil {
		return nil, usagef("the parked call: %w", err)
	}
	pending := new(client.Pending)
	if err := json.Unmarshal(text, pending); err != nil {
		return nil, usagef("%s does not hold a parked call as --park writes it: %w", file, err)
	}
	return pending, nil
}
