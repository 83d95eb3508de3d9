package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A poll sends what its type has, and reads a page. What a server must not send is an error.
func TestPollEvents(t *testing.T) {
	response := ""
	srv := serveTasks(t, map[string]func(int, message) string{
		"events/poll": func(int, message) string { return response },
		"events/list": func(int, message) string {
			return `{"resultType":"complete","events":[{"name":"call.ended","delivery":["poll"]},7,{"name":"other"}]}`
		},
	})
	session := connect(t, patient(), srv.transport(), "")
	poll := func(with string) (*client.EventPage, error) {
		response = `{"resultType":"complete",` + with + `}`
		return session.PollEvents(t.Context(), &client.EventPoll{Name: "call.ended", Cursor: "c1", MaxEvents: 7,
			Arguments: map[string]any{"tool": "deploy"}})
	}
	page, err := poll(`"events":[{"eventId":"e","name":"call.ended","timestamp":"2026-11-28T10:00:00.5Z","data":{"a":1},
		"new":1}],"cursor":"c2","truncated":true,"hasMore":true,"nextPollMs":90000`)
	if err != nil || page.Cursor != "c2" || !page.Truncated || !page.More || page.NextPoll != 0 || len(page.Events) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if e := page.Events[0]; e.ID != "e" || e.Name != "call.ended" || string(e.Data) != `{"a":1}` ||
		e.Timestamp.UnixMilli() != 1795860000500 {
		t.Errorf("%+v", e)
	}
	sent, headers := srv.sent("events/poll")
	const want = `{"arguments":{"tool":"deploy"},"cursor":"c1","maxEvents":7,"name":"call.ended"}`
	if sent[0] != want || headers[0].Get("Mcp-Name") != "call.ended" {
		t.Errorf("sent %s with the name %q, want %s", sent[0], headers[0].Get("Mcp-Name"), want)
	}
	for next, wants := range map[string]time.Duration{`5000`: 5 * time.Second, `1`: time.Second, `-5`: time.Second,
		`"x"`: time.Second} {
		page, err := poll(`"events":[],"cursor":"c2","nextPollMs":` + next)
		if err != nil || page.NextPoll != wants || page.More || page.Truncated {
			t.Errorf("nextPollMs %s: %+v, %v", next, page, err)
		}
	}
	if page, err := poll(`"events":[],"cursor":"c2","hasMore":true,"nextPollMs":0`); err != nil || !page.More ||
		page.NextPoll != time.Second {
		t.Errorf("an empty page with more behind it: %+v, %v", page, err)
	}
	for _, bad := range []string{
		`"cursor":"c2"`, `"events":{},"cursor":"c2"`, `"events":[],"cursor":"c1","hasMore":true`,
		`"events":[],"hasMore":true`, `"events":[{"name":"call.ended"}],"cursor":"c2"`,
		`"events":[{"eventId":"e","name":"question.asked"}],"cursor":"c2"`, `"events":[7],"cursor":"c2"`,
		`"events":[{"eventId":"` + strings.Repeat("e", 5000) + `","name":"call.ended"}],"cursor":"c2"`,
		`"events":[],"cursor":"` + strings.Repeat("c", 70_000) + `"`,
	} {
		if page, err := poll(bad); err == nil {
			t.Errorf("%.100s is read as %+v", bad, page)
		}
	}
	var names []string
	for item := range expect.Each(t, session.List(t.Context(), "events/list")) {
		var of struct{ Name string }
		_ = json.Unmarshal(item, &of)
		names = append(names, of.Name)
	}
	expect.Equal(t, "the types", fmt.Sprint(names), "[call.ended other]")
}

// Pages follow each other from cursor to cursor, until one cannot be read or nobody wants another.
func TestEventPages(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{"events/poll": func(n int, _ message) string {
		if n == 3 {
			return `error {"code":-32603,"message":"away"}`
		}
		return fmt.Sprintf(`{"events":[{"eventId":"e%d","name":"call.ended","data":{}}],"cursor":"c%d","hasMore":true}`, n, n)
	}})
	session := connect(t, patient(), srv.transport(), "")
	var seen []string
	for page, err := range session.EventPages(t.Context(), client.EventPoll{Name: "call.ended", Cursor: "c0"}) {
		if err != nil {
			seen = append(seen, err.Error())
			continue
		}
		seen = append(seen, page.Events[0].ID, page.Cursor)
	}
	if got := strings.Join(seen, " "); !strings.HasPrefix(got, "e1 c1 e2 c2 ") || !strings.HasSuffix(got, "away") {
		t.Errorf("seen: %s", got)
	}
	sent, _ := srv.sent("events/poll")
	for i, request := range sent {
		expect.Equal(t, "sent", request, fmt.Sprintf(`{"cursor":"c%d","name":"call.ended"}`, i))
	}
	srv = serveTasks(t, map[string]func(int, message) string{
		"events/poll": func(int, message) string { return `{"events":[],"cursor":"c","nextPollMs":3600000}` }})
	session = connect(t, patient(), srv.transport(), "")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	enough := errors.New("enough")
	for page, err := range session.EventPages(ctx, client.EventPoll{Name: "call.ended"}) {
		if page != nil {
			stop(enough)
		} else if !errors.Is(err, enough) {
			t.Error(err)
		}
	}
	for range session.EventPages(t.Context(), client.EventPoll{Name: "call.ended"}) {
		break
	}
}
