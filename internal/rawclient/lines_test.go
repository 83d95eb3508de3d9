package rawclient

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// What a program writes to its standard output besides messages is put aside, and the messages come as they are.
func TestLinesThatAreNoMessages(t *testing.T) {
	one, two := `{"jsonrpc":"2.0","method":"a"}`, `{"result":{},"jsonrpc":"2.0","id":1}`
	long := `{"id":1,"result":"` + strings.Repeat("x", 10_000) + `","jsonrpc":"2.0"}`
	other, log := strings.Repeat("y", 10_000)+"{}", `{"level":"info","msg":"sent {\"jsonrpc\":1}"}`+"\n"
	for name, c := range map[string]struct{ out, messages, aside string }{
		"a greeting":       {"Server is running\n" + one + "\n", one + "\n", "Server is running\n"},
		"between":          {one + "\nready\n" + two + "\n", one + "\n" + two + "\n", "ready\n"},
		"blank lines":      {"\r\n  \n" + one + "\r\n\n[" + one + "," + two + "]", one + "\r\n[" + one + "," + two + "]", ""},
		"an indent":        {" \t" + one + "\n", " \t" + one + "\n", ""},
		"long lines":       {other + "\n" + long + "\n", long + "\n", other + "\n"},
		"an end too soon":  {one + "\n" + one[:20], one + "\n" + one[:20], ""},
		"a bracket":        {"[09/15/25 00:30:17] INFO ready\n" + one + "\n", one + "\n", "[09/15/25 00:30:17] INFO ready\n"},
		"a quoted message": {"[debug] got " + one + "\n" + one, one, "[debug] got " + one + "\n"},
		"a log in JSON":    {log + one, one, log},
		"a brace":          {"{ port: 3000 }\n{}\n[]\n" + one, one, "{ port: 3000 }\n{}\n[]\n"},
		"half a batch":     {"[" + one + ",{}]\n" + one, one, "[" + one + ",{}]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
				var aside bytes.Buffer
				got, err := io.ReadAll(newLines(read(strings.NewReader(c.out)), MostLine, &aside))
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
		const one = `{"jsonrpc":"2.0","method":"a"}` + "\n"
		got, err := io.ReadAll(newLines(strings.NewReader(flood+one+flood+one), MostLine, w))
		if err != nil || string(got) != one+one {
			t.Errorf("%s: messages %.40q, %v", name, got, err)
		}
	}
	expect.Equal(t, "bytes were shown", aside.Len(), mostAside)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A response that is too long is answered in its place, where its ID can be found. Everything else that is too long is
// left out, and what follows comes.
func TestLinesThatAreTooLong(t *testing.T) {
	long, next := strings.Repeat("x", 5000), `{"jsonrpc":"2.0","id":2,"result":{}}`+"\n"
	for name, c := range map[string]struct{ line, id string }{
		"the ID first":  {`{"jsonrpc":"2.0","id":"a\"b","result":{"id":3,"t":"` + long + `"}}`, `"a\"b"`},
		"the ID last":   {`{"result":{"id":3,"t":"` + long + `"},"jsonrpc":"2.0","id":17}`, "17"},
		"an ID inside":  {`{"jsonrpc":"2.0","result":{"t":"` + long + `","id":3}}`, ""},
		"a request":     {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"t":"` + long + `"}}`, ""},
		"a log in JSON": {`{"level":"info","text":"` + long + `"}`, ""},
		"text":          {long, ""},
	} {
		var aside bytes.Buffer
		got, err := io.ReadAll(newLines(strings.NewReader(c.line+"\n"+next), 1000, &aside))
		first, rest, _ := strings.Cut(string(got), "\n")
		if c.id == "" {
			rest = string(got)
		} else if id, code, response := identify([]byte(first)); id != c.id || code != wire.CodeTooLong || !response {
			t.Errorf("%s: %s stands for it", name, first)
		}
		if err != nil || rest != next || c.id == "" && aside.Len() == 0 {
			t.Errorf("%s: then comes %.200q, aside %.100q, %v", name, rest, aside.String(), err)
		}
	}
}

func newLines(in io.Reader, most int, aside io.Writer) *messageLines {
	return &messageLines{in: bufio.NewReaderSize(in, 16), most: most, aside: aside}
}

// What comes through is a message, or stands for one.
func FuzzMessageLines(f *testing.F) {
	f.Add([]byte("Server is running\n{\"jsonrpc\":1}\n"))
	f.Add([]byte(`{"result":"` + strings.Repeat("x", 200) + `","jsonrpc":"2.0","id":1}` + "\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		var aside bytes.Buffer
		got := expect.Must(io.ReadAll(newLines(bytes.NewReader(out), 100, &aside)))(t)
		for line := range bytes.Lines(got) {
			if !isMessage(line) || len(line) > 500 {
				t.Errorf("%.200q is no message", line)
			}
		}
		if aside.Len() > mostAside {
			t.Errorf("%d bytes are aside", aside.Len())
		}
	})
}

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// No output of a program makes the client panic, or gives a request the response to another.
func FuzzProgram(f *testing.F) {
	f.Add([]byte("ready\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":2,"error":{}}` + "\n"))
	f.Add([]byte("{\"jsonrpc\":1,\"method\":\"a\"}\n[{\"jsonrpc\":1}]\n{\"jsonrpc\":1,\"id\":null}\n{\"jsonrpc\":"))
	f.Fuzz(func(t *testing.T, out []byte) {
		p := newProgram(discard{io.Discard})
		c := &Client{Program: p, MaxBytes: 1000}
		var open []*Stream
		for range 2 {
			s := expect.Must(c.Open(t.Context(), "ping", nil))(t)
			open = append(open, s)
		}
		p.readAll(bufio.NewReaderSize(newLines(bytes.NewReader(out), MostLine, io.Discard), 16))
		for i, s := range open {
			size := 0
			for data, err := s.NextBytes(); err == nil; data, err = s.NextBytes() {
				id, _, response := identify(data)
				if size += len(data); size > 1000 || response && id != "null" && id != fmt.Sprint(i+1) {
					t.Errorf("request %d got %d bytes, the last %.100q", i+1, size, data)
				}
			}
		}
	})
}
