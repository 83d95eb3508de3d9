package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// streams is a scripted server of streams in a bubble. Each of them has the notifications of one of its lines, with a
// space between them, and then breaks off, unless the line ends with something else.
type streams struct {
	lines []string
	sent  []string // the cursors of the requests, and after how long each one came
	began time.Time
}

// notification returns what a word of a line stands for.
func notification(word string) string {
	name, rest, _ := strings.Cut(word, ":")
	params := ""
	switch name {
	case "gap":
		name, params = "active", `"truncated":true,`
	case "event":
		params = `"eventId":"` + rest + `","name":"call.ended","timestamp":"2026-11-28T10:00:00Z","data":{"a":1},`
	case "other":
		name, params = "event", `"eventId":"`+rest+`","name":"other",`
	case "error", "terminated":
		params = `"error":{"code":-32024,"message":"no"},`
	case "large":
		name, params = "event", `"eventId":"`+rest+`","name":"call.ended","data":"`+strings.Repeat("x", 3<<20)+`",`
	}
	return `{"jsonrpc":"2.0","method":"notifications/events/` + name + `","params":{` + params + `"cursor":"` + rest +
		`","_meta":{"io.modelcontextprotocol/subscriptionId":"a1"}}}`
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m message
	_ = json.NewDecoder(r.Body).Decode(&m)
	if m.Method == "server/discover" {
		w.Header().Set("Content-Type", "application/json")
		respond(w, m, discovered)
		return
	}
	cursor := strings.Trim(string(m.Params["cursor"]), `"`)
	if age := m.Params["maxAgeMs"]; age != nil {
		cursor += "/" + string(age)
	}
	s.sent = append(s.sent, fmt.Sprintf("%s@%v", cursor, time.Since(s.began).Round(time.Second)))
	if len(s.lines) == 0 {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	w.Header().Set("Content-Type", "text/event-stream")
	for word := range strings.FieldsSeq(line) {
		switch word {
		case "503":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case "refused":
			fmt.Fprintf(w, "data: %s\n\n", `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"error":{"code":-32024,"message":"no"}}`)
			return
		case "end":
			respondOn(w, m, `{"resultType":"complete"}`)
			return
		case "silence":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		case "minute":
			w.(http.Flusher).Flush()
			time.Sleep(time.Minute)
		default:
			fmt.Fprintf(w, "data: %s\n\n", notification(word))
		}
	}
}

// dial returns a session with a server in memory.
func dialStreams(t *testing.T, h http.Handler) *client.Session {
	t.Helper()
	network := new(sim.Network)
	part := sim.New(1, time.Second, nil).Part("server", nil)
	network.Listen("server", &sim.Listener{Part: part, Handler: h, Life: context.Background()})
	link := &sim.Link{Network: network, From: part, Calm: "server"}
	return connect(t, client.Options{}, &mcp.StreamableClientTransport{Endpoint: "http://server/mcp",
		HTTPClient: &http.Client{Transport: link}}, "")
}

// A stream is opened again from where it came to, as often as it breaks off, and not in haste. It ends with the
// subscription, and with what its server must not send.
func TestStreamEvents(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		seen  string // events and gaps, and the error at the end
		sent  string
	}{
		"to its end": {[]string{"active:1 event:2 heartbeat:3 event:4 terminated:"}, "2 4 ended -32024", "c0@0s"},
		"it breaks off": {[]string{"active:1 event:2", "active:2 heartbeat:3", "503", "active:3 event:4 end",
			"gap:9 error: event:10 terminated:"}, "2 4 gap 10 ended -32024",
			"c0@0s 2@1s 3@3s 3@7s 4@15s"},
		"it falls silent": {[]string{"active:1 silence", "active:1 minute heartbeat:2 minute event:3 silence",
			"active:3 terminated:"}, "3 ended -32024", "c0@0s 1@1m6s 3@4m12s"},
		"it was refused":              {[]string{"refused"}, "-32024", "c0@0s"},
		"its server was never there":  {[]string{"503"}, "status", "c0@0s"},
		"it is refused later":         {[]string{"active:1", "refused"}, "-32024", "c0@0s 1@1s"},
		"access is refused later":     {[]string{"active:1"}, "status", "c0@0s 1@1s"},
		"an event of another type":    {[]string{"active:1 event:2 other:3"}, "2 protocol", "c0@0s"},
		"an event without an ID":      {[]string{"active:1 event:"}, "protocol", "c0@0s"},
		"a cursor that is too long":   {[]string{"active:" + strings.Repeat("c", 70_000)}, "protocol", "c0@0s"},
		"notifications of other kind": {[]string{"active:1 news:5 error: terminated:"}, "ended -32024", "c0@0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &streams{lines: c.lines, began: time.Now()}
				session := dialStreams(t, srv)
				defer session.Close()
				var seen []string
				for page, err := range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended", Cursor: "c0"}) {
					if one := describe(page, err); one != "" {
						seen = append(seen, one)
					}
				}
				expect.Equal(t, "seen", strings.Join(seen, " "), c.seen)
				expect.Equal(t, "sent", strings.Join(srv.sent, " "), c.sent)
			})
		})
	}
}

func describe(page *client.EventPage, err error) string {
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	switch {
	case isFault && strings.HasPrefix(err.Error(), "the server has ended"):
		return fmt.Sprint("ended ", fault.Code)
	case isFault:
		return fmt.Sprint(fault.Code)
	case isProtocol(err):
		return "protocol"
	case err != nil && strings.Contains(err.Error(), "HTTP status"):
		return "status"
	case err != nil:
		return err.Error()
	case page.Truncated:
		return "gap"
	case len(page.Events) > 0:
		return page.Events[0].ID
	}
	return "" // it has only a cursor
}

// A program that is slow to take events, or leaves, holds up nobody, and is given what it missed later.
func TestASlowReaderOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := new(streams)
		session := dialStreams(t, srv)
		defer session.Close()
		var seen []string
		for word, most := range map[string]int{"large:7 ": 6, "event:7 ": 4098} {
			srv.lines = []string{"active:1 " + strings.Repeat(word, 2*most) + "event:lost", "event:8 terminated:"}
			srv.began, srv.sent, seen = time.Now(), nil, nil
			for page, err := range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended", Cursor: "c0"}) {
				if seen = append(seen, describe(page, err)); len(seen) == 1 {
					synctest.Wait() // all that is sent has come
				}
			}
			if n := len(seen); n < most || n > most+2 || slices.Contains(seen, "lost") ||
				!slices.Equal(seen[n-2:], []string{"8", "ended -32024"}) ||
				len(srv.sent) != 2 || srv.sent[1] != "7@1s" {
				t.Errorf("seen: %d, at the end %q, sent %q", n, seen[n-2:], srv.sent)
			}
		}
		srv.lines, srv.sent = []string{strings.Repeat("large:7 minute ", 8) + "terminated:"}, nil
		for range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended"}) {
		}
		expect.Equal(t, "a stream that is read was opened again", len(srv.sent), 1)
		srv.lines, seen = []string{"active:1 event:2 gap:3 heartbeat:4 terminated:"}, nil
		for page, err := range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended"}) {
			if one := describe(page, err); one != "" {
				seen = append(seen, one)
			}
			synctest.Wait()
		}
		if got := strings.Join(seen, " "); !strings.HasSuffix(got, "2 gap ended -32024") {
			t.Errorf("seen: %s", got)
		}
		srv.lines = []string{"active:1 event:2 silence", "active:1 silence"}
		for range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended"}) {
			break
		}
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		enough := errors.New("enough")
		for _, err := range session.StreamEvents(ctx, client.EventPoll{Name: "call.ended"}) {
			if stop(enough); err != nil && !errors.Is(err, enough) {
				t.Error(err)
			}
		}
	})
}

// A server that has no cursors gets none: what happened meanwhile is lost.
func TestStreamsWithoutACursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &streams{lines: []string{"active:1 event:2 heartbeat:", "active: terminated:"}, began: time.Now()}
		session := dialStreams(t, srv)
		defer session.Close()
		for range session.StreamEvents(t.Context(), client.EventPoll{Name: "call.ended", Cursor: "c0", MaxAge: time.Minute}) {
		}
		expect.Equal(t, "sent", strings.Join(srv.sent, " "), "c0/60000@0s /60000@1s")
	})
}

// A caller streams over HTTP, and over a connection of whole messages where all streams share what comes.
func TestStreamsOfAServer(t *testing.T) {
	for _, over := range []string{"HTTP", "a connection"} {
		t.Run(over, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(31 * time.Minute) })
				srv := harness.NewServer(t, &askback.Options{
					Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Events: new(askback.EventOptions),
					Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
				}, func(srv *askback.Server) {
					for _, name := range []string{"one", "two"} {
						askback.AddTaskTool(srv, &mcp.Tool{Name: name}, &askback.TaskSupport{Required: true},
							func(context.Context, *askback.Call, struct{}) (string, error) { return "done", nil })
					}
				})
				harness.RunTasks(t, srv)
				var session *client.Session
				if over == "HTTP" {
					session = dialStreams(t, srv.HTTPHandler(nil))
				} else {
					here, there := mcp.NewInMemoryTransports()
					expect.Must(srv.Connect(t.Context(), there, nil))(t)
					session = connect(t, client.Options{}, here, "")
				}
				told := make(map[string][]string)
				streaming, end := context.WithCancel(t.Context())
				var streams sync.WaitGroup
				var mu sync.Mutex
				for _, tool := range []string{"one", "two"} {
					streams.Go(func() {
						for page, err := range session.StreamEvents(streaming, client.EventPoll{Name: "call.ended",
							Arguments: map[string]any{"tool": tool}}) {
							if err != nil {
								if !errors.Is(err, context.Canceled) {
									t.Error(err)
								}
								return
							}
							for _, e := range page.Events {
								mu.Lock()
								told[tool] = append(told[tool], string(e.Data))
								mu.Unlock()
							}
						}
					})
				}
				synctest.Wait()
				for _, tool := range []string{"one", "two", "one"} {
					expect.Must(called(t, session, tool))(t)
				}
				time.Sleep(10 * time.Minute) // heartbeats keep the streams
				expect.Must(called(t, session, "two"))(t)
				synctest.Wait()
				end()
				streams.Wait()
				for _, tool := range []string{"one", "two"} {
					if got := told[tool]; len(got) != 2 || !strings.Contains(got[0], `"tool":"`+tool+`"`) {
						t.Errorf("of %s was told %q", tool, got)
					}
				}
			})
		})
	}
}
