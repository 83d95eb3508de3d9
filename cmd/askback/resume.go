package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func resumeCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
	)
	cmd := &cobra.Command{
		Use:   "resume FILE [TARGET]",
		Short: "Go on with a call that was parked",
		Long: `Go on with a call that --park left in FILE, at the URL where it began or at
TARGET, another instance of the same server. A call to a program needs TARGET,
its command line, and so does --header: a file that was sent to you runs no
program, and gets no header of yours. Answers and exit codes are those of
'askback call'.

FILE stays as it is, unless --park names it again: then it has the call as far
as it came. It holds arguments and answers, and should be kept as secret as they
are. For - it is read from standard input.`,
		Example: `  askback call http://127.0.0.1:8080/mcp update_work_item workItemId=4522 \
    fields='{"System.State":"Resolved"}' --park bug.json
  askback resume bug.json --answer resolution='{"resolution":"Fixed"}'`,
		Args: takes("FILE", "[TARGET]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneStdin(map[string]string{"FILE": args[0], "--answers": answer.file}); err != nil {
				return err
			}
			pending, err := readPending(cmd, args[0])
			if err != nil {
				return err
			}
			at := pending.Endpoint
			if len(args) > 1 {
				at = args[1]
			} else if err := trustEndpoint(cmd, args[0], at, &connect); err != nil {
				return err
			}
			answer.resumed = args[0]
			c, err := newConversation(at, callee(pending), &connect, &answer)
			if err != nil {
				return err
			}
			c.pending = pending
			if _, err := watching(cmd, c, new(taskFlags), pending.TaskID); err != nil {
				return err
			}
			c.show = func(res mcp.Result, raw json.RawMessage) error {
				return show(cmd, c.called, res, raw, connect.output == "json")
			}
			return c.hold(cmd)
		},
	}
	answer.register(cmd.Flags())
	connect.register(cmd.Flags())
	return cmd
}

// trustEndpoint decides whether the call in a file may go on where the file says, and tells where that is. A file may
// come from anybody: it can name a server to speak to, but no program to run, and nobody to give the user's headers to.
func trustEndpoint(cmd *cobra.Command, file, endpoint string, connect *connectFlags) error {
	name := harmlessLine(file, 200)
	if file == "-" {
		name = "standard input"
	}
	if endpoint == "" {
		return usagef("the call in %s is to a program: name it, as in 'askback resume %s TARGET'", name, shellQuote(file))
	}
	t, err := parseTarget(endpoint)
	if err != nil || t.address == nil {
		return usagef("%s wants to go on at %.200q: a file may name an http:// or https:// URL, and nothing else; "+
			"name the server yourself, as in 'askback resume %s TARGET'", name, endpoint, shellQuote(file))
	}
	origin := (&url.URL{Scheme: t.address.Scheme, Host: t.address.Host}).String()
	if len(connect.headers) > 0 {
		return usagef("--header would go to %s, which only %s names: if that is right, name it yourself, as in 'askback resume %s %s …'",
			origin, name, shellQuote(file), shellQuote(t.shown()))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "askback: going on at %s, which %s names\n", harmlessLine(origin, 200), name)
	return nil
}

func readPending(cmd *cobra.Command, file string) (*client.Pending, error) {
	text, err := readInput(file, cmd.InOrStdin())
	if err != nil {
		return nil, usagef("the parked call: %w", err)
	}
	pending := new(client.Pending)
	if err := json.Unmarshal(text, pending); err != nil {
		return nil, usagef("%s has no parked call, such as --park writes: %w", file, err)
	}
	return pending, nil
}

// callee is the tool, prompt or resource of a parked call.
func callee(p *client.Pending) string {
	var params struct{ Name, URI string }
	_ = json.Unmarshal(p.Params, &params) // Resume tells what is wrong
	return cmp.Or(params.Name+params.URI, "the task")
}

// resume goes on with a parked call.
func resume(ctx context.Context, s *client.Session, a *asker, p *client.Pending) (mcp.Result, error) {
	a.trace.resumed(p)
	w := watchOf(ctx)
	if p.TaskID != "" { // it may have been answered meanwhile, or ask something else
		if p.Tasks == client.TasksSeeds && revision(s) >= "2026-07-28" {
			w.dialect = p.Tasks
		}
		res, err := s.Resume(ctx, p)
		return res, w.left(err)
	}
	var open []*client.Question
	for _, q := range p.Questions {
		if _, answered := p.Answers[q.Key]; !answered {
			q.Server = s.Server()
			open = append(open, q)
		}
	}
	if err := a.begin(open); err != nil {
		return nil, err
	}
	p.Meta = mcp.Meta{"progressToken": progressToken}
	res, err := s.Resume(ctx, p)
	return res, w.left(err)
}

// parkable finds out before a call whether it can be parked in the file: where another call is parked, or whatever
// else, it cannot. A call that was resumed may be parked where it was.
func parkable(file, resumed string) error {
	if file == "-" || file == resumed && file != "" {
		return nil
	}
	if _, err := os.Lstat(file); err == nil {
		return usagef("--park %s: it exists already, choose another name", file)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return usagef("--park %s: there is no directory %s", file, filepath.Dir(file))
	}
	return nil
}

// park writes a call that waits to a file of its owner's only, all at once.
func (c *conversation) park(cmd *cobra.Command, p *client.Pending) error {
	file := c.answer.park
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("parking the call: %w", err)
	}
	text = append(text, '\n')
	if file == "-" {
		if err := output(cmd.OutOrStdout(), string(text)); err != nil {
			return err
		}
	} else if err := writePending(file, string(text), file == c.answer.resumed); err != nil {
		return fmt.Errorf("parking the call: %w", err)
	}
	until := ""
	if p.Expires != nil {
		until = fmt.Sprintf(", not later than %s", moment(*p.Expires, time.Now(), ""))
	}
	again := "askback resume " + shellQuote(file)
	switch {
	case p.Endpoint == "":
		again += " TARGET"
	case len(c.connect.headers) > 0: // which go nowhere that only a file names
		again += " " + shellQuote(c.target.shown()) + " --header …"
	}
	return &exitError{exitWaits, fmt.Errorf("%w\nGo on with '%s'%s", p, again, until)}
}

// writePending writes a file at once, in place of the one that is there only if replace says so.
func writePending(file, text string, replace bool) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".askback-parked-*") // mode 0600
	if err != nil {
		return err
	}
	if err := writeAndSync(f, text); err != nil {
		os.Remove(f.Name())
		return errors.Unwrap(err)
	}
	if replace {
		return os.Rename(f.Name(), file)
	}
	// Where another call was parked meanwhile, this one is kept beside it.
	if linkErr := os.Link(f.Name(), file); linkErr != nil {
		return fmt.Errorf("%w; the call is in %s", linkErr, f.Name())
	}
	return os.Remove(f.Name())
}
