package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// What the server behind sends reaches the host as it is: contents of every kind, what is structured, its _meta, and
// its errors. Nothing of it is stored.
func TestResultsPassAsTheyAre(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url)
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			s := host(t, front.url, version, client.Options{})
			direct := host(t, behind.url, version, client.Options{})
			params := &mcp.CallToolParams{Name: "echo",
				Arguments: json.RawMessage(`{"a":12345678901234567890,"b":{"c":[1.50,null]}}`)}
			got := expect.Must(s.CallTool(t.Context(), params))(t)
			want, err := direct.CallTool(t.Context(), params)
			expect.Check(t, err)
			delete(want.Meta, mcp.MetaKeyServerInfo)
			delete(got.Meta, mcp.MetaKeyServerInfo)
			expect.Diff(t, "through the bridge (-direct +bridge)", encoded(t, want), encoded(t, got))
			if text, failed := call(t, s, "fail", nil); !failed || text != "out of stock" {
				t.Errorf("a tool's error: %q, %v", text, failed)
			}
			_, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "fail", Arguments: map[string]any{"protocol": true}})
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || fault.Code != -32099 || fault.Message != "no such shop" || string(fault.Data) != `{"near":"shoe shop"}` {
				t.Errorf("the protocol's error: %v", err)
			}
		})
	}
	expect.Equal(t, "calls are stored, though none asked", stored(t, front), 0)
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data := expect.Must(json.Marshal(v))(t)
	return string(data)
}

// stored counts the tasks in the bridge's store.
func stored(t *testing.T, f *front) (n int) {
	t.Helper()
	for range expect.Each(t, f.desk.List(t.Context(), task.Filter{})) {
		n++
	}
	return n
}

// A host that can be asked is asked what the server asks, in every revision.
func TestAHostIsAskedWhatTheServerAsks(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url, patient)
	for _, version := range revisions {
		for _, tool := range []string{"order", "reserve"} {
			t.Run(version+" "+tool, func(t *testing.T) {
				before := behind.count("order")
				s := host(t, front.url, version, able())
				returns(t, s, tool, map[string]any{"item": "hat"}, "red hat ordered")
				expect.Equal(t, "ordered times", behind.count("order")-before, 1)
			})
		}
	}
	t.Run("everything", func(t *testing.T) {
		s := host(t, front.url, "", able())
		returns(t, s, "everything", nil, "file:///src hello")
	})
}

// A host that can be asked nothing gets words, and the person answers at the desk.
func TestADeskAnswersForAHostThatCannot(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url)
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			before := behind.count("order")
			s := host(t, front.url, version, client.Options{Tasks: client.TasksOff})
			expect.Contains(t, "the words", waits(t, s, "order", map[string]any{"item": "hat"}), "user:ada")
			q := front.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"blue"}`)})
			if q.Message != "Which color?" || q.AuthorKey != "color" {
				t.Errorf("the desk asks %q (%q)", q.Message, q.AuthorKey)
			}
			front.answer(t, "ada", desk.Answer{Action: "accept"})
			expect.Equal(t, "the result", fetch(t, s, q.Name), "blue hat ordered")
			expect.Equal(t, "ordered times", behind.count("order")-before, 1)
		})
	}
}

// fetch fetches the outcome of a call that waited, once it has ended.
func fetch(t *testing.T, s *client.Session, name string) string {
	t.Helper()
	text := ""
	eventually(t, "the call ends", func() bool {
		text, _ = call(t, s, "askback_result", map[string]any{"name": name})
		return !strings.Contains(text, name) // which the words of a call that waits have
	})
	return text
}

// Declines and dismissals are answers, and the server decides what follows.
func TestADeclineIsAnAnswer(t *testing.T) {
	t.Parallel()
	front := newFront(t, newBehind(t).url, patient)
	for _, action := range []string{"decline", "cancel"} {
		opts := able()
		opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			<-time.After(300 * time.Millisecond) // as long as a person needs at least
			return &mcp.ElicitResult{Action: action}, nil
		}
		text, _ := call(t, host(t, front.url, "", opts), "order", map[string]any{"item": "hat"})
		if text != "nothing: "+action {
			t.Errorf("after a %s the result is %q", action, text)
		}
	}
}

// The server is told what this host can do, and that it can ask people, because the desk can.
func TestTheServerIsToldWhatThisHostCan(t *testing.T) {
	front := newFront(t, newBehind(t).url)
	for _, c := range []struct {
		opts client.Options
		want string
	}{
		{client.Options{}, "elicitation.form elicitation.url "},
		{able(), "elicitation.form elicitation.url sampling roots "},
	} {
		returns(t, host(t, front.url, "", c.opts), "capabilities", nil, c.want)
	}
}

// The tasks of the server are followed, and their questions asked.
func TestTasksOfTheServerAreFollowed(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url, patient)
	text, _ := call(t, host(t, front.url, "", able()), "later", map[string]any{"item": "hat"})
	expect.Equal(t, "the result", text, "red hat ordered")
	expect.Equal(t, "ordered times", behind.count("order"), 1)
}

// Prompts, resources, templates and completions pass, and so do changes of the lists.
func TestTheRestPasses(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url)
	s := host(t, front.url, "", client.Options{})
	who := map[string]string{"who": "ada"}
	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: who})
	if err != nil || prompt.Description != "Hello ada" {
		t.Errorf("the prompt: %+v, %v", prompt, err)
	}
	for _, uri := range []string{"shop://terms", "shop://item/7"} {
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "about "+uri {
			t.Errorf("reading %s: %+v, %v", uri, read, err)
		}
	}
	completed, err := s.SDK().Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"},
		Argument: mcp.CompleteParamsArgument{Name: "who", Value: "a"},
	})
	if err != nil || !slices.Equal(completed.Completion.Values, []string{"apple"}) {
		t.Errorf("the completion: %+v, %v", completed, err)
	}
	if info := s.SDK().InitializeResult(); info.ServerInfo.Name != "bridge" || info.Instructions != "Ask before you buy." {
		t.Errorf("the bridge introduces itself as %+v", info)
	}
	addSaying(behind.Server, "new", "new")
	behind.RemoveTools("fail")
	eventually(t, "the changes are listed", func() bool {
		names := toolNames(t, s)
		return slices.Contains(names, "new") && !slices.Contains(names, "fail")
	})
	returns(t, s, "new", nil, "new")
}

func toolNames(t *testing.T, s *client.Session) (names []string) {
	t.Helper()
	list := expect.Must(s.SDK().ListTools(t.Context(), nil))(t)
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}
