package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// play plays steps against a server with this handler, and returns what it reported.
func play(t *testing.T, steps string, p Player, handler http.HandlerFunc) ([]Step, error) {
	t.Helper()
	text, err := Parse("x", []byte(script(steps)))
	expect.Check(t, err)
	server := httptest.NewServer(handler)
	defer server.Close()
	defer server.CloseClientConnections()
	p.URLs = map[string]string{"A": server.URL + "/mcp?a=b"}
	var told []Step
	p.Report = func(s Step) { told = append(told, s) }
	return told, text.Play(t.Context(), p)
}

// stepTimeFor is short only where a test waits for it.
func stepTimeFor(reason string) (p Player) {
	if strings.HasPrefix(reason, "nothing came") {
		p.stepTime = 300 * time.Millisecond
	}
	return p
}

// wantFailure wants the line and the reason of a failure.
func wantFailure(t *testing.T, err error, line int, reason string) *Failure {
	t.Helper()
	failure, ok := errors.AsType[*Failure](err)
	if !ok || failure.Line != line || !strings.Contains(failure.Reason, reason) {
		t.Fatalf("got %v, want line %d: %s", err, line, reason)
	}
	return failure
}

// serveEvents writes events, and keeps the stream open if it has a last one "open".
func serveEvents(w http.ResponseWriter, r *http.Request, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if e == "open" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		io.WriteString(w, e)
	}
}

func TestWhatIsSent(t *testing.T) {
	const modern = `{"method": "tools/call", "params": {"name": "naïve", "_meta": "{{meta}}"}}`
	rawModern := strings.Replace(modern, `"{{meta}}"`, metas["none"], 1) + "// {{"
	for _, c := range []struct {
		steps string
		want  map[string]string
	}{
		{"--> A\n{}\n", map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Method": "",
			"Mcp-Protocol-Version": "",
		}},
		{"--> A\n" + modern, map[string]string{
			"Mcp-Method": "tools/call", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Name": "=?base64?bmHDr3Zl?=",
		}},
		{"--> A\n" + strings.NewReplacer("tools/call", "tasks/get", `"name"`, `"taskId"`).Replace(modern),
			map[string]string{"Mcp-Name": "=?base64?bmHDr3Zl?="}},
		{"--> A\n" + strings.NewReplacer("tools/call", "resources/read", `"name"`, `"uri"`).Replace(modern),
			map[string]string{"Mcp-Name": "=?base64?bmHDr3Zl?="}},
		{"--> A\nMcp-Name: other\nMcp-Method:\nX-More: 1\n\n" + modern, map[string]string{
			"Mcp-Method": "", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Name": "other", "X-More": "1",
		}},
		{"--> A raw\n" + rawModern, map[string]string{"Mcp-Method": "", "Mcp-Name": ""}},
	} {
		_, err := play(t, c.steps+"\n<-- 202\n", Player{}, func(w http.ResponseWriter, r *http.Request) {
			for name, value := range c.want {
				if got := strings.Join(r.Header.Values(name), ", "); got != value || value == "" && len(r.Header.Values(name)) > 0 {
					t.Errorf("%q: %s is %q, want %q", c.steps, name, got, value)
				}
			}
			if r.URL.String() != "/mcp?a=b" || r.Method != http.MethodPost {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			if body, _ := io.ReadAll(r.Body); strings.Contains(c.steps, "raw") && string(body) != rawModern {
				t.Errorf("raw bytes came as %s", body)
			}
			w.WriteHeader(http.StatusAccepted)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestARequestThatIsSentSeveralTimes(t *testing.T) {
	const steps = "--> A\n{}\n<-- 200\n{ \"n\": \"{{n}}\" }\n--> A 3 times\n{ \"n\": \"{{n}}\" }\n<-- 200\n{ \"n\": " +
		"\"{{n:new}}\" }\n"
	for _, c := range []struct{ stuck, sent int }{{0, 4}, {3, 3}} {
		var sent []string
		told, err := play(t, steps, Player{}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, string(body))
			n := len(sent)
			if n == c.stuck {
				n-- // the same value again
			}
			fmt.Fprintf(w, `{"n": %d}`, n)
		})
		if len(sent) != c.sent || strings.Join(sent[:3], "") != `{}{ "n": 1 }{ "n": 2 }` {
			t.Errorf("%q was sent", sent)
		}
		if c.stuck > 0 {
			wantFailure(t, err, 10, "n: want another value for {{n}}, got 2 (when it was sent the 2. time of 3)")
		} else if err != nil || len(told) != 2 || !strings.HasSuffix(told[1].Title, " (3 times)") ||
			len(told[1].Messages) != 2 {
			t.Errorf("%v, told %+v", err, told)
		}
	}
}

func TestEachPartIsByItself(t *testing.T) {
	text, err := Parse("x", []byte(`Title: t
Server: A
Server: B
== first
Query: n=1
--> A
{}
<-- 200
{ "v": "{{v}}" }
--> B
{ "v": "{{v}}" }
<-- 200
{ "v": "{{v}}" }
== second
--> A
{}
<-- 200
{ "v": "{{v}}" }
`))
	expect.Check(t, err)
	var log []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		log = append(log, r.URL.RequestURI()+string(body))
		if bytes.Equal(body, []byte("{}")) {
			body = fmt.Appendf(nil, `{"v": "%d"}`, len(log))
		}
		w.Write(body)
	}))
	defer server.Close()
	urls := map[string]string{"A": server.URL + "/a", "B": server.URL + "/b?x"}
	expect.Check(t, text.Play(t.Context(), Player{URLs: urls}))
	if got, want := strings.Join(log, " "), `/a?n=1{} /b?x&n=1{ "v": "1" } /a{}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	log = nil
	if err := text.Play(t.Context(), Player{URLs: urls, Part: "second"}); err != nil || len(log) != 1 {
		t.Errorf("the second part alone: %v, %q", err, log)
	}
	if err := text.Play(t.Context(), Player{URLs: urls, Part: "third"}); err == nil {
		t.Error("a part that is not there was played")
	}
	delete(urls, "B")
	expect.Fails(t, "without a URL", text.Play(t.Context(), Player{URLs: urls}), "server B")
}

func TestAFailureTellsWhatToLookAt(t *testing.T) {
	told, err := play(t, `--> A
{ "method": "ping" }
<-- 200
{ "a": 1 }
--> A
{ "method": "tools/call", "params": { "name": "x" } }
<-- 200
{ "a": 1 }
`, Player{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"a": %d}`, 1+strings.Count(string(body), "tools"))
	})
	failure := wantFailure(t, err, 10, "a: want 1, got 2")
	if failure.Title != "tools/call x" || failure.Number != 2 || failure.Server != "A" || failure.Step.Part.Title != "p" {
		t.Errorf("the failure is %+v", failure)
	}
	text := err.Error()
	for _, want := range []string{"x:10: a: want 1", "\nsent:\n{\n  \"method\": \"tools/call\"",
		"\nexpected:\n{ \"a\": 1 }", "\ngot:\n200\n{\n  \"a\": 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if len(told) != 1 || told[0].Title != "ping" || len(told[0].Messages) != 2 || told[0].Messages[1].Head != "<-- 200" {
		t.Errorf("before it was told %+v", told)
	}
}

func TestResponses(t *testing.T) {
	write := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status); io.WriteString(w, body) }
	}
	for _, c := range []struct {
		expected string
		handler  http.HandlerFunc
		reason   string // "" is none
	}{
		{"<-- 404\n{}", write(404, "{}"), ""},
		{"<-- 200\n{}", write(404, "{}"), "want status 200, got 404"},
		{"<-- 202", write(202, ""), ""},
		{"<-- 202", write(202, "{}"), "want no body, got one"},
		{"<-- 200\n{}", write(200, ""), "want a body, got none"},
		{"<-- 200\n{}", write(200, "{]"), "invalid JSON"},
		{"<-- 200\n{}", write(200, `{"a": 1, "a": 1}`), "invalid JSON"},
		{"<-- 200\n\"{{_}}\"", write(200, strings.Repeat("[", 500)+strings.Repeat("]", 500)), "nested deeper"},
		{"<-- 200\n\"{{_}}\"", write(200, `"`+strings.Repeat("x", maxMessage)+`"`), "larger than 16777216 bytes"},
		{"<-- 200\nX: {{x}}\n\n{}", write(200, "{}"), "the header X: want it once, got it 0 times"},
		{"<-- 307\n{}", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			write(307, "{}")(w, r)
		}, ""},
		{"<-- 200\nX: b\n\n{}", func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("X", "a")
			write(200, "{}")(w, r)
		}, `the header X: want "b", got "a"`},
		{"<-- 200\n{}", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			"speaking to the server A: EOF"},
		{"<-- 200\n{}", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "nothing came for 300ms"},
		{"<-- 200\n{}", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "nothing came for 300ms"},
	} {
		_, err := play(t, "--> A\n{}\n"+c.expected+"\n", stepTimeFor(c.reason), c.handler)
		if c.reason != "" {
			wantFailure(t, err, 6, c.reason)
		} else if err != nil {
			t.Errorf("%s: %v", c.expected, err)
		}
	}
}

func TestWithinRepeatsTheRequest(t *testing.T) {
	const steps = "--> A\n{}\n<-- 200 within 10s\n{ \"a\": \"{{a}}\", \"b\": \"done\" }\n--> A\n{ \"a\": " +
		"\"{{a}}\" }\n<-- 202\n"
	n := 0
	_, err := play(t, steps, Player{}, func(w http.ResponseWriter, r *http.Request) {
		n++
		body, _ := io.ReadAll(r.Body)
		switch {
		case n == 1:
			w.WriteHeader(500)
		case n == 2:
			io.WriteString(w, `{"a": 2, "b": "working"}`) // captures nothing
		case n == 3:
			io.WriteString(w, `{"a": 3, "b": "done"}`)
		default:
			if string(body) != `{ "a": 3 }` {
				t.Errorf("captured was %s", body)
			}
			w.WriteHeader(202)
		}
	})
	if err != nil || n != 4 {
		t.Errorf("after %d requests: %v", n, err)
	}
	n = 0
	_, err = play(t, strings.Replace(steps, "10s", "200ms", 1), Player{}, func(w http.ResponseWriter, r *http.Request) {
		n++
		io.WriteString(w, `{"a": 2, "b": "working"}`)
	})
	wantFailure(t, err, 6, `b: want "done", got "working" (and so for 200ms)`)
	if n < 2 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestStreams(t *testing.T) {
	const head = "--> A\n{}\n<-- 200\n{ \"n\": 1 }\n"
	for _, c := range []struct {
		name, steps string
		events      []string
		line        int
		reason      string
	}{
		{"in order", head + "<-- event\n{ \"n\": 2 }\n<-- end\n", []string{"event: message\nid: 1\ndata: {\"n\": 1}\n\n",
			"data:{\"n\":\ndata: 2}\n\n"}, 0, ""},
		{"what has no data is no message", head + "<-- end\n", []string{": hello\n\nid: 0\ndata:\n\n",
			"data: {\"n\": 1}\r\n\r\n", "retry: 5\n\n"}, 0, ""},
		{"unlike", head + "<-- event\n{ \"n\": 2 }\n", []string{"data: {\"n\": 1}\n\ndata: {\"n\": 3}\n\n"}, 8,
			"n: want 2, got 3"},
		{"too few", head + "<-- event\n{ \"n\": 2 }\n", []string{"data: {\"n\": 1}\n\n"}, 8, "no stream is open any more"},
		{"cut off", head + "<-- event\n{ \"n\": 2 }\n", []string{"data: {\"n\": 1}\n\ndata: {\"n\": 2}"}, 8,
			"no stream is open any more"},
		{"too many", head + "<-- end\n", []string{"data: {\"n\": 1}\n\ndata: {\"n\": 3}\n\n"}, 8,
			`want the end of the stream, got {"n": 3}`},
		{"empty", head, nil, 6, "the stream ended before its first message"},
		{"silent", head + "<-- event\n{}\n", []string{"data: {\"n\": 1}\n\n", "open"}, 8, "nothing came for 300ms"},
		{"silent from the beginning", head, []string{"open"}, 6, "nothing came for 300ms"},
		{"flooding", head, []string{"data: " + strings.Repeat("x", maxMessage) + "\n\n"}, 6,
			"an event is larger than 16777216 bytes"},
		{"flooding with nothing", head, []string{strings.Repeat(": x\n", maxMessage/4+1) + "\n"}, 6,
			"an event is larger than 16777216 bytes"},
	} {
		_, err := play(t, c.steps, stepTimeFor(c.reason), func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			serveEvents(w, r, c.events...)
		})
		if c.reason != "" {
			wantFailure(t, err, c.line, c.reason)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err := play(t, "--- drop\n", Player{}, nil)
	wantFailure(t, err, 4, "no stream is open")
}

// The question comes on the stream of one request, the answer goes with another, and the result comes on the first.
func TestAnswersReachTheOpenStream(t *testing.T) {
	answered, dropped := make(chan struct{}), make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "answer 7") {
			w.WriteHeader(202)
			close(answered)
			return
		}
		w.Header().Set("Mcp-Session-Id", "s1")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"id\": 7}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-answered:
			io.WriteString(w, "data: {\"done\": true}\n\n")
		case <-r.Context().Done():
			close(dropped)
		}
	}
	const ask = "--> A\n{}\n<-- 200\nMcp-Session-Id: {{session}}\n\n{ \"id\": \"{{id}}\" }\n"
	_, err := play(t, ask+"--> A\nMcp-Session-Id: {{session}}\n\n{ \"is\": \"answer {{id}}\" }\n<-- 202\n<-- event\n{ "+
		"\"done\": true }\n<-- end\n", Player{}, handler)
	if err != nil {
		t.Error(err)
	}
	answered = make(chan struct{})
	_, err = play(t, ask+"--- drop\n--> A\n{ \"is\": \"answer {{id}}\" }\n<-- 202\n<-- event\n{}\n", Player{},
		func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 2 {
				<-dropped // else this test does not end
				answered = make(chan struct{})
			}
			handler(w, r)
		})
	wantFailure(t, err, 14, "no stream is open any more")
}

func TestPlayEndsWithItsContext(t *testing.T) {
	text, err := Parse("x", []byte(script("--- wait 1m\n")))
	expect.Check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := text.Play(ctx, Player{URLs: map[string]string{"A": "http://127.0.0.1:1"}}); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

// A request has the headers of its identity, and a state is changed as its placeholder says. No report has the headers.
func TestIdentitiesAndChangedStates(t *testing.T) {
	t.Parallel()
	text, err := Parse("x", []byte("Title: T\nServer: A\n\n== P\n\n--> A\n{}\n<-- 200\n{\"state\": \"{{state}}\"}\n"+
		"--> A\nAs: second\n{ \"flipped\": \"{{state:flip 2}}\", \"cut\": \"{{state:cut 3}}\", \"set\": "+
		"\"{{state:set base64url:/a \\\"x\\\"}}\" }\n<-- 200\n{}\n"))
	expect.Check(t, err)
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Header.Get("Authorization")+" "+string(body))
		if len(got) == 1 {
			_, _ = io.WriteString(w, `{"state":"eyJhIjoxfQ"}`)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	defer web.Close()
	var told strings.Builder
	player := Player{URLs: map[string]string{"A": web.URL}, First: http.Header{"Authorization": {"token-one"}},
		Report: func(s Step) { fmt.Fprintf(&told, "%+v", s) }}
	expect.Fails(t, "without a second identity", text.Play(t.Context(), player), "second identity")
	player.Second = http.Header{"Authorization": {"token-two"}}
	expect.Check(t, text.Play(t.Context(), player))
	if len(got) != 2 || !strings.HasPrefix(got[0], "token-one ") || !strings.Contains(got[1], `"cut": "eyJhIjo"`) ||
		!strings.HasPrefix(got[1], "token-two ") || !strings.Contains(got[1], `"set": "eyJhIjoieCJ9"`) ||
		strings.Contains(got[1], `"flipped": "eyJhIjoxfQ"`) {
		t.Errorf("got %q", got)
	}
	if strings.Contains(told.String(), "token-") {
		t.Errorf("a token is in the report: %s", told.String())
	}
}
