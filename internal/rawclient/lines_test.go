package rawclient

import (
	"bufio"
	"bytes"
	"fmt"
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

// A program that floods its output, and a standard error that nobody reads, do not keep messages from coming.
func TestFloodsOfOtherLines(t *testing.T) {
	flood := strings.Repeat("still working\n", 100_000)
	var aside bytes.Buffer
	for name, w := range map[string]io.Writer{"read": &aside, "closed": brokenWriter{}} {
		out := bufio.NewReader(strings.NewReader(flood + "{}\n" + flood + "[]\n"))
		got, err := io.ReadAll(&messageLines{in: out, aside: w})
		if err != nil || string(got) != "{}\n[]\n" {
			t.Errorf("%s: messages %.40q, %v", name, got, err)
		}
	}
	if aside.Len() != mostAside {
		t.Errorf("%d bytes were shown, want %d", aside.Len(), mostAside)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Every byte is part of a message, put aside, or between lines.
func FuzzMessageLines(f *testing.F) {
	f.Add([]byte("Server is running\n{\"a\":1}\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		var aside bytes.Buffer
		got, err := io.ReadAll(&messageLines{in: bufio.NewReaderSize(bytes.NewReader(out), 16), aside: &aside})
		if err != nil {
			t.Fatal(err)
		}
		n, least := len(got)+aside.Len(), len(bytes.Join(bytes.Fields(out), nil))
		if n > len(out) || n < least && aside.Len() < mostAside {
			t.Errorf("of %d bytes %d came through, %d were put aside", len(out), len(got), aside.Len())
		}
		if first := bytes.TrimLeft(got, " \t\r\n"); len(first) > 0 && first[0] != '{' && first[0] != '[' {
			t.Errorf("%.20q is no message", first)
		}
	})
}

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// No output of a program makes the client panic, or gives a request the response to another.
func FuzzProgram(f *testing.F) {
	f.Add([]byte("ready\n{\"id\":1,\"result\":{}}\n{\"id\":2,\"error\":{\"code\":1}}\n"))
	f.Add([]byte("{\"method\":\"a\"}\n[{}]\n{\"id\":null}\n{"))
	f.Fuzz(func(t *testing.T, out []byte) {
		p := newProgram(discard{io.Discard})
		c := &Client{Program: p, MaxBytes: 1000}
		var open []*Stream
		for range 2 {
			s, err := c.Open(t.Context(), "ping", nil)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
		}
		p.readAll(bufio.NewReaderSize(&messageLines{in: bufio.NewReader(bytes.NewReader(out)), aside: io.Discard}, 16))
		for i, s := range open {
			size := 0
			for data, err := s.NextBytes(); err == nil; data, err = s.NextBytes() {
				id, response := identify(data)
				if size += len(data); size > 1000 || response && id != "null" && id != fmt.Sprint(i+1) {
					t.Errorf("request %d got %d bytes, the last %.100q", i+1, size, data)
				}
			}
		}
	})
}
