package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// behind is a server that asks, and counts what its tools did.
type behind struct {
	*askback.Server
	mcp *mcp.Server
	url string

	states atomic.Int64 // that have arrived

	mu  sync.Mutex
	did map[string]int
}

func (s *behind) done(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did[what]++
}

func (s *behind) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.did[what]
}

type choice struct {
	Color string `json:"color" enum:"red|blue"`
}

// newBehind starts the server behind, over HTTP.
func newBehind(t testing.TB) *behind {
	t.Helper()
	s := &behind{did: make(map[string]int)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "Ask before you buy.",
		CompletionHandler: func(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
				Values: []string{req.Params.Argument.Value + "pple"},
			}}, nil
		},
	})
	var err error
	if s.Server, err = askback.New(s.mcp, &askback.Options{
		Logger: quiet, Tasks: &askback.Tasks{Store: new(task.MemoryStore)},
	}); err != nil {
		t.Fatal(err)
	}
	s.register()
	go s.RunTasks(t.Context())
	mcp := s.HTTPHandler(nil)
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte(`"requestState"`)) {
			s.states.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		mcp.ServeHTTP(w, r)
	}))
	s.url = web.URL
	return s
}

var quiet = slog.New(slog.DiscardHandler)

func (s *behind) register() {
	askback.AddTool(s.Server, &mcp.Tool{Name: "echo", Description: "Echoes"},
		func(_ context.Context, call *askback.Call, in map[string]any) (*mcp.CallToolResult, error) {
			s.done("echo")
			return &mcp.CallToolResult{
				Meta: mcp.Meta{"example.com/trace": "kept"}, StructuredContent: in,
				Content: []mcp.Content{
					&mcp.TextContent{Text: fmt.Sprint(in)}, &mcp.ResourceLink{URI: "doc://1", Name: "one"},
				},
			}, nil
		})
	askback.AddTool(s.Server, &mcp.Tool{Name: "fail"},
		func(_ context.Context, _ *askback.Call, in struct {
			Protocol bool `json:"protocol,omitempty"`
		}) (string, error) {
			if in.Protocol {
				return "", &jsonrpc.Error{Code: -32099, Message: "no such shop", Data: json.RawMessage(`{"near":"shoe shop"}`)}
			}
			return "", errors.New("out of stock")
		})
	askback.AddTool(s.Server, &mcp.Tool{Name: "order"}, s.order)
	idempotent := &mcp.ToolAnnotations{IdempotentHint: true}
	askback.AddTool(s.Server, &mcp.Tool{Name: "reserve", Annotations: idempotent}, s.order)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	askback.AddTool(s.Server, &mcp.Tool{Name: "everything", Annotations: readOnly}, everything)
	askback.AddTool(s.Server, &mcp.Tool{Name: "capabilities"},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			text := ""
			for _, c := range []askback.Capability{askback.CapabilityForm, askback.CapabilityURL, askback.CapabilitySampling,
				askback.CapabilitySamplingTools, askback.CapabilityRoots} {
				if call.Can(c) {
					text += c.String() + " "
				}
			}
			return text, nil
		})
	askback.AddTaskTool(s.Server, &mcp.Tool{Name: "later"}, nil, s.order)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who"}}},
		func(_ context.Context, _ *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "Hello " + args["who"]}, nil
		})
	s.AddResource(&mcp.Resource{Name: "terms", URI: "shop://terms"}, readURI)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "item", URITemplate: "shop://item/{id}"}, readURI)
}

// readURI reads a resource whose text is its URI.
func readURI(_ context.Context, _ *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: "about " + uri}}}, nil
}

// order asks in two rounds, and then orders.
func (s *behind) order(ctx context.Context, call *askback.Call, in struct {
	Item string `json:"item"`
}) (string, error) {
	color, err := askback.Elicit[choice](call, "color", "Which color?")
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return "nothing: " + declined.Action, nil
	}
	if err != nil {
		return "", err
	}
	if err := askback.Approve(call, "sure", askback.Question{Message: "Order the " + in.Item + "?"}); err != nil {
		return "", err
	}
	s.done("order")
	return color.Color + " " + in.Item + " ordered", nil
}

// everything asks all that can be asked, and the same question in two rounds.
func everything(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
	err1 := askback.ElicitURL(call, "page", "Sign in", "https://example.com/in")
	roots, err2 := askback.Roots(call, "roots")
	model, err3 := askback.Sample(call, "model", &mcp.CreateMessageWithToolsParams{MaxTokens: 10,
		Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Hi"}}}}})
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	return roots[0].URI + " " + model.Content[0].(*mcp.TextContent).Text, nil
}

// front is a bridge, and the desk on its store.
type front struct {
	*bridge.Bridge
	url   string
	store *task.MemoryStore
	keys  *seal.Ring
	desk  *desk.Desk
	stop  func() // the bridge, before the test ends
}

// overHTTP serves a server of the SDK.
func overHTTP(m *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
}

// inMemory connects to a server in memory.
func inMemory(srv connected) (mcp.Transport, error) {
	here, there := mcp.NewInMemoryTransports()
	_, err := srv.Connect(context.Background(), there, nil)
	return here, err
}

// addSaying adds a tool that returns a text.
func addSaying(srv *askback.Server, name, text string) {
	askback.AddTool(srv, &mcp.Tool{Name: name},
		func(context.Context, *askback.Call, struct{}) (string, error) { return text, nil })
}

// sure asks whether to go on.
func sure(call *askback.Call) error {
	return askback.Approve(call, "sure", askback.Question{Message: "Sure?"})
}

// at is the server at a URL.
func at(url string) bridge.Server {
	return bridge.Server{Identity: url, Connect: func() (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}}
}

// after has a bridge go on with the store and the keys of another one.
func after(f *front) func(*bridge.Options) {
	return func(o *bridge.Options) { o.Server.Tasks.Store, o.Server.Keys = f.store, f.keys }
}

// frontOptions are the options of a bridge in front of a server. Its caller is ada.
func frontOptions(t testing.TB, url string) *bridge.Options {
	t.Helper()
	keys := harness.NewRing(t)
	return &bridge.Options{
		Implementation: &mcp.Implementation{Name: "bridge", Version: "1.0.0"},
		Servers:        []bridge.Server{at(url)},
		Server: askback.Options{
			Keys: keys, Logger: quiet, Tasks: &askback.Tasks{Store: new(task.MemoryStore)},
			Desk:      &askback.DeskOptions{Fallback: true, Wait: 10 * time.Millisecond},
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "ada", nil },
		},
	}
}

// newFront starts a bridge in front of a server, over HTTP. Its caller is ada.
func newFront(t testing.TB, url string, change ...func(*bridge.Options)) *front {
	t.Helper()
	var err error
	f, opts := new(front), frontOptions(t, url)
	for _, c := range change {
		c(opts)
	}
	f.store, f.keys = opts.Server.Tasks.Store.(*task.MemoryStore), opts.Server.Keys
	if f.Bridge, err = bridge.Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	f.desk = expect.Must(desk.Open(f.store, nil))(t)
	web := httptest.NewServer(f.Server().HTTPHandler(nil))
	end := f.run(context.Background())
	f.stop = sync.OnceFunc(func() {
		web.CloseClientConnections()
		web.Close()
		end()
	})
	t.Cleanup(f.stop)
	f.url = web.URL
	return f
}

// run runs the tasks of a bridge until its end.
func (f *front) run(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { _ = f.Server().RunTasks(ctx) })
	return func() {
		cancel()
		working.Wait()
		f.Close()
	}
}

// patient lets hosts wait for what their calls become.
func patient(o *bridge.Options) { o.Server.Desk.Wait = 20 * time.Second }

// answer answers the next open question of the desk, once there is one, and returns it.
func (f *front) answer(t testing.TB, by string, a desk.Answer) *desk.Question {
	t.Helper()
	a.By = desk.Person{Name: by}
	var answered *desk.Question
	eventually(t, by+" is asked", func() bool {
		for q := range expect.Each(t, f.desk.Waiting(t.Context(), desk.Waiting{As: &a.By})) {
			expect.Must(f.desk.Answer(t.Context(), q.Name, q.Key, a))(t)
			answered = q
			return true
		}
		return false
	})
	return answered
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so in time: " + what)
		}
	}
}

// host connects a host with these options to the bridge.
func host(t testing.TB, url, version string, opts client.Options) *client.Session {
	t.Helper()
	session := expect.Must(client.New(&opts).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
	t.Cleanup(func() { session.Close() })
	return session
}

// able are the options of a host that can be asked everything.
func able() client.Options {
	return client.Options{
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			if q.Message == "Which color?" {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "red"}}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		URL: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		Sample: func(context.Context, *client.Question,
			*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
				Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) { return []*mcp.Root{{URI: "file:///src"}}, nil },
	}
}

// call calls a tool, and returns its first text.
func call(t testing.TB, s *client.Session, tool string, arguments any) (text string, isError bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	if len(res.Content) == 0 {
		return "", res.IsError
	}
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

// textOf calls a tool, and returns its first text.
func textOf(t testing.TB, s *client.Session, tool string, arguments any) string {
	t.Helper()
	text, _ := call(t, s, tool, arguments)
	return text
}

// returns requires what a tool returns.
func returns(t testing.TB, s *client.Session, tool string, arguments any, want string) {
	t.Helper()
	if text, failed := call(t, s, tool, arguments); failed || text != want {
		t.Errorf("%s returns %q, failed %v, want %q", tool, text, failed, want)
	}
}

// refuses requires parts of a tool's error.
func refuses(t testing.TB, s *client.Session, tool string, arguments any, parts ...string) {
	t.Helper()
	text, failed := call(t, s, tool, arguments)
	for _, part := range parts {
		expect.Contains(t, tool, text, part)
	}
	expect.Equal(t, tool+" fails", failed, true)
}

// calling calls a tool beside the test, and sends its first text.
func calling(t testing.TB, s *client.Session, tool string, arguments any) <-chan string {
	ended := make(chan string, 1)
	go func() { ended <- textOf(t, s, tool, arguments) }()
	return ended
}

var callName = regexp.MustCompile(`"([A-Z2-7]{26})"`)

// waits calls a tool for a host that cannot be asked, until it is told who is awaited. Before that the call may run.
func waits(t testing.TB, s *client.Session, tool string, arguments any) (words string) {
	t.Helper()
	words, failed := call(t, s, tool, arguments)
	name := callName.FindStringSubmatch(words)
	if failed || name == nil {
		t.Fatalf("the words are %q", words)
	}
	eventually(t, "somebody is awaited", func() bool {
		if strings.Contains(words, "is running") {
			words, _ = call(t, s, "askback_result", map[string]any{"name": name[1]})
		}
		return !strings.Contains(words, "is running")
	})
	return words
}

// revisions are those that hosts speak to the bridge.
var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
