package askback_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// stdio serves lines and returns how to send some and read one.
func stdio(t *testing.T, opts *askback.Options) (send func(lines string), read func() string, end func() error) {
	t.Helper()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	srv := newServer(t, opts, greet)
	done := make(chan error, 1)
	go func() { done <- srv.Run(t.Context(), &mcp.IOTransport{Reader: in, Writer: out}); out.Close() }()
	lines := bufio.NewReader(answers)
	return func(s string) {
			go func() { _, _ = io.WriteString(client, s) }()
		}, func() string {
			t.Helper()
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}, func() error {
			client.Close()
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return <-done
		}
}

const greetLine = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","arguments":{"place":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}` + "\n"

func TestStdioOutlivesBadLines(t *testing.T) {
	send, read, end := stdio(t, &askback.Options{Limits: askback.Limits{BodyBytes: 1 << 16}})
	for _, test := range []struct{ name, line, want string }{
		{"malformed", "{\"jsonrpc\":\n", "-32700"},
		{"text", "hello\n", "-32700"},
		{"not an object", "42\n", "-32600"},
		{"no method", `{"jsonrpc":"2.0","id":1}` + "\n", "-32600"},
		{"wrong id", `{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n", "-32600"},
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n", "-32600"},
		{"empty batch", "[]\n", "-32600"},
		{"bad batch", "[1]\n", "-32600"},
		{"too long", strings.Repeat("x", 1<<17) + "\n", "65536"},
		{"blank, then good", "\r\n" + greetLine, "input_required"},
	} {
		send(test.line)
		if got := read(); !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s", test.name, got)
		}
	}
	if err := end(); err != nil {
		t.Errorf("the end of the input: %v", err)
	}
}

// What was asked before the input ended is answered.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	in := io.NopCloser(strings.NewReader(strings.TrimSuffix(greetLine, "\n"))) // the last line need not end
	var out strings.Builder
	if err := newServer(t, nil, greet).Run(t.Context(), &mcp.IOTransport{Reader: in, Writer: nopCloser{&out}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":7`) || !strings.Contains(out.String(), "input_required") {
		t.Errorf("got %q", out.String())
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
