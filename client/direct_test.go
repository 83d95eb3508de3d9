package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Only requests of calls and those about tasks go past the SDK's client, and only to servers of 2026-07-28 over HTTP.
// The SDK numbers its requests, and the others have texts as IDs.
func TestWhichWayARequestGoes(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		over    func(*mcp.StreamableClientTransport) mcp.Transport
		direct  bool
	}{
		"http":            {"", func(t *mcp.StreamableClientTransport) mcp.Transport { return t }, true},
		"http, a session": {"2025-11-25", func(t *mcp.StreamableClientTransport) mcp.Transport { return t }, false},
		"http under a log": {"", func(t *mcp.StreamableClientTransport) mcp.Transport {
			return &mcp.LoggingTransport{Transport: t, Writer: io.Discard}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			direct := make(map[string]bool)
			session := connect(t, client.Options{Tasks: client.TasksProposal},
				c.over(wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
					mu.Lock()
					direct[m.Method] = strings.HasPrefix(string(m.ID), `"`)
					mu.Unlock()
					switch m.Method {
					case "tools/list":
						respond(w, m, `{"tools":[],"ttlMs":0,"cacheScope":"private"}`)
					case "":
						w.WriteHeader(http.StatusMethodNotAllowed)
					default:
						respond(w, m, `{"resultType":"complete","content":[],"contents":[],"messages":[],"tasks":[],"taskId":"t",`+
							`"status":"working","ttlMs":0,"cacheScope":"private"}`)
					}
				})), c.version)
			_, err1 := called(t, session, "t")
			_, err2 := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"})
			_, err3 := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a"})
			_, _, err4 := session.ListTasks(t.Context(), "")
			_, err5 := session.SDK().ListTools(t.Context(), nil)
			expect.Check(t, errors.Join(err1, err2, err3, err4, err5))
			mu.Lock()
			defer mu.Unlock()
			for _, method := range []string{"tools/call", "prompts/get", "resources/read", "tasks/list"} {
				if got, sent := direct[method]; got != c.direct || !sent {
					t.Errorf("%s past the SDK: %v, want %v", method, got, c.direct)
				}
			}
			if direct["tools/list"] {
				t.Error("a list went past the SDK")
			}
		})
	}
}

// What a request says about its client is the same on both ways, except for the ID.
func TestRequestsAreTheSameOnBothWays(t *testing.T) {
	opts := answers()
	opts.Implementation = &mcp.Implementation{Name: "me", Version: "7", Title: "Me & you"}
	opts.SampleTools = true
	var bodies [2]string
	for i, logged := range []bool{false, true} {
		web := wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
			data, err := json.Marshal(m.Params)
			if err != nil {
				t.Error(err)
			}
			bodies[i] += string(data) + "\n"
			respond(w, m, `{"resultType":"complete","content":[],"messages":[],"contents":[],"ttlMs":0,"cacheScope":"private"}`)
		})
		var transport mcp.Transport = web
		if logged {
			transport = &mcp.LoggingTransport{Transport: web, Writer: io.Discard}
		}
		session := connect(t, opts, transport, "")
		meta := mcp.Meta{"progressToken": "p", "x": map[string]any{"y": 1}}
		_, err1 := session.CallTool(t.Context(),
			&mcp.CallToolParams{Name: "t", Arguments: map[string]any{"a": json.Number("12345678901234567890"), "b": "<é>"},
				Meta: meta})
		_, err2 := called(t, session, "t")
		_, err3 := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p", Arguments: map[string]string{"a": "b"}})
		_, err4 := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a", Meta: meta})
		expect.Check(t, errors.Join(err1, err2, err3, err4))
	}
	expect.Equal(t, "the body past the SDK, and through it", bodies[0], bodies[1])
}

// streaming answers every call with notifications, and then with a result.
func streaming(t *testing.T, notifications ...string) *mcp.StreamableClientTransport {
	return wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, n := range notifications {
			fmt.Fprintf(w, "data: %s\n\n", n)
		}
		respondOn(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	})
}

func progress(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}`,
		n)
}

// Notifications reach the handlers of the SDK in their order, and those that cannot be read are ignored.
func TestNotificationsOfACall(t *testing.T) {
	got := make(chan string, 10)
	opts := client.Options{SDK: mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			if req.Session == nil {
				t.Error("no session")
			}
			got <- fmt.Sprint(req.Params.ProgressToken, req.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
			got <- fmt.Sprint(req.Params.Data)
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { got <- "tools" },
	}}
	session := connect(t, opts, streaming(t, progress(1), `{"jsonrpc":"2.0","method":"notifications/message",`+
		`"params":{"level":"info","data":"hi"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"much"}}`,
		`{"jsonrpc":"2.0","method":"notifications/other"}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, progress(2)), "")
	ends(t, session)
	var seen []string
	soon(t, "the delivery", func() {
		for len(seen) < 4 {
			seen = append(seen, <-got)
		}
	})
	expect.Same(t, "seen", seen, []string{"p1", "hi", "tools", "p2"})
}

// A handler that waits for its own call does not hold it up, and handlers do not overlap.
func TestAHandlerOfNotificationsMayWait(t *testing.T) {
	release, over := make(chan struct{}), make(chan struct{})
	running, handled := make(chan struct{}, 1), 0
	opts := client.Options{
		SDK: mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			select {
			case running <- struct{}{}:
			default:
				t.Error("two handlers run at once")
			}
			<-release
			<-running
			if handled++; handled == 6 {
				close(over)
			}
		}}}
	session := connect(t, opts, streaming(t, progress(1), progress(2), progress(3)), "")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := called(t, session, "t"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(release)
	soon(t, "the delivery", func() { <-over })
}

// The notifications that wait for a handler are bounded.
func TestNotificationsAreBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	opts := client.Options{
		SDK: mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			<-release
		}}}
	large := strings.Replace(progress(1), "}}", `,"message":"`+strings.Repeat("x", 1<<20)+`"}}`, 1)
	session := connect(t, opts, streaming(t, slices.Repeat([]string{large}, 20)...), "")
	if _, err := called(t, session, "t"); !isLimit("bytes of notifications at once")(
		err) {
		t.Errorf("got %v", err)
	}
}

// A resource that the server reports as changed is read again, and one whose time is over.
func TestResourcesInTheCacheChange(t *testing.T) {
	var mu sync.Mutex
	reads := make(map[string]int)
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		if m.Method == "resources/read" {
			mu.Lock()
			reads[string(m.Params["uri"])]++
			mu.Unlock()
			ttl := 60000
			if string(m.Params["uri"]) == `"doc://brief"` {
				ttl = 1
			}
			respond(w, m,
				fmt.Sprintf(`{"resultType":"complete","ttlMs":%d,"cacheScope":"private","contents":[{"uri":"doc://a","text":"a"}]}`,
					ttl))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w,
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"doc://a\"}}\n\n"+
				"data: ")
		respond(w, m, `{"resultType":"complete","content":[]}`)
		fmt.Fprint(w, "\n\n")
	}), "")
	read := func(uri string) int {
		res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || res.Contents[0].Text != "a" {
			t.Fatalf("got %v, %v", res, err)
		}
		res.Contents[0].Text = "the caller's own"
		mu.Lock()
		defer mu.Unlock()
		return reads[fmt.Sprintf("%q", uri)]
	}
	for range 2 {
		expect.Equal(t, "read times", read("doc://a"), 1)
	}
	expect.Must(called(t, session, "touch"))(t)
	soon(t, "the old result", func() {
		for read("doc://a") == 1 {
			time.Sleep(time.Millisecond)
		}
	})
	read("doc://brief")
	soon(t, "the brief result", func() {
		for read("doc://brief") == 1 {
			time.Sleep(time.Millisecond)
		}
	})
}

// A call that fails tells its host why, and the session goes on.
func TestACallThatFails(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	transport := wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		if broken.Swap(false) {
			panic(http.ErrAbortHandler)
		}
		respond(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	})
	session := connect(t, client.Options{}, transport, "")
	_, err := called(t, session, "t")
	if !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), `calling "tools/call"`) {
		t.Errorf("got %v", err)
	}
	ends(t, session)
}

// Arguments go into the headers that the list of tools names.
func TestHeadersOfAListedTool(t *testing.T) {
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"n":{"type":"integer","x-mcp-header":"N"},` +
		`"deep":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"On"}}},"absent":{"type":"string",` +
		`"x-mcp-header":"Absent"}}}`
	var header http.Header
	session := connect(t, client.Options{}, wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		if m.Method == "tools/list" {
			respond(w, m,
				`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":`+schema+`},`+
					`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"no header"}}}}]}`)
			return
		}
		header = r.Header
		respond(w, m, `{"resultType":"complete","content":[]}`)
	}), "")
	expect.Must(session.SDK().ListTools(t.Context(), nil))(t)
	args := map[string]any{"region": "Tromsø", "n": json.RawMessage(`42.0`), "deep": map[string]any{"on": true},
		"absent": nil}
	expect.Must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: args}))(t)
	for name, want := range map[string]string{"Mcp-Param-Region": "=?base64?VHJvbXPDuA==?=", "Mcp-Param-N": "42",
		"Mcp-Param-On": "true", "Mcp-Param-Absent": ""} {
		expect.Equal(t, name, header.Get(name), want)
	}
	// The definition is not valid, and the list that the host gets is without the tool.
	if _, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "bad", Arguments: map[string]any{"a": "b"}}); err != nil {
		t.Error(err)
	}
}

// What a caller puts into the Meta of a request does not change the version that the request is of: it is the header's.
func TestTheVersionInTheMetaIsTheHeaders(t *testing.T) {
	var s script
	session := connect(t, answers(), s.serve(t, done), "")
	params := &mcp.CallToolParams{Name: "t",
		Meta: mcp.Meta{mcp.MetaKeyProtocolVersion: "2025-11-25", "com.example/own": "kept"}}
	expect.Must(session.CallTool(t.Context(), params))(t)
	var meta map[string]any
	for _, m := range s.all() {
		if m.Method == "tools/call" {
			expect.Check(t, json.Unmarshal(m.Params["_meta"], &meta))
		}
	}
	if meta[mcp.MetaKeyProtocolVersion] != "2026-07-28" || meta["com.example/own"] != "kept" {
		t.Errorf("sent the Meta %v", meta)
	}
}
