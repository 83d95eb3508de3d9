package tasks

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/record"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestIDsThatCanBeTold(t *testing.T) {
	t.Parallel()
	now := time.Unix(1800000000, 0)
	for _, test := range []struct {
		ids  []string
		want string
	}{
		{[]string{"1", "2", "3", "4"}, "observation"},
		{[]string{"task-0007", "task-0009", "task-0011", "task-0013"}, "observation"},
		{[]string{"t-1800000000-1", "t-1800000000-2", "t-1800000003-3", "t-1800000007-4"}, "observation"},
		{[]string{"1799999990123", "1799999990456", "1799999995000", "1799999999999"}, "observation"},
		{[]string{"12", "15", "16", "40"}, "suspicion"}, // others have tasks, too
		{[]string{"65f0c8d2a1b2c3d4e5f60001", "65f0c8d2a1b2c3d4e5f60002", "65f0c8d3a1b2c3d4e5f6000f",
			"65f0c8d4a1b2c3d4e5f60a10"}, "suspicion"},
		{[]string{"kx0qpz", "m3v81a", "q0fh2e", "zz91kd"}, "suspicion"},
		{[]string{"786512e2-9e0d-44bd-8f29-789f320fe840", "1b0dbe29-41b1-4d8e-9be4-d24f63ba2f5e",
			"f33a5c2e-0a9a-4e9f-8d0e-9c1a2d7b6e01", "0c5b1f7a-6f0e-4f7d-a0c3-5f1de0a9b7c2"}, ""},
		{[]string{"1", "2"}, ""},
	} {
		if got := readIDs(test.ids, now); got.Proof != test.want {
			t.Errorf("%v: %q (%s), want %q", test.ids, got.Proof, got.What, test.want)
		}
	}
}

func TestResultsAndKeysOfTasks(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`{"status":"completed"}`:                                     "observation",
		`{"status":"completed","result":{"text":"done"}}`:            "observation",
		`{"status":"completed","result":"done"}`:                     "observation",
		`{"status":"completed","result":{"content":[]}}`:             "",
		`{"status":"completed","result":{"structuredContent":true}}`: "",
	} {
		if got := readResult(&talk.Reply{Result: json.RawMessage(result)}); got.Proof != want {
			t.Errorf("%s: %q, want %q", result, got.Proof, want)
		}
	}
	asks := func(key, message string) *talk.Reply {
		return &talk.Reply{Questions: []talk.Question{{Key: key, Message: message}}}
	}
	for _, test := range []struct {
		rounds []*talk.Reply
		want   string
	}{
		{[]*talk.Reply{asks("a", "Who?"), asks("a", "Who?"), asks("b", "Sure?")}, ""},
		{[]*talk.Reply{asks("a", "Who? 59 seconds left"), asks("a", "Who? 58 seconds left")}, ""},
		{[]*talk.Reply{asks("a", "Who?"), asks("b", "When?"), asks("a", "Sure?")}, "observation"},
	} {
		if got := readKeys(test.rounds); got.Proof != test.want {
			t.Errorf("%v: %q, want %q", test.rounds, got.Proof, test.want)
		}
	}
}

// Whatever a server answers about a task is read, and makes a transcript that can be read.
func FuzzTask(f *testing.F) {
	for _, seed := range []string{
		`{"taskId":"a","status":"input_required","inputRequests":{"k":{"method":"roots/list"}},"pollIntervalMs":1e99}`,
		`{"taskId":"a","status":"completed","result":{"content":[{"type":"text","text":"{{x}}"}]}}`,
		`{"tasks":[{"taskId":"a","status":"working"}]}`, `{"status":"completed","{{x}}":1}`, `[[[]]]`, `null`,
		`{"notifications":{"taskIds":["a"]},"taskId":"a","status":"s"}`,
	} {
		f.Add([]byte(seed))
	}
	l := expect.Must(transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"}))(f)
	defer l.Close()
	cl := talk.New(l, redact.New())
	f.Fuzz(func(t *testing.T, result []byte) {
		if !json.Valid(result) {
			return // no response has such a result
		}
		p := cl.ReadTask(&transport.Response{Status: 200, Result: result})
		readResult(p)
		readKeys([]*talk.Reply{p, p})
		talk.TaskStatus(p.Result, "a")
		steps := []talk.Exchange{{Request: transport.Request{Method: "tools/call", Params: map[string]any{},
			Capabilities: "{}"}, Status: 200,
			Reply: &talk.Reply{Class: talk.Done, TaskID: "a"}}}
		for _, method := range []string{"tasks/get", "tasks/list", "tasks/cancel", "subscriptions/listen", "tasks/get"} {
			q := transport.Request{Method: method, Params: map[string]any{"taskId": "a"}, Capabilities: "{}"}
			steps = append(steps, talk.Exchange{Request: q, Status: 200, Reply: p})
		}
		steps[4].Events = []json.RawMessage{result}
		text := record.Transcript(corpus.Probe{ID: "task-get", Title: "T"}, steps)
		if _, err := transcript.Parse("fuzz", []byte(text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{{"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "abcde", 2}, {"", "abc", 3}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Error(fmt.Sprint(test, got))
		}
	}
}
