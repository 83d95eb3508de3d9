package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

// subject is a server that is measured. Each has one tool, greet, that asks for a name and returns "Hello NAME in
// PLACE".
type subject struct {
	name, title string
	handler     func() (http.Handler, error) // of one that is written in Go
	command     []string                     // of another
	session     bool                         // its question is asked inside a session of 2025-11-25
	canned      bool                         // it knows one answer
	between     string                       // what there is between the question and the answer
}

const (
	atClient  = "nothing; the client repeats the call"
	inSession = "the session, the open call and its goroutines"
)

// subjects in the order of the table. The first one is the floor.
var subjects = []*subject{
	{name: "floor", title: "net/http, fixed bytes", handler: floor, canned: true, between: "nothing"},
	{name: "askback", title: "Askback", handler: askbackServer, between: "a sealed state at the client"},
	{name: "gosdk", title: "Go SDK 1.8.0", handler: goSDK, between: atClient},
	{name: "mcpgo", title: "mcp-go 1.2.1", handler: mcpGo, between: atClient},
	{name: "typescript", title: "TypeScript SDK 2.4.0", between: atClient},
	{name: "askback-session", title: "Askback, in a session", handler: askbackServer, session: true, between: inSession},
	{name: "gosdk-session", title: "Go SDK 1.8.0, in a session", handler: goSDKSession, session: true, between: inSession},
}

// findNode completes the subject that runs in Node.js. The error says why it must be left out.
func (s *subject) findNode() error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("it is installed with npm, which is not found: %w", err)
	}
	dir, err := filepath.Abs(filepath.Join("..", "interop", "typescript"))
	if err != nil {
		return err
	}
	node, err := typescript.Install(dir)
	s.command = []string{node, filepath.Join(dir, "greet.ts")}
	return err
}

// subjectVariable is the environment variable that makes the program the server of the subject that it names.
const subjectVariable = "ASKBACK_BENCH_SUBJECT"

func runServer(name string) error {
	for _, s := range append(subjects, growing) {
		if s.name != name {
			continue
		}
		handler, err := s.handler()
		if err != nil {
			return err
		}
		return process.Serve(context.Background(), new(http.Server), handler)
	}
	return fmt.Errorf("no subject is named %q", name)
}

// server is a subject in a process of its own.
type server struct {
	*subject
	*process.Server
}

// start starts a subject. GOGC and GOMAXPROCS are the defaults for all that are written in Go.
func start(s *subject) (*server, error) {
	cmd, err := process.Self()
	if err != nil {
		return nil, err
	}
	if s.command != nil {
		cmd = exec.Command(s.command[0], s.command[1:]...)
	}
	cmd.Env = append(os.Environ(), subjectVariable+"="+s.name, "GOGC=100", "GOMEMLIMIT=off", "NODE_ENV=production")
	p, err := process.StartServer(cmd, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.title, err)
	}
	return &server{s, p}, nil
}

type greeting struct {
	Place string `json:"place"`
}

type login struct {
	Name string `json:"name"`
}

const question = "Who are you?"

// floor reads the body and writes what Askback's server wrote for a body of that length. A GET gets a response that
// does not end.
func floor() (http.Handler, error) {
	real, err := askbackServer()
	if err != nil {
		return nil, err
	}
	responses := make(map[int][]byte)
	recorder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length := int(r.ContentLength)
		recorded := httptest.NewRecorder()
		real.ServeHTTP(recorded, r)
		responses[length] = recorded.Body.Bytes()
		_, _ = w.Write(recorded.Body.Bytes()) // interact looks at it
	}))
	defer recorder.Close()
	c, err := dial(recorder.URL)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := (modern{c}).interact(octocat, newYork); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_ = http.NewResponseController(w).Flush() // the client waits for it
			<-r.Context().Done()
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(responses[len(body)]) // a client that is gone looks at nothing
	}), nil
}

// askbackServer serves as askback serve does: callers have names, calls may become tasks, and there is a desk.
func askbackServer() (http.Handler, error) {
	srv, err := newAskback(askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "ada", nil },
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
		Desk:      &askback.DeskOptions{},
	})
	if err != nil {
		return nil, err
	}
	return srv.HTTPHandler(nil), nil
}

func newAskback(opts askback.Options) (*askback.Server, error) {
	opts.Logger = slog.New(slog.DiscardHandler)
	srv, err := askback.New(newSDKServer(), &opts)
	if err != nil {
		return nil, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "greet"}, greet)
	return srv, nil
}

func greet(_ context.Context, call *askback.Call, in greeting) (string, error) {
	l, err := askback.Elicit[login](call, "login", question)
	if err != nil {
		return "", err
	}
	return "Hello " + l.Name + " in " + in.Place, nil
}

func newSDKServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
}

var form = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)

// goSDK has the tool in the SDK's style for Multi Round-Trip Requests.
func goSDK() (http.Handler, error) {
	m := newSDKServer()
	mcp.AddTool(m, &mcp.Tool{Name: "greet"}, func(_ context.Context, req *mcp.CallToolRequest, in greeting) (
		*mcp.CallToolResult, any, error,
	) {
		answer, ok := req.Params.InputResponses["login"].(*mcp.ElicitResult)
		if !ok {
			requests := mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: question, RequestedSchema: form}}
			return &mcp.CallToolResult{InputRequests: requests}, nil, nil
		}
		return helloResult(answer, in), nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), nil
}

// goSDKSession has the tool in the SDK's style for sessions.
func goSDKSession() (http.Handler, error) {
	m := newSDKServer()
	mcp.AddTool(m, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, in greeting) (
		*mcp.CallToolResult, any, error,
	) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: question, RequestedSchema: form})
		if err != nil {
			return nil, nil, err
		}
		return helloResult(answer, in), nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil), nil
}

func helloResult(answer *mcp.ElicitResult, in greeting) *mcp.CallToolResult {
	text := fmt.Sprintf("Hello %v in %s", answer.Content["name"], in.Place)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// mcpGo has the tool in mcp-go's style for Multi Round-Trip Requests.
func mcpGo() (http.Handler, error) {
	m := mcpgoserver.NewMCPServer("bench", "1.0.0", mcpgoserver.WithToolCapabilities(false),
		mcpgoserver.WithElicitation(), mcpgoserver.WithInputSchemaValidation())
	tool := mcpgo.NewTool("greet", mcpgo.WithString("place", mcpgo.Required()))
	m.AddTool(tool, func(_ context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		answer := mcpgoserver.ElicitationResponse(req.Params.InputResponses, "login")
		if answer == nil {
			params := mcpgo.ElicitationParams{
				Mode: mcpgo.ElicitationModeForm, Message: question, RequestedSchema: form,
			}
			return mcpgoserver.NewInputRequestBuilder("").Elicit("login", params).ToolResult(), nil
		}
		content, _ := answer.Content.(map[string]any)
		return mcpgo.NewToolResultText(fmt.Sprintf("Hello %v in %s", content["name"], req.GetString("place", ""))), nil
	})
	return mcpgoserver.NewStreamableHTTPServer(m, mcpgoserver.WithStateLess(true)), nil
}

// growing is Askback's server for what grows: it has further tools, and limits that do not end the measurements.
var growing = &subject{name: "growing", title: "Askback", handler: growingServer}

func growingServer() (http.Handler, error) {
	const many = 1 << 20
	share := askback.Share{Total: many, PerPrincipal: many, Anonymous: many}
	srv, err := newAskback(askback.Options{Tasks: &askback.Tasks{
		Store:    new(task.MemoryStore),
		Settings: task.Settings{Anonymous: task.Quota{Unfinished: many, Kept: many, Bytes: 1 << 30}},
	}, Limits: askback.Limits{Rounds: 100, Requests: share, Sessions: share, Streams: share}})
	if err != nil {
		return nil, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "rounds"}, func(_ context.Context, call *askback.Call, in struct {
		Questions int `json:"questions"`
	}) (string, error) {
		for i := range in.Questions {
			if _, err := askback.Elicit[login](call, "login"+strconv.Itoa(i), question); err != nil {
				return "", err
			}
		}
		return "all answered", nil
	})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "task"}, nil, greet)
	return srv.HTTPHandler(nil), nil
}
