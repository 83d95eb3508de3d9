package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// With Fallback a page to open waits for its caller at the desk, like a form. A person is never asked in place of a
// model, or for roots.
func TestWhatFallsBack(t *testing.T) {
	t.Parallel()
	asks := map[string]func(*askback.Call) error{
		"page": func(call *askback.Call) error {
			return askback.ElicitURL(call, "ask", "Log in", "https://example.com/login")
		},
		"model": func(call *askback.Call) error {
			_, err := askback.Sample(call, "ask", &mcp.CreateMessageWithToolsParams{MaxTokens: 9,
				Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}})
			return err
		},
		"roots": func(call *askback.Call) error {
			_, err := askback.Roots(call, "ask")
			return err
		},
	}
	register := func(srv *askback.Server) {
		for name, ask := range asks {
			askback.AddTool(srv, &mcp.Tool{Name: name},
				func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					err := ask(call)
					if cannot, ok := errors.AsType[*askback.CapabilityError](err); ok {
						return "cannot: " + cannot.Error(), nil
					}
					return "answered", err
				})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		srv, d := deskServer(t, &askback.Options{Desk: &askback.DeskOptions{Fallback: true, Wait: 5 * time.Second}}, register)
		ended := make(map[string]string)
		for name := range asks {
			go func() {
				got := harness.Request{Target: name, Capabilities: `{}`}.Send(t, srv.HTTPHandler(nil)).Text(t)
				ended[name] = got[:8]
			}()
			synctest.Wait()
		}
		var waits []*desk.Question
		for q, err := range d.Waiting(t.Context(), desk.Waiting{As: &desk.Person{Name: "alice"}}) {
			expect.Check(t, err)
			waits = append(waits, q)
		}
		if len(waits) != 1 || waits[0].Target != "page" || waits[0].URL != "https://example.com/login" || !waits[0].Fallback {
			t.Fatalf("%d questions wait: %+v", len(waits), waits)
		}
		answer := desk.Answer{By: desk.Person{Name: "alice"}, Action: "accept"}
		expect.Must(d.Answer(t.Context(), waits[0].Name, "ask", answer))(t)
		synctest.Wait()
		expect.Equal(t, "they end as", fmt.Sprint(ended), "map[model:cannot:  page:answered roots:cannot: ]")
	})
}

// The status of a task whose question fell back says where its caller finds the question, and why it is there. The
// status of a task that asks its caller on purpose does not.
func TestTheStatusOfAFallback(t *testing.T) {
	t.Parallel()
	type form struct{ Name string }
	register := harness.AddTool("tool",
		func(_ context.Context, call *askback.Call, in struct{ For []string }) (string, error) {
			_, err := askback.ElicitWith[form](call, "ask", askback.Question{Message: "?", For: in.For,
				Schema: json.RawMessage(`{"type":"object","properties":{"Name":{"type":"string"}}}`)})
			return "", err
		})
	const atDesk = "Waiting for user:alice at the desk (your client did not show you the question)."
	for _, tt := range []struct{ arguments, page, want string }{
		{`{"For":[]}`, "", atDesk + " Run 'askback inbox open' on the server's machine to answer."},
		{`{"For":[]}`, "https://inbox.example/", atDesk + " Open https://inbox.example/ to answer."},
		{`{"For":["user:alice"]}`, "", "Waiting for user:alice."},
		{`{"For":["user:alice"]}`, "https://inbox.example/",
			"Waiting for user:alice. Open https://inbox.example/ to answer."},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(31 * time.Minute) })
			srv, _ := deskServer(t, &askback.Options{Desk: &askback.DeskOptions{Fallback: true, Page: tt.page}}, register)
			b := &bubble{t: t, Handler: srv.HTTPHandler(nil)}
			const capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
			id, _ := b.result("tools/call", "tool", `"name":"tool","arguments":`+tt.arguments, capabilities)["taskId"].(string)
			synctest.Wait()
			if got := b.result("tasks/get", id, `"taskId":"`+id+`"`, capabilities)["statusMessage"]; got != tt.want {
				t.Errorf("%s: %q, want %q", tt.arguments, got, tt.want)
			}
		})
	}
}

// When a client has answered, and whether it declined too fast for a person, is told by the clock of the store, and not
// by that of the instance that took the answer.
func TestAnInstanceWithAnotherClockTakesAnswers(t *testing.T) {
	t.Parallel()
	const capabilities = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		for after, want := range map[time.Duration]string{100 * time.Millisecond: "true 100ms", time.Minute: "false 1m0s"} {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(31 * time.Minute) })
				began := time.Now()
				b := newBubble(t, nil, harness.AddTask("ask", nil,
					func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
						err := askback.Approve(call, "ask", askback.Question{Message: "?"})
						if no, ok := errors.AsType[*askback.DeclinedError](err); ok {
							return fmt.Sprint(no.NotShown, call.Answers("ask")[0].When.Sub(began)), nil
						}
						return "", err
					}))
				id, _ := b.result("tools/call", "ask", `"name":"ask"`, capabilities)["taskId"].(string)
				time.Sleep(after)
				ctx := clock.WithOff(t.Context(), func() time.Duration { return off })
				b.request(ctx, "tasks/update", id,
					`"taskId":"`+id+`","inputResponses":{"ask":{"action":"decline"}}`, capabilities)
				synctest.Wait()
				result, _ := b.result("tasks/get", id, `"taskId":"`+id+`"`, capabilities)["result"].(map[string]any)
				if got := harness.Content(result); got != want {
					t.Errorf("off by %v: %v, want %s", off, got, want)
				}
			})
		}
	}
}
