package rawclient_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

// The test's own program is the server on the other end of the pipes, if this variable names one of programs.
const asProgram = "RAWCLIENT_TEST_PROGRAM"

var programs = map[string]func(){
	"askback": func() {
		ring, err := seal.NewRing(seal.NewKey(time.Now()))
		if err != nil {
			panic(err)
		}
		sdk := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
		srv, err := askback.New(sdk, &askback.Options{Keys: ring, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			panic(err)
		}
		harness.AddGreet(srv)
		_ = srv.Run(context.Background(), &mcp.StdioTransport{})
	},
	"crossed": func() { // The responses come in the opposite order, among other lines.
		first, second := readID(), readID()
		fmt.Println("ready\n" + `{"jsonrpc":"2.0","method":"note"}`)
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"requestState":"second"}}`+"\n", second)
		fmt.Println(`{"jsonrpc":"2.0","id":99,"result":{}}` + "\n  ")
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"requestState":"first"}}`+"\n", first)
		readID()
	},
	"refusing": func() {
		readID()
		fmt.Println(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`)
		readID()
	},
	"flooding": func() {
		readID()
		for message := []byte("{\"jsonrpc\":\"2.0\",\"method\":\"" + strings.Repeat("x", 1000) + "\"}\n"); ; {
			if _, err := os.Stdout.Write(message); err != nil {
				return
			}
		}
	},
	"long": func() {
		readID()
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"message\":\"%s\"}}\n", strings.Repeat("x", 17<<20))
		readID()
	},
	"deaf": func() {
		signal.Ignore(syscall.SIGTERM)
		select {}
	},
	"gone": func() {},
}

func TestMain(m *testing.M) {
	if program := programs[os.Getenv(asProgram)]; program != nil {
		program()
		return
	}
	os.Exit(m.Run())
}

var input = bufio.NewReader(os.Stdin)

// readID returns the ID of the next message.
func readID() string {
	var message struct{ ID json.RawMessage }
	line, _ := input.ReadBytes('\n')
	_ = json.Unmarshal(line, &message)
	return string(message.ID)
}

// start starts one of programs.
func start(t *testing.T, name string) *rawclient.Client {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"="+name)
	p, err := rawclient.Start(cmd, io.Discard)
	expect.Check(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return &rawclient.Client{Program: p}
}

func TestAProgramIsCalledLikeAnEndpoint(t *testing.T) {
	t.Parallel()
	c := start(t, "askback")
	for _, version := range []string{rawclient.Modern, "2025-11-25"} {
		if version != rawclient.Modern {
			var err error
			if c, err = start(t, "askback").Initialize(t.Context(), version); err != nil {
				t.Fatal(err)
			}
		}
		call, err := c.Open(t.Context(), "tools/call", greet)
		expect.Check(t, err)
		defer call.Close()
		var done rawclient.Result
		if version == rawclient.Modern {
			var asked rawclient.Result
			if err := call.Result(&asked); err != nil || asked.Requests["login"] == nil {
				t.Fatalf("asked %+v, %v", asked, err)
			}
			err = c.Call(t.Context(), "tools/call", asked.Retry(greet, map[string]any{"login": octocat}), &done)
		} else {
			question, wrong := call.Next()
			if wrong != nil || question.Method != "elicitation/create" {
				t.Fatalf("a question: %+v, %v", question, wrong)
			}
			expect.Check(t, c.Answer(t.Context(), question, octocat))
			err = call.Result(&done)
		}
		if err != nil || done.Text() != "Hello octocat in New York" {
			t.Errorf("%s: done %+v, %v", version, done, err)
		}
		if err := c.Program.Close(); err != nil {
			t.Errorf("%s: its input was closed, but it ended with %v", version, err)
		}
	}
}

func TestResponsesOfAProgramFindTheirRequests(t *testing.T) {
	t.Parallel()
	c := start(t, "crossed")
	all := c.Program.Listen(t.Context())
	first, err := c.Open(t.Context(), "tools/call", greet)
	expect.Check(t, err)
	second, err := c.Open(t.Context(), "tools/call", greet)
	expect.Check(t, err)
	for want, s := range map[string]*rawclient.Stream{"first": first, "second": second} {
		if m, err := s.Next(); err != nil || m.Method != "note" {
			t.Errorf("%s: %+v, %v", want, m, err)
		}
		var got rawclient.Result
		if err := s.Result(&got); err != nil || got.State != want {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the response: %v", want, err)
		}
	}
	_ = c.Program.Close()
	for _, s := range []*rawclient.Stream{all, c.Program.Listen(t.Context())} {
		if m, err := s.Next(); s == all && (err != nil || m.Method != "note") {
			t.Errorf("who listens: %+v, %v", m, err)
		}
		if m, err := s.Next(); err == nil {
			t.Errorf("who listens to a program that has ended: %+v", m)
		}
	}
}

func TestProgramsThatNobodyTrusts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"refusing": "-32700 no", "gone": "EOF|ended its output|broken pipe", "long": "larger than 16777216 bytes",
	} {
		s, err := start(t, name).Post(t.Context(), "{\n")
		if err == nil {
			err = s.Result(nil)
		}
		matches := false
		for text := range strings.SplitSeq(want, "|") {
			matches = matches || err != nil && strings.Contains(err.Error(), text)
		}
		if !matches {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}

	flooding := start(t, "flooding")
	flooding.MaxBytes = 100_000
	s, err := flooding.Open(t.Context(), "tools/call", greet)
	expect.Check(t, err)
	other, err := flooding.Open(t.Context(), "tools/call", greet) // reads nothing meanwhile
	expect.Check(t, err)
	for range 1000 {
		if _, err = s.NextBytes(); err != nil {
			break
		}
	}
	for err = nil; err == nil; {
		_, err = other.NextBytes()
	}
	expect.Contains(t, "a flood that nobody reads", err.Error(), "more than 100000 bytes were not read")
}

// A program that does not read ends with the request, and one that ignores every sign is killed.
func TestAProgramThatDoesNotRead(t *testing.T) {
	t.Parallel()
	c := start(t, "deaf")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	large := map[string]any{"name": strings.Repeat("x", 1<<20)}
	if err := c.Call(ctx, "tools/call", large, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	expect.Fails(t, "it ended", c.Program.Close(), "killed")
	if err := c.Call(t.Context(), "tools/call", nil, nil); err == nil {
		t.Error("it was called after its end")
	}
}
