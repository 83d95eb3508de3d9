package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// progressToken marks the notifications of progress that are this command's.
const progressToken = "askback"

func callCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
		tasks   taskFlags
		whole   string
	)
	cmd := &cobra.Command{
		Use:   "call TARGET TOOL [KEY=VALUE …]",
		Short: "Call a tool, and answer what it asks",
		Long: `Call a tool of the server at TARGET, a URL or a command line in one argument,
and answer what it asks. A command line is split at spaces that no ' ' or " " or
\ protects; no shell runs it, and it does not get ` + keysVariable + `. VALUE is read as
the tool's schema wants it: a string as it is, all else, and KEY:=JSON, as JSON.

Answers come from --answer and --answers: the content of the form as JSON, or
accept, decline or cancel; for sampling a text or a result. A key given twice
answers twice. What is left is asked in the terminal, if there is one. A call
that the server makes a task is waited for; 'askback task' waits for it later.

Exit codes: 0 the result is there; 1 it failed; 2 wrong usage, arguments or
answers; 3 the tool answered with an error; 4 answers are missing or parked; 5
--detach: the server answered at once, its result is printed; 130 interrupted.`,
		Example: `  askback call http://127.0.0.1:8080/mcp get_weather location='New York'
  askback call 'askback serve --stdio' update_work_item workItemId=4522 \
    fields='{"System.State":"Resolved"}' \
    --answer resolution='{"resolution":"Fixed"}'`,
		Args: takesPairs("TARGET", "TOOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newConversation(args[0], args[1], &connect, &answer)
			if err != nil {
				return err
			}
			pairs, err := parsePairs(args[2:])
			if err != nil {
				return err
			}
			if err := oneStdin(map[string]string{"--json": whole, "--answers": answer.file}); err != nil {
				return err
			}
			object, err := readObject(cmd, whole)
			if err != nil {
				return err
			}
			w, err := watching(cmd, c, &tasks, "")
			if err != nil {
				return err
			}
			w.quiet = tasks.detach
			var started *client.Task
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				params, err := callParams(ctx, s, args[1], pairs, object)
				if err != nil {
					return nil, err
				}
				var res *mcp.CallToolResult
				if started, res, err = w.call(ctx, s, params.CallToolParams, &tasks); started != nil {
					return nil, nil
				}
				return result(res, params.explain(w.left(err)))
			}
			c.show = func(res mcp.Result, raw json.RawMessage) error {
				switch {
				case started != nil && connect.output == "json":
					return outputJSON(cmd, encodeTask(started))
				case started != nil:
					if !forScripts(started.ID) {
						return fmt.Errorf("the task's id %.200q is not printed, for no script expects such an id; --output json has it, '%s' goes on with it", started.ID, w.again("result"))
					}
					return output(cmd.OutOrStdout(), started.ID+"\n")
				}
				if err := show(cmd, c.called, res, raw, connect.output == "json"); err != nil || !tasks.detach {
					return err
				}
				return &exitError{exitAtOnce, errors.New("the server answered at once, there is no task")}
			}
			return c.hold(cmd)
		},
	}
	answer.register(cmd.Flags())
	connect.register(cmd.Flags())
	tasks.registerCall(cmd.Flags())
	cmd.Flags().StringVar(&whole, "json", "", "all arguments: a `JSON` object, @FILE or -")
	return cmd
}

func promptCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
	)
	cmd := &cobra.Command{
		Use:   "prompt TARGET NAME [KEY=VALUE …]",
		Short: "Get a prompt, and answer what it asks",
		Long: `Get a prompt of the server at TARGET, a URL or a command line in one argument,
and answer what it asks. Answers and exit codes are those of 'askback call'.`,
		Example: `  askback prompt http://127.0.0.1:8080/mcp summarize style=short`,
		Args:    takesPairs("TARGET", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newConversation(args[0], args[1], &connect, &answer)
			if err != nil {
				return err
			}
			pairs, err := parsePairs(args[2:])
			if err != nil {
				return err
			}
			for _, p := range pairs {
				if p.raw {
					return usagef("%s:=%s: the arguments of prompts are strings, want %[1]s=VALUE", p.key, p.value)
				}
			}
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				return prompt(ctx, s, args[1], pairs)
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

func readCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
	)
	cmd := &cobra.Command{
		Use:   "read TARGET URI",
		Short: "Read a resource, and answer what it asks",
		Long: `Read a resource of the server at TARGET, a URL or a command line in one
argument, and answer what it asks. Answers and exit codes are those of
'askback call'. What is no text is only told of; --output json has it.`,
		Example: `  askback read http://127.0.0.1:8080/mcp file:///notes.txt`,
		Args:    takes("TARGET", "URI"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newConversation(args[0], args[1], &connect, &answer)
			if err != nil {
				return err
			}
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				params := &mcp.ReadResourceParams{URI: args[1]}
				params.SetProgressToken(progressToken)
				return result(s.ReadResource(ctx, params))
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

// forScripts reports whether a task's id can be printed where a script reads it: a shell splits at white space, and
// programs take what begins with a hyphen for a flag.
func forScripts(id string) bool {
	return !strings.HasPrefix(id, "-") && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !strconv.IsPrint(r) })
}

// takesPairs checks that a command was given the named arguments; any number may follow.
func takesPairs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return takes(names...)(cmd, args[:min(len(args), len(names))])
	}
}

func newConversation(at, called string, connect *connectFlags, answer *answerFlags) (*conversation, error) {
	t, err := parseTarget(at)
	if err != nil {
		return nil, err
	}
	return &conversation{target: t, called: harmlessLine(called, 200), connect: connect, answer: answer}, nil
}

// oneStdin refuses to read standard input twice.
func oneStdin(inputs map[string]string) error {
	var from []string
	for name, file := range inputs {
		if file == "-" || name == "--json" && file == "@-" {
			from = append(from, name)
		}
	}
	if len(from) > 1 {
		slices.Sort(from)
		return usagef("standard input can be %s, not both", strings.Join(from, " or "))
	}
	return nil
}

// readObject reads the value of --json: nil for none.
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
	err := strictjson.Check(text, 64)
	if err == nil && strictjson.TypeOf(text) != strictjson.TypeObject {
		err = errors.New("it is no object")
	}
	if err != nil {
		return nil, usagef("%s: want a JSON object: %w", name, err)
	}
	return text, nil
}

// toolRequest is what to call a tool with.
type toolRequest struct {
	*mcp.CallToolParams
	tool *mcp.Tool // nil if it is not known
}

// callParams makes the parameters of a call. A whole object of arguments is sent as it is, so that a server can be
// given anything.
func callParams(ctx context.Context, s *client.Session, name string, pairs []pair, whole []byte) (*toolRequest, error) {
	tool, names, err := findTool(ctx, s, name)
	var arguments json.RawMessage
	switch {
	case tool != nil:
		if arguments, err = toolArguments(tool, pairs, whole); err != nil {
			return nil, err
		}
	case whole != nil && len(pairs) == 0:
		arguments = whole
	case err != nil:
		return nil, fmt.Errorf("listing the tools, to know the arguments of %s (--json does without): %w", name, err)
	default:
		return nil, usagef("there is no tool %q%s", name, cmp.Or(didYouMean(name, names), thereAre("tools", names)))
	}
	params := &mcp.CallToolParams{Name: name, Arguments: arguments}
	params.SetProgressToken(progressToken)
	return &toolRequest{params, tool}, nil
}

// explain adds to an error about the arguments what the tool takes.
func (c *toolRequest) explain(err error) error {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams && c.tool != nil {
		if _, refused := errors.AsType[*client.RefusedError](err); !refused {
			return &argumentsError{harmlessLine(c.Name, 200), faultText(err), parseSchema(c.tool.InputSchema).list()}
		}
	}
	return err
}

// call calls a tool. It returns a task only if it is not to be waited for.
func (w *watch) call(ctx context.Context, s *client.Session, params *mcp.CallToolParams, f *taskFlags) (*client.Task, *mcp.CallToolResult, error) {
	if !f.detach && f.ttl == 0 {
		res, err := s.CallTool(ctx, params)
		return nil, res, err
	}
	started, res, err := s.StartTask(ctx, params, f.ttl)
	if started == nil {
		return nil, res, err
	}
	w.mu.Lock()
	w.id = started.ID
	w.mu.Unlock()
	if f.ttl != 0 && revision(s) >= "2026-07-28" && w.dialect != client.TasksSeeds {
		w.asker.console.line("askback: warning: --task-ttl was not asked for: with the tasks extension it is the server's to decide")
	}
	if f.detach {
		return started, nil, nil
	}
	res, err = s.WaitTask(ctx, started.ID)
	return nil, res, err
}

// prompt gets a prompt.
func prompt(ctx context.Context, s *client.Session, name string, pairs []pair) (mcp.Result, error) {
	var names []string
	var found *mcp.Prompt
	list := new(mcp.ListPromptsParams)
	for range maxPages {
		page, err := s.SDK().ListPrompts(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("listing the prompts, to know the arguments of %s: %w", name, err)
		}
		for _, p := range page.Prompts {
			if p != nil && p.Name == name {
				found = p
			} else if p != nil {
				names = append(names, p.Name)
			}
		}
		if found != nil || page.NextCursor == "" {
			break
		}
		list = &mcp.ListPromptsParams{Cursor: page.NextCursor}
	}
	if found == nil {
		return nil, usagef("there is no prompt %q%s", name, cmp.Or(didYouMean(name, names), thereAre("prompts", names)))
	}
	arguments, err := promptArguments(found, pairs)
	if err != nil {
		return nil, err
	}
	params := &mcp.GetPromptParams{Name: name, Arguments: arguments}
	params.SetProgressToken(progressToken)
	return result(s.GetPrompt(ctx, params))
}

// result keeps a typed nil from looking like a result.
func result[R any, P interface {
	*R
	mcp.Result
}](res P, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return res, nil
}

// thereAre names what a server has instead.
func thereAre(what string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("; the server has no %s", what)
	}
	slices.Sort(names)
	const most = 20
	more := ""
	if len(names) > most {
		names, more = names[:most], ", …"
	}
	return fmt.Sprintf("; the %s are %s%s", what, keys(names), more)
}

// options are those of the client that answers as the flags say.
func (f *answerFlags) options(cmd *cobra.Command, a *asker) (*client.Options, error) {
	var file []byte
	if f.file != "" {
		text, err := readInput(f.file, cmd.InOrStdin())
		if err != nil {
			return nil, usagef("--answers: %w", err)
		}
		file = text
	}
	var err error
	if a.given, err = parseAnswers(f.answers, file); err != nil {
		return nil, err
	}
	if f.sampler != "" {
		if a.sampler, err = splitCommand(f.sampler); err != nil || len(a.sampler) == 0 {
			return nil, usagef("--sampler %q: want the command line of a program", f.sampler)
		}
		if _, err := exec.LookPath(a.sampler[0]); err != nil {
			return nil, usagef("--sampler: there is no program %s", a.sampler[0])
		}
	}
	if f.park != "" {
		a.park = true
		if err := parkable(f.park, f.resumed); err != nil {
			return nil, err
		}
	}
	if isTerminal(cmd.InOrStdin()) && isTerminal(cmd.ErrOrStderr()) {
		a.person = &terminal.Terminal{}
	}
	roots, err := parseRoots(f.roots)
	if err != nil {
		return nil, err
	}
	opts := a.options(roots)
	if w := watchOf(cmd.Context()); w != nil {
		w.configure(opts, a)
	}
	return opts, nil
}
