package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/examples/deploy"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/judge"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

func TestMain(m *testing.M) { os.Exit(judge.Run(m)) }

// scene is a server of the example tools on a store in a file, and the inbox of that store. Everybody who calls is
// carol, whose host declares that it can be asked, and declines at once.
type scene struct {
	*testing.T
	url     string // of the inbox
	server  string // its URL
	desk    *desk.Desk
	session *client.Session
	ids     map[string]string // of tasks, by their names
}

// in is the scene in another test.
func (s *scene) in(t *testing.T) *scene {
	other := *s
	other.T = t
	return &other
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, ids: make(map[string]string)}
	store := expect.Must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db")))(t)
	t.Cleanup(func() { store.Close() })
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "askback-examples", Version: "1.0.0"}, nil),
		&askback.Options{
			Tasks: &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Fallback: true, Rules: rules},
			Logger:    slog.New(slog.DiscardHandler),
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
		}))(t)
	deploy.Register(srv)
	provision.Register(srv, &provision.Host{Root: t.TempDir()})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "survey"}, nil, survey)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "connect"}, nil, connect)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "report"}, nil, askLongForm)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "refund"}, nil, refund)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "archive"}, nil,
		func(context.Context, *askback.Call, map[string]any) (string, error) { return "archived", nil })

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	web := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(web.Close)
	s.server = web.URL
	cannotShow := func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	s.session = expect.Must(client.New(&client.Options{Form: cannotShow}).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil))(t)
	t.Cleanup(func() { s.session.Close() })

	s.desk = expect.Must(desk.Open(store, nil))(t)
	s.url = servePage(t, s.desk)
	return s
}

// rules have people approve one tool, and remember that.
func rules(_ context.Context, c *askback.ToolCall) *askback.Verdict {
	if c.Tool != "archive" {
		return &askback.Verdict{Action: askback.RuleAllow}
	}
	return &askback.Verdict{Action: askback.RuleAsk, Rule: "the archive", For: []string{"group:release"},
		Remember: 8 * time.Hour, Uses: 20, Digest: "1"}
}

// servePage serves the inbox of a desk, and returns its URL.
func servePage(t *testing.T, d *desk.Desk) string {
	t.Helper()
	page := expect.Must(inbox.New(d, &inbox.Options{Title: "askback-examples", Logger: slog.New(slog.DiscardHandler),
		Identity: inbox.TrustedHeader{Name: "X-User", Groups: "X-Groups",
			Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}))(t)
	front := httptest.NewServer(page)
	t.Cleanup(front.Close)
	return front.URL
}

// survey asks for one value of each kind that a schema can have.
func survey(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
	answer, err := askback.ElicitWith[map[string]any](call, "survey", askback.Question{
		Message: "How shall the report be made?\nSee https://docs.example.com/reports for what each part means.",
		For:     []string{askback.Group("release"), askback.User("dora")},
		Schema: json.RawMessage(`{"type": "object", "required": ["title", "format", "urgent", "copies"],
			"properties": {
			"title": {"type": "string", "title": "Title", "minLength": 3, "maxLength": 40},
			"summary": {"type": "string", "title": "Summary", "maxLength": 2000, "description": "for those who read no further"},
			"copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 20, "default": 1},
			"scale": {"type": "number", "title": "Scale", "minimum": 0.1, "maximum": 4},
			"urgent": {"type": "boolean", "title": "Is it urgent?"},
			"format": {"type": "string", "title": "Format", "oneOf": [{"const": "pdf", "title": "PDF, to print"},
				{"const": "html", "title": "A page, to read"}]},
			"region": {"type": "string", "title": "Region", "enum": ["eu-north", "eu-south", "eu-west", "us-east", "us-west",
				"asia-east", "asia-south", "africa", "oceania"]},
			"parts": {"type": "array", "title": "Parts", "minItems": 1, "maxItems": 2,
				"items": {"type": "string", "enum": ["figures", "tables", "sources"]}},
			"email": {"type": "string", "title": "Send it to", "format": "email"},
			"on": {"type": "string", "title": "On", "format": "date"},
			"at": {"type": "string", "title": "Not before", "format": "date-time"}}}`),
	})
	text, _ := json.Marshal(answer)
	return string(text), err
}

// refund asks for the arguments of its own call, in Markdown of three scripts.
func refund(_ context.Context, call *askback.Call, in map[string]any) (string, error) {
	arguments, _ := json.Marshal(in)
	answer, err := askback.ElicitWith[map[string]any](call, "refund", askback.Question{
		Message: "# استرداد المبلغ للعميل 顧客への返金?\n\n" +
			"The order **4711** has *not* arrived. العميل ينتظر منذ أسبوع. お客様は一週間お待ちです。",
		Preview: "| what | amount |\n|---|---:|\n| 商品 | 19.90 |\n| الشحن | 4.90 |", Markdown: true,
		For: []string{askback.User("bob")}, Within: 26 * time.Hour,
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","required":["arguments"],"properties":{"arguments":{
			"type":"string","title":"Arguments","description":"As JSON","default":%q}}}`, arguments)),
	})
	text, _ := json.Marshal(answer)
	return string(text), err
}

// connect asks somebody to open a page.
func connect(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
	err := askback.ElicitURL(call, "connect", "Connect the calendar of the team.",
		"https://calendar.xn--exmple-cua.com:8443/connect?team=release")
	return "connected", err
}

// call calls a tool as carol, and returns the name and the key of the question that waits for people.
func (s *scene) call(tool string, arguments map[string]any) *desk.Question {
	s.Helper()
	began, _, err := s.session.StartTask(s.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}, 0)
	expect.Check(s, err)
	waits, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.session.WaitTask(waits, began.ID) // answers what the host is asked
	}()
	s.Cleanup(func() { stop(); <-done })
	name := task.Name(began.ID)
	s.ids[name] = began.ID
	var asked []*desk.Question
	harness.Eventually(s.T, "question of "+tool, func() bool {
		asked, err = s.desk.Questions(s.Context(), name, nil)
		return err == nil
	})
	return asked[len(asked)-1]
}

func textOf(res *mcp.CallToolResult) string {
	var text strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	return text.String()
}
