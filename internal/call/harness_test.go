package call_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// memory is a home for tests. It holds the journal in memory, and its client answers there and then, or has gone away.
type memory struct {
	call.Opened
	fail   error                                       // of Open
	unkept error                                       // of Suspend
	answer func(key string) string                     // nil: the client has gone away
	commit func(context.Context, *journal.Entry) error // as in [journal.Run]

	happened []string // to the journal, in order
}

func newMemory() *memory {
	return &memory{Opened: call.Opened{Journal: &journal.Journal{ID: "secret", Started: time.Now()}}}
}

func (m *memory) Open(context.Context) (call.Opened, error) { return m.Opened, m.fail }

// moves is a [call.Mover].
type moves func(*journal.Journal) (*call.Outcome, error)

func (m moves) Move(_ context.Context, j *journal.Journal) (*call.Outcome, error) { return m(j) }

func (m *memory) Begin(run *journal.Run, j *journal.Journal, answers call.Answers, limits *bound.Limits) {
	begin := run.Begin
	if answers.Bare {
		begin = run.BeginBare
	}
	begin(j, answers.Responses, limits)
	run.Commit = m.commit
}

func (m *memory) Suspend(
	_ context.Context, _ *journal.Journal, out *call.Outcome,
) (answers call.Answers, again bool, err error) {
	keys := []string{"suspend"}
	for _, q := range out.Questions {
		keys = append(keys, q.Wire)
	}
	m.happened = append(m.happened, strings.Join(keys, " "))
	if m.unkept != nil || m.answer == nil {
		out.State = "the state"
		return answers, false, m.unkept
	}
	answers.Responses = make(map[string][]byte)
	for _, q := range out.Questions {
		if raw := m.answer(q.Wire); raw != "" {
			answers.Responses[q.Wire] = []byte(raw)
		}
	}
	return answers, true, nil
}

func (m *memory) End(_ context.Context, _ *journal.Journal, out *call.Outcome, err error) {
	m.happened = append(m.happened, "end: "+ended(out, err))
}

// ended is the text of a result, of an error, or of what else a call became.
func ended(out *call.Outcome, err error) string {
	switch {
	case err != nil:
		return fmt.Sprint(fault.Wire(err).Code, " ", err)
	case out.Task != nil:
		return "task " + out.Task.ID
	case out.Encoded != nil:
		return string(out.Encoded)
	case out.InputRequired():
		keys := []string{"asks"}
		for _, q := range out.Questions {
			keys = append(keys, q.Wire)
		}
		return strings.Join(keys, " ")
	}
	switch r := out.Result.(type) {
	case *mcp.CallToolResult:
		said := r.Content[0].(*mcp.TextContent).Text
		if r.IsError {
			return "failed: " + said
		}
		return said
	case *mcp.GetPromptResult:
		return r.Description
	}
	return fmt.Sprintf("%T", out.Result)
}

// server is the engine, with everything that its operator is told.
type server struct {
	*call.Engine
	log    bytes.Buffer
	events []string
	spans  []string
}

func newServer() *server {
	s := new(server)
	s.Engine = &call.Engine{
		Limits: bound.Limits{Rounds: 5, Questions: 3},
		Log:    slog.New(slog.NewTextHandler(&s.log, nil)),
		Audit: &report.Audit{Hook: func(_ context.Context, e report.AuditEvent) {
			s.events = append(s.events, strings.TrimSpace(fmt.Sprint(e.Round, " ", e.Kind, " ", e.Key, e.Action, e.Reason)))
		}},
		Observer: &report.Observer{Hook: func(ctx context.Context, op *report.Operation) (context.Context, func()) {
			return ctx, func() {
				s.spans = append(s.spans, strings.TrimSpace(fmt.Sprint(op.Kind, " ", op.Step, op.Rounds, " ", op.Outcome)))
			}
		}},
	}
	return s
}

// told checks the events since it was called last.
func (s *server) told(t *testing.T, want ...string) {
	t.Helper()
	expect.Same(t, "the operator was told", s.events, want)
	s.events = nil
}

// logged checks whether a text was logged since logged was called last.
func (s *server) logged(t *testing.T, want string) {
	t.Helper()
	if got := s.log.String(); want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("the log is %q, want %q", got, want)
	}
	s.log.Reset()
}

type handler func(ctx context.Context, c *call.Call) (mcp.Result, error)

// tool is a request for a tool with this handler.
func tool(h handler) *call.Request {
	r := &call.Request{
		Params: &wire.Params{Target: "deploy"}, Raw: []byte(`{"name":"deploy"}`), Can: wire.Form, Principal: "ada",
	}
	r.Handler = &call.Handler{
		Method: wire.CallTool,
		Tasks:  new(call.TaskSupport),
		Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) { return h(ctx, c) },
		Fail: func(err error) mcp.Result {
			r := text(err.Error())
			r.IsError = true
			return r
		},
	}
	return r
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// ask asks for a name, and returns the action and the name of the answer.
func ask(c *call.Call, key string) (string, error) {
	q, err := question.FormOf("Who?", reflect.TypeFor[struct {
		Name string `json:"name"`
	}]())
	if err != nil {
		return "", err
	}
	record, err := c.Ask(key, q)
	if err != nil {
		return "", err
	}
	var a struct {
		Action  string
		Content struct{ Name string }
	}
	err = json.Unmarshal(record, &a)
	return strings.TrimSpace(a.Action + " " + a.Content.Name), err
}

func accept(name string) string { return `{"action":"accept","content":{"name":"` + name + `"}}` }

// step runs a step that returns its own name.
func step(ctx context.Context, c *call.Call, name string, ran *int) error {
	_, err := c.Step(ctx, name, func(context.Context) ([]byte, error) {
		*ran++
		return []byte(`"` + name + `"`), nil
	})
	return err
}
