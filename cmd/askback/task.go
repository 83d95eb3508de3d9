package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askback-mcp/askback/client"
)

// taskFlags say how to deal with tasks.
type taskFlags struct {
	dialect string
	ttl     time.Duration
	detach  bool
}

func (f *taskFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dialect, "tasks", "", "`DIALECT`: auto, extension, seeds or off")
}

// registerCall adds what only beginning a task can say.
func (f *taskFlags) registerCall(flags *pflag.FlagSet) {
	f.register(flags)
	flags.BoolVar(&f.detach, "detach", false, "do not wait for the task, print its id")
	flags.DurationVar(&f.ttl, "task-ttl", 0, "`TIME` to keep the task for")
}

var dialects = map[string]client.TaskDialect{
	"": client.TasksAuto, "auto": client.TasksAuto, "extension": client.TasksExtension, "seeds": client.TasksSeeds, "off": client.TasksOff,
}

func (f *taskFlags) check() error {
	dialect, ok := dialects[f.dialect]
	switch {
	case !ok:
		return usagef("--tasks %s: want auto, extension, seeds or off", f.dialect)
	case dialect == client.TasksOff && (f.detach || f.ttl != 0):
		return usagef("--tasks off has no use for --detach and --task-ttl")
	case f.ttl < 0:
		return usagef("--task-ttl %v: want a time above zero", f.ttl)
	}
	return nil
}

// watch follows the task that a command is about, or that its call becomes: it shows how the task stands, and where to
// go on with it. It travels in the command's context.
type watch struct {
	target  target
	dialect client.TaskDialect
	asker   *asker // once there is one
	quiet   bool   // the command does not wait

	mu    sync.Mutex
	id    string
	ended bool
	shown bool // that there is a task
}

type watchKey struct{}

// watching makes a watch for a command.
func watching(cmd *cobra.Command, c *conversation, f *taskFlags, id string) (*watch, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	w := &watch{target: c.target, dialect: dialects[f.dialect], id: id, shown: id != ""}
	cmd.SetContext(context.WithValue(cmd.Context(), watchKey{}, w))
	return w, nil
}

// watchOf returns nil for commands that know no tasks.
func watchOf(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// configure lets the watch see what the client observes.
func (w *watch) configure(opts *client.Options, a *asker) {
	w.asker = a
	opts.Tasks = w.dialect
	observe := opts.Observe
	opts.Observe = func(ctx context.Context, r *client.Round) error {
		if r.Task == nil {
			return observe(ctx, r)
		}
		w.see(r)
		if len(r.Questions) == 0 && !r.Final && r.Err == nil {
			if len(r.Answers) == 0 {
				a.trace.line("← the task is %s, after %v", taskLine(r.Task), elapsed(r.Elapsed))
			}
			return nil
		}
		err := observe(ctx, r)
		if missing, ok := errors.AsType[*missingError](err); ok {
			return &unansweredError{missing, w.again("result")}
		}
		return err
	}
	// Where a session cannot wait, its tasks can.
	opts.Form = parking(w, opts.Form)
	opts.URL = parking(w, opts.URL)
	sample := opts.Sample
	opts.Sample = func(ctx context.Context, q *client.Question, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		if w.parks(q) {
			return nil, client.ErrPark
		}
		return sample(ctx, q, params)
	}
}

func parking(w *watch, handler func(context.Context, *client.Question) (*mcp.ElicitResult, error)) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if w.parks(q) {
			return nil, client.ErrPark
		}
		return handler(ctx, q)
	}
}

// parks reports whether a question is one that a task asks and that is to wait.
func (w *watch) parks(q *client.Question) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id != "" && w.asker.park && !w.asker.given.has(q.Key) && (q.Method != sampling || w.asker.sampler == nil)
}

// see shows what is new about the task.
func (w *watch) see(r *client.Round) {
	w.mu.Lock()
	first := !w.shown
	w.id, w.ended, w.shown = r.Task.ID, r.Task.Ended(), true
	w.mu.Unlock()
	if w.quiet {
		return
	}
	if first {
		w.asker.console.line("askback: the call goes on as task %s", harmlessLine(r.Task.ID, maxID))
	}
	if !r.Task.Ended() && len(r.Questions) == 0 && len(r.Answers) == 0 {
		w.asker.console.status("task " + taskLine(r.Task))
	}
}

// maxID is how much of a task's id is shown: all of it, or it would be of no use.
const maxID = 4096

func taskLine(t *client.Task) string {
	line := strings.ReplaceAll(t.Status, "_", " ")
	if message := harmlessLine(t.Message, columns); message != "" {
		line += ": " + message
	}
	return line
}

// again is the command that goes on with the task.
func (w *watch) again(command string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := "askback task " + command
	if w.dialect != client.TasksAuto {
		words += " --tasks " + string(w.dialect)
	}
	id := foreignQuote(w.id)
	if strings.HasPrefix(w.id, "-") {
		id = "-- " + id // it is no flag
	}
	return harmless(fmt.Sprintf("%s %s %s", words, shellQuote(w.target.shown()), id))
}

// left tells where to go on when a command ends before its task. The error is what is left to tell.
func (w *watch) left(err error) error {
	if waited, ok := errors.AsType[*client.TaskError](err); ok {
		err = waited.Err
		w.mu.Lock()
		w.id = waited.Pending.TaskID
		w.mu.Unlock()
		if _, told := errors.AsType[*unansweredError](err); !told {
			w.asker.console.line("askback: the task may still go on: '%s' waits for it", w.again("result"))
		}
	}
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams && w.id != "" && !w.ended {
		return fmt.Errorf("%w; it may have been forgotten, or belong to another user", faultText(err))
	}
	return err
}

// unansweredError says which answers a task waits for.
type unansweredError struct {
	missing *missingError
	again   string
}

func (e *unansweredError) Error() string {
	text, _, _ := strings.Cut(e.missing.Error(), "\nGive --answer as above")
	where := "as above"
	if strings.Contains(e.again, " -- ") {
		where += ", before the --"
	}
	return text + fmt.Sprintf("\nThe task waits. Go on with '%s'\nand --answer %s.", e.again, where)
}

func (e *unansweredError) Unwrap() error { return e.missing }

// status shows how a task stands, as progress is shown.
func (c *console) status(text string) {
	text = harmlessLine(text, columns-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking > 0 || text == c.last {
		return
	}
	c.last = text
	if !c.terminal {
		_, _ = fmt.Fprintln(c.w, text) // there is nowhere to tell of an error
		return
	}
	_, _ = fmt.Fprint(c.w, "\r\x1b[K"+text)
	c.shown = true
}

func taskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task COMMAND",
		Short: "Look at tasks, answer them, wait for them",
		Long: `Look at the tasks that calls have become, answer what they ask, and wait for
what comes of them. 'askback call' prints their ids.

All commands take --tasks: auto speaks the tasks extension with servers of
2026-07-28 and the tasks of 2025-11-25 with others; seeds speaks the latter with
servers of 2026-07-28 too, where what a task asks comes with tasks/result.`,
		RunE: needsCommand,
	}
	cmd.AddCommand(taskGetCommand(), taskResultCommand(), taskAnswerCommand(), taskCancelCommand(), taskListCommand())
	return cmd
}

func taskGetCommand() *cobra.Command {
	var (
		connect connectFlags
		tasks   taskFlags
	)
	cmd := &cobra.Command{
		Use:   "get TARGET ID",
		Short: "Show how a task stands and what it asks",
		Long: `Show how the task ID of the server at TARGET stands, what it asks, and since and
until when it is there.

Exit codes: 0 it is shown; 1 it is not there, or failed to be looked at; 2 wrong
usage; 130 interrupted.`,
		Example: `  askback task get http://127.0.0.1:8080/mcp XVN…`,
		Args:    takes("TARGET", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, w, err := newTaskConversation(cmd, args, &connect, &tasks, new(answerFlags))
			if err != nil {
				return err
			}
			var t *client.Task
			c.do = func(ctx context.Context, s *client.Session) (_ mcp.Result, err error) {
				t, err = s.GetTask(ctx, args[1])
				return nil, w.left(err)
			}
			c.show = func(mcp.Result, json.RawMessage) error { return showTask(cmd, t, connect.output == "json") }
			return c.hold(cmd)
		},
	}
	connect.register(cmd.Flags())
	tasks.register(cmd.Flags())
	return cmd
}

func taskResultCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
		tasks   taskFlags
	)
	cmd := &cobra.Command{
		Use:   "result TARGET ID",
		Short: "Wait for a task's result, and answer what it asks",
		Long: `Wait for the result of the task ID of the server at TARGET, and answer what it
asks. Answers are those of 'askback call'. An interruption ends the waiting, and
not the task.

Exit codes: 0 the result is there; 1 it failed, or was cancelled; 2 wrong usage
or answers; 3 the tool answered with an error; 4 the task waits for answers,
which are missing or parked; 130 interrupted.`,
		Example: `  askback task result http://127.0.0.1:8080/mcp XVN… --answer who='{"name":"o"}'`,
		Args:    takes("TARGET", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, w, err := newTaskConversation(cmd, args, &connect, &tasks, &answer)
			if err != nil {
				return err
			}
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				res, err := s.WaitTask(ctx, args[1])
				return result(res, w.left(err))
			}
			c.show = func(res mcp.Result, raw json.RawMessage) error {
				return show(cmd, c.called, res, raw, connect.output == "json")
			}
			return c.hold(cmd)
		},
	}
	answer.register(cmd.Flags())
	connect.register(cmd.Flags())
	tasks.register(cmd.Flags())
	return cmd
}

func taskAnswerCommand() *cobra.Command {
	var (
		connect connectFlags
		answer  answerFlags
		tasks   taskFlags
	)
	cmd := &cobra.Command{
		Use:   "answer TARGET ID",
		Short: "Answer what a task asks, and do not wait",
		Long: `Give the answers of --answer, --answers and --root to the task ID of the server
at TARGET, and show what it still asks. Nobody else is asked. In sessions before
2026-07-28 only 'askback task result' takes answers. Where the task cannot be
looked at once it has its answers, nothing is shown but a warning.

Exit codes: 0 the task has its answers; 1 it failed, or asks nothing; 2 wrong
usage or answers; 4 the task waits for further answers; 130 interrupted.`,
		Example: `  askback task answer http://127.0.0.1:8080/mcp XVN… --answer who='{"name":"o"}'`,
		Args:    takes("TARGET", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(answer.answers) == 0 && answer.file == "" && len(answer.roots) == 0 {
				return usagef("nothing to answer with: want --answer KEY=JSON, --answers FILE or --root PATH")
			}
			c, w, err := newTaskConversation(cmd, args, &connect, &tasks, &answer)
			if err != nil {
				return err
			}
			var t *client.Task
			c.do = func(ctx context.Context, s *client.Session) (_ mcp.Result, err error) {
				t, err = w.answer(ctx, s, args[1], answer.roots)
				return nil, w.left(err)
			}
			c.show = func(mcp.Result, json.RawMessage) error {
				if t == nil {
					return nil
				}
				if err := showTask(cmd, t, connect.output == "json"); err != nil || len(t.Questions) == 0 {
					return err
				}
				return &exitError{exitWaits, fmt.Errorf("the task still asks %s", questions(t.Questions))}
			}
			return c.hold(cmd)
		},
	}
	answer.register(cmd.Flags())
	connect.register(cmd.Flags())
	tasks.register(cmd.Flags())
	for _, name := range []string{"park", "sampler"} {
		_ = cmd.Flags().MarkHidden(name) // which are there, and of no use
	}
	return cmd
}

// answer gives a task the answers that are at hand, and returns it with what is still open: nil if that could not be
// looked at.
func (w *watch) answer(ctx context.Context, s *client.Session, id string, roots []string) (*client.Task, error) {
	t, err := s.GetTask(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(t.Questions) == 0 {
		if revision(s) < "2026-07-28" && !t.Ended() {
			return nil, fmt.Errorf("in a session of revision %s a task is answered while it is waited for: '%s' takes --answer", revision(s), w.again("result"))
		}
		return nil, fmt.Errorf("the task asks nothing, it is %s", taskLine(t))
	}
	named, err := parseRoots(roots)
	if err != nil {
		return nil, err
	}
	given := make(map[string]any)
	for _, q := range t.Questions {
		answer, ok := w.asker.given.take(q.Key)
		switch {
		case q.Method == "roots/list" && named != nil:
			given[q.Key] = &mcp.ListRootsResult{Roots: named}
		case !ok:
		case q.Method == sampling:
			if given[q.Key], err = answer.sample(q); err != nil {
				return nil, err
			}
		default:
			if given[q.Key], err = answer.elicit(q); err != nil {
				return nil, err
			}
		}
	}
	if unknown := w.asker.given.neverAsked(); len(unknown) > 0 || len(given) == 0 {
		return nil, usagef("the task does not ask %s; it asks %s", cmp.Or(keys(unknown), "any of these"), questions(t.Questions))
	}
	if err := s.AnswerTask(ctx, id, given); err != nil {
		return nil, err
	}
	now, err := s.GetTask(ctx, id)
	if err != nil {
		return nil, w.unseen(ctx, "took the answers", err)
	}
	now.Questions = slices.DeleteFunc(now.Questions, func(q *client.Question) bool {
		_, answered := given[q.Key]
		return answered // the server may take its time
	})
	return now, nil
}

// unseen warns that there is no looking at a task whose server has done what it was asked to. That is no failure, unless
// the command was interrupted.
func (w *watch) unseen(ctx context.Context, did string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	w.asker.console.line("askback: warning: the server %s; how the task stands now could not be seen: %v", did, faultText(err))
	return nil
}

func taskCancelCommand() *cobra.Command {
	var (
		connect connectFlags
		tasks   taskFlags
	)
	cmd := &cobra.Command{
		Use:   "cancel TARGET ID",
		Short: "Ask the server to cancel a task",
		Long: `Ask the server at TARGET to cancel the task ID, and show how it stands then. The
server decides whether and when the work ends. Where it was asked and cannot be
looked at after that, nothing is shown but a warning.

Exit codes: 0 the server was asked; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback task cancel http://127.0.0.1:8080/mcp XVN…`,
		Args:    takes("TARGET", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, w, err := newTaskConversation(cmd, args, &connect, &tasks, new(answerFlags))
			if err != nil {
				return err
			}
			var t *client.Task
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				err := s.CancelTask(ctx, args[1])
				if err == nil {
					if t, err = s.GetTask(ctx, args[1]); err != nil {
						err = w.unseen(ctx, "was asked to cancel the task", err)
					}
				}
				return nil, w.left(err)
			}
			c.show = func(mcp.Result, json.RawMessage) error {
				if t == nil {
					return nil
				}
				return showTask(cmd, t, connect.output == "json")
			}
			return c.hold(cmd)
		},
	}
	connect.register(cmd.Flags())
	tasks.register(cmd.Flags())
	return cmd
}

func taskListCommand() *cobra.Command {
	var (
		connect connectFlags
		tasks   taskFlags
	)
	cmd := &cobra.Command{
		Use:   "list TARGET",
		Short: "List the tasks of a server",
		Long: `List the tasks that the server at TARGET keeps for this user, in sessions of
2025-11-25 and with --tasks seeds, up to 10000. The tasks extension has no list.

Exit codes: 0 the list is there; 1 it failed; 2 wrong usage; 130 interrupted.`,
		Example: `  askback task list --tasks seeds http://127.0.0.1:8080/mcp`,
		Args:    takes("TARGET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, w, err := newTaskConversation(cmd, args, &connect, &tasks, new(answerFlags))
			if err != nil {
				return err
			}
			list, more := []*client.Task{}, false
			c.do = func(ctx context.Context, s *client.Session) (mcp.Result, error) {
				list, more, err = listTasks(ctx, s, w.dialect)
				return nil, err
			}
			c.show = func(mcp.Result, json.RawMessage) error {
				if more {
					warn(cmd, fmt.Sprintf("the server has more tasks, these are the first %d", maxTasks))
				}
				if connect.output == "json" {
					encoded := make([]taskJSON, len(list))
					for i, t := range list {
						encoded[i] = encodeTask(t)
					}
					return outputJSON(cmd, map[string]any{"tasks": encoded})
				}
				return output(cmd.OutOrStdout(), taskTable(list, time.Now()))
			}
			return c.hold(cmd)
		},
	}
	connect.register(cmd.Flags())
	tasks.register(cmd.Flags())
	return cmd
}

// maxTasks is how many tasks are listed.
const maxTasks = 10000

func listTasks(ctx context.Context, s *client.Session, dialect client.TaskDialect) (list []*client.Task, more bool, err error) {
	cursor := ""
	for range maxPages {
		page, next, err := s.ListTasks(ctx, cursor)
		fault, isFault := errors.AsType[*jsonrpc.Error](err)
		if isFault && fault.Code == jsonrpc.CodeMethodNotFound && dialect != client.TasksSeeds && revision(s) >= "2026-07-28" {
			return nil, false, errors.New("the tasks extension has no list of tasks: keep the ids that calls print; --tasks seeds lists those that were made with it")
		}
		if err != nil {
			return nil, false, fmt.Errorf("listing the tasks: %w", err)
		}
		list = append(list, page[:min(len(page), maxTasks-len(list))]...)
		if next == "" && len(list) < maxTasks {
			return list, false, nil
		}
		if len(list) == maxTasks {
			return list, next != "" || len(page) > 0, nil
		}
		cursor = next
	}
	return nil, false, fmt.Errorf("listing the tasks: the server's list has more than %d pages", maxPages)
}

// newTaskConversation prepares a command about the task that its arguments name.
func newTaskConversation(cmd *cobra.Command, args []string, connect *connectFlags, tasks *taskFlags, answer *answerFlags) (*conversation, *watch, error) {
	if tasks.dialect == "off" {
		return nil, nil, usagef("--tasks off: want auto, extension or seeds")
	}
	c, err := newConversation(args[0], "the task", connect, answer)
	if err != nil {
		return nil, nil, err
	}
	id := ""
	if len(args) > 1 {
		id = args[1]
	}
	w, err := watching(cmd, c, tasks, id)
	return c, w, err
}

// taskJSON is a task for programs, as the extension writes it.
type taskJSON struct {
	ID            string              `json:"taskId"`
	Status        string              `json:"status"`
	Message       string              `json:"statusMessage,omitempty"`
	Created       *time.Time          `json:"createdAt,omitempty"`
	Updated       *time.Time          `json:"lastUpdatedAt,omitempty"`
	TTL           *int64              `json:"ttlMs"`
	PollInterval  int64               `json:"pollIntervalMs,omitempty"`
	InputRequests map[string]question `json:"inputRequests,omitempty"`
	Result        json.RawMessage     `json:"result,omitempty"`
	Error         json.RawMessage     `json:"error,omitempty"`
}

type question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

func encodeTask(t *client.Task) taskJSON {
	e := taskJSON{ID: t.ID, Status: t.Status, Message: t.Message, PollInterval: t.PollInterval.Milliseconds(), Result: t.Result, Error: t.Error}
	if !t.Created.IsZero() {
		e.Created = &t.Created
	}
	if !t.Updated.IsZero() {
		e.Updated = &t.Updated
	}
	if t.TTL > 0 {
		ms := t.TTL.Milliseconds()
		e.TTL = &ms
	}
	if len(t.Questions) > 0 {
		e.InputRequests = make(map[string]question)
		for _, q := range t.Questions {
			e.InputRequests[q.Key] = question{q.Method, q.Params}
		}
	}
	return e
}

func showTask(cmd *cobra.Command, t *client.Task, asJSON bool) error {
	if asJSON {
		return outputJSON(cmd, encodeTask(t))
	}
	text := taskText(t, time.Now())
	if w := watchOf(cmd.Context()); w != nil && t.Status == "completed" {
		text += fmt.Sprintf("\nThe result is shown by '%s'.\n", w.again("result"))
	}
	return output(cmd.OutOrStdout(), text)
}

func taskText(t *client.Task, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "task     %s\n", harmlessLine(t.ID, maxID))
	fmt.Fprintf(&b, "status   %s\n", t.Status)
	if t.Message != "" {
		fmt.Fprintf(&b, "message  %s\n", harmlessLine(t.Message, 500))
	}
	if !t.Created.IsZero() {
		fmt.Fprintf(&b, "created  %s\n", moment(t.Created, now, ""))
	}
	if !t.Updated.IsZero() {
		fmt.Fprintf(&b, "updated  %s\n", moment(t.Updated, now, ""))
	}
	if expires := expiry(t); !expires.IsZero() {
		fmt.Fprintf(&b, "expires  %s\n", moment(expires, now, "expired "))
	}
	if t.Error != nil {
		fmt.Fprintf(&b, "error    %s\n", reason(t.Error))
	}
	if len(t.Questions) > 0 {
		b.WriteString("\nasks\n")
	}
	for _, q := range t.Questions {
		b.WriteString("\n" + describe(q))
	}
	return b.String()
}

// reason is why a task failed, in a line.
func reason(raw json.RawMessage) string {
	var fault struct {
		Code    json.Number
		Message string
	}
	if json.Unmarshal(raw, &fault) != nil || fault.Message == "" {
		return harmlessLine(string(raw), 500)
	}
	if fault.Code == "" {
		return harmlessLine(fault.Message, 500)
	}
	return harmlessLine(fmt.Sprintf("%s (%s)", fault.Message, fault.Code), 500)
}

// expiry is when a task is forgotten, or zero.
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
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	// The id stands last: it is shown whole, however long it is, and would make every line as wide.
	fmt.Fprintln(table, "STATUS\tUPDATED\tEXPIRES\tMESSAGE\tID")
	for _, t := range list {
		updated, expires := "", ""
		if !t.Updated.IsZero() {
			updated = span(now.Sub(t.Updated)) + " ago"
		}
		if at := expiry(t); !at.IsZero() {
			expires = "in " + span(at.Sub(now))
			if at.Before(now) {
				expires = "expired"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.Status, updated, expires, harmlessLine(t.Message, 60), harmlessLine(t.ID, maxID))
	}
	_ = table.Flush() // into memory
	return b.String()
}
