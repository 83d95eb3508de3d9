package eventstream_test

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/eventstream"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// read returns all events of a stream, with data of their own.
func read(r io.Reader, most int64) (all []eventstream.Event, err error) {
	in := eventstream.NewReader(r, most)
	for {
		event, err := in.Next()
		if err != nil {
			return all, err
		}
		if event.Data != nil {
			event.Data = append([]byte{}, event.Data...)
		}
		all = append(all, event)
	}
}

func TestEvents(t *testing.T) {
	type events = []eventstream.Event
	data := func(all ...string) (want events) {
		for _, text := range all {
			want = append(want, eventstream.Event{Data: []byte(text)})
		}
		return want
	}
	for name, c := range map[string]struct {
		stream string
		want   events
	}{
		"line feeds":                {"data: a\n\ndata: b\n\n", data("a", "b")},
		"carriage returns":          {"data: a\r\rdata: b\r\r", data("a", "b")},
		"both":                      {"data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")},
		"mixed":                     {"data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", data("a", "b", "c")},
		"a byte order mark":         {"\uFEFFdata: a\n\n", data("a")},
		"two byte order marks":      {"\uFEFF\uFEFFdata: a\n\ndata: b\n\n", data("b")},
		"a mark later":              {"data: a\n\n\uFEFFdata: b\n\n", data("a")},
		"a mark alone":              {"\uFEFF\n\ndata: a\n\n", data("a")},
		"several lines":             {"data: a\ndata\ndata:  b\rdata:c\r\n\n", data("a\n\n b\nc")},
		"empty data":                {"data\n\ndata:\n\n", data("", "")},
		"comments":                  {": hi\n\n:\ndata: a\n: hi\n\n: hi\n\n", data("a")},
		"unknown fields":            {"Data: x\n data: x\nfoo\ndata : x\ndata: a\n\n", data("a")},
		"no fields":                 {"\n\r\r\n\n", nil},
		"an end within":             {"data: a\n\ndata: b\n", data("a")},
		"an end in a line":          {"data: a\n\ndata: b", data("a")},
		"an end after an ID":        {"id: 1\n", nil},
		"a name":                    {"event: x\ndata: a\n\ndata\n\n", events{{Name: "x", Data: []byte("a")}, data("")[0]}},
		"two names":                 {"event: x\nevent\ndata: a\n\n", data("a")},
		"a name alone":              {"event: x\n\ndata: a\n\n", data("a")},
		"an ID":                     {"id: 1\n\nid:2 \ndata: a\n\n", events{{ID: "1"}, {ID: "2 ", Data: []byte("a")}}},
		"an ID with NUL":            {"id: 1\nid: 2\x00\n\nid: \x00\n\n", events{{ID: "1"}}},
		"a retry":                   {"retry: 10\n\nretry: 1e3\n\nretry: -1\n\nretry\n\n", events{{Retry: "10"}}},
		"a line of several buffers": {"data: " + strings.Repeat("é", 5000) + "\r\n\n", data(strings.Repeat("é", 5000))},
	} {
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(c.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(c.stream)),
		} {
			got, err := read(r, 1<<20)
			if diff := cmp.Diff(c.want, got); err != io.EOF || diff != "" {
				t.Errorf("%s, %s: %v\n%s", name, how, err, diff)
			}
		}
	}
}

func TestMessages(t *testing.T) {
	in := eventstream.NewReader(strings.NewReader("id: 1\ndata\n\nevent: other\ndata: x\n\nevent: message\ndata: a\n\n"),
		100)
	if got, err := in.NextMessage(); string(got) != "a" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := in.NextMessage(); got != nil || err != io.EOF {
		t.Errorf("got %q, %v at the end", got, err)
	}
}

// An event that ends with a carriage return is there before the next byte comes.
func TestACarriageReturnIsEnough(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	in, got := eventstream.NewReader(r, 100), make(chan string)
	go func() {
		for range 2 {
			event, _ := in.Next()
			got <- string(event.Data)
		}
	}()
	for _, c := range []struct{ text, want string }{{"data: a\r\r", "a"}, {"\ndata: b\r\n\r", "b"}} {
		expect.Must(io.WriteString(w, c.text))(t)
		expect.Equal(t, "<-got", <-got, c.want)
	}
}

func TestLargeEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   error
	}{
		"as large as it may be": {strings.Repeat("data: 90\n\n", 100), io.EOF},
		"a line":                {"data: 901\n\n", eventstream.ErrTooLarge},
		"a line without an end": {"data: 90123", eventstream.ErrTooLarge},
		"lines":                 {"data\ndata\n\n", eventstream.ErrTooLarge},
		"comments":              {":\n:\r\n:\r:\n:\n:\n", eventstream.ErrTooLarge},
	} {
		if _, err := read(strings.NewReader(c.stream), 10); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	broken := errors.New("broken")
	if _, err := read(iotest.ErrReader(broken), 10); err != broken {
		t.Errorf("got %v", err)
	}
}

var lineEnd = regexp.MustCompile("\r\n|\r|\n")

// FuzzEvents compares with the grammar, applied to the whole stream.
func FuzzEvents(f *testing.F) {
	f.Add("\uFEFFevent: message\r\nid: 1\ndata: {\"a\":\rdata: 1}\n\n: comment\r\n\r\nretry: 5\n\ndata: x")
	f.Fuzz(func(t *testing.T, stream string) {
		var want []eventstream.Event
		var event eventstream.Event
		var data []string
		lines := lineEnd.Split(strings.TrimPrefix(stream, "\uFEFF"), -1)
		for _, line := range lines[:len(lines)-1] { // the last has no end
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case line == "":
				if data != nil {
					event.Data = []byte(strings.Join(data, "\n"))
				}
				if data != nil || event.ID != "" || event.Retry != "" {
					want = append(want, event)
				}
				event, data = eventstream.Event{}, nil
			case name == "data":
				data = append(data, value)
			case name == "event":
				event.Name = value
			case name == "id" && !strings.Contains(value, "\x00"):
				event.ID = value
			case name == "retry" && regexp.MustCompile(`\A[0-9]+\z`).MatchString(value):
				event.Retry = value
			}
		}
		for _, r := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			got, err := read(r, 1<<20)
			if diff := cmp.Diff(want, got); err != io.EOF || diff != "" {
				t.Fatalf("%q: %v\n%s", stream, err, diff)
			}
		}
	})
}
