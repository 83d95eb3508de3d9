package sdkfront_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

const greetLine = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","arguments":{"place":"x"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}` + "\n"

func TestStdioOutlivesBadLines(t *testing.T) {
	t.Parallel()
	c := harness.Pipe(t, harness.NewServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: 1 << 16}},
		harness.AddGreet))
	for _, test := range []struct{ name, line, want string }{
		{"malformed", `{"jsonrpc":`, "-32700"},
		{"text", "hello", "-32700"},
		{"not an object", "42", "-32600"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, "-32600"},
		{"wrong id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, "-32600"},
		{"id with an exponent", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, "-32600"},
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "-32600"},
		{"empty batch", "[]", "-32600"},
		{"bad batch", "[1]", "-32600"},
		{"too long", strings.Repeat("x", 1<<17), "65536"},
		{"good after a blank one", strings.TrimSpace(greetLine), "input_required"},
	} {
		c.Write(test.line)
		expect.Contains(t, test.name, fmt.Sprint(<-c.Read), test.want)
		c.Write("\r") // a blank line, which is not answered
	}
	if err := c.End(); err != nil {
		t.Errorf("the end of the input: %v", err)
	}
}

// Requests that came before the end of the input are answered.
func TestStdioAnswersBeforeItEnds(t *testing.T) {
	t.Parallel()
	in := io.NopCloser(strings.NewReader(strings.TrimSuffix(greetLine, "\n"))) // the last line need not end
	var out strings.Builder
	expect.Check(t, harness.NewServer(t, nil, harness.AddGreet).Run(t.Context(),
		&mcp.IOTransport{Reader: in, Writer: nopCloser{&out}}))
	if !strings.Contains(out.String(), `"id":7`) || !strings.Contains(out.String(), "input_required") {
		t.Errorf("got %q", out.String())
	}
}

// A question that the client can no longer answer fails at once, and its call is answered.
func TestTheEndOfTheInputFailsQuestions(t *testing.T) {
	t.Parallel()
	c := harness.Pipe(t, harness.NewServer(t, nil, harness.AddGreet, harness.AddRounds))
	c.Call(1, "initialize", harness.Initialize, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.Request(2, "tools/call", `"name":"greet","arguments":{"place":"x"}`, "")
	c.Until("a question", func(m map[string]any) bool { return m["method"] == "elicitation/create" })
	if err := c.End(); err != nil {
		t.Errorf("the end of the input: %v", err)
	}
	expect.Contains(t, "fmt.Sprint(c.Response(2))", fmt.Sprint(c.Response(2)), "the client has ended its input")
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// The connection ends only with the input, for any lines on standard input.
func FuzzStdio(f *testing.F) {
	f.Add(greetLine)
	f.Add("{}\n[]\n[{}]\nnull\n\"\n")
	f.Add(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	f.Fuzz(func(t *testing.T, input string) {
		if strings.Contains(input, "subscriptions") || strings.Contains(input, "initialize") {
			return // these may take longer than a fuzz run
		}
		var out strings.Builder
		srv := harness.NewServer(t, nil, harness.AddGreet)
		in := input + "\n" + greetLine
		_ = srv.Run(t.Context(), &mcp.IOTransport{Reader: io.NopCloser(strings.NewReader(in)), Writer: nopCloser{&out}})
		if !strings.Contains(out.String(), `"id":7`) {
			t.Fatalf("no answer to the last line after %q: %s", input, out.String())
		}
	})
}
