package askback

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/schema"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// DeskOptions let questions go to people apart from the client of the call: to the desk, where they answer through
// package desk, or the command askback inbox. They need [Options.Tasks], because such a call becomes a task, even of a
// tool added with [AddTool]. A client that can take a task gets it; any other gets the outcome of the call, if that
// comes soon, and otherwise words that say who is awaited, and how to get the outcome: see [Server.AddResultTool]. The
// zero value is ready to use. An instance without a desk does not run the tasks of one that has one.
type DeskOptions struct {
	// Fallback sends an elicitation to the desk, for the caller by name, if the client did not declare that it can be
	// asked, or has shown it to nobody: see NotShown. An anonymous caller has no name, and so no fallback.
	Fallback bool

	// NotShown is how fast a client must decline or dismiss a question so that nobody can have read it; zero means 250
	// ms. Such a decline is a [*DeclinedError] with NotShown set, unless Fallback sends the question to the desk. An
	// accept that is as fast counts: it is the client's answer, and a program in the client may have given it. A handler
	// that needs a person sets Question.For.
	NotShown time.Duration

	// Wait is how long a client that cannot take a task waits for the outcome of its call before it is told in words;
	// zero means 45 seconds.
	Wait time.Duration

	// Page is the URL of the page on which people answer, without a token. The words for a client that waits name it.
	// Empty means that they name the command askback inbox open for a question of Fallback, and no place for any other.
	Page string

	// Notify, if set, is told what becomes of questions for people: that one is asked, is due soon, was decided, has
	// met its deadline, or that its call has ended. Each notice is kept in the store until Notify returns nil: it is
	// delivered at least once, by any process that runs tasks, the notices of one call in order, even when the task is
	// deleted. After an error it is delivered again, up to an hour later, for three days; then the log has an error. A
	// panic is an error. Notify may take 30 seconds, and is called for up to 32 notices at once. Callers take turns, and
	// Tasks.PerPrincipal.Notices bounds what waits of one. If Notify tells several programs, and one of them fails, all
	// of them wait for the later notices of that call. Package desk/webhook has one that posts notices.
	Notify func(ctx context.Context, n desk.Notice) error

	// Receipts signs a receipt of each decision that people make. Nil means no receipts. A decision takes no effect
	// before its receipt is signed: after an error the task tries again later. All instances need it.
	Receipts ReceiptSigner

	// Rules, if set, decides about each call of a tool before its handler runs, also of tools of the SDK's server: it
	// passes, it is denied, or people approve it first. The verdict is the first record of the call. Another process that
	// continues the call asks again if its own verdict is stricter, and denies if that says so. A verdict of nil or with
	// another Action than RuleAllow and RuleAsk denies, and so does a panic. It is called concurrently, and in each round.
	// The Decide method of rules.Rules, in the module askback/bridge, reads a file of rules.
	Rules func(ctx context.Context, call *ToolCall) *Verdict

	// Remind is the share of the time until a deadline after which the notice comes that it is due soon, less than 1.
	// Zero means 0.8. A negative value means no reminder.
	Remind float64
}

// ReceiptSigner signs receipts. It is called from several goroutines at once, and may take 10 seconds. Package receipt
// has one.
//
// A receipt states how people have decided a question: who they were, when and through which channel each of them
// answered, and what tool, caller and task it was about. It has digests of what they were shown
// ([desk.Question].Shown) and of the arguments, and salted ones of the contents: [desk.Receipt] has the salt.
type ReceiptSigner interface {
	// Sign returns the JWS of a statement, which is a JSON object, in compact form.
	Sign(ctx context.Context, statement []byte) (string, error)
}

// notify returns what delivers the notices of a store, or nil.
func (o *DeskOptions) notify() func(context.Context, *task.Notice) error {
	if o == nil || o.Notify == nil {
		return nil
	}
	return func(ctx context.Context, n *task.Notice) error {
		notice, err := tasks.Notice(n)
		if err != nil {
			return err
		}
		return fault.Safely(func() error { return o.Notify(ctx, notice) })
	}
}

// useDesk checks the desk's options, and gives them to those who need them.
func (s *Server) useDesk(engine *call.Engine, service *tasks.Service) error {
	o := *s.opts.Desk
	setDefault(&o.NotShown, 250*time.Millisecond)
	setDefault(&o.Wait, 45*time.Second)
	setDefault(&o.Remind, 0.8)
	if o.NotShown < 0 || o.Wait < 0 {
		return errors.New("askback: a negative time in Options.Desk; zero means the default")
	}
	if !(o.Remind < 1) {
		return fmt.Errorf("askback: Options.Desk.Remind is %v, but it is a share of the time until a deadline: less than 1",
			o.Remind)
	}
	if o.Page != "" && !question.IsPage(o.Page) {
		return fmt.Errorf("askback: Options.Desk.Page is %.200q: want the URL of a page, such as https://inbox.example.com/",
			o.Page)
	}
	if service == nil {
		return errors.New("askback: Options.Desk needs Options.Tasks: a call waits for people as a task")
	}
	engine.Desk = &call.Desk{Fallback: o.Fallback, NotShown: o.NotShown, Server: s.opts.Audience, Memory: service.Engine}
	if rules := o.Rules; rules != nil {
		engine.Desk.Rules = func(ctx context.Context, c *consent.ToolCall) *consent.Verdict {
			return (*consent.Verdict)(rules(ctx, (*ToolCall)(c)))
		}
	}
	people, err := desk.Open(service.Store, &desk.Options{StoreTimeout: service.Engine.Settings().StoreTimeout})
	if err != nil {
		return err
	}
	service.Desk = &tasks.Desk{Wait: o.Wait, Page: o.Page, Remind: max(o.Remind, 0), People: people,
		Receipts: o.Receipts, Server: s.opts.Audience}
	s.sdk.Carrier.Desk = true
	return nil
}

// resultArgs are the arguments of the tool of [Server.AddResultTool].
type resultArgs struct {
	Name string `json:"name,omitempty" jsonschema:"The name that the message of the waiting call gave"`
}

// AddResultTool adds the tool askback_result, for clients that cannot take a task: it fetches the outcome of a call
// that waits for people, under the name that the client was told. It waits like the call itself, as long as
// [DeskOptions].Wait, and returns what the call would have returned. It asks the caller what the call asks its client.
//
// A named caller gives the name, or at least six characters of its beginning; without a name the tool lists the calls
// of the caller. An anonymous caller is told the ID of the task in place of a name, and gives the whole ID. Nobody can
// fetch the outcome of another caller's call. AddResultTool panics without [Options.Desk].
func (s *Server) AddResultTool() {
	if s.opts.Desk == nil {
		panic("askback.Server.AddResultTool: it needs Options.Desk: without a desk no call waits for people, " +
			"and every client gets the outcome of its calls at once or as a task")
	}
	no := false
	t := &mcp.Tool{
		Name:  tasks.ResultTool,
		Title: "Result of a waiting call",
		Description: "Gets the result of an earlier tool call that is still waiting, for example for somebody's approval. " +
			"Call it with the name that the message of that call gave. It waits for a while, and returns the result of the " +
			"call, or says who is still awaited; then call it again later. It never starts the call again. " +
			"Without a name it lists your calls.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
	arguments, err := schema.ForArguments(t, reflect.TypeFor[resultArgs]())
	if err != nil {
		panic(fmt.Sprintf("askback.Server.AddResultTool: %v", err))
	}
	s.register(t, &call.Handler{
		Method: wire.CallTool, Fetches: true, Fail: toolError,
		Invoke: func(ctx context.Context, c *call.Call, params *wire.Params) (mcp.Result, error) {
			var in resultArgs
			if err := arguments.Decode(params.Arguments, params.Floats, &in); err != nil {
				return toolError(fmt.Errorf("invalid arguments: %w", err)), nil
			}
			result, err := s.sdk.Tasks.Fetch(ctx, c, in.Name)
			if err != nil {
				return nil, err
			}
			return result, nil
		},
	})
}
