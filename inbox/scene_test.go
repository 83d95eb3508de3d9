package inbox_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// scene is a server that asks people, a desk on its store, and an inbox of that desk.
type scene struct {
	*testing.T
	desk  *desk.Desk
	inbox *inbox.Inbox

	srv     *askback.Server
	ask     askback.Question // what the tool asks
	verdict askback.Verdict  // of the rules
	session *client.Session
}

// newScene starts a server whose tool asks this question under the key "ask". The caller is carol.
func newScene(t *testing.T, ask askback.Question) *scene {
	t.Helper()
	s := &scene{T: t, ask: ask, verdict: askback.Verdict{Action: askback.RuleAllow}}
	store, keys := new(task.MemoryStore), receipt.File(filepath.Join(t.TempDir(), "receipts.jwks"))
	expect.Check(t, keys.Create())
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: &askback.Tasks{Store: store},
		Desk: &askback.DeskOptions{Receipts: keys, Rules: func(context.Context, *askback.ToolCall) *askback.Verdict {
			verdict := s.verdict
			return &verdict
		}},
		Logger:    slog.New(slog.DiscardHandler),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
	})
	expect.Check(t, err)
	s.srv = srv
	s.describe("Deploys.")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- srv.RunTasks(ctx) }()
	web := httptest.NewServer(srv.HTTPHandler(nil))
	s.session, err = client.New(nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	expect.Check(t, err)
	t.Cleanup(func() { s.session.Close(); web.Close(); stop(); <-done })
	if s.desk, err = desk.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	s.inbox, err = inbox.New(s.desk, &inbox.Options{Title: "shop", Logger: slog.New(slog.DiscardHandler),
		ReceiptKeys: keys.Public,
		Identity: inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
			name, groups, _ := strings.Cut(r.Header.Get("As"), ":")
			return desk.Person{Name: name, Groups: strings.FieldsFunc(groups, func(r rune) bool { return r == ',' })}, nil
		})})
	expect.Check(t, err)
	return s
}

// describe adds the tool with a description, in place of the one before.
func (s *scene) describe(as string) {
	askback.AddTaskTool(s.srv, &mcp.Tool{Name: "deploy", Description: as}, nil,
		func(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
			if s.ask.Schema == nil {
				return "done", askback.Approve(call, "ask", s.ask)
			}
			_, err := askback.ElicitWith[map[string]any](call, "ask", s.ask)
			return "done", err
		})
}

// call calls the tool, and returns the name of the task that waits for people.
func (s *scene) call(arguments map[string]any) string {
	s.Helper()
	began, _, err := s.session.StartTask(s.Context(), &mcp.CallToolParams{Name: "deploy", Arguments: arguments}, 0)
	expect.Check(s, err)
	name := task.Name(began.ID)
	harness.Eventually(s.T, "a question", func() bool {
		_, err := s.desk.Question(s.Context(), name, "ask", nil)
		return err == nil
	})
	return name
}

// get gets a page as somebody, such as "ada:release".
func (s *scene) get(as, path string) (status int, page string) {
	s.Helper()
	return s.send(as, httptest.NewRequest(http.MethodGet, path, nil))
}

// post sends a form.
func (s *scene) post(as, path string, form url.Values) (status int, page string) {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(as, r)
}

func (s *scene) send(as string, r *http.Request) (status int, page string) {
	s.Helper()
	r.Header.Set("As", as)
	w := httptest.NewRecorder()
	s.inbox.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	expect.Check(s, err)
	if to := w.Result().Header.Get("Location"); to != "" {
		return w.Code, to
	}
	return w.Code, string(body)
}

// has requires that a page has each of these texts.
func (s *scene) has(page string, texts ...string) {
	s.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.Errorf("%q is not in the page:\n%s", text, page)
		}
	}
}
