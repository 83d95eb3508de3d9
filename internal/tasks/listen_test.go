package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// retype adds a type of events, or replaces it.
func retype[Payload any](srv *askback.Server, name, description string) {
	askback.AddEvent(srv, &askback.EventType{Name: name, Description: description},
		func(context.Context, string, struct{}, Payload) (bool, error) { return true, nil })
}

// A client that subscribes to it is told when the list of types has changed, whatever else it has subscribed to, and
// however its request comes.
func TestTheTypesOfEventsChange(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(*mcp.Server, *askback.Server){
		"past the SDK":       func(*mcp.Server, *askback.Server) {},
		"through middleware": func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(harness.PassOn) },
		"through the SDK":    func(m *mcp.Server, _ *askback.Server) { m.AddReceivingMiddleware(harness.PassOn) },
	} {
		for _, also := range []string{``, `,"taskIds":["ID","none"]`, `,"toolsListChanged":true`,
			`,"taskIds":[],"toolsListChanged":true,"promptsListChanged":true`} {
			for _, pipe := range []bool{false, true} {
				t.Run(fmt.Sprint(name, also, ", over a pipe: ", pipe), func(t *testing.T) {
					harness.Bubble(t, func(t *testing.T) { typesChange(t, pass, also, pipe) })
				})
			}
		}
	}
}

func typesChange(t *testing.T, pass func(*mcp.Server, *askback.Server), also string, pipe bool) {
	t.Cleanup(func() { time.Sleep(31 * time.Minute) })
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv := harness.NewServerOn(t, m, withEvents(), harness.AddEcho)
	pass(m, srv)
	harness.RunTasks(t, srv)
	ask := harness.Fronts[0].Dial(t, srv, nil)
	id, _ := harness.At(ask("tools/call", `"name":"echo"`), "result", "taskId").(string)
	also = strings.Replace(also, "ID", id, 1)

	s := openFor(t, srv, pipe, nil, "subscriptions/listen", `"notifications":{"eventsListChanged":true`+also+`}`)
	ack := s.Until(harness.Notification("notifications/subscriptions/acknowledged", ""))
	agreed, _ := harness.At(ack, "params", "notifications").(map[string]any)
	tools, tasks := strings.Contains(also, "tools"), strings.Contains(also, "taskIds")
	if agreed["eventsListChanged"] != true || (agreed["toolsListChanged"] == true) != tools ||
		(agreed["taskIds"] != nil) != tasks || agreed["promptsListChanged"] != nil ||
		harness.At(ack, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != float64(streamID) {
		t.Errorf("acknowledged %v", ack)
	}
	told := func(method string) map[string]any {
		t.Helper()
		m := s.Until("notification", func(map[string]any) bool { return true })
		if m["method"] != "notifications/"+method ||
			harness.At(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != float64(streamID) {
			t.Fatalf("there came %v, want %s", m, method)
		}
		return m
	}
	quiet := func() {
		t.Helper()
		if synctest.Wait(); len(s.Read) > 0 {
			t.Errorf("there comes %v", <-s.Read)
		}
	}
	if strings.Contains(also, "none") {
		told("tasks")
		ask("tasks/cancel", `"taskId":"`+id+`"`)
		for told("tasks")["params"].(map[string]any)["status"] != "cancelled" {
		}
	}
	for _, change := range []func(){
		func() { retype[incident](srv, "incident.created", "An incident.") },
		func() { retype[incident](srv, "incident.ended", "An incident.") },
		func() { retype[incident](srv, "incident.ended", "An incident has ended.") },
		func() { retype[incidents](srv, "incident.ended", "An incident has ended.") },
	} {
		change()
		told("events/list_changed")
		change() // the types stay the same
		quiet()
	}
	if tools {
		harness.AddText("another", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })(srv)
		told("tools/list_changed")
	}
	s.abort()
	synctest.Wait()
	if pipe {
		for synctest.Wait(); len(s.Read) > 0; { // the SDK ends its part with a result
			<-s.Read
		}
		retype[incident](srv, "incident.late", "")
		quiet()
		return
	}
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Error("the subscription does not end")
	}
}

// A filter that this server does not agree to is not acknowledged, and the subscription ends at once.
func TestWhoIsNotToldOfTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter, agreed string
		without        bool // events
		code           any
	}{
		"who does not want it":    {filter: `"eventsListChanged":false`, agreed: "map[]"},
		"who says null":           {filter: `"eventsListChanged":null`, agreed: "map[]"},
		"a client without events": {filter: `"eventsListChanged":true`, agreed: "map[]", without: true},
		"a client that follows a task": {filter: `"eventsListChanged":true,"taskIds":[]`, agreed: "map[taskIds:[]]",
			without: true},
		"no boolean": {filter: `"eventsListChanged":"yes"`, code: -32602.0},
	} {
		for _, pipe := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", over a pipe: ", pipe), func(t *testing.T) {
				t.Parallel()
				opts := withEvents()
				if c.without {
					opts.Events = nil
				}
				s := openFor(t, harness.NewServer(t, opts), pipe, nil, "subscriptions/listen", `"notifications":{`+c.filter+`}`)
				if c.code == nil {
					ack := s.Until(harness.Notification("notifications/subscriptions/acknowledged", ""))
					if got := harness.At(ack, "params", "notifications"); fmt.Sprint(got) != c.agreed {
						t.Errorf("acknowledged %v", ack)
					}
				}
				if end := s.Response(streamID); harness.At(end, "error", "code") != c.code ||
					(harness.At(end, "result", "resultType") == "complete") != (c.code == nil) {
					t.Errorf("ends with %v", end)
				}
			})
		}
	}
}

// The sessions before 2026-07-28 have no events.
func TestASessionIsNotToldOfTypes(t *testing.T) {
	t.Parallel()
	srv := harness.NewServer(t, withEvents())
	c := harness.Pipe(t, srv)
	c.Open(harness.Initialize)
	c.Call(2, "subscriptions/listen", `"notifications":{"eventsListChanged":true}`, "")
	retype[incident](srv, "incident.created", "")
	c.Call(3, "tools/list", "", "")
	for _, m := range c.Kept {
		if m["method"] == "notifications/events/list_changed" ||
			harness.At(m, "params", "notifications", "eventsListChanged") != nil {
			t.Errorf("a session is told %v", m)
		}
	}
}

// A connection in memory is told, too.
func TestTheTypesOfEventsChangeInMemory(t *testing.T) {
	t.Parallel()
	srv := harness.NewServer(t, withEvents())
	here, there := mcp.NewInMemoryTransports()
	expect.Must(srv.Connect(t.Context(), there, nil))(t)
	conn := expect.Must(here.Connect(t.Context()))(t)
	defer conn.Close()
	request := expect.Must(jsonrpc.DecodeMessage([]byte(harness.Modern(1, "subscriptions/listen",
		`"notifications":{"eventsListChanged":true}`))))(t)
	expect.Check(t, conn.Write(t.Context(), request))
	for _, want := range []string{"notifications/subscriptions/acknowledged", "notifications/events/list_changed"} {
		msg := expect.Must(conn.Read(t.Context()))(t)
		if got, ok := msg.(*jsonrpc.Request); !ok || got.Method != want {
			t.Fatalf("there came %v, want %s", msg, want)
		}
		retype[incident](srv, "incident.created", "")
	}
}

// What changes while a client does not read is told once.
func TestASlowReaderOfTypes(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv := harness.NewServer(t, withEvents())
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(harness.Modern(1,
			"subscriptions/listen", `"notifications":{"eventsListChanged":true}`)))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
			r.Header.Set(name, value)
		}
		var serving sync.WaitGroup
		serving.Go(func() { srv.HTTPHandler(nil).ServeHTTP(&streamWriter{make(http.Header), out}, r); out.Close() })
		synctest.Wait()
		for i := range 100 {
			retype[incident](srv, fmt.Sprint("incident.", i), "")
			synctest.Wait()
		}
		c := harness.NewConversation(t)
		serving.Go(func() { c.Scan(in, "data: ") })
		synctest.Wait()
		var came []string
		for len(c.Read) > 0 {
			method, err := json.Marshal((<-c.Read)["method"])
			came = append(came, string(method))
			if err != nil {
				t.Error(err)
			}
		}
		expect.Equal(t, "there came", strings.Join(came, " "),
			`"notifications/subscriptions/acknowledged" "notifications/events/list_changed"`)
		cancel()
		serving.Wait()
	})
}
