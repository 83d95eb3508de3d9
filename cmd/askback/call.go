package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
)

func callCommand() *cobra.Command {
	var whole string
	cmd := conversationCommand(&cobra.Command{
		Use:   "call TARGET TOOL [KEY=VALUE …]",
		Short: "Call a tool, and answer what it asks",
		Long: `TARGET is a URL, or a command line in one argument, split at spaces except in
' ', " " and after \. It runs without a shell and without ` + keysVariable + `. VALUE is
a string if the tool's schema wants one, otherwise JSON; KEY:=JSON is JSON.

Answers come from --answer and --answers: the content of the form as JSON, or
accept, decline or cancel; for sampling a text or a result. The terminal asks
the rest, and Later parks the call. 'askback task' waits for a task later.

Exit codes: 0 the result is there; 1 it failed; 2 wrong usage or answers; 3 the
tool answered with an error; 4 answers are missing or parked; 5 --detach: the
server answered at once; 130 interrupted.`,
		Example: `  askback call http://127.0.0.1:8080/mcp get_weather location='New York'
  askback call 'askback serve --stdio' get_weather location=Oslo \
    --answer github_login='{"name":"octocat"}'`,
	}, withAnswers|withNewTasks, func(c *conversation, args []string) error {
		pairs, err := parsePairs(args[2:])
		if err != nil {
			return err
		}
		if err := oneStdin(map[string]string{"--json": whole, "--answers": c.answer.file}); err != nil {
			return err
		}
		object, err := readObject(c.cmd, whole)
		if err != nil {
			return err
		}
		return c.hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			tool, params, err := c.newToolRequest(ctx, s, args[1], pairs, object)
			if err != nil {
				return nil, err
			}
			print, err := c.callTool(ctx, s, params)
			if !c.asker.asked.Load() {
				err = explainArguments(tool, err)
			}
			return print, err
		})
	})
	cmd.Flags().StringVar(&whole, "json", "", "all arguments: a `JSON` object, @FILE or -")
	return cmd
}

// printStarted prints the ID of a task that the command does not wait for.
func (c *conversation) printStarted(t *client.Task) error {
	if !c.asJSON() && !forScripts(t.ID) {
		return fmt.Errorf("the task's id %.200q is not printed, because a script would not read it as one word; "+
			"--output json prints it, '%s' goes on with the task", t.ID, c.asker.watch.command())
	}
	return c.show(encodeTask(t), t.ID+"\n")
}

// printCalled prints the result of a call. Where --detach asked for a task, the exit code says that there is none.
func (c *conversation) printCalled(res *mcp.CallToolResult) error {
	if err := c.printer(res)(); err != nil || !c.tasks.detach {
		return err
	}
	return &exitError{exitAtOnce, errors.New("the server answered at once: there is no task")}
}

// forScripts reports whether a script can read a task's ID as one argument: a shell splits it at white space, and
// programs read a leading hyphen as a flag.
func forScripts(id string) bool {
	return !strings.HasPrefix(id, "-") && !strings.ContainsFunc(id,
		func(r rune) bool { return unicode.IsSpace(r) || !strconv.IsPrint(r) })
}

// readObject reads the value of --json. It returns nil without the flag.
func readObject(cmd *cobra.Command, flag string) ([]byte, error) {
	if flag == "" {
		return nil, nil
	}
	text, name := []byte(flag), "--json"
	file, isFile := strings.CutPrefix(flag, "@")
	if isFile || flag == "-" {
		var err error
		if text, err = readInput(file, cmd.InOrStdin()); err != nil {
			return nil, usagef("--json: %w", err)
		}
		name = "--json " + flag
	}
	if err := checkObject(text); err != nil {
		return nil, usagef("%s: want a JSON object: %w", name, err)
	}
	return text, nil
}

// newToolRequest makes the parameters of a call. Without pairs, the object of --json is sent unchanged, so that a
// server can be tested with any arguments. The tool is nil if the server does not list it.
func (c *conversation) newToolRequest(ctx context.Context, s *client.Session, name string, pairs []pair,
	whole []byte) (*mcp.Tool, *mcp.CallToolParams, error) {
	tools, err := listItems[mcp.Tool](ctx, c, s, "tools/list")
	var tool *mcp.Tool
	var names []string
	for _, t := range tools {
		if t.Name == name {
			tool = t
		}
		names = append(names, t.Name)
	}
	arguments := json.RawMessage(whole)
	switch {
	case tool != nil && err == nil:
		var unchecked error
		arguments, unchecked, err = parseSchema(tool.InputSchema).arguments(ctx, name, pairs, whole)
		if err != nil {
			return nil, nil, err
		}
		if unchecked != nil {
			c.asker.console.line("askback: the arguments of %s are not checked here, only by the server: %s",
				harmlessLine(name, 200), harmlessLine(unchecked.Error(), 1000))
		}
	case whole != nil && len(pairs) == 0:
	case err != nil:
		return nil, nil, fmt.Errorf("listing the tools, for the arguments of %s (not needed with --json): %w", name, err)
	default:
		return nil, nil, unknownName("tool", name, names)
	}
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(progressToken)
	return tool, params, nil
}

// hintInline suggests --protocol-version when a tool seems to have failed because it asks in the middle of its call, as
// tools do in a session of an earlier revision: its error names the request that it could not send.
func (c *conversation) hintInline(s *client.Session, res *mcp.CallToolResult, err error) {
	var text strings.Builder
	switch {
	case revision(s) < "2026-07-28":
		return
	case err != nil:
		fault, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			return
		}
		text.WriteString(fault.Message)
	case res != nil && res.IsError:
		for _, content := range res.Content {
			if t, ok := content.(*mcp.TextContent); ok {
				text.WriteString(t.Text)
			}
		}
	}
	for _, method := range []string{elicitation, sampling, "roots/list"} {
		if strings.Contains(text.String(), method) {
			c.asker.console.line("askback: the tool seems to ask inside a session, which this revision does not have: " +
				"try --protocol-version 2025-11-25")
			return
		}
	}
}

// explainArguments adds the tool's arguments to an error about them.
func explainArguments(tool *mcp.Tool, err error) error {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	_, refused := errors.AsType[*client.RefusedError](err)
	_, began := unfinishedTask(err)
	if ok && fault.Code == jsonrpc.CodeInvalidParams && tool != nil && !refused && !began {
		return parseSchema(tool.InputSchema).wrongArguments(tool.Name, faultText(err))
	}
	return err
}

// callTool calls a tool. It waits for the task that the call may become, unless --detach is set.
func (c *conversation) callTool(ctx context.Context, s *client.Session,
	params *mcp.CallToolParams) (print func() error, err error) {
	if !c.tasks.detach && c.tasks.ttl == 0 {
		res, err := s.CallTool(ctx, params)
		c.hintInline(s, res, err)
		return c.printer(res), err
	}
	started, res, err := s.StartTask(ctx, params, c.tasks.ttl)
	if started == nil {
		c.hintInline(s, res, err)
		return func() error { return c.printCalled(res) }, err
	}
	c.asker.watch.follow(started.ID)
	if c.tasks.ttl != 0 && revision(s) >= "2026-07-28" && c.asker.watch.dialect != client.TasksProposal {
		c.asker.console.line("askback: warning: --task-ttl has no effect: with the tasks extension the server decides how " +
			"long it keeps a task")
	}
	if c.tasks.detach {
		return func() error { return c.printStarted(started) }, nil
	}
	res, err = s.WaitTask(ctx, started.ID)
	return c.printer(res), err
}
