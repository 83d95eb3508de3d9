package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// telling is a server whose events are scripted.
type telling struct {
	*behind
	url string

	mu    sync.Mutex
	polls []string // the parameters
	hangs bool     // no request about events is answered
	types string   // of events/list
	page  string   // the members of the response to events/poll
}

func newTelling(t *testing.T, types string) *telling {
	s := &telling{behind: newBehind(t), types: types}
	shop := s.HTTPHandler(nil)
	web := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if _ = json.Unmarshal(body, &m); !strings.HasPrefix(m.Method, "events/") {
			r.Body = io.NopCloser(bytes.NewReader(body))
			shop.ServeHTTP(w, r)
			return
		}
		if s.hangs {
			<-r.Context().Done()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		answer := ""
		switch m.Method {
		case "events/list":
			answer = fmt.Sprintf(`"result":{"resultType":"complete","events":[%s]}`, s.types)
		case "events/poll":
			var params map[string]json.RawMessage
			_ = json.Unmarshal(m.Params, &params)
			delete(params, "_meta")
			sent, _ := json.Marshal(params)
			s.polls, answer = append(s.polls, string(sent)), s.page
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
	}))
	s.url = web.URL
	return s
}

// answers has the server answer the next polls with these members of a result, or with an error.
func (s *telling) answers(result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.page = `"result":{"resultType":"complete",` + result + `}`; strings.HasPrefix(result, `"error"`) {
		s.page = result
	}
}

func aType(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"d","delivery":["push","poll"],"inputSchema":{"type":"object"},`+
		`"payloadSchema":{"type":"object"},"_meta":{"a":1}}`, name)
}

// The events of a server behind pass under its prefix, where the operator wants that, and nothing else of it does.
func TestEventsOfServersPass(t *testing.T) {
	t.Parallel()
	many := make([]string, 300)
	for i := range many {
		many[i] = aType(fmt.Sprint("n", i))
	}
	shop := newTelling(t, strings.Join(append([]string{aType("order.shipped"), aType("call.ended"),
		aType("question.asked"), `7`, `{"name":"x"}`, aType(""), aType(strings.Repeat("x", 300)),
		`{"name":"pushed","delivery":["push"],"inputSchema":{},"payloadSchema":{}}`,
		`{"name":"odd","delivery":["poll"],"inputSchema":[],"payloadSchema":{}}`}, many...), ","))
	mail := newTelling(t, aType("mail.arrived"))
	front := newFront(t, shop.url, byHeader, func(o *bridge.Options) {
		o.Server.Events = &askback.EventOptions{Webhooks: new(askback.WebhookOptions)}
		other := o.Servers[0]
		other.Identity, other.Prefix = "mail", "mail"
		other.Connect = func() (mcp.Transport, error) { return &mcp.StreamableClientTransport{Endpoint: mail.url}, nil }
		o.Servers[0].Prefix, o.Servers[0].Events = "shop", true
		o.Servers = append(o.Servers, other)
	})
	ada := as(t, front, "ada", client.Options{})
	var names []string
	for raw := range expect.Each(t, ada.List(t.Context(), "events/list")) {
		var of struct {
			Name     string
			Delivery []string
			Meta     json.RawMessage `json:"_meta"`
		}
		_ = json.Unmarshal(raw, &of)
		if names = append(names, of.Name); strings.HasPrefix(of.Name, "shop") &&
			(!slices.Equal(of.Delivery, []string{"poll"}) || of.Meta != nil) {
			t.Errorf("a type is passed on as %s", raw)
		}
	}
	if len(names) != 3+100 || !slices.Equal(names[:5],
		[]string{"question.asked", "question.decided", "call.ended", "shop_order.shipped", "shop_n0"}) {
		t.Errorf("%d types are listed: %.100q", len(names), names)
	}

	shop.answers(`"events":[{"eventId":"e1","name":"order.shipped","timestamp":"2026-11-28T10:00:00Z","data":{"n":1},
		"_meta":{"a":1}}],"cursor":"theirs","truncated":true,"hasMore":false,"nextPollMs":7000`)
	for _, s := range []*client.Session{ada, as(t, front, "bob", client.Options{})} {
		page, err := s.PollEvents(t.Context(), &client.EventPoll{Name: "shop_order.shipped", Cursor: "before", MaxEvents: 5,
			Arguments: map[string]any{"n": json.Number("12345678901234567890")}, MaxAge: time.Minute})
		if err != nil || len(page.Events) != 1 || page.Cursor != "theirs" || !page.Truncated || page.More ||
			page.NextPoll != 7*time.Second {
			t.Fatalf("%+v, %v", page, err)
		}
		if e := page.Events[0]; e.ID != "e1" || e.Name != "shop_order.shipped" || string(e.Data) != `{"n":1}` {
			t.Errorf("%+v", e)
		}
	}
	const want = `{"arguments":{"n":12345678901234567890},"cursor":"before","maxAgeMs":60000,"maxEvents":5,` +
		`"name":"order.shipped"}`
	if len(shop.polls) != 2 || shop.polls[0] != want {
		t.Errorf("the server was sent %q, want %s", shop.polls, want)
	}
	if _, err := ada.PollEvents(t.Context(), &client.EventPoll{Name: "shop_order.shipped", MaxEvents: -1}); err == nil ||
		!strings.Contains(err.Error(), "invalid params") {
		t.Errorf("a negative number of events: %v", err)
	}
	poll := func(name string) int64 {
		_, err := ada.PollEvents(t.Context(), &client.EventPoll{Name: name})
		if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return fault.Code
		}
		return 0
	}
	for _, name := range []string{"shop_call.ended", "mail_mail.arrived", "mail.arrived", "order.shipped", "shop_"} {
		expect.Equal(t, name, poll(name), -32023)
	}
	if len(shop.polls) != 2 || len(mail.polls) != 0 {
		t.Errorf("the servers were asked %q and %q", shop.polls, mail.polls)
	}
	for answer, code := range map[string]int64{
		`"error":{"code":-32602,"message":"no such filter"}`: -32602, `"error":{"code":-32024,"message":"no"}`: -32024,
		`"error":{"code":-32023,"message":"gone"}`: -32023, `"error":{"code":-32042,"message":"log in"}`: -32603,
		`"events":[{"eventId":"e","name":"another"}],"cursor":"c"`: -32603, `"events":7`: -32603,
	} {
		if shop.answers(answer); poll("shop_order.shipped") != code {
			t.Errorf("%s becomes %d, want %d", answer, poll("shop_order.shipped"), code)
		}
	}
	// What is passed on is only polled.
	for name, want := range map[string]int64{"shop_order.shipped": -32026, "shop_call.ended": -32023} {
		_, subscribed := ada.Subscribe(t.Context(), &client.EventSubscription{Name: name, URL: "https://a.example/",
			Secret: client.NewEventSecret()})
		for _, streamed := range ada.StreamEvents(t.Context(), client.EventPoll{Name: name}) {
			for _, err := range []error{subscribed, streamed} {
				if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != want {
					t.Errorf("%s cannot be subscribed to or streamed: %v, want %d", name, err, want)
				}
			}
		}
	}
	// A type without replay has no cursor.
	shop.answers(`"events":[],"cursor":null`)
	expect.Equal(t, "the result",
		expect.Must(ada.PollEvents(t.Context(), &client.EventPoll{Name: "shop_order.shipped"}))(t).Cursor, "")
	_, err := bridge.New(&bridge.Options{Implementation: &mcp.Implementation{Name: "b", Version: "1"},
		Server: frontOptions(t, shop.url).Server, Servers: []bridge.Server{{Identity: "x", Events: true}}})
	expect.Fails(t, "without events of the bridge", err, "needs the Events of Options.Server")
}

// Hosts are told when a server behind has other types, and not when its lists are the same.
func TestTheTypesOfAServerChange(t *testing.T) {
	t.Parallel()
	shop := newTelling(t, aType("order.shipped"))
	front := newFront(t, shop.url, func(o *bridge.Options) {
		o.Server.Events, o.Servers[0].Events = new(askback.EventOptions), true
	})
	body := harness.Modern(1, "subscriptions/listen", `"notifications":{"eventsListChanged":true,"toolsListChanged":true}`)
	req := expect.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, front.url, strings.NewReader(body)))(t)
	for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Method": "subscriptions/listen",
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28"} {
		req.Header.Set(name, value)
	}
	res := expect.Must(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	stream := harness.NewConversation(t)
	go stream.Scan(res.Body, "data: ")
	stream.Until(harness.Notification("notifications/subscriptions/acknowledged", ""))
	same := aType("order.shipped")
	for i, types := range []string{same, same, same + "," + aType("order.lost"), ""} {
		shop.mu.Lock()
		shop.types = types
		shop.mu.Unlock()
		askback.AddTool(shop.Server, &mcp.Tool{Name: fmt.Sprint("more", i)}, // of which the bridge hears
			func(context.Context, *askback.Call, struct{}) (string, error) { return "", nil })
		stream.Until(harness.Notification("notifications/tools/list_changed", ""))
		if types != same {
			stream.Until(harness.Notification("notifications/events/list_changed", ""))
		}
		for _, m := range stream.Kept {
			if m["method"] == "notifications/events/list_changed" {
				t.Errorf("with the types %s: %v", types, m)
			}
		}
	}
}

// A server that does not answer keeps nobody from the events of another one, wherever it stands.
func TestAServerThatHangsHidesNoEventsOfOthers(t *testing.T) {
	t.Parallel()
	shop, mail := newTelling(t, ""), newTelling(t, aType("mail.arrived"))
	shop.hangs = true
	mail.answers(`"events":[],"cursor":"c"`)
	front := newFront(t, shop.url, func(o *bridge.Options) {
		o.Server.Events = new(askback.EventOptions)
		other := o.Servers[0]
		other.Identity, other.Prefix, other.Events = "mail", "mail", true
		other.Connect = func() (mcp.Transport, error) { return &mcp.StreamableClientTransport{Endpoint: mail.url}, nil }
		o.Servers[0].Events = true // without a prefix: each name could be one of its own
		o.Servers = append(o.Servers, other)
	})
	s := host(t, front.url, "", client.Options{})
	var names []string
	for raw := range expect.Each(t, s.List(t.Context(), "events/list")) {
		var of struct{ Name string }
		_ = json.Unmarshal(raw, &of)
		names = append(names, of.Name)
	}
	if !slices.Contains(names, "mail_mail.arrived") {
		t.Errorf("the types are %q", names)
	}
	expect.Equal(t, "the result",
		expect.Must(s.PollEvents(t.Context(), &client.EventPoll{Name: "mail_mail.arrived"}))(t).Cursor, "c")
}
