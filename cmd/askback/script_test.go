package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/keyfile"
)

func TestMain(m *testing.M) {
	// Most tests wait for other processes, and not for a processor.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"askback": main, "asker": askerMain})
}

// TestScripts runs the terminal sessions in testdata. Besides testscript's own commands they use those below.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[serversKey{}] = make(map[string]*server)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, ".state"))
			env.Setenv("me", cli.DefaultCaller())
			env.Setenv("GORACE", "atexit_sleep_ms=1") // else every process takes a second to end
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     scriptExits,
			"mode":      scriptMode,
			"save":      scriptSave,
			"start":     scriptStart,
			"terminate": scriptTerminate,
			"hangup":    scriptHangup,
			"waitfor":   scriptWaitFor,
			"get":       scriptGet,
			"post":      scriptPost,
			"asks":      scriptAsks,
		},
	})
}

type serversKey struct{}

// server is a background process.
type server struct {
	cmd     *exec.Cmd
	stdout  bytes.Buffer
	drained chan struct{}
}

// exits CODE PROGRAM ARGS... runs the program and wants this exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Check(err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// mode MODE FILE wants this mode of the file.
func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := info.Mode().Perm(); got != os.FileMode(want) {
		ts.Fatalf("%s has mode %04o, want %04o", args[1], got, want)
	}
}

// save VARIABLE FILE [LINE [FIELD]] puts the text of a file, a line or a field of it into a variable.
func scriptSave(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if len(args) > 2 {
		text = pick(ts, strings.Split(text, "\n"), args[2])
	}
	if len(args) > 3 {
		text = pick(ts, strings.Fields(text), args[3])
	}
	ts.Setenv(args[0], text)
}

func pick(ts *testscript.TestScript, from []string, number string) string {
	n, err := strconv.Atoi(number)
	ts.Check(err)
	if n < 1 || n > len(from) {
		ts.Fatalf("no number %d in %q", n, from)
	}
	return from[n-1]
}

// start NAME askback serve ARGS... starts a server and puts the URL that it prints into the variable NAME. It logs
// to NAME.err, and stops without the delay for load balancers, unless ARGS say otherwise.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, args[1]); path == "" && exec.Command(p).Err == nil {
			if _, err := os.Stat(p); err == nil {
				path = p
			}
		}
	}
	arguments := args[2:]
	if len(arguments) > 0 && arguments[0] == "serve" {
		arguments = append([]string{"serve", "--drain-delay", "0s"}, arguments[1:]...)
	}
	s := &server{cmd: exec.Command(path, arguments...), drained: make(chan struct{})}
	s.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "TMPDIR", "WORK", "GOCOVERDIR"} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	if keys := ts.Getenv(keyfile.Variable); keys != "" {
		s.cmd.Env = append(s.cmd.Env, keyfile.Variable+"="+keys)
	}
	log, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	defer log.Close() // the process has it
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() { s.cmd.Process.Kill(); s.cmd.Wait() })

	in := bufio.NewReader(out)
	line, err := in.ReadString('\n')
	if err != nil {
		s.cmd.Wait()
		ts.Fatalf("%s ended before it was ready: %s", args[0], ts.ReadFile(args[0]+".err"))
	}
	s.stdout.WriteString(line)
	go func() { defer close(s.drained); io.Copy(&s.stdout, in) }()
	ts.Value(serversKey{}).(map[string]*server)[args[0]] = s
	ts.Setenv(args[0], strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
}

// terminate NAME [SIGNAL] ends a server with SIGTERM or SIGINT, wants the exit code 0, and puts what it wrote into
// NAME.out.
func scriptTerminate(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serversKey{}).(map[string]*server)[args[0]]
	signal := syscall.SIGTERM
	if len(args) > 1 && args[1] == "INT" {
		signal = syscall.SIGINT
	}
	ts.Check(s.cmd.Process.Signal(signal))
	dead := time.AfterFunc(time.Minute, func() { s.cmd.Process.Kill() })
	defer dead.Stop()
	<-s.drained
	err := s.cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), s.stdout.Bytes(), 0o600))
	if err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, ts.ReadFile(args[0]+".err"))
	}
}

// hangup NAME sends a server SIGHUP.
func scriptHangup(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Value(serversKey{}).(map[string]*server)[args[0]].cmd.Process.Signal(syscall.SIGHUP))
}

// waitfor FILE TEXT waits until the file is there and has the text.
func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	for range 200 {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && len(text) > 0 && strings.Contains(string(text), args[1]) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s has no %q", args[0], args[1])
}

// get STATUS URL [NAME VALUE]... wants this HTTP status for a request with these headers, and puts the body into the
// file response.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	request, err := http.NewRequest(http.MethodGet, args[1], nil)
	ts.Check(err)
	for headers := args[2:]; len(headers) > 1; headers = headers[2:] {
		request.Header.Set(headers[0], headers[1])
		request.Host = request.Header.Get("Host")
	}
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("response"), body, 0o600))
	if strconv.Itoa(response.StatusCode) != args[0] {
		ts.Fatalf("status %s, want %s", response.Status, args[0])
	}
}

// [!] post URL PARAMS calls a tool as a client of the 2026-07-28 revision. The file PARAMS has the params without
// _meta; $variables in it are replaced. The response, indented, is in the file response, its requestState in the
// variable of that name. With ! the response must be an error.
func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	var params map[string]any
	ts.Check(json.Unmarshal([]byte(os.Expand(ts.ReadFile(args[1]), ts.Getenv)), &params))
	name, _ := params["name"].(string)
	request, err := http.NewRequest(http.MethodPost, args[0], bytes.NewReader(toolCall(ts, params)))
	ts.Check(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", "2026-07-28")
	request.Header.Set("Mcp-Method", "tools/call")
	request.Header.Set("Mcp-Name", name)
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)

	var decoded struct {
		Error  any
		Result struct{ RequestState string }
	}
	if err := json.Unmarshal(body, &decoded); err != nil {
		ts.Fatalf("status %s, not JSON: %s", response.Status, body)
	}
	var indented bytes.Buffer
	ts.Check(json.Indent(&indented, body, "", "  "))
	ts.Check(os.WriteFile(ts.MkAbs("response"), indented.Bytes(), 0o600))
	if failed := decoded.Error != nil; failed != neg {
		ts.Fatalf("status %s: %s", response.Status, &indented)
	}
	ts.Setenv("requestState", decoded.Result.RequestState)
}

func toolCall(ts *testscript.TestScript, params map[string]any) []byte {
	params = maps.Clone(params)
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	ts.Check(err)
	return body
}
