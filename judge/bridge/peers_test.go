package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
)

// peer is a server that nobody here wrote, or one that is written with another library.
type peer struct {
	name  string
	start func(t *testing.T) (server []string) // its URL, or its command
	tools []tool
	known string // why its asking tools cannot be answered through the bridge; empty if they can
	flags []string
}

// inside are the flags for a server that speaks 2026-07-28, in which its library refuses how its tools ask.
var inside = []string{"--protocol-version", "2025-11-25"}

// tool is a tool of a peer, and what its result has in it. Without asks it asks nothing, and returns the same as
// without the bridge.
type tool struct {
	name      string
	arguments map[string]any
	asks      bool
	want      string
}

// silent is what is known of some peers. If it is no longer true of one, the test fails.
const silent = "it asks the model without a message"

const (
	interop = "github.com/askback-mcp/askback/judge/interop/"
	mcpGo   = "github.com/mark3labs/mcp-go/examples/"
	goSDK   = "github.com/modelcontextprotocol/go-sdk/examples/server/"
)

// scenarios are the tools that the servers of judge/interop have, each written with another library.
var scenarios = []tool{
	{name: "t_elicit", asks: true, want: "Hello, octocats."},
	{name: "t_sample", asks: true, want: "The model says: said the model"},
	{name: "t_roots", asks: true, want: "Roots: file:///octocat"},
	{name: "t_three", asks: true, want: "octocats, said the model, file:///octocat"},
	{name: "t_rounds", asks: true, want: "octocats of said the model, signed octocats"},
	{name: "t_state", asks: true, want: "served the second time"},
}

var peers = []peer{
	{"written with the Go SDK", goProgram(interop+"gosdk", "server", "stdio"), scenarios, "", nil},
	{"written with mcp-go", goProgram(interop+"mcpgo", "server", "stdio"), scenarios, "", nil},
	{"written with the TypeScript SDK", typescriptServer, scenarios, "", nil},
	{"Go SDK everything", goProgram(goSDK + "everything"), []tool{
		{name: "elicit (form)", asks: true, want: "octocats"},
		{name: "elicit (url)", asks: true, want: "(elicitation pending)"},
		{name: "roots", asks: true, want: "octocat:file:///octocat"},
		{name: "greet", arguments: object{"name": "octocat"}, want: "Hi octocat"},
		{name: "greet (structured)", arguments: object{"name": "octocat"}, want: "Hi octocat"},
		{name: "greet (content with ResourceLink)", arguments: object{"name": "octocat"}},
	}, "", inside},
	{"Go SDK everything, its sampling", goProgram(goSDK + "everything"), []tool{
		{name: "sample", asks: true, want: "said the model"},
	}, silent, inside},
	{"mcp-go elicitation", goProgram(mcpGo + "elicitation"), []tool{
		{name: "create_project", asks: true, want: "Created project 'octocats' with framework: react, tests: true"},
		{name: "process_data", arguments: object{"data": strings.Repeat("octocat ", 20)}, asks: true, want: "Processed 160"},
		{name: "auth_via_url", asks: true, want: "User accepted URL open request."},
	}, "", inside},
	{"mcp-go sampling", goProgram(mcpGo + "sampling_server"), []tool{
		{name: "ask_llm", arguments: object{"question": "Who?"}, asks: true, want: "said the model"},
		{name: "greet", arguments: object{"name": "octocat"}, want: "Hello, octocat!"},
	}, "", inside},
	{"mcp-go roots", goProgram(mcpGo + "roots_server"), []tool{
		{name: "roots", asks: true, want: "file:///octocat"},
	}, "", inside},
	{"mcp-go conformance, over HTTP", overHTTP(goProgram(mcpGo+"conformance"), conformanceAddr), []tool{
		{name: "test_elicitation", arguments: object{"message": "Who?"}, asks: true, want: "username:octocats"},
		{name: "test_elicitation_sep1034_defaults", asks: true, want: "John Doe"},
		{name: "test_elicitation_sep1330_enums", asks: true, want: "value1"},
		{name: "test_sampling", arguments: object{"prompt": "Who?"}, asks: true, want: "said the model"},
		{name: "test_multiple_content_types"},
		{name: "test_error_handling", want: "intentionally returns an error"},
	}, "", inside},
	{"mcp-go typed tools", goProgram(mcpGo + "structured_input_and_output"), []tool{
		{name: "get_assets", arguments: object{"limit": 2}},
	}, "", nil},
	{"server-everything", npmProgram("server-everything/dist/index.js", "stdio"), []tool{
		{name: "trigger-elicitation-request", asks: true, want: "- Name: octocats"},
		{name: "trigger-url-elicitation", arguments: object{"url": "https://example.com/octocat"}, asks: true,
			want: "completed"},
		{name: "trigger-sampling-request", arguments: object{"prompt": "Who?"}, asks: true, want: "said the model"},
		{name: "get-roots-list", asks: true, want: "file:///octocat"},
		{name: "echo", arguments: object{"message": "octocat"}, want: "Echo: octocat"},
		{name: "get-sum", arguments: object{"a": 2, "b": 40}, want: "42"},
		{name: "get-tiny-image"},
		{name: "get-structured-content", arguments: object{"location": "New York"}},
		{name: "get-annotated-message", arguments: object{"messageType": "error", "includeImage": true}},
		{name: "get-resource-links", arguments: object{"count": 3}},
	}, "", nil},
	{"TypeScript elicitationFormExample", sdkExample("elicitationFormExample.js", "PORT="), []tool{
		{name: "register_user", asks: true, want: "Username: octocats"},
		{name: "create_event", asks: true, want: "octocats"},
		{name: "update_shipping_address", asks: true, want: "octocats"},
	}, "", nil},
	{"TypeScript simpleStreamableHttp", sdkExample("simpleStreamableHttp.js", "MCP_PORT="), []tool{
		{name: "collect-user-info", arguments: object{"infoType": "contact"}, asks: true, want: "octocat@example.com"},
		{name: "collect-user-info", arguments: object{"infoType": "preferences"}, asks: true, want: "light"},
		{name: "greet", arguments: object{"name": "octocat"}, want: "Hello, octocat!"},
		{name: "list-files"},
	}, "", nil},
	{"TypeScript toolWithSampleServer", npmProgram("sdk/dist/esm/examples/server/toolWithSampleServer.js"), []tool{
		{name: "summarize", arguments: object{"text": "A long story."}, asks: true, want: "said the model"},
	}, "", nil},
}

type object = map[string]any

func conformanceAddr(address string) string { return "CONFORMANCE_ADDR=" + address }

// Every asking tool of servers that nobody here wrote is answered by a person, or by a host that can sample and has
// roots. Every tool that asks nothing returns the same as without the bridge.
func TestPeers(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			server := p.start(t)
			b := expect.Must(rig.NewBridge(askback(t), t.TempDir(), server...))(t)
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the log of the bridge ends with\n%s", process.Tail(b.Log()))
				}
			})
			command := b.Command(append(p.flags, "--wait", "1m")...)
			session := expect.Must(rig.OpenStdio(t.Context(), command, b.Log(), rig.Abilities))(t)
			t.Cleanup(session.Close)
			host := rig.HostOf(session.Client)
			answering(t, b)
			without := sync.OnceValue(func() rig.Host { return direct(t, server) })
			for _, tool := range p.tools {
				t.Run(tool.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					result, err := host(ctx, tool.name, tool.arguments)
					answered := err == nil && strings.Contains(text(t, result), tool.want)
					switch known := tool.asks && p.known != ""; {
					case known && answered:
						t.Errorf("it is answered now, although %s: correct the table", p.known)
					case known:
						t.Logf("not answered: %s: %s%v", p.known, result, err)
					case !answered:
						t.Errorf("the result is %s, %v; want %q", result, err, tool.want)
					case !tool.asks:
						equal(t, expect.Must(without()(ctx, tool.name, tool.arguments))(t), result)
					}
				})
			}
		})
	}
}

// equal compares a result with the one that came without the bridge.
func equal(t *testing.T, want, got json.RawMessage) {
	t.Helper()
	var decoded [2]any
	expect.Check(t, errors.Join(json.Unmarshal(want, &decoded[0]), json.Unmarshal(got, &decoded[1])))
	if !reflect.DeepEqual(decoded[0], decoded[1]) {
		t.Errorf("the result is\n%.1000s\nthrough the bridge, and without it\n%.1000s", got, want)
	}
}

// direct returns a host that calls a server without a bridge.
func direct(t *testing.T, server []string) rig.Host {
	t.Helper()
	if strings.HasPrefix(server[0], "http") {
		return expect.Must(rig.OpenSession(t.Context(), server[0]))(t)
	}
	log := filepath.Join(t.TempDir(), "log")
	session := expect.Must(rig.OpenStdio(t.Context(), exec.Command(server[0], server[1:]...), log, nil))(t)
	t.Cleanup(session.Close)
	return rig.HostOf(session.Client)
}

// goProgram builds a program, such as an example of a module, which is served over stdio.
func goProgram(path string, args ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		program := filepath.Join(t.TempDir(), "example")
		expect.Check(t, process.BuildGo(t.Context(), program, path))
		return append([]string{program}, args...)
	}
}

// typescriptServer is the server of judge/interop that is written with the TypeScript SDK.
func typescriptServer(t *testing.T) []string {
	installed(t)
	npm.Lock()
	defer npm.Unlock()
	dir := expect.Must(filepath.Abs("../interop/typescript"))(t)
	return []string{expect.Must(typescript.Install(dir))(t), filepath.Join(dir, "server.ts"), "stdio"}
}

// npmProgram is the program of a package of npm, which is served over stdio.
func npmProgram(path string, args ...string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		node, modules := installed(t)
		return append([]string{node, filepath.Join(modules, "@modelcontextprotocol", path)}, args...)
	}
}

// sdkExample is an example of the TypeScript SDK that serves HTTP at the port in an environment variable.
func sdkExample(file, variable string) func(*testing.T) []string {
	return overHTTP(npmProgram("sdk/dist/esm/examples/server/"+file), func(address string) string {
		return variable + address[strings.Index(address, ":")+1:]
	})
}

// overHTTP starts a server that is told its address by an environment variable, and returns its URL.
func overHTTP(command func(*testing.T) []string, variable func(address string) string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		words, log := command(t), filepath.Join(t.TempDir(), "log")
		p := expect.Must(process.StartAt(t.Context(), "/mcp", log, func(address string) *exec.Cmd {
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Env = append(os.Environ(), variable(address))
			return cmd
		}))(t)
		t.Cleanup(p.Kill)
		return []string{p.URL}
	}
}
