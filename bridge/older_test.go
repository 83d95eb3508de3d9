package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// olderVersion is the variable that makes the test binary an older server over stdio, of the revision that it names.
const olderVersion = "ASKBACK_TEST_OLDER"

func TestMain(m *testing.M) {
	if version := os.Getenv(olderVersion); version == hostileVersion {
		serveHostile()
		return
	} else if version != "" {
		if err := new(older).server(version).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "8") // most tests wait for a server
	os.Exit(m.Run())
}

// older is a server of the SDK in a revision before 2026-07-28. It counts what its tools did.
type older struct {
	did     sync.Map // from names of tools to *atomic.Int64
	stopped atomic.Int64
}

func (s *older) done(tool string) int64 {
	n, _ := s.did.LoadOrStore(tool, new(atomic.Int64))
	return n.(*atomic.Int64).Add(1)
}

func (s *older) count(tool string) int64 {
	n, _ := s.did.LoadOrStore(tool, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

type subject struct {
	Name string `json:"name,omitempty"`
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// elicit asks for a text, and returns it or the action.
func elicit(ctx context.Context, req *mcp.CallToolRequest, message string) (string, error) {
	res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "required": []string{"text"},
		"properties": map[string]any{"text": map[string]any{"type": "string"}},
	}})
	if err != nil {
		return "", err
	}
	if res.Action != "accept" {
		return res.Action, nil
	}
	return fmt.Sprint(res.Content["text"]), nil
}

func (s *older) server(version string) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "attic", Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{version}})
	add := func(tool *mcp.Tool, h func(context.Context, *mcp.CallToolRequest, subject) (*mcp.CallToolResult, error)) {
		mcp.AddTool(m, tool, func(
			ctx context.Context, req *mcp.CallToolRequest, in subject,
		) (*mcp.CallToolResult, any, error) {
			res, err := h(ctx, req, in)
			return res, nil, err
		})
	}
	add(&mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in subject) (
		*mcp.CallToolResult, error,
	) {
		return text("%s %d", in.Name, s.done("echo")), nil
	})
	order := func(ctx context.Context, req *mcp.CallToolRequest, in subject) (*mcp.CallToolResult, error) {
		s.done("begin " + req.Params.Name)
		color, err := elicit(ctx, req, "Which color has the "+in.Name+"?")
		if err != nil {
			s.done("cancelled " + req.Params.Name)
			return nil, err
		}
		sure, err := elicit(ctx, req, "Order the "+color+" "+in.Name+"?")
		if err != nil {
			return nil, err
		}
		s.done(req.Params.Name)
		return text("%s %s %s", sure, color, in.Name), nil
	}
	add(&mcp.Tool{Name: "order"}, order)
	add(&mcp.Tool{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, order)
	add(&mcp.Tool{Name: "three"}, func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (
		*mcp.CallToolResult, error,
	) {
		var all sync.WaitGroup
		answers := make([]string, 3)
		for i := range answers {
			all.Go(func() { answers[i], _ = elicit(ctx, req, fmt.Sprintf("Number %d?", i)) })
		}
		all.Wait()
		return text("%s", strings.Join(answers, " ")), nil
	})
	add(&mcp.Tool{Name: "model"}, func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (
		*mcp.CallToolResult, error,
	) {
		roots, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, err
		}
		res, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Hi"}}}})
		if err != nil {
			return nil, err
		}
		return text("%s %s", roots.Roots[0].URI, res.Content.(*mcp.TextContent).Text), nil
	})
	add(&mcp.Tool{Name: "impatient"},
		func(ctx context.Context, req *mcp.CallToolRequest, in subject) (*mcp.CallToolResult, error) {
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if _, err := elicit(ctx, req, "Quick?"); err != nil {
				return nil, errors.New("nobody answered me")
			}
			return text("quick"), nil
		})
	add(&mcp.Tool{Name: "forever"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ subject) (*mcp.CallToolResult, error) {
			s.done("forever")
			<-ctx.Done()
			s.stopped.Add(1)
			return nil, ctx.Err()
		})
	add(&mcp.Tool{Name: "exit"}, func(ctx context.Context, req *mcp.CallToolRequest, in subject) (
		*mcp.CallToolResult, error,
	) {
		if in.Name == "at once" {
			os.Exit(3)
		}
		go func() {
			<-time.After(200 * time.Millisecond)
			os.Exit(3)
		}()
		_, err := elicit(ctx, req, "May I go?")
		return nil, err
	})
	add(&mcp.Tool{Name: "visits"}, func(ctx context.Context, req *mcp.CallToolRequest, in subject) (
		*mcp.CallToolResult, error,
	) {
		return text("%d", s.done("visits of "+req.Session.ID())), nil
	})
	return m
}

// newOlder starts an older server over HTTP.
func newOlder(t testing.TB, version string) (*older, string) {
	t.Helper()
	s := new(older)
	m := s.server(version)
	web := harness.Serve(t, overHTTP(m))
	return s, web.URL
}

// overStdio makes a bridge start an older server as a program for each session. It counts the programs.
func overStdio(t testing.TB, started *atomic.Int64) func(*bridge.Options) {
	t.Helper()
	self := expect.Must(os.Executable())(t)
	return func(o *bridge.Options) {
		o.Servers[0].Connect = func() (mcp.Transport, error) {
			if started != nil {
				started.Add(1)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), olderVersion+"=2025-06-18", "GORACE=atexit_sleep_ms=1")
			return &mcp.CommandTransport{Command: cmd}, nil
		}
	}
}

// transports are those of servers: over HTTP as it is.
func transports(t testing.TB) map[string]func(*bridge.Options) {
	return map[string]func(*bridge.Options){"http": func(*bridge.Options) {}, "stdio": overStdio(t, nil)}
}

// says answers a question of the desk with a text.
func says(text string) desk.Answer {
	return desk.Answer{Action: "accept", Content: json.RawMessage(`{"text":"` + text + `"}`)}
}

// eachOlder runs a test in front of older servers over HTTP, in each revision, and over stdio.
func eachOlder(t *testing.T, wait time.Duration, test func(t *testing.T, f *front)) {
	waits := func(o *bridge.Options) { o.Server.Desk.Wait = wait }
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			_, url := newOlder(t, version)
			test(t, newFront(t, url, waits))
		})
	}
	t.Run("stdio", func(t *testing.T) { test(t, newFront(t, "", waits, overStdio(t, nil))) })
}

// What an older server asks inside its open call, a host is asked, in every revision that the host speaks.
func TestAHostIsAskedWhatAnOlderServerAsks(t *testing.T) {
	eachOlder(t, time.Minute, func(t *testing.T, f *front) {
		for _, version := range revisions {
			opts := able()
			opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
				answer := "blue"
				if strings.HasPrefix(q.Message, "Order") {
					answer = "yes"
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"text": answer}}, nil
			}
			s := host(t, f.url, version, opts)
			returns(t, s, "order", subject{"hat"}, "yes blue hat")
			if got, _ := call(t, s, "model", nil); got != "file:///src hello" {
				t.Errorf("to a host of %s the model's is %q", version, got)
			}
		}
	})
}

// A host that can be asked nothing gets words, and people answer at the desk; what asks nothing is not stored.
func TestPeopleAnswerAnOlderServer(t *testing.T) {
	eachOlder(t, 10*time.Millisecond, func(t *testing.T, f *front) {
		for _, version := range revisions {
			s := host(t, f.url, version, client.Options{Tasks: client.TasksOff})
			before := stored(t, f)
			if got, failed := call(t, s, "echo", subject{"hello"}); !strings.HasPrefix(got, "hello") || failed {
				t.Errorf("the echo is %q", got)
			}
			expect.Equal(t, "a call that did not ask is stored", stored(t, f), before)
			words, failed := call(t, s, "order", subject{"hat"})
			if !strings.Contains(words, "askback_result") || failed {
				t.Fatalf("the words are %q", words)
			}
			q := f.answer(t, "ada", says("blue"))
			expect.Equal(t, "the desk asks", q.Message, "Which color has the hat?")
			f.answer(t, "ada", says("yes"))
			expect.Equal(t, "the result", fetch(t, s, q.Name), "yes blue hat")
		}
	})
}

// byHeader has the bridge take the name of a caller from a header.
func byHeader(o *bridge.Options) {
	o.Server.Principal = func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("User"), nil
	}
}

// as connects a host of a caller.
func as(t testing.TB, f *front, user string, opts client.Options) *client.Session {
	t.Helper()
	s := expect.Must(client.New(&opts).Connect(t.Context(), bridge.AtURL(f.url, http.Header{"User": {user}}), nil))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// Nothing in a session says which call a question belongs to. Calls that ask take turns in it, so everybody is
// asked what their own call asks.
func TestNobodyGetsTheQuestionsOfAnothersCall(t *testing.T) {
	for name, change := range transports(t) {
		t.Run(name, func(t *testing.T) {
			_, url := newOlder(t, "2025-11-25")
			f := newFront(t, url, byHeader, change, func(o *bridge.Options) { o.Server.Desk.Wait = time.Minute })
			var all sync.WaitGroup
			for i := range 8 {
				user, item := []string{"ada", "bob"}[i%2], fmt.Sprintf("hat-%d", i)
				all.Go(func() {
					s := as(t, f, user, client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
						expect.Contains(t, user+", who buys the, is asked", q.Message, item)
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"text": "red"}}, nil
					}})
					for range 3 {
						returns(t, s, "order", subject{item}, "red red "+item)
					}
				})
			}
			all.Wait()
		})
	}
}

// What a server remembers in a session is there for the next call of the same caller, and not for another one.
func TestACallerKeepsASession(t *testing.T) {
	_, url := newOlder(t, "2025-11-25")
	f := newFront(t, url, byHeader)
	ada, bob := as(t, f, "ada", client.Options{}), as(t, f, "bob", client.Options{})
	for i, s := range []*client.Session{ada, ada, ada, bob} {
		if got, _ := call(t, s, "visits", nil); got != []string{"1", "2", "3", "1"}[i] {
			t.Errorf("visit %d is number %s of its session", i, got)
		}
	}
}

// A caller who has their share of the sessions is told so, and others are served.
func TestACallerHasAShareOfTheSessions(t *testing.T) {
	bridge.ShortTimes(t, 50*time.Millisecond, time.Minute, time.Second)
	s, url := newOlder(t, "2025-11-25")
	f := newFront(t, url, byHeader, func(o *bridge.Options) { o.Sessions, o.Servers[0].SessionPerCall = 2, true })
	ada, bob := as(t, f, "ada", client.Options{Tasks: client.TasksOff}), as(t, f, "bob", client.Options{})
	call(t, ada, "order", subject{"hat"})
	refuses(t, ada, "echo", subject{"again"}, "your share of the 2 sessions")
	if got, failed := call(t, bob, "echo", subject{"bob"}); failed || !strings.HasPrefix(got, "bob") {
		t.Errorf("bob gets %q", got)
	}
	expect.Equal(t, "calls came to the server", s.count("echo"), 1)
	f.answer(t, "ada", says("red"))
	q := f.answer(t, "ada", says("yes"))
	expect.Equal(t, "the first call of ada gets", fetch(t, ada, q.Name), "yes red hat")
	if got, failed := call(t, ada, "echo", subject{"again"}); failed {
		t.Errorf("afterwards ada gets %q", got)
	}
}

// Questions at once are asked at once, and each gets its answer, in whatever order they come.
func TestAnOlderServerAsksSeveralAtOnce(t *testing.T) {
	_, url := newOlder(t, "2025-11-25")
	f := newFront(t, url)
	s := host(t, f.url, "", client.Options{Tasks: client.TasksOff})
	call(t, s, "three", nil)
	name := ""
	for range 3 {
		ada := desk.Person{Name: "ada"}
		var last *desk.Question
		for deadline := time.Now().Add(20 * time.Second); last == nil && time.Now().Before(deadline); {
			for q := range expect.Each(t, f.desk.Waiting(t.Context(), desk.Waiting{As: &ada})) {
				last = q
			}
		}
		a := says(strings.Trim(last.Message, "Number ?"))
		a.By, name = ada, last.Name
		expect.Must(f.desk.Answer(t.Context(), last.Name, last.Key, a))(t)
	}
	expect.Equal(t, "the answers came as", fetch(t, s, name), "0 1 2")
}

// A server that does not wait as long as a person needs ends its call in words that say so, and nobody is asked any
// longer.
func TestAnOlderServerGivesUp(t *testing.T) {
	t.Parallel()
	for name, change := range transports(t) {
		_, url := newOlder(t, "2025-06-18")
		f := newFront(t, url, change)
		s := host(t, f.url, "", client.Options{Tasks: client.TasksOff})
		cases := map[string]string{"impatient": `"nobody answered me"`}
		if name == "stdio" {
			cases["exit"] = "the connection to it ended"
		}
		for tool, want := range cases {
			call(t, s, tool, nil)
			got := fetch(t, s, f.waits(t))
			if !strings.Contains(got, "did not wait any longer") || !strings.Contains(got, want) {
				t.Errorf("%s: %s ends with %q", name, tool, got)
			}
			for q := range f.desk.Waiting(t.Context(), desk.Waiting{}) {
				t.Errorf("%s: %q still waits", name, q.Message)
			}
		}
		if got, failed := call(t, s, "echo", subject{"hello"}); failed {
			t.Errorf("%s: the next call gets %q", name, got)
		}
	}
}

// waits returns the name of the call that was stored last.
func (f *front) waits(t testing.TB) (name string) {
	t.Helper()
	var newest time.Time
	for c := range expect.Each(t, f.desk.List(t.Context(), task.Filter{})) {
		if !c.Created.Before(newest) {
			name, newest = c.Name, c.Created
		}
	}
	return name
}

// A call that is cancelled ends at the server, whether its host does it while it runs, or somebody at the desk while it
// waits.
func TestACallEndsAtAnOlderServer(t *testing.T) {
	bridge.ShortTimes(t, time.Second, time.Minute, 20*time.Millisecond)
	older, url := newOlder(t, "2025-11-25")
	f := newFront(t, url)
	s := host(t, f.url, "", client.Options{Tasks: client.TasksOff})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "forever"})
		ended <- err
	}()
	eventually(t, "the tool runs", func() bool { return older.count("forever") == 1 })
	cancel()
	<-ended
	eventually(t, "the tool is cancelled", func() bool { return older.stopped.Load() == 1 })

	call(t, s, "order", subject{"hat"})
	name := f.waits(t)
	expect.Must(f.desk.Cancel(t.Context(), name, desk.Cancellation{By: "ada", Reason: "no hats"}))(t)
	eventually(t, "the order is cancelled", func() bool { return older.count("cancelled order") == 1 })
}

// A server that has forgotten its sessions, or whose program has ended, has the next call in a new one.
func TestADeadSessionIsReplaced(t *testing.T) {
	s := new(older)
	fresh := func() http.Handler { return overHTTP(s.server("2025-11-25")) }
	var now atomic.Pointer[http.Handler]
	h := fresh()
	now.Store(&h)
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*now.Load()).ServeHTTP(w, r)
	}))
	f := newFront(t, web.URL)
	remote := host(t, f.url, "", client.Options{})
	call(t, remote, "echo", nil)
	h2 := fresh()
	now.Store(&h2)
	returns(t, remote, "echo", subject{"hello"}, "hello 2")

	local := newFront(t, "", overStdio(t, nil))
	program := host(t, local.url, "", client.Options{})
	refuses(t, program, "exit", subject{"at once"}, "outcome of this call is unknown")
	returns(t, program, "echo", subject{"hello"}, "hello 1")
}

// Of two bridges on one store, the one that does not have the session leaves the call to the one that does. When that
// has stopped, a call ends in words; a read-only tool is called again, and nobody is asked again what they have
// answered.
func TestAnOlderServersCallBelongsToOneBridge(t *testing.T) {
	bridge.ShortTimes(t, time.Second, 2*time.Second, 50*time.Millisecond)
	s, url := newOlder(t, "2025-11-25")
	first := newFront(t, url)
	second := newFront(t, url, after(first))
	for i := range 4 {
		f := []*front{first, second}[i%2]
		h := host(t, f.url, "", client.Options{Tasks: client.TasksOff})
		call(t, h, "order", subject{"hat"})
		first.answer(t, "ada", says("red"))
		q := second.answer(t, "ada", says("yes"))
		if got := fetch(t, h, q.Name); got != "yes red hat" {
			t.Errorf("order %d of two bridges gets %q", i, got)
		}
	}
	expect.Equal(t, "four orders began times", s.count("begin order"), 4)
	h := host(t, second.url, "", client.Options{Tasks: client.TasksOff})
	for tool, want := range map[string]string{
		"order": `was lost while it waited for the answer to "Order the red hat?"`, "look": "yes red hat",
	} {
		gone := newFront(t, url, after(first))
		call(t, host(t, gone.url, "", client.Options{Tasks: client.TasksOff}), tool, subject{"hat"})
		name := first.answer(t, "ada", says("red")).Name
		eventually(t, "the second question waits", func() bool {
			for q := range first.desk.Waiting(t.Context(), desk.Waiting{}) {
				return q.Message == "Order the red hat?"
			}
			return false
		})
		gone.stop()
		before := s.count("begin order")
		if tool == "look" {
			eventually(t, "the tool is called again", func() bool { return s.count("begin look") == 2 })
			first.answer(t, "ada", says("yes"))
		}
		expect.Contains(t, tool+" gets", fetch(t, h, name), want)
		expect.Equal(t, "an order was repeated times", s.count("begin order")-before, 0)
	}
}

// A host that starts a bridge for each of its calls has none that lives as long as another process may hold a call. The
// call ends all the same.
func TestACallIsLostAlsoToBridgesThatLiveShortly(t *testing.T) {
	bridge.ShortTimes(t, time.Second, 6*time.Second, 50*time.Millisecond)
	_, url := newOlder(t, "2025-11-25")
	gone := newFront(t, url)
	words := waits(t, host(t, gone.url, "", client.Options{Tasks: client.TasksOff}), "order", subject{"hat"})
	gone.stop()
	name := gone.answer(t, "ada", says("red")).Name
	for life := 0; strings.Contains(words, name); life++ {
		if life == 5 {
			t.Fatalf("after %d bridges the call still does not end: %q", life, words)
		}
		next := newFront(t, url, after(gone), func(o *bridge.Options) { o.Server.Desk.Wait = 9 * time.Second })
		words, _ = call(t, host(t, next.url, "", client.Options{Tasks: client.TasksOff}), "askback_result",
			map[string]any{"name": name})
		next.stop()
	}
	expect.Contains(t, "the call ends with", words, "was lost while it waited for the answer to")
}
