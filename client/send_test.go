package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// answersOf answers each question of a round by its method.
func answersOf(p *client.Pending) map[string]json.RawMessage {
	answers := make(map[string]json.RawMessage)
	for _, q := range p.Questions {
		switch {
		case q.Method == input.MethodListRoots:
			answers[q.Key] = json.RawMessage(`{"roots":[{"uri":"file:///src"}]}`)
		case q.Method == input.MethodCreateMessage:
			answers[q.Key] = json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`)
		case q.URL != "":
			answers[q.Key] = json.RawMessage(`{"action":"accept"}`)
		default:
			answers[q.Key] = json.RawMessage(`{"action":"accept","content":{"name":"octocat","zip":"0150"}}`)
		}
	}
	return answers
}

// sendAll sends rounds until the result, and counts those that asked. What it sends went through JSON.
func sendAll(t *testing.T, s *client.Session, p *client.Pending) (result string, asked int) {
	t.Helper()
	for {
		meta := p.Meta
		result, next, err := s.Send(t.Context(), p)
		expect.Check(t, err)
		if next == nil {
			return string(result), asked
		}
		data := expect.Must(json.Marshal(next))(t)
		p = new(client.Pending)
		expect.Check(t, json.Unmarshal(data, p))
		if len(p.Questions) > 0 {
			asked++
		}
		p.Answers, p.Meta = answersOf(p), meta
	}
}

// A program that passes rounds on needs no handlers: what the server may ask it says with each call.
func TestSendPassesRoundsOn(t *testing.T) {
	t.Parallel()
	everything := mcp.Meta{mcp.MetaKeyClientCapabilities: map[string]any{
		"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
		"sampling":    map[string]any{}, "roots": map[string]any{},
	}}
	for name, transport := range map[string]func(*testing.T, *askback.Server) mcp.Transport{
		"HTTP":   func(t *testing.T, srv *askback.Server) mcp.Transport { return web(t, srv) },
		"memory": memory,
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t, client.Options{}, transport(t, newServer(t, askback.Options{})), "")
			first := &client.Pending{
				Method: "tools/call", Params: json.RawMessage(`{"name":"everything","arguments":{}}`), Meta: everything,
			}
			result, asked := sendAll(t, s, first)
			if asked != 2 || !strings.Contains(result, "octocat") || !strings.Contains(result, `"resultType":"complete"`) {
				t.Errorf("%d rounds asked, and the result is %s", asked, result)
			}
			prompt := &client.Pending{Method: "prompts/get", Params: json.RawMessage(`{"name":"prompt"}`), Meta: everything}
			if result, _ := sendAll(t, s, prompt); !strings.Contains(result, `"description":"octocat"`) {
				t.Errorf("the prompt is %s", result)
			}
			if _, _, err := s.Send(t.Context(), &client.Pending{
				Method: "tools/call", Params: first.Params, Questions: []*client.Question{{Key: "who"}},
			}); err == nil || !strings.Contains(err.Error(), `"who" has no answer`) {
				t.Errorf("a question without an answer: %v", err)
			}
		})
	}
}

// A call that becomes a task ends its round: its ID is known before anybody waits for the task.
func TestSendEndsTheRoundWhereATaskBegins(t *testing.T) {
	srv := newServer(t, askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "later"}, nil,
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := askback.Elicit[person](call, "who", "Who are you?")
			return "Hello " + who.Name, err
		})
	go srv.RunTasks(t.Context())
	s := connect(t, client.Options{}, web(t, srv), "")
	meta := mcp.Meta{mcp.MetaKeyClientCapabilities: map[string]any{
		"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
	}}
	first := &client.Pending{Method: "tools/call", Params: json.RawMessage(`{"name":"later"}`), Meta: meta}
	_, began, err := s.Send(t.Context(), first)
	if err != nil || began == nil || began.TaskID == "" || len(began.Questions) > 0 {
		t.Fatalf("the first round: %+v, %v", began, err)
	}
	_, asked, err := s.Send(t.Context(), began)
	if err != nil || asked == nil || asked.TaskID != began.TaskID || len(asked.Questions) != 1 {
		t.Fatalf("the task asks: %+v, %v", asked, err)
	}
	if again, _, err := s.Send(t.Context(), began); again != nil || err != nil {
		t.Fatalf("the same once more: %s, %v", again, err)
	}
	asked.Answers = answersOf(asked)
	result, _, err := s.Send(t.Context(), asked)
	if err != nil || !strings.Contains(string(result), "Hello octocat") {
		t.Fatalf("the result: %s, %v", result, err)
	}
}
