package tap

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

// A stream of events arrives at the SDK with the same data, or ends with an error.
func FuzzEvents(f *testing.F) {
	f.Add("event: message\ndata: {\"a\":\ndata: 1}\n\n: comment\r\n\r\ndata: x")
	small := config
	small.MessageBytes = 1 << 10
	f.Fuzz(func(t *testing.T, stream string) {
		if strings.Contains(stream, "result") {
			return // those the tap changes
		}
		in := strings.NewReader(stream)
		out, err := io.ReadAll(&eventBody{config: &small, ReadCloser: io.NopCloser(in), in: bufio.NewReader(in), x: new(Exchange), asked: newUnanswered(&small)})
		if err != nil {
			return
		}
		if want, got := events(stream), events(string(out)); want != got {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

// events is the data of a stream's events.
func events(stream string) string {
	var all, event bytes.Buffer
	for line := range strings.SplitSeq(stream, "\n") {
		line = strings.TrimRight(line, "\r\n")
		if field, data, _ := strings.Cut(line, ":"); field == "data" {
			event.WriteString(strings.TrimPrefix(data, " ") + "\n")
		} else if line == "" && event.Len() > 0 {
			all.WriteString(event.String() + "\x00")
			event.Reset()
		}
	}
	if event.Len() > 0 {
		all.WriteString(event.String() + "\x00")
	}
	return all.String()
}

// A server decides when its stream is resumed, but not that it happens all the time.
func TestAStreamIsNotResumedAtOnce(t *testing.T) {
	for retry, want := range map[string]string{
		"retry: 1": "retry:100", "retry:99": "retry:100", "retry: 0": "retry:100", "retry: -9": "retry:100",
		"retry: 100": "retry: 100", "retry: 5000": "retry: 5000", "retry: soon": "retry: soon",
	} {
		in := strings.NewReader(retry + "\n\n")
		out, err := io.ReadAll(&eventBody{config: &config, ReadCloser: io.NopCloser(in), in: bufio.NewReader(in), x: new(Exchange), asked: newUnanswered(&config)})
		if got := strings.TrimSpace(string(out)); err != nil || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%q becomes %q, %v, want %q", retry, got, err, want)
		}
	}
}
