package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// What a program writes to its standard output besides messages is put aside, and the messages come as they are.
func TestLinesThatAreNoMessages(t *testing.T) {
	long, other := `{"a":"`+strings.Repeat("x", 10_000)+`"}`, strings.Repeat("y", 10_000)+"{}"
	for name, c := range map[string]struct{ out, messages, aside string }{
		"a greeting":      {"Server is running\n{\"a\":1}\n", "{\"a\":1}\n", "Server is running\n"},
		"between":         {"{\"a\":1}\nready\n{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n", "ready\n"},
		"blank lines":     {"\r\n  \n{}\r\n\n[]", "{}\r\n[]", ""},
		"an indent":       {" \t{}\n", " \t{}\n", ""},
		"long lines":      {other + "\n" + long + "\n", long + "\n", other + "\n"},
		"an end too soon": {"{\"a\"", "{\"a\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
				var aside bytes.Buffer
				got, err := io.ReadAll(&messageLines{in: bufio.NewReader(read(strings.NewReader(c.out))), aside: &aside})
				if err != nil || string(got) != c.messages || aside.String() != c.aside {
					t.Errorf("messages %.40q, aside %.40q, %v", got, aside.String(), err)
				}
			}
		})
	}
}

// Every byte is part of a message, put aside, or between lines.
func FuzzMessageLines(f *testing.F) {
	f.Add([]byte("Server is running\n{\"a\":1}\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		var aside bytes.Buffer
		got, err := io.ReadAll(&messageLines{in: bufio.NewReaderSize(bytes.NewReader(out), 16), aside: &aside})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got) + aside.Len(); n > len(out) || n < len(bytes.Join(bytes.Fields(out), nil)) {
			t.Errorf("of %d bytes %d came through, and %d were put aside", len(out), len(got), aside.Len())
		}
		if first := bytes.TrimLeft(got, " \t\r\n"); len(first) > 0 && first[0] != '{' && first[0] != '[' {
			t.Errorf("%.20q is no message", first)
		}
	})
}
