package inboxcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

func answerCommand() *cobra.Command {
	f := new(inboxFlags)
	cmd := &cobra.Command{
		Use:   "answer [STORE] NAME KEY",
		Short: "Answer a question",
		Long: `Answer the question KEY of the task NAME, which 'askback inbox list' shows.
Without --accept, --decline and --dismiss the form is shown, in a terminal.

An accept is a vote. Votes with the same content count together, and a vote with
another content begins a new count. A decline ends the question, and so does
--dismiss, which gives no answer. The same answer again changes nothing.

Exit codes: 0 it is recorded; 1 it is not: the question is not for this person,
was decided before, or it is too late; 2 wrong usage, or an answer that does not
fit; 4 nothing was answered in the terminal; 130 interrupted.`,
		Example: `  askback inbox answer 23WGRG approve --groups release
  askback inbox answer 23WGRG window --as alice --accept '{"hour":9}'`,
	}
	f.register(cmd, f.answer)
	f.registerPerson(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.accept, "accept", "", "accept with `JSON`, what the form asks for, such as {}")
	flags.BoolVar(&f.decline, "decline", false, "decline")
	flags.BoolVar(&f.dismiss, "dismiss", false, "dismiss the question without an answer")
	flags.StringVar(&f.reason, "reason", "", "`TEXT` that says why")
	return cmd
}

// findQuestion finds a question of a task by its key, or by the author's key.
func findQuestion(ctx context.Context, d *desk.Desk, name, key string) (*desk.Question, error) {
	questions, err := findQuestions(ctx, d, name)
	if err != nil {
		return nil, err
	}
	var known []string
	var found *desk.Question
	for _, q := range questions {
		if q.Key == key {
			return q, nil
		}
		known = append(known, q.Key)
		if q.AuthorKey == key && q.Status == task.QuestionOpen { // there is at most one
			found = q
		}
	}
	if found == nil {
		return nil, fmt.Errorf("the task does not ask %q; it asks %s%s", key, cli.Keys(known), cli.DidYouMean(key, known))
	}
	return found, nil
}

func (f *inboxFlags) answer(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, asJSON bool, args []string,
) error {
	person, channel := f.person()
	a := desk.Answer{By: person, Reason: f.reason, Channel: channel}
	accept := cmd.Flags().Changed("accept")
	switch {
	case accept && f.decline, accept && f.dismiss, f.decline && f.dismiss:
		return cli.Usagef("--accept, --decline and --dismiss exclude each other")
	case accept:
		a.Action, a.Content = "accept", json.RawMessage(f.accept)
		if f.accept == "" {
			return cli.Usagef("--accept is empty: want JSON, such as {}")
		}
	case f.decline:
		a.Action = "decline"
	case f.dismiss:
		a.Action = "cancel"
	case !cli.IsTerminal(cmd.InOrStdin()) || !cli.IsTerminal(cmd.ErrOrStderr()):
		return cli.Usagef("nothing to answer with: want --accept JSON, --decline or --dismiss; " +
			"the form is shown in a terminal only")
	}
	asked, err := findQuestion(ctx, d, args[0], args[1])
	if err != nil {
		return err
	}
	if a.Action == "" {
		if err := f.ask(ctx, cmd, d, asked, &a); err != nil {
			return f.refused(err, asked, person)
		}
	}
	q, err := d.Answer(ctx, asked.Name, asked.Key, a)
	if err != nil {
		return f.refused(err, asked, person)
	}
	if asJSON {
		return cli.Output(cmd.OutOrStdout(), inertLine(q))
	}
	status := fmt.Sprintf("%s: %s\n", cli.HarmlessLine(q.Key, 60), cli.HarmlessLine(q.Summary(), 500))
	return cli.Output(cmd.OutOrStdout(), status)
}

// ask shows a question to the person at the terminal, and reads the answer.
func (f *inboxFlags) ask(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, asked *desk.Question, a *desk.Answer,
) error {
	q, err := d.Question(ctx, asked.Name, asked.Key, &a.By)
	if err != nil {
		return err
	}
	if err := q.May(a.By); err != nil { // so that nobody fills in a form for nothing
		return err
	}
	if q.Status != task.QuestionOpen {
		return fmt.Errorf("the question %s is %s", cli.HarmlessLine(q.Key, 60), cli.HarmlessLine(q.Summary(), 500))
	}
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", facts(q, time.Now())); err != nil {
		return err
	}
	who := fmt.Sprintf("%s, called by %s,", q.Target, callerName(q))
	t := new(terminal.Terminal)
	var res *mcp.ElicitResult
	if q.URL != "" {
		res, err = t.URL(ctx, who, q.Message, q.URL, cli.OpenPage)
	} else {
		res, err = t.Form(ctx, who, q.Message, q.Schema)
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return cli.WithCode(cli.ExitInterrupted, errors.New("interrupted"))
	case err != nil:
		return err
	case res.Action == "cancel": // who only leaves the form does not end the question for others
		return cli.WithCode(cli.ExitWaits, errors.New("nothing was answered: the question waits; --dismiss dismisses it"))
	}
	if a.Action = res.Action; res.Action == "accept" && res.Content != nil {
		a.Content, err = json.Marshal(res.Content)
	}
	return err
}

// refused explains why a desk did not do what a person wanted with a question.
func (f *inboxFlags) refused(err error, q *desk.Question, p desk.Person) error {
	if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
		return cli.Usagef("%w", invalid)
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		as := fmt.Sprintf("%q, of no groups", p.Name)
		if len(p.Groups) > 0 {
			as = fmt.Sprintf("%q, of %s", p.Name, cli.Keys(p.Groups))
		}
		return fmt.Errorf("the question %s is for %s, and not for %s: say with --groups which groups the person is in",
			cli.HarmlessLine(q.Key, 60), cli.Keys(q.For), as)
	case errors.Is(err, desk.ErrOwnCall):
		return fmt.Errorf("%q called the tool: somebody else must answer", p.Name)
	}
	if closed, ok := errors.AsType[*desk.ClosedError](err); ok {
		return closed
	}
	return err
}
