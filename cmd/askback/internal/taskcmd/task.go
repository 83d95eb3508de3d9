// Package taskcmd shows, answers and cancels tasks, through their server or in its store.
package taskcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/conversation"
	"github.com/askback-mcp/askback/cmd/askback/internal/storage"
)

// Command returns 'askback task'.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task COMMAND",
		Short: "Show tasks, answer them and wait for them",
		Long: `Show the tasks that calls have become, answer what they ask, and wait for their
results. 'askback call' prints their ids.

All commands take --tasks: auto speaks the tasks extension with servers of
2026-07-28 and the tasks of 2025-11-25 with others; proposal speaks the latter
with servers of 2026-07-28 too, where what a task asks comes with tasks/result.`,
		RunE: cli.NeedsCommand,
	}
	cmd.AddCommand(getCommand(), resultCommand(), answerCommand(), cancelCommand(), listCommand())
	return cmd
}

// exchange makes the requests of a command about tasks, as a [conversation.Exchange] does.
type exchange func(ctx context.Context, c *conversation.Conversation, s *client.Session) (print func() error, err error)

// subcommand completes a command about tasks, or about the task of its second argument.
func subcommand(cmd *cobra.Command, groups conversation.FlagGroups, do exchange) *cobra.Command {
	run := func(c *conversation.Conversation, args []string) error {
		if c.Dialect() == client.TasksOff {
			return cli.Usagef("--tasks off: want auto, extension or proposal")
		}
		if len(args) > 1 {
			c.TaskID = args[1]
		}
		return c.Hold(args[0], "the task", func(ctx context.Context, s *client.Session) (func() error, error) {
			return do(ctx, c, s)
		})
	}
	return conversation.Command(cmd, groups|conversation.WithTasks, run)
}

func getCommand() *cobra.Command {
	cmd := subcommand(&cobra.Command{
		Use:   "get TARGET ID",
		Short: "Show a task's status and what it asks",
		Long: `Show the status of the task ID of the server at TARGET, what it asks, when it
was created and when it expires.

If TARGET is a store, sqlite:PATH or postgres://…, ID is the name that 'askback
task list' and logs show, or the beginning of it. The task may belong to any
caller. If an operator cancelled it, the command shows who and why.

Exit codes: 0 it is shown; 1 there is no such task, or asking the server failed;
2 wrong usage; 130 interrupted.`,
		Example: `  askback task get http://127.0.0.1:8080/mcp XVN…
  askback task get sqlite:tasks.db 23WGRG`,
	}, 0, func(ctx context.Context, c *conversation.Conversation, s *client.Session) (func() error, error) {
		t, err := s.GetTask(ctx, c.TaskID)
		return func() error { return printTask(c, t) }, err
	})
	overServer := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if storage.Is(args[0]) {
			return getStored(cmd, args[0], args[1])
		}
		return overServer(cmd, args)
	}
	return cmd
}

func resultCommand() *cobra.Command {
	return subcommand(&cobra.Command{
		Use:   "result TARGET ID",
		Short: "Wait for a task's result, and answer what it asks",
		Long: `Wait for the result of the task ID of the server at TARGET, and answer what it
asks. 'askback call --help' explains answers. An interruption ends the command,
but not the task.

Exit codes: 0 the result is there; 1 it failed, or was cancelled; 2 wrong usage
or answers; 3 the tool answered with an error; 4 the task waits for answers,
which are missing or parked; 130 interrupted.`,
		Example: `  askback task result http://127.0.0.1:8080/mcp XVN… --answer who='{"name":"o"}'`,
	}, conversation.WithAnswers, func(
		ctx context.Context, c *conversation.Conversation, s *client.Session,
	) (func() error, error) {
		res, err := s.WaitTask(ctx, c.TaskID)
		return c.Printer(res), err
	})
}

func answerCommand() *cobra.Command {
	cmd := subcommand(&cobra.Command{
		Use:   "answer TARGET ID",
		Short: "Answer what a task asks, and do not wait",
		Long: `Give the answers of --answer, --answers and --root to the task ID of the server
at TARGET, and show what it still asks. Nobody else is asked. In sessions before
2026-07-28 only 'askback task result' takes answers. If the server does not show
the task after that, the command prints a warning only.

Exit codes: 0 the task has its answers; 1 it failed, or asks nothing; 2 wrong
usage or answers; 4 the task waits for further answers; 130 interrupted.`,
		Example: `  askback task answer http://127.0.0.1:8080/mcp XVN… --answer who='{"name":"o"}'`,
	}, conversation.WithAnswers, func(
		ctx context.Context, c *conversation.Conversation, s *client.Session,
	) (func() error, error) {
		t, err := answerTask(ctx, c, s)
		return func() error {
			if err := printTask(c, t); err != nil || t == nil || len(t.Questions) == 0 {
				return err
			}
			return cli.WithCode(cli.ExitWaits, fmt.Errorf("the task still asks %s", conversation.Questions(t.Questions)))
		}, err
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !slices.ContainsFunc([]string{"answer", "answers", "root"}, cmd.Flags().Changed) {
			return cli.Usagef("nothing to answer with: want --answer KEY=JSON, --answers FILE or --root PATH")
		}
		return nil
	}
	for _, name := range []string{"park", "sampler"} {
		_ = cmd.Flags().MarkHidden(name) // the flags exist, and this command has no use for them
	}
	return cmd
}

func cancelCommand() *cobra.Command {
	cmd := subcommand(&cobra.Command{
		Use:   "cancel TARGET ID",
		Short: "Ask the server to cancel a task, or cancel one in a store",
		Long: `Ask the server at TARGET to cancel the task ID, and show its status then. The
server decides whether and when the work ends. If it does not show the task
after that, the command prints a warning only.

If TARGET is a store, sqlite:PATH or postgres://…, the task is cancelled there.
It may belong to any caller. ID is then the name that 'askback task list' and
logs show, or the beginning of it. The task and the audit log record who
cancelled it, and why. The client does not see this.

Exit codes: 0 the server was asked; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback task cancel http://127.0.0.1:8080/mcp XVN…
  askback task cancel sqlite:tasks.db 23WGRG --reason "the host is replaced"`,
	}, 0, func(ctx context.Context, c *conversation.Conversation, s *client.Session) (func() error, error) {
		if err := s.CancelTask(ctx, c.TaskID); err != nil {
			return nil, err
		}
		t, err := seeTask(ctx, c, s, "was asked to cancel the task")
		return func() error { return printTask(c, t) }, err
	})
	f, overServer := new(cancelFlags), cmd.RunE
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args[0]); err != nil {
			return err
		}
		if storage.Is(args[0]) {
			return cancelStored(cmd, args[0], args[1], f)
		}
		return overServer(cmd, args)
	}
	return cmd
}

func listCommand() *cobra.Command {
	cmd := subcommand(&cobra.Command{
		Use:   "list TARGET",
		Short: "List the tasks of a server, or of a store",
		Long: `List the tasks that the server at TARGET keeps for this user, up to 10000. This
works in sessions of 2025-11-25 and with --tasks proposal. The tasks extension
has no such list.

If TARGET is a store, sqlite:PATH or postgres://…, the list has the tasks of all
callers, the oldest first, with what they wait for. It shows the names that logs
have, because the ids of tasks are secrets of their clients.

Exit codes: 0 the list is there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback task list --tasks proposal http://127.0.0.1:8080/mcp
  askback task list --status input_required sqlite:tasks.db`,
	}, 0, func(ctx context.Context, c *conversation.Conversation, s *client.Session) (func() error, error) {
		list, more, err := listTasks(ctx, s, c.Dialect())
		return func() error { return printTasks(c, list, more) }, err
	})
	f, overServer := new(storeFlags), cmd.RunE
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args[0]); err != nil {
			return err
		}
		if storage.Is(args[0]) {
			return listStore(cmd, args[0], f)
		}
		return overServer(cmd, args)
	}
	return cmd
}

// answerTask gives the task the answers of the flags. It returns the task with the questions that are still open. The
// task is nil if the server does not show it after that.
func answerTask(ctx context.Context, c *conversation.Conversation, s *client.Session) (*client.Task, error) {
	t, err := s.GetTask(ctx, c.TaskID)
	if err != nil {
		return nil, err
	}
	if len(t.Questions) == 0 {
		if conversation.Revision(s) < "2026-07-28" && !t.Ended() {
			return nil, fmt.Errorf("in a session of revision %s a task takes answers only while a client waits for it: "+
				"'%s' takes --answer", conversation.Revision(s), c.TaskCommand())
		}
		return nil, fmt.Errorf("the task asks nothing; it is %s", conversation.TaskLine(t))
	}
	given, err := c.AnswersTo(t.Questions)
	if err != nil {
		return nil, err
	}
	if err := s.AnswerTask(ctx, c.TaskID, given); err != nil {
		return nil, err
	}
	now, err := seeTask(ctx, c, s, "took the answers")
	if now != nil {
		now.Questions = slices.DeleteFunc(now.Questions, func(q *client.Question) bool {
			_, answered := given[q.Key]
			return answered // the server may not have processed the answer yet
		})
	}
	return now, err
}

// seeTask gets the task after the server did what the command asked for. If the server does not show the task, the user
// gets a warning, and the task is nil without an error. An interrupted command gets the error.
func seeTask(ctx context.Context, c *conversation.Conversation, s *client.Session, did string) (*client.Task, error) {
	t, err := s.GetTask(ctx, c.TaskID)
	if err != nil && ctx.Err() == nil {
		c.Note("warning: the server %s; the status of the task could not be read: %v", did,
			cli.FaultText(err))
		return nil, nil
	}
	return t, err
}

// printTask prints a task. It prints nothing for nil.
func printTask(c *conversation.Conversation, t *client.Task) error {
	if t == nil {
		return nil
	}
	text := taskText(t, time.Now())
	if t.Status == "completed" {
		text += fmt.Sprintf("\nThe result is shown by '%s'.\n", c.TaskCommand())
	}
	return c.Show(conversation.EncodeTask(t), text)
}

func printTasks(c *conversation.Conversation, list []*client.Task, more bool) error {
	if more {
		cli.Warn(c.Cmd, fmt.Sprintf("the server has more tasks, these are the first %d", cli.MaxListed))
	}
	encoded := make([]conversation.TaskJSON, len(list))
	for i, t := range list {
		encoded[i] = conversation.EncodeTask(t)
	}
	return c.Show(map[string]any{"tasks": encoded}, taskTable(list, time.Now()))
}

// maxPages bounds the pages of a list: a server can make a list as long as it likes, and a page as large as a message
// may be.
const maxPages = 16

// listTasks reads the server's list of tasks. More reports whether the server has further tasks. With an error the list
// holds what came before it.
func listTasks(ctx context.Context, s *client.Session,
	dialect client.TaskDialect) (list []*client.Task, more bool, err error) {
	for cursor, pages := "", 0; ; pages++ {
		if pages == maxPages {
			err = fmt.Errorf("the server's list has more than %d pages", maxPages)
			break
		}
		var page []*client.Task
		page, cursor, err = s.ListTasks(ctx, cursor)
		list = append(list, page...)
		more = len(list) > cli.MaxListed || cursor != ""
		if err != nil || cursor == "" || len(list) >= cli.MaxListed {
			break
		}
	}
	list = list[:min(len(list), cli.MaxListed)]
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	switch {
	case isFault && fault.Code == jsonrpc.CodeMethodNotFound && dialect != client.TasksProposal &&
		conversation.Revision(s) >= "2026-07-28":
		err = errors.New("the tasks extension has no list of tasks: keep the ids that calls print; " +
			"--tasks proposal lists those that were made with it")
	case err != nil:
		err = fmt.Errorf("listing the tasks: %w", err)
	}
	return list, more, err
}

func taskText(t *client.Task, now time.Time) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-8s %s\n", name, text)
		}
	}
	at := func(name string, at time.Time, past string) {
		if !at.IsZero() {
			row(name, cli.Moment(at, now, past))
		}
	}
	row("task", cli.HarmlessLine(t.ID, conversation.MaxID))
	row("status", t.Status)
	row("message", cli.HarmlessLine(t.Message, 500))
	at("created", t.Created, "")
	at("updated", t.Updated, "")
	at("expires", expiry(t), "expired ")
	if t.Error != nil {
		row("error", reason(t.Error))
	}
	if len(t.Questions) > 0 {
		b.WriteString("\nasks\n")
	}
	for _, q := range t.Questions {
		b.WriteString("\n" + conversation.Describe(q))
	}
	return b.String()
}

// reason tells on one line why a task failed.
func reason(raw json.RawMessage) string {
	var fault struct {
		Code    json.Number
		Message string
	}
	text := string(raw)
	if json.Unmarshal(raw, &fault) == nil && fault.Message != "" {
		text = strings.TrimSuffix(fmt.Sprintf("%s (%s)", fault.Message, fault.Code), " ()")
	}
	return cli.HarmlessLine(text, 500)
}

// expiry returns when the server forgets a task. Zero means that this is not known.
func expiry(t *client.Task) time.Time {
	if t.TTL == 0 || t.Created.IsZero() {
		return time.Time{}
	}
	return t.Created.Add(t.TTL)
}

func taskTable(list []*client.Task, now time.Time) string {
	if len(list) == 0 {
		return "no tasks\n"
	}
	// The ID is the last column. It is shown in full, and a long one would make every line as wide.
	rows := []string{"STATUS\tUPDATED\tEXPIRES\tMESSAGE\tID"}
	for _, t := range list {
		updated, expires := "", ""
		if !t.Updated.IsZero() {
			updated = cli.Span(now.Sub(t.Updated)) + " ago"
		}
		if at := expiry(t); !at.IsZero() {
			expires = "in " + cli.Span(at.Sub(now))
			if at.Before(now) {
				expires = "expired"
			}
		}
		rows = append(rows, strings.Join([]string{t.Status, updated, expires, cli.HarmlessLine(t.Message, 60),
			cli.HarmlessLine(t.ID, conversation.MaxID)}, "\t"))
	}
	return cli.Table(rows)
}
