// Package callcmd calls a tool.
package callcmd

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
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
	"github.com/askback-mcp/askback/input"
)

// Command returns 'askback call'.
func Command() *cobra.Command {
	var whole string
	cmd := conversation.Command(&cobra.Command{
		Use:   "call TARGET TOOL [KEY=VALUE …]",
		Short: "Call a tool, and answer what it asks",
		Long: `TARGET is a URL, or a command line in one argument, split at spaces except in
' ', " " and after \. It runs without a shell and without ` + keyfile.Variable + `. VALUE is
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
	}, conversation.WithAnswers|conversation.WithNewTasks, func(c *conversation.Conversation, args []string) error {
		pairs, err := arguments.ParsePairs(args[2:])
		if err != nil {
			return err
		}
		if err := c.OneStdin("--arguments", whole); err != nil {
			return err
		}
		object, err := readObject(c.Cmd, whole)
		if err != nil {
			return err
		}
		return c.Hold(args[0], args[1], func(ctx context.Context, s *client.Session) (func() error, error) {
			tool, params, err := newToolRequest(ctx, c, s, args[1], pairs, object)
			if err != nil {
				return nil, err
			}
			print, err := callTool(ctx, c, s, params)
			if !c.HasAsked() {
				err = explainArguments(tool, err)
			}
			return print, err
		})
	})
	cmd.Flags().StringVar(&whole, "arguments", "", "all of them: a `JSON` object, @FILE or -")
	return cmd
}

// printStarted prints the ID of a task that the command does not wait for.
func printStarted(c *conversation.Conversation, t *client.Task) error {
	if !c.AsJSON() && !forScripts(t.ID) {
		return fmt.Errorf("the task's id %.200q is not printed, because a script would not read it as one word; "+
			"--json prints it, '%s' goes on with the task", t.ID, c.TaskCommand())
	}
	return c.Show(conversation.EncodeTask(t), t.ID+"\n")
}

// printCalled prints the result of a call. Where --detach asked for a task, the exit code says that there is none.
func printCalled(c *conversation.Conversation, res *mcp.CallToolResult) error {
	if err := c.Printer(res)(); err != nil || !c.Tasks.Detach {
		return err
	}
	return cli.WithCode(cli.ExitAtOnce, errors.New("the server answered at once: there is no task"))
}

// forScripts reports whether a script can read a task's ID as one argument: a shell splits it at white space, and
// programs read a leading hyphen as a flag.
func forScripts(id string) bool {
	return !strings.HasPrefix(id, "-") && !strings.ContainsFunc(id,
		func(r rune) bool { return unicode.IsSpace(r) || !strconv.IsPrint(r) })
}

// readObject reads the value of --arguments. It returns nil without the flag.
func readObject(cmd *cobra.Command, flag string) ([]byte, error) {
	if flag == "" {
		return nil, nil
	}
	text, name := []byte(flag), "--arguments"
	file, isFile := strings.CutPrefix(flag, "@")
	if isFile || flag == "-" {
		var err error
		if text, err = cli.ReadInput(file, cmd.InOrStdin()); err != nil {
			return nil, cli.Usagef("--arguments: %w", err)
		}
		name = "--arguments " + flag
	}
	if err := cli.CheckObject(text); err != nil {
		return nil, cli.Usagef("%s: want a JSON object: %w", name, err)
	}
	return text, nil
}

// newToolRequest makes the parameters of a call. Without pairs, the object of --arguments is sent unchanged, so that a
// server can be tested with any arguments. The tool is nil if the server does not list it.
func newToolRequest(ctx context.Context, c *conversation.Conversation, s *client.Session, name string,
	pairs []arguments.Pair, whole []byte) (*mcp.Tool, *mcp.CallToolParams, error) {
	tools, err := conversation.List[mcp.Tool](ctx, c, s, "tools/list")
	var tool *mcp.Tool
	var names []string
	for _, t := range tools {
		if t.Name == name {
			tool = t
		}
		names = append(names, t.Name)
	}
	sent := json.RawMessage(whole)
	switch {
	case tool != nil && err == nil:
		var unchecked error
		sent, unchecked, err = arguments.ParseSchema(tool.InputSchema).Arguments(ctx, name, pairs, whole)
		if err != nil {
			return nil, nil, err
		}
		if unchecked != nil {
			c.Note("the arguments of %s are not checked here, only by the server: %s",
				cli.HarmlessLine(name, 200), cli.HarmlessLine(unchecked.Error(), 1000))
		}
	case whole != nil && len(pairs) == 0:
	case err != nil:
		return nil, nil, fmt.Errorf("listing the tools, for the arguments of %s (not needed with --arguments): %w", name, err)
	default:
		return nil, nil, cli.UnknownName("tool", name, names)
	}
	params := &mcp.CallToolParams{Name: name, Arguments: sent}
	params.SetProgressToken(conversation.ProgressToken)
	return tool, params, nil
}

// hintInline suggests --protocol-version when a tool seems to have failed because it asks in the middle of its call, as
// tools do in a session of an earlier revision: its error names the request that it could not send.
func hintInline(c *conversation.Conversation, s *client.Session, res *mcp.CallToolResult, err error) {
	var text strings.Builder
	switch {
	case conversation.Revision(s) < "2026-07-28":
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
	for _, method := range []string{input.MethodElicit, input.MethodCreateMessage, input.MethodListRoots} {
		if strings.Contains(text.String(), method) {
			c.Note("the tool seems to ask inside a session, which this revision does not have: " +
				"try --protocol-version 2025-11-25")
			return
		}
	}
}

// explainArguments adds the tool's arguments to an error about them.
func explainArguments(tool *mcp.Tool, err error) error {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	_, refused := errors.AsType[*client.RefusedError](err)
	_, began := conversation.UnfinishedTask(err)
	if ok && fault.Code == jsonrpc.CodeInvalidParams && tool != nil && !refused && !began {
		return arguments.ParseSchema(tool.InputSchema).WrongArguments(tool.Name, cli.FaultText(err))
	}
	return err
}

// callTool calls a tool. It waits for the task that the call may become, unless --detach is set.
func callTool(ctx context.Context, c *conversation.Conversation, s *client.Session,
	params *mcp.CallToolParams) (print func() error, err error) {
	if !c.Tasks.Detach && c.Tasks.Ttl == 0 {
		res, err := s.CallTool(ctx, params)
		hintInline(c, s, res, err)
		return c.Printer(res), err
	}
	started, res, err := s.StartTask(ctx, params, c.Tasks.Ttl)
	if started == nil {
		hintInline(c, s, res, err)
		return func() error { return printCalled(c, res) }, err
	}
	c.FollowTask(started.ID)
	if c.Tasks.Ttl != 0 && conversation.Revision(s) >= "2026-07-28" && c.Dialect() != client.TasksProposal {
		c.Note("warning: --task-ttl has no effect: with the tasks extension the server decides how " +
			"long it keeps a task")
	}
	if c.Tasks.Detach {
		return func() error { return printStarted(c, started) }, nil
	}
	res, err = s.WaitTask(ctx, started.ID)
	return c.Printer(res), err
}
