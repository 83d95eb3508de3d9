package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

func inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox COMMAND",
		Short: "Answer the questions that tasks have for people",
		Long: `List the questions that tasks have for people, and answer them. STORE is the
store of the server, sqlite:PATH or postgres://…, as in its --store. Without
STORE the command looks at all stores that 'askback serve' and
'askback bridge' have made for you without --store.

Anybody who can open the store can answer for everybody: the command believes
--as and --groups. It records your system's user with each answer.`,
		RunE: needsCommand,
	}
	cmd.AddCommand(inboxListCommand(), inboxShowCommand(), inboxAnswerCommand(), inboxServeCommand(),
		inboxOpenCommand())
	return cmd
}

// inboxFlags are the flags of the inbox. Each command has some of them.
type inboxFlags struct {
	reach  reach
	as     string
	groups []string
	reason string

	olderThan  time.Duration // list
	tools      []string
	byDeadline bool
	newest     bool
	search     string
	answered   bool
	began      bool
	where      string   // how a command line names the store; empty if it does not
	stores     []string // the one that is listed, and those after it
	single     bool     // there is only one
	shown      int      // the stores from which something was listed

	accept          string // answer
	decline, cancel bool
}

// reach says which stores a command uses when its command line names none, and there are several.
type reach int

const (
	namedTask   reach = iota // the one that has the task NAME
	everyStore               // all, one after the other
	singleStore              // none: somebody must choose
)

// command completes a command of the inbox: do gets a desk on the store, and the arguments after the store.
func (f *inboxFlags) command(cmd *cobra.Command, do inboxAction) {
	cmd.Flags().Bool("json", false, "print JSON, an object on each line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.at(cmd, args, do) }
}

type inboxAction func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, format string, args []string) error

func (f *inboxFlags) registerPerson(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.as, "as", "", "`NAME` of the person (default: you)")
	cmd.Flags().StringSliceVar(&f.groups, "groups", nil, "`NAMES` of the person's groups, such as release,oncall")
}

// at opens a desk on the store that the first argument names. Without one it opens the stores in the default place. It
// calls do with the desk and the other arguments.
func (f *inboxFlags) at(cmd *cobra.Command, args []string, do inboxAction) error {
	var stores []string
	if namesStore(args) {
		stores, args = args[:1], args[1:]
		if f.where = "STORE"; !strings.Contains(stores[0], "@") { // it may have a password
			f.where = harmless(foreignQuote(stores[0]))
		}
	} else {
		var err error
		if stores, err = defaultStores(); err != nil {
			return err
		}
	}
	if len(stores) > 1 {
		switch f.reach {
		case singleStore:
			return usagef("there are %d stores; give one of them as STORE:\n  %s", len(stores),
				strings.Join(stores, "\n  "))
		case namedTask:
			store, err := storeOfTask(cmd, stores, args[0])
			if err != nil {
				return err
			}
			stores = []string{store}
		}
	}
	var failed []error
	f.stores, f.single = stores, len(stores) == 1
	for _, store := range stores {
		failed = append(failed, atDesk(cmd, store, func(ctx context.Context, d *desk.Desk, format string) error {
			return do(ctx, cmd, d, format, args)
		}))
		f.stores = f.stores[1:]
	}
	return errors.Join(failed...)
}

// storeOfTask returns the store that has the questions of a task. If none has them, any of the stores says so.
func storeOfTask(cmd *cobra.Command, stores []string, name string) (string, error) {
	var has []string
	says := stores[0] // what is wrong with the name
	for _, store := range stores {
		if err := atDesk(cmd, store, func(ctx context.Context, d *desk.Desk, _ string) error {
			questions, err := d.Questions(ctx, name, nil)
			if len(questions) > 0 {
				has = append(has, store)
			} else if !errors.Is(err, task.ErrNotFound) {
				says = store
			}
			return nil
		}); err != nil {
			return "", fmt.Errorf("%s: %w", store, err)
		}
	}
	switch len(has) {
	case 0:
		return says, nil
	case 1:
		return has[0], nil
	}
	return "", usagef("%d stores have a task whose name begins with %s; write one of them before the name:\n  %s",
		len(has), harmlessLine(name, 60), strings.Join(has, "\n  "))
}

// defaultStores returns the stores that 'askback serve' and 'askback bridge' have without --store.
func defaultStores() (stores []string, err error) {
	const file = "tasks.db"
	dir, err := stateDir()
	if err != nil {
		return nil, fmt.Errorf("the stores of your servers: %w; name a store with STORE", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the stores of your servers: %w; name a store with STORE", err)
	}
	for _, e := range entries {
		ofBridge := strings.HasPrefix(e.Name(), bridgeStorePrefix) && strings.HasSuffix(e.Name(), bridgeStoreSuffix)
		if ofBridge || e.Name() == file {
			stores = append(stores, "sqlite:"+filepath.Join(dir, e.Name()))
		}
	}
	if stores == nil {
		return nil, fmt.Errorf("there is no store in %s: start 'askback serve' or 'askback bridge' first, or name the "+
			"store of your server with STORE", dir)
	}
	return stores, nil
}

// namesStore reports whether the first argument is the store of a command whose store may be missing.
func namesStore(args []string) bool {
	return len(args) > 0 && strings.Contains(args[0], ":") && isStore(args[0])
}

// person is whom the command acts for, and the channel of what it does. Who runs it is named as 'askback serve' names
// its caller.
func (f *inboxFlags) person() (p desk.Person, channel string) {
	self := defaultCaller()
	return desk.Person{Name: cmp.Or(f.as, self), Groups: f.groups}, "command (" + self + ")"
}

func inboxListCommand() *cobra.Command {
	f := &inboxFlags{reach: everyStore}
	cmd := &cobra.Command{
		Use:   "list [STORE]",
		Short: "List the questions that wait, or the history of a person",
		Long: `List the questions that wait for people, the oldest first. With --as or --groups
the list has only the questions that this person may answer.

--answered lists the questions that a person has voted on. --began lists the
questions of the person's own calls, open or not. Both lists begin with the
newest. The person is --as, or you.

--json prints an object on each line, with name, key, target, message, for,
votes, asked and more. A question with a deadline has deadline, too.

Exit codes: 0 the list is there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback inbox list --as alice --groups release
  askback inbox list --answered --as alice
  askback inbox list sqlite:tasks.db --older-than 4h --json`,
	}
	f.command(cmd, f.list)
	f.registerPerson(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.olderThan, "older-than", 0, "only what has waited for this `TIME`, such as 4h")
	flags.StringArrayVar(&f.tools, "tool", nil, "only what this tool asks: its `NAME`")
	flags.StringVar(&f.search, "search", "", "only what has this `TEXT` in it")
	flags.BoolVar(&f.byDeadline, "by-deadline", false, "the nearest deadline first; leave out what has none")
	flags.BoolVar(&f.newest, "newest", false, "the newest first")
	flags.BoolVar(&f.answered, "answered", false, "what the person has voted on")
	flags.BoolVar(&f.began, "began", false, "what the person's calls have asked")
	return cmd
}

func (f *inboxFlags) list(ctx context.Context, cmd *cobra.Command, d *desk.Desk, format string, _ []string) error {
	now := time.Now()
	questions, err := f.listed(ctx, cmd, d, now)
	if err != nil {
		return err
	}
	row := inboxRow
	if f.answered || f.began {
		row = historyRow
	}
	var rows []string
	for q, err := range questions {
		if q == nil {
			return err
		}
		if err != nil {
			warn(cmd, err.Error())
		}
		if format == "json" {
			if err := output(cmd.OutOrStdout(), inertLine(q)); err != nil {
				return err
			}
			continue
		}
		if len(rows) == maxTasks {
			warn(cmd, fmt.Sprintf("there are more, these are %d questions%s", maxTasks, f.fewer()))
			break
		}
		rows = append(rows, row(q, now))
	}
	if format == "json" {
		return nil
	}
	text := inboxTable(rows)
	if f.answered || f.began {
		text = historyTable(rows)
	}
	return output(cmd.OutOrStdout(), f.under(text, rows != nil))
}

// under returns a list with the name of its store above it, if there are several stores. It leaves out a store without
// entries, except the last one when no other store had any.
func (f *inboxFlags) under(text string, hasRows bool) string {
	last := len(f.stores) == 1
	if f.single || f.shown == 0 && last && !hasRows {
		return text
	}
	if !hasRows {
		return ""
	}
	heading := f.stores[0] + "\n"
	if f.shown++; f.shown > 1 {
		heading = "\n" + heading
	}
	return heading + text
}

// listed returns the questions that the flags choose.
func (f *inboxFlags) listed(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, now time.Time,
) (iter.Seq2[*desk.Question, error], error) {
	p, _ := f.person()
	if f.answered && f.began {
		return nil, usagef("--answered and --began exclude each other")
	}
	if f.answered || f.began {
		for _, name := range []string{"older-than", "tool", "search", "by-deadline", "newest", "groups"} {
			if cmd.Flags().Changed(name) {
				return nil, usagef("--answered and --began list all of a person, the newest first: leave out --%s", name)
			}
		}
		if f.began {
			return d.Began(ctx, p), nil
		}
		return d.Answered(ctx, p), nil
	}
	w := desk.Waiting{Targets: f.tools, Search: f.search, ByDeadline: f.byDeadline, Newest: f.newest}
	switch {
	case f.olderThan < 0:
		return nil, usagef("--older-than %v: want a time above zero", f.olderThan)
	case f.byDeadline && f.newest:
		return nil, usagef("--by-deadline and --newest exclude each other")
	case f.olderThan > 0:
		w.Before = now.Add(-f.olderThan)
	}
	if f.as != "" || f.groups != nil {
		w.As = &p
	}
	return d.Waiting(ctx, w), nil
}

// fewer says how to get a shorter list.
func (f *inboxFlags) fewer() string {
	if f.answered || f.began {
		return "; --json prints all"
	}
	return ": choose with --as, --tool, --search and --older-than"
}

func inboxShowCommand() *cobra.Command {
	f := new(inboxFlags)
	cmd := &cobra.Command{
		Use:   "show [STORE] NAME",
		Short: "Show the questions of a task, and who answered",
		Long: `Show the questions that the task NAME has asked people: the text, the form, the
arguments of the call, who answered and why. NAME is the name in 'askback inbox
list' and in logs, or its beginning.

Exit codes: 0 it is shown; 1 there is no such task, or it has asked nobody;
2 wrong usage; 130 interrupted.`,
		Example: `  askback inbox show 23WGRG`,
	}
	f.command(cmd, func(ctx context.Context, cmd *cobra.Command, d *desk.Desk, format string, args []string) error {
		questions, err := findQuestions(ctx, d, args[0])
		if err != nil {
			return err
		}
		for i, q := range questions {
			text := inboxCard(q, f.where, time.Now())
			if format == "json" {
				text = inertLine(q)
			} else if i > 0 {
				text = "\n" + text
			}
			if err := output(cmd.OutOrStdout(), text); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// findQuestions reads the questions of a task. Who can open the store may read them all.
func findQuestions(ctx context.Context, d *desk.Desk, name string) ([]*desk.Question, error) {
	questions, err := d.Questions(ctx, name, nil)
	if len(questions) > 0 {
		return questions, nil // those that cannot be read in full are shown as far as they can
	}
	if errors.Is(err, task.ErrNotFound) {
		err = fmt.Errorf("%w: 'askback inbox list' shows what waits", err)
	}
	return nil, err
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
		return nil, fmt.Errorf("the task does not ask %q; it asks %s%s", key, keys(known), didYouMean(key, known))
	}
	return found, nil
}

func inboxAnswerCommand() *cobra.Command {
	f := new(inboxFlags)
	cmd := &cobra.Command{
		Use:   "answer [STORE] NAME KEY",
		Short: "Answer a question",
		Long: `Answer the question KEY of the task NAME, which 'askback inbox list' shows.
Without --accept, --decline and --cancel the form is shown, in a terminal.

An accept is a vote. Votes with the same content count together, and a vote with
another content begins a new count. A decline ends the question, and so does
--cancel, which dismisses it. The same answer again changes nothing.

Exit codes: 0 it is recorded; 1 it is not: the question is not for this person,
was decided before, or it is too late; 2 wrong usage, or an answer that does not
fit; 4 nothing was answered in the terminal; 130 interrupted.`,
		Example: `  askback inbox answer 23WGRG approve --groups release
  askback inbox answer 23WGRG window --as alice --accept '{"hour":9}'`,
	}
	f.command(cmd, f.answer)
	f.registerPerson(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.accept, "accept", "", "accept with `JSON`, what the form asks for, such as {}")
	flags.BoolVar(&f.decline, "decline", false, "decline")
	flags.BoolVar(&f.cancel, "cancel", false, "dismiss the question without an answer")
	flags.StringVar(&f.reason, "reason", "", "`TEXT` that says why")
	return cmd
}

func (f *inboxFlags) answer(
	ctx context.Context, cmd *cobra.Command, d *desk.Desk, format string, args []string,
) error {
	person, channel := f.person()
	a := desk.Answer{By: person, Reason: f.reason, Channel: channel}
	accept := cmd.Flags().Changed("accept")
	switch {
	case accept && f.decline, accept && f.cancel, f.decline && f.cancel:
		return usagef("--accept, --decline and --cancel exclude each other")
	case accept:
		a.Action, a.Content = "accept", json.RawMessage(f.accept)
		if f.accept == "" {
			return usagef("--accept is empty: want JSON, such as {}")
		}
	case f.decline:
		a.Action = "decline"
	case f.cancel:
		a.Action = "cancel"
	case !isTerminal(cmd.InOrStdin()) || !isTerminal(cmd.ErrOrStderr()):
		return usagef("nothing to answer with: want --accept JSON, --decline or --cancel; " +
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
	if format == "json" {
		return output(cmd.OutOrStdout(), inertLine(q))
	}
	return output(cmd.OutOrStdout(), fmt.Sprintf("%s: %s\n", harmlessLine(q.Key, 60), standing(q)))
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
		return fmt.Errorf("the question %s is %s", harmlessLine(q.Key, 60), standing(q))
	}
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", inboxFacts(q, time.Now())); err != nil {
		return err
	}
	who := fmt.Sprintf("%s, called by %s,", q.Target, callerName(q))
	t := new(terminal.Terminal)
	var res *mcp.ElicitResult
	if q.URL != "" {
		res, err = t.URL(ctx, who, q.Message, q.URL, openPage)
	} else {
		res, err = t.Form(ctx, who, q.Message, q.Schema)
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case err != nil:
		return err
	case res.Action == "cancel": // who only leaves the form does not end the question for others
		return &exitError{exitWaits, errors.New("nothing was answered: the question waits; --cancel dismisses it")}
	}
	if a.Action = res.Action; res.Action == "accept" && res.Content != nil {
		a.Content, err = json.Marshal(res.Content)
	}
	return err
}

// refused explains why a desk did not do what a person wanted with a question.
func (f *inboxFlags) refused(err error, q *desk.Question, p desk.Person) error {
	if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
		return usagef("%w", invalid)
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		as := fmt.Sprintf("%q, of no groups", p.Name)
		if len(p.Groups) > 0 {
			as = fmt.Sprintf("%q, of %s", p.Name, keys(p.Groups))
		}
		return fmt.Errorf("the question %s is for %s, and not for %s: say with --groups which groups the person is in",
			harmlessLine(q.Key, 60), keys(q.For), as)
	case errors.Is(err, desk.ErrOwnCall):
		return fmt.Errorf("%q called the tool: somebody else must answer", p.Name)
	}
	if closed, ok := errors.AsType[*desk.ClosedError](err); ok {
		return closed
	}
	return err
}
