package tap

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/eventstream"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// A stream of events arrives at the SDK with the same data, or ends with an error. An event of unsound JSON becomes
// one.
func FuzzEvents(f *testing.F) {
	f.Add("event: message\ndata: {\"a\":\ndata: 1}\n\n: comment\r\n\r\ndata: x")
	small := config
	small.MessageBytes = 1 << 10
	f.Fuzz(func(t *testing.T, stream string) {
		if strings.Contains(stream, "result") {
			return // those the tap changes
		}
		in := strings.NewReader(stream)
		out, err := io.ReadAll(&eventBody{config: &small, ReadCloser: io.NopCloser(in),
			in: eventstream.NewReader(in, small.MessageBytes),
			x:  new(Exchange), asked: newUnanswered(&small)})
		if err != nil {
			return
		}
		want, got := events(stream), events(string(out))
		if len(want) != len(got) {
			t.Fatalf("%q became %q", want, got)
		}
		for i, data := range want {
			unsound := json.Valid([]byte(data)) && strictjson.Check([]byte(data), small.Depth+envelope) != nil
			if unsound && strings.Contains(got[i], "its response is not valid") {
				continue
			}
			if unsound || got[i] != data {
				t.Fatalf("%q became %q", data, got[i])
			}
		}
	})
}

// events returns the data of each of a stream's events that is a message.
func events(stream string) (all []string) {
	in := eventstream.NewReader(strings.NewReader(stream), 1<<20)
	for data, err := in.NextMessage(); err == nil; data, err = in.NextMessage() {
		all = append(all, string(data))
	}
	return all
}

// A server decides when its stream is resumed, but not that it happens all the time.
func TestAStreamIsNotResumedAtOnce(t *testing.T) {
	for retry, want := range map[string]string{
		"retry: 1": "retry:100", "retry:99": "retry:100", "retry: 0": "retry:100", "retry: -9": "",
		"retry: 100": "retry: 100", "retry: 5000": "retry: 5000", "retry: soon": "",
	} {
		in := strings.NewReader(retry + "\n\n")
		out, err := io.ReadAll(&eventBody{config: &config, ReadCloser: io.NopCloser(in),
			in: eventstream.NewReader(in, config.MessageBytes),
			x:  new(Exchange), asked: newUnanswered(&config)})
		if got := strings.TrimSpace(string(out)); err != nil || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want,
			" ", "") {
			t.Errorf("%q becomes %q, %v, want %q", retry, got, err, want)
		}
	}
}
