package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

var (
	errLimit  = errors.New("limit")
	errBroken = errors.New("broken")
)

func endpoint(answer func(*http.Request) *http.Response) *Endpoint {
	return &Endpoint{
		URL:    "http://example.com/mcp",
		Client: &http.Client{Transport: roundTrip(answer)},
		Life:   context.Background(),
		Config: tap.Config{
			MessageBytes: 1 << 10, Depth: 8,
			Limit:  func(limit string, most int64) error { return fmt.Errorf("%w: %d %s", errLimit, most, limit) },
			Broken: func(reason string) error { return fmt.Errorf("%w: %s", errBroken, reason) },
		},
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if res := f(r); res != nil {
		res.Request = r
		return res, nil
	}
	return nil, io.ErrUnexpectedEOF
}

func respond(status int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

func isStatus(err error) bool {
	_, ok := errors.AsType[*tap.StatusError](err)
	_, fault := errors.AsType[*jsonrpc.Error](err)
	return ok && !fault
}

func isAway(err error) bool {
	_, ok := errors.AsType[*tap.AwayError](err)
	return ok
}

func isFault(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == -32602 && string(fault.Data) == `{"a":1}`
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func TestResponses(t *testing.T) {
	const (
		head     = `{"jsonrpc":"2.0","id":"a1",`
		done     = head + `"result":{"a":1}}`
		fault    = `"error":{"code":-32602,"message":"no","data":{"a":1}}}`
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`
		ask      = `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`
	)
	event := func(messages ...string) string {
		var s strings.Builder
		for _, m := range messages {
			s.WriteString("data: " + m + "\n\n")
		}
		return s.String()
	}
	for name, c := range map[string]struct {
		status           int
		contentType, raw string
		want             func(error) bool // nil means the result {"a":1}
		notified         int
	}{
		"JSON":                         {200, "application/json", done, nil, 0},
		"JSON, with parameters":        {200, "Application/JSON; charset=utf-8", " " + done + "\n", nil, 0},
		"an error":                     {200, "application/json", head + fault, isFault, 0},
		"an error without an ID":       {200, "application/json", `{"jsonrpc":"2.0",` + fault, isFault, 0},
		"an error with the ID null":    {200, "application/json", `{"jsonrpc":"2.0","id":null,` + fault, isFault, 0},
		"an error of another request":  {200, "application/json", `{"jsonrpc":"2.0","id":"a2",` + fault, is(errBroken), 0},
		"an error with a status":       {400, "application/json", head + fault, isFault, 0},
		"an error with another status": {422, "text/plain", head + fault, isFault, 0},
		"an error of a gateway":        {503, "text/plain", head + fault, isStatus, 0},
		"an error of nobody's":         {422, "text/plain", `{"jsonrpc":"2.0","id":null,` + fault, isStatus, 0},
		"a status":                     {503, "text/html", "<p>", isStatus, 0},
		"a status with a result":       {404, "application/json", done, isStatus, 0},
		"a page":                       {200, "text/html", "<p>", isStatus, 0},
		"nothing":                      {202, "", "", isStatus, 0},
		"a large status":               {500, "application/json", strings.Repeat(" ", 2<<10), isStatus, 0},
		"a large response":             {200, "application/json", strings.Repeat(" ", 2<<10), is(errLimit), 0},
		"no JSON":                      {200, "application/json", "{", is(errBroken), 0},
		"a batch":                      {200, "application/json", "[" + done + "]", is(errBroken), 0},
		"duplicate members":            {200, "application/json", head + `"result":{"a":1,"a":1}}`, is(errBroken), 0},
		"the deepest result": {200, "application/json", head + `"result":{"a":1},"x":` + strings.Repeat("[", 8) +
			strings.Repeat("]", 8) + `}`, nil, 0},
		"a result that is too deep": {200, "application/json", head + `"result":{"a":` + strings.Repeat("[", 8) +
			strings.Repeat("]", 8) + `}}`, is(errBroken), 0},
		"another version":              {200, "application/json", strings.Replace(done, "2.0", "1.0", 1), is(errBroken), 0},
		"another request's":            {200, "application/json", strings.Replace(done, "a1", "a2", 1), is(errBroken), 0},
		"a result without an ID":       {200, "application/json", `{"jsonrpc":"2.0","result":{"a":1}}`, is(errBroken), 0},
		"both":                         {200, "application/json", head + `"result":{},` + fault, is(errBroken), 0},
		"neither":                      {200, "application/json", head + `"x":1}`, is(errBroken), 0},
		"no object":                    {200, "application/json", head + `"result":[]}`, is(errBroken), 0},
		"an error that is none":        {200, "application/json", head + `"error":"no"}`, is(errBroken), 0},
		"an error with a text as code": {200, "application/json", head + `"error":{"code":"no"}}`, is(errBroken), 0},
		"events":                       {200, "text/event-stream", event(progress, progress, done), nil, 2},
		"events with more in them": {200, "text/event-stream",
			": hi\r\n\r\nid: 1\nretry: 5\ndata\n\nevent: other\ndata: x\n\nevent: message\ndata:" + done + "\n\n", nil, 0},
		"an event in lines": {200, "text/event-stream", "data: " + head + "\ndata: " + `"result":{"a":1}}` +
			"\n\n", nil, 0},
		"an event that the end cuts": {200, "text/event-stream", event(progress) + "data: " + done + "\n", isAway, 1},
		"half an event":              {200, "text/event-stream", event(progress) + "data: " + done[:20], isAway, 1},
		"events without a response":  {200, "text/event-stream", event(progress), isAway, 1},
		"a request among events":     {200, "text/event-stream", event(ask, done), is(errBroken), 0},
		"nonsense among events":      {200, "text/event-stream", event("nonsense", done), is(errBroken), 0},
		"another response among events": {200, "text/event-stream", event(strings.Replace(done, "a1", "a2", 1), done),
			is(errBroken), 0},
		"an error among events": {200, "text/event-stream", event(progress, head+fault), isFault, 1},
		"a large event": {200, "text/event-stream", event(progress) + "data: " + strings.Repeat("x", 2<<10),
			is(errLimit), 1},
		"an event of many lines": {200, "text/event-stream", strings.Repeat(": x\n", 1<<10), is(errLimit), 0},
		"more bytes than one may have": {200, "text/event-stream", strings.Repeat(event(progress), 100) + event(done),
			nil, 100},
		"a response and then other news": {200, "text/event-stream", event(done, progress, "nonsense"), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			notified := 0
			result, err := endpoint(func(*http.Request) *http.Response { return respond(c.status, c.contentType, c.raw) }).
				Send(t.Context(),
					&Request{Method: "tools/call", Params: []byte(`{}`), Notify: func(method string, params []byte) error {
						if method != "notifications/progress" || string(params) != `{"progress":1}` {
							t.Errorf("got %s %s", method, params)
						}
						notified++
						return nil
					}})
			if c.want == nil && (err != nil || string(result) != `{"a":1}`) || c.want != nil && (result != nil || !c.want(err)) {
				t.Errorf("got %s, %v", result, err)
			}
			expect.Equal(t, "notified", notified, c.notified)
		})
	}
}

// A subscription outlasts what cannot be read, and ends with its response.
func TestSubscriptions(t *testing.T) {
	stream := "data: nonsense\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a2\",\"result\":{}}\n\ndata: " +
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\ndata: " +
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{}}\n\ndata: " +
		"{\"jsonrpc\":\"2.0\",\"id\":\"a1\",\"result\":{}}\n\n"
	var got []string
	_, err := endpoint(func(*http.Request) *http.Response { return respond(200, "text/event-stream", stream) }).
		Send(t.Context(), &Request{Method: "subscriptions/listen", Params: []byte(`{}`), Listens: true,
			Notify: func(method string, _ []byte) error {
				got = append(got, method)
				return nil
			}})
	if err != nil || len(got) != 1 || got[0] != "notifications/tasks" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRequests(t *testing.T) {
	var got *http.Request
	var body string
	e := endpoint(func(r *http.Request) *http.Response {
		data, _ := io.ReadAll(r.Body)
		got, body = r, string(data)
		return respond(200, "application/json", `{"jsonrpc":"2.0","id":"a1","result":{}}`)
	})
	r := &Request{Method: "resources/read", Name: "doc://Tromsø", Params: []byte(`{"uri":"doc://Tromsø"}`),
		Header: http.Header{"Mcp-Param-Region": {"x"}}}
	expect.Must(e.Send(t.Context(), r))(t)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           "resources/read", "Mcp-Name": "=?base64?ZG9jOi8vVHJvbXPDuA==?=", "Mcp-Param-Region": "x",
	} {
		if values := got.Header[name]; len(values) != 1 || values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if want := `{"jsonrpc":"2.0","id":"a1","method":"resources/read","params":{"uri":"doc://Tromsø"}}`; body != want ||
		got.Method != http.MethodPost {
		t.Errorf("%s %s", got.Method, body)
	}
}

// Whatever a server answers, there is a result within the bounds or an error, and never both.
func FuzzRead(f *testing.F) {
	f.Add(200, "application/json", `{"jsonrpc":"2.0","id":"a1","result":{}}`)
	f.Add(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":\"a1\",\"result\":{}}\n\n")
	f.Add(200, "text/event-stream", ": x\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"+
		"event: other\ndata: x")
	f.Add(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`)
	f.Fuzz(func(t *testing.T, status int, contentType, raw string) {
		e := endpoint(nil)
		for _, listens := range []bool{false, true} {
			r := &Request{Listens: listens, Notify: func(_ string, params []byte) error {
				if params != nil && strictjson.Check(params, e.Config.Depth) != nil {
					t.Errorf("notified of %s", params)
				}
				return nil
			}}
			result, err := e.read(respond(status, contentType, raw), r, "a1")
			if (err == nil) != (result != nil) {
				t.Fatalf("got %s, %v", result, err)
			}
			if err == nil && (status >= 300 || strictjson.Check(result, e.Config.Depth) != nil ||
				strictjson.TypeOf(result) != strictjson.TypeObject) {
				t.Fatalf("got %s", result)
			}
		}
	})
}
