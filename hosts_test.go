package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// host is a client as they are in the field.
type host struct {
	says         string
	capabilities string
	answer       string        // to every form, at once, whatever a person would say; empty if it answers none
	patience     time.Duration // after which it gives up and calls again; zero is endless
	result       string        // of its call
}

const (
	byPeople = "deployed, approved by bob and carol"
	byDesk   = "sure by alice through desk; " + byPeople
	byHost   = "sure by alice through host; " + byPeople
)

var fieldHosts = []host{
	{says: "declares nothing", capabilities: `{}`, result: byDesk},
	{says: "declines by itself", capabilities: `{"elicitation":{}}`, answer: `{"action":"decline"}`, result: byDesk},
	{says: "dismisses by itself", capabilities: `{"elicitation":{}}`, answer: `{"action":"cancel"}`, result: byDesk},
	{says: "accepts nothing", capabilities: `{"elicitation":{}}`, answer: `{"action":"accept"}`, result: byDesk},
	{says: "accepts an empty form", capabilities: `{"elicitation":{}}`, answer: `{"action":"accept","content":{}}`,
		result: byDesk},
	{says: "answers nothing", capabilities: `{"elicitation":{}}`, answer: `{}`, result: byDesk},
	{says: "accepts by a hook", capabilities: `{"elicitation":{}}`, answer: `{"action":"accept","content":{"sure":true}}`,
		result: byHost},
	{says: "says itself how long it took", capabilities: `{"elicitation":{}}`,
		answer: `{"action":"decline","after":60000,"shown":true}`, result: byDesk},
	{says: "gives up and calls again", capabilities: `{}`, patience: 2 * time.Second, result: byDesk},
}

// askHost is told that a host was asked, under this key.
type askHost func(key string)

// hostFronts are the ways of a host to a server. Each returns a function that calls the tool once, and answers as the
// host does. Its result is the text of the result, or the ID of a task.
var hostFronts = map[string]func(t *testing.T, srv *askback.Server, h host, asked askHost) func(context.Context,
) (string, error){
	"HTTP": func(t *testing.T, srv *askback.Server, h host, asked askHost) func(context.Context) (string, error) {
		web := httptest.NewServer(srv.HTTPHandler(nil))
		t.Cleanup(web.Close)
		c := &rawclient.Client{URL: web.URL, Capabilities: h.capabilities}
		return func(ctx context.Context) (string, error) {
			params := map[string]any{"name": "ship", "arguments": map[string]any{"version": "4.2"}}
			for {
				var r rawclient.Result
				if err := c.Call(ctx, "tools/call", params, &r); err != nil || len(r.Requests) == 0 {
					return r.Text() + r.TaskID, err
				}
				answers := map[string]any{}
				for key := range r.Requests {
					asked(key)
					answers[key] = json.RawMessage(h.answer)
				}
				params = r.Retry(params, answers)
			}
		}
	},
	"session": func(t *testing.T, srv *askback.Server, h host, asked askHost) func(context.Context) (string, error) {
		web := httptest.NewServer(srv.HTTPHandler(nil))
		t.Cleanup(web.Close)
		return func(ctx context.Context) (string, error) {
			c, err := (&rawclient.Client{URL: web.URL, Capabilities: h.capabilities}).Initialize(ctx, "2025-11-25")
			if err != nil {
				return "", err
			}
			s, err := c.Open(ctx, "tools/call",
				map[string]any{"name": "ship", "arguments": map[string]any{"version": "4.2"}})
			if err != nil {
				return "", err
			}
			defer s.Close()
			for {
				m, err := s.Next()
				switch {
				case err != nil:
					return "", err
				case m.Error != nil:
					return "", m.Error
				case m.Method == "elicitation/create":
					asked(keyOf(m.Params))
					if err := c.Answer(ctx, m, json.RawMessage(h.answer)); err != nil {
						return "", err
					}
				case m.Method == "":
					var r rawclient.Result
					err := json.Unmarshal(m.Result, &r)
					return r.Text(), err
				}
			}
		}
	},
	"stdio": func(t *testing.T, srv *askback.Server, h host, asked askHost) func(context.Context) (string, error) {
		c, id := harness.Pipe(t, srv), 0
		return func(ctx context.Context) (string, error) {
			const call = `"name":"ship","arguments":{"version":"4.2"}`
			members := call
			for {
				id++
				c.Request(id, "tools/call", members, h.capabilities)
				m, err := respond(ctx, c, id, nil)
				if err != nil {
					return "", err
				}
				result, _ := m["result"].(map[string]any)
				requests, _ := result["inputRequests"].(map[string]any)
				if len(requests) == 0 {
					return fmt.Sprint(harness.Content(result)), nil
				}
				var answers []string
				for key := range requests {
					asked(key)
					answers = append(answers, fmt.Sprintf("%q:%s", key, h.answer))
				}
				members = fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%s}`, call, result["requestState"],
					strings.Join(answers, ","))
			}
		}
	},
	"stdio session": func(t *testing.T, srv *askback.Server, h host, asked askHost) func(context.Context) (string, error) {
		c, id := harness.Pipe(t, srv), 1
		c.Call(1, "initialize", `"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":`+
			h.capabilities, "")
		c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return func(ctx context.Context) (string, error) {
			id++
			c.Request(id, "tools/call", `"name":"ship","arguments":{"version":"4.2"}`, "")
			m, err := respond(ctx, c, id, func(question map[string]any) {
				params, _ := json.Marshal(question["params"])
				asked(keyOf(params))
				c.Answer(question, h.answer)
			})
			result, _ := m["result"].(map[string]any)
			return fmt.Sprint(harness.Content(result)), err
		}
	},
}

// keyOf returns the key of a question in a session.
func keyOf(params []byte) string {
	var p struct {
		Meta map[string]any `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p)
	for _, key := range p.Meta {
		if text, ok := key.(string); ok {
			return text
		}
	}
	return "unknown"
}

// respond reads a conversation up to the response to a request, and answers the questions before it.
func respond(
	ctx context.Context, c *harness.Conversation, id int, question func(map[string]any),
) (map[string]any, error) {
	for {
		select {
		case <-ctx.Done():
			c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
			return nil, ctx.Err()
		case m, ok := <-c.Read:
			switch {
			case !ok:
				return nil, io.ErrUnexpectedEOF
			case m["method"] == "elicitation/create":
				question(m)
			case m["id"] == float64(id) && m["method"] == nil:
				return m, nil
			}
		}
	}
}

// ship asks its caller, and then as deploy does.
func ship(ctx context.Context, call *askback.Call, in deployment) (string, error) {
	sure, err := askback.Elicit[struct {
		Sure bool `json:"sure"`
	}](call, "sure", "Ship it?")
	if no, ok := errors.AsType[*askback.DeclinedError](err); ok {
		return fmt.Sprintf("not shipped: %s, not shown: %v", no.Action, no.NotShown), nil
	}
	if err != nil {
		return "", err
	}
	by := call.Answers("sure")
	if !sure.Sure || len(by) != 1 {
		return fmt.Sprint("not sure: ", by), nil
	}
	result, err := deploy(time.Hour)(ctx, call, in)
	return fmt.Sprintf("sure by %s through %s; %s", by[0].Who, by[0].Channel, result), err
}

// people answer all that waits for them until the test ends: alice for herself only.
func people(t *testing.T, d *desk.Desk) {
	release := []string{"release"}
	all := []desk.Person{
		{Name: "alice", Groups: release}, {Name: "bob", Groups: release}, {Name: "carol", Groups: release},
	}
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			for q, err := range d.Waiting(ctx, desk.Waiting{}) {
				if err != nil {
					break
				}
				a, own := desk.Answer{Action: "accept"}, strings.HasPrefix(q.Key, "sure") // again is another key
				if own {
					a.Content = json.RawMessage(`{"sure":true}`)
				}
				for _, a.By = range all {
					_, err := d.Answer(ctx, q.Name, q.Key, a)
					if err == nil && own != (a.By.Name == "alice") {
						t.Errorf("%s answers %q", a.By.Name, q.Key)
					}
				}
			}
			<-time.After(time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); working.Wait() })
}

// Whatever a host declares, answers by itself or gives up on, what is asked of people is decided by these people, and
// no call is lost: its outcome is there under the name that the host was told, or that its principal's call has.
func TestHostsInTheField(t *testing.T) {
	named := regexp.MustCompile(`the name "([^"]+)"`)
	for _, h := range fieldHosts {
		for front, dial := range hostFronts {
			t.Run(h.says+", "+front, func(t *testing.T) {
				t.Parallel()
				store := new(task.MemoryStore)
				wait := 50 * time.Millisecond
				if h.patience > 0 {
					wait = time.Minute
				}
				srv := harness.NewServer(t, &askback.Options{
					Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
					Tasks:     &askback.Tasks{Store: store}, Desk: &askback.DeskOptions{Fallback: true, Wait: wait},
				}, harness.AddTool("ship", ship))
				harness.RunTasks(t, srv)
				d := expect.Must(desk.Open(store, nil))(t)
				call := dial(t, srv, h, func(key string) {
					if key != "sure" || h.answer == "" {
						t.Errorf("the host is asked %q", key)
					}
				})
				calls := 1
				if h.patience > 0 {
					calls++
					patient, giveUp := context.WithTimeout(t.Context(), h.patience)
					defer giveUp()
					if said, err := call(patient); err == nil {
						t.Fatalf("an answer before it gives up: %s", said)
					}
					people(t, d)
				}
				said := expect.Must(call(t.Context()))(t)
				people(t, d)
				if h.patience > 0 && said != h.result {
					t.Errorf("the second call says %s", said)
				}
				outcomes := map[string]string{}
				harness.Eventually(t, "outcome of each call", func() bool {
					rows := expect.Must(store.Select(t.Context(), task.Filter{}, "", 10))(t)
					for _, row := range rows {
						if row.Status.Terminal() {
							var r rawclient.Result
							_ = json.Unmarshal(row.Outcome, &r)
							outcomes[task.Name(row.ID)] = r.Text()
						}
					}
					return len(outcomes) == calls
				})
				for name, outcome := range outcomes {
					expect.Equal(t, name+" ends with", outcome, h.result)
					decidedBy(t, d, name)
				}
				if h.patience == 0 {
					if m := named.FindStringSubmatch(said); m == nil || outcomes[m[1]] == "" {
						t.Errorf("the host is told %q, and the calls are %v", said, outcomes)
					}
				}
			})
		}
	}
}

// decidedBy checks who decided the questions of a call.
func decidedBy(t *testing.T, d *desk.Desk, name string) {
	t.Helper()
	found := expect.Must(d.Questions(t.Context(), name, nil))(t)
	for _, q := range found {
		var who []string
		for _, by := range q.Decision.By {
			who = append(who, by.Who)
		}
		want := []string{"bob", "carol"}
		if strings.HasPrefix(q.Key, "sure") {
			want = []string{"alice"}
		}
		if !slices.Equal(who, want) {
			t.Errorf("%s: %q is decided by %q", name, q.Key, who)
		}
	}
}
