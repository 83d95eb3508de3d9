package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// What cannot be right is refused before the command connects to anything.
func TestNonsenseIsRefusedFirst(t *testing.T) {
	listener := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	connected := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- struct{}{}
			conn.Close()
		}
	}()
	at := "http://" + listener.Addr().String() + "/mcp"
	t.Chdir(t.TempDir())
	for file, text := range map[string]string{
		"method": `{"endpoint":"` + at +
			`","method":"shell/run","params":{"name":"t"},"round":1,"questions":[],"requestState":"s"}`,
		"script": `{"endpoint":"` + at +
			`","method":"tools/call","params":{"name":"t"},"round":1,"questions":[{"key":"q","method":"elicitation/create",` +
			`"params":{"mode":"url","message":"?","url":"javascript:alert(1)"}}]}`,
		"list": `[]`,
	} {
		expect.Check(t, os.WriteFile(file, []byte(text), 0o600))
	}

	const secret = "hunter2"
	for _, args := range [][]string{
		{"call", "", "t"}, {"call", at, ""}, {"prompt", at, ""}, {"read", at, ""}, {"task", "get", at, ""}, {"task", "result",
			at, ""},
		{"call", "http://", "t"}, {"call", "http://127.0.0.1:99999/mcp", "t"}, {"call", "http://a b/", "t"}, {"call", `"sh`,
			"t"},
		{"call", at, "t", "=1"}, {"call", at, "t", "a"}, {"call", at, "t", "a:=x"}, {"call", at, "t", "a=1", "a=2"}, {"call",
			at, "t", "--json", "[1]"},
		{"call", at, "t", "--timeout", "-1s"}, {"call", at, "t", "--protocol-version",
			"1999-01-01"},
		{"call", at, "t", "--answer", "x"}, {"call", at, "t", "--answers", "none"}, {"call", at, "t", "--answers", "list"},
		{"call", at, "t", "--root", "none"}, {"call", at, "t", "--root", "https://example.com"}, {"call", at, "t",
			"--sampler", "none"},
		{"call", at, "t", "--park", "method"}, {"call", at, "t", "--park", "none/file"}, {"call", at, "t", "--tasks",
			"maybe"}, {"call", at, "t", "--task-ttl", "-1s"},
		{"call", at, "t", "--tasks", "off", "--detach"}, {"task", "answer", at, "id"},
		{"call", at, "t", "--header", secret}, {"call", at, "t", "--header", ": " + secret}, {"call", at, "t", "--header",
			"A B: " + secret},
		{"call", at, "t", "--header", "Ä: " + secret}, {"call", at, "t", "--header", "A(1): " + secret}, {"call", at, "t",
			"--header", "A: " + secret + "\x01"},
		{"call", at, "t", "--header", "A: " + secret + "\nB: b\nC: c"}, {"call", at, "t", "--header",
			"host: " + secret}, {"call", at, "t", "--header", "@none"},
		{"call", "sh -c :", "t", "--header", "A: " + secret},
		{"serve", "--addr", ""}, {"serve", "--addr", "8080"}, {"serve", "--addr", "127.0.0.1"}, {"serve", "--addr",
			"127.0.0.1:65536"},
		{"serve", "--addr", "127.0.0.1:-1"}, {"serve", "--addr", "127.0.0.1:nonsense"}, {"serve", "--addr",
			"a b:0"}, {"serve", "--addr", "[::1:0"},
		{"serve", "--addr", "http://127.0.0.1:0/"}, {"serve", "--addr", "1.2.3.4.:5:6"},
		{"resume", ""}, {"resume", "none"}, {"resume", "list"}, {"resume", "method"}, {"resume", "method", at}, {"resume",
			"script", at},
	} {
		code, _, stderr := command(t, args...)
		if shown := strings.Join(args, " "); code != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d\n%s", shown, code, cli.ExitUsage, stderr)
		} else if strings.Contains(stderr, secret) {
			t.Errorf("%s: the secret is printed: %s", shown, stderr)
		}
	}
	select {
	case <-connected:
		t.Error("something was sent to the server")
	default:
	}
}
