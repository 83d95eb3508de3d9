package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// stuck is a server whose tools ask, and then do something that takes until the test lets it end.
type stuck struct {
	url     string
	arrived chan string // the name of a tool, when its last round has arrived
	calls   atomic.Int64
	free    atomic.Bool
}

func newStuck(t *testing.T) *stuck {
	t.Helper()
	s := &stuck{arrived: make(chan string, 8)}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil),
		&askback.Options{Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	for _, tool := range []*mcp.Tool{
		{Name: "pay"}, {Name: "store", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}},
	} {
		askback.AddTool(srv, tool, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := askback.Approve(call, "sure", askback.Question{Message: "Sure?"}); err != nil {
				return "", err
			}
			s.calls.Add(1)
			s.arrived <- tool.Name
			if !s.free.Load() {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "done", nil
		})
	}
	web := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// startBridge starts a bridge over HTTP whose store is in a directory.
func startBridge(t *testing.T, dir, server string, args ...string) (url string, kill func()) {
	t.Helper()
	return startBridgeTo(t, new(harness.Log), dir, server, args...)
}

// startBridgeTo starts a bridge whose standard error goes to a buffer.
func startBridgeTo(
	t *testing.T, stderr *harness.Log, dir, server string, args ...string,
) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command("askback", append([]string{"bridge", server, "--addr", "127.0.0.1:0", "--lease", "1s",
		"--as", "ada", "--store", filepath.Join(dir, "bridge.db")}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GORACE=atexit_sleep_ms=1", "XDG_STATE_HOME="+dir), stderr
	p, err := child.Start(cmd)
	expect.Check(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the bridge wrote:\n%s", stderr)
		}
	})
	line, err := p.Wait(time.Minute)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	return strings.TrimPrefix(line, "listening on "), p.Kill
}

// With --local the bridge serves the page, for its user alone, and prints its address where no host reads it.
func TestABridgeHasThePage(t *testing.T) {
	t.Parallel()
	var stderr harness.Log
	startBridgeTo(t, &stderr, t.TempDir(), newStuck(t).url, "--local")
	var page, token string
	harness.Eventually(t, "the address is printed", func() bool {
		m := regexp.MustCompile(`(?m)^sign in at (http://127\.0\.0\.1:\d+/)auth/#(\S+)$`).FindStringSubmatch(stderr.String())
		if m != nil {
			page, token = m[1], m[2]
		}
		return m != nil
	})
	res, err := http.Get(page + "api/questions")
	expect.Check(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized || token == "" {
		t.Errorf("without the token: %s", res.Status)
	}
}

// Over standard input and output the bridge has a program behind it, and ends with its host.
func TestABridgeBetweenPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stderr harness.Log
	cmd := exec.Command("askback", "bridge", "--store", filepath.Join(dir, "bridge.db"), "--", "askback", "serve",
		"--stdio", "--data", dir)
	cmd.Stderr = &stderr
	s, err := client.New(&client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
	}).Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "get_weather", Arguments: map[string]any{"location": "Oslo"},
	})
	if err != nil || !strings.HasPrefix(res.Content[0].(*mcp.TextContent).Text, "Current weather in Oslo") {
		t.Errorf("%v, %v: %s", res, err, &stderr)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the bridge did not end with its host: %v: %s", err, &stderr)
	}
	for _, secret := range []string{"octocat", "ab1."} {
		if strings.Contains(stderr.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// A bridge is killed after a round was sent, before it can record what came back. The next bridge on its store does not
// send the round of a tool that is not idempotent again: it asks the caller whether to, and says that nobody knows
// whether the tool ran. It does send the round of an idempotent one. All of it is so for every host.
func TestABridgeOverAKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tool, decision string
		host                 hostOf
		calls                int64
		want                 string
	}{
		{"idempotent", "store", "", hostOf{}, 2, "done"},
		{"declined", "pay", "decline", hostOf{}, 1, "The outcome of this call is unknown"},
		{"accepted", "pay", "accept", hostOf{}, 2, "done"},
		{"without tasks", "pay", "decline", hostOf{asks: true}, 1, "The outcome of this call is unknown"},
		{"in a session", "pay", "decline", hostOf{asks: true, version: "2025-11-25"}, 1,
			"The outcome of this call is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, dir := newStuck(t), t.TempDir()
			url, kill := startBridge(t, dir, server.url)
			ended := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			host := c.host.connect(t, url)
			go func() {
				defer close(ended)
				if _, err := host.CallTool(ctx, &mcp.CallToolParams{Name: c.tool}); err == nil {
					t.Error("the host gets a result of a bridge that was killed")
				}
			}()
			if !c.host.asks {
				decide(t, dir, "Sure?", "accept")
			}
			<-server.arrived
			kill()
			cancel()
			<-ended
			server.free.Store(true)
			url, _ = startBridge(t, dir, server.url)
			name := theCall(t, dir)
			if c.decision != "" {
				decide(t, dir, "Call it again?", c.decision)
			}
			host = c.host.connect(t, url)
			var res *mcp.CallToolResult
			harness.Eventually(t, "the call ends", func() bool {
				var err error
				if res, err = host.CallTool(t.Context(), &mcp.CallToolParams{
					Name: "askback_result", Arguments: map[string]any{"name": name},
				}); err != nil {
					t.Fatal(err)
				}
				return !strings.Contains(res.Content[0].(*mcp.TextContent).Text, name)
			})
			text := res.Content[0].(*mcp.TextContent).Text
			if !strings.HasPrefix(text, c.want) || res.IsError != (c.decision == "decline") {
				t.Errorf("the result is %q, an error: %v", text, res.IsError)
			}
			expect.Equal(t, "the tool ran", server.calls.Load(), c.calls)
		})
	}
}

// hostOf says what a host can do: one that cannot take tasks can be asked.
type hostOf struct {
	asks    bool
	version string // of the protocol
}

func (h hostOf) connect(t *testing.T, url string) *client.Session {
	t.Helper()
	opts := new(client.Options)
	if h.asks {
		opts.Tasks = client.TasksOff
		opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		}
	}
	s, err := client.New(opts).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: h.version})
	expect.Check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// openDesk opens the desk on a bridge's store.
func openDesk(t *testing.T, dir string) (d *desk.Desk, done func() error) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "bridge.db"))
	expect.Check(t, err)
	if d, err = desk.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	return d, store.Close
}

// theCall is the name of the one call in a bridge's store.
func theCall(t *testing.T, dir string) (name string) {
	t.Helper()
	d, done := openDesk(t, dir)
	defer done()
	for call, err := range d.List(t.Context(), task.Filter{}) {
		if err != nil || name != "" {
			t.Fatal("more than one call: ", call, err)
		}
		name = call.Name
	}
	return name
}

// decide answers a question at the desk, as ada, whose message ends so.
func decide(t *testing.T, dir, message, action string) {
	t.Helper()
	d, done := openDesk(t, dir)
	defer done()
	by := desk.Person{Name: "ada"}
	harness.Eventually(t, "ada is asked: "+message, func() bool {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{As: &by}) {
			expect.Check(t, err)
			if !strings.HasSuffix(q.Message, message) {
				t.Errorf("the question is %q", q.Message)
			}
			expect.Must(d.Answer(t.Context(), q.Name, q.Key, desk.Answer{By: by, Action: action}))(t)
			return true
		}
		return false
	})
}
