package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// One process parks a call, and another resumes it, after the server that asked was replaced by a new
// one with the same keys.
func TestParkAndResume(t *testing.T) {
	keys := harness.NewRing(t)
	opts := answers()
	opts.Form = park
	first := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
	_, err := first.CallTool(t.Context(), &mcp.CallToolParams{Name: "everything", Arguments: map[string]any{}})
	pending := parkedBy(t, err)
	if !strings.Contains(err.Error(), `"who"`) || strings.Contains(err.Error(), "roots") || len(pending.Answers) != 2 {
		t.Errorf("pending: %v with answers %v", err, pending.Answers)
	}
	if pending.Expires == nil || time.Until(*pending.Expires) > time.Hour || pending.Endpoint == "" {
		t.Errorf("expires %v, endpoint %q", pending.Expires, pending.Endpoint)
	}
	stored := expect.Must(json.Marshal(pending))(t)

	var loaded client.Pending
	expect.Check(t, json.Unmarshal(stored, &loaded))
	opts = answers()
	opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, errors.New("asked again") }
	second := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
	for range 2 { // a client may resume twice if the server does not forbid it
		res := expect.Must(second.Resume(t.Context(), &loaded))(t)
		expect.Equal(t, "the result", textOf(res),
			"{0150 octocat 42}file:///srchello")
	}

	t.Run("prompts and resources", func(t *testing.T) {
		opts := answers()
		opts.Form = park
		session := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
		pending := parkedBy(t, expect.Err(session.GetPrompt(t.Context(),
			&mcp.GetPromptParams{Name: "prompt", Arguments: map[string]string{"greeting": "Hi "}})))
		expect.Equal(t, "prompt", expect.Must(second.Resume(t.Context(), pending))(t).(*mcp.GetPromptResult).Description,
			"Hi octocat")
		pending = parkedBy(t, expect.Err(session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://x"})))
		expect.Equal(t, "resource",
			expect.Must(second.Resume(t.Context(), pending))(t).(*mcp.ReadResourceResult).Contents[0].Text, "doc://xoctocat")
	})
	t.Run("with an answer that does not fit", func(t *testing.T) {
		opts := answers()
		opts.Form = filling(map[string]any{"name": 1})
		_, err := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "").Resume(t.Context(), &loaded)
		if err == nil || !strings.Contains(err.Error(), `"who"`) || !strings.Contains(err.Error(), "zip: is required") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("with a server that has other keys", func(t *testing.T) {
		_, err := connect(t, answers(), web(t, newServer(t, askback.Options{})), "").Resume(t.Context(), &loaded)
		if _, refused := errors.AsType[*client.RefusedError](err); !refused {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a second time, where states are used once", func(t *testing.T) {
		single := newServer(t, askback.Options{Keys: keys, ReplayGuard: &guard{}})
		session := connect(t, answers(), web(t, single), "")
		expect.Must(session.Resume(t.Context(), &loaded))(t)
		_, err := session.Resume(t.Context(), &loaded)
		if _, refused := errors.AsType[*client.RefusedError](err); !refused {
			t.Errorf("got %v", err)
		}
	})
	t.Run("from a session that cannot wait", func(t *testing.T) {
		opts := answers()
		opts.Form = park
		session := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "2025-11-25")
		res, err := called(t, session, "ask")
		if err != nil || !strings.Contains(textOf(res), "cannot wait") {
			t.Errorf("got %v, %v", res, err)
		}
	})
	t.Run("from something else", func(t *testing.T) {
		for _, data := range []string{`{}`, `[]`, `{"method":"tools/call","params":{},"questions":[null]}`,
			`{"method":"tools/list","params":{},"requestState":"x"}`} {
			var p client.Pending
			err := json.Unmarshal([]byte(data), &p)
			if err == nil {
				_, err = second.Resume(t.Context(), &p)
			}
			expect.Fails(t, data, err, "not a pending call")
		}
	})
}

type guard struct {
	used atomic.Pointer[map[string]bool]
}

func (g *guard) Use(_ context.Context, id string, _ time.Time) (bool, error) {
	seen := g.used.Load()
	next := map[string]bool{id: true}
	if seen != nil {
		for id := range *seen {
			next[id] = true
		}
	}
	g.used.Store(&next)
	return seen == nil || !(*seen)[id], nil
}

// A parked call restores the state that it had, even an empty string.
func TestAParkedCallKeepsItsState(t *testing.T) {
	for member, want := range map[string]string{``: ``, `,"requestState":""`: `""`, `,"requestState":"s"`: `"s"`} {
		var s script
		transport := s.serve(t, `{"resultType":"input_required","inputRequests":{"a":`+formQuestion+`}`+member+`}`, done)
		opts := answers()
		opts.Form = park
		pending := parkedBy(t, expect.Err(called(t, connect(t, opts, transport, ""), "t")))
		expect.Equal(t, "resumed",
			textOf(expect.Must(connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending)))(t)), "done")
		if sent := s.all(); len(sent) != 2 || string(sent[1].Params["requestState"]) != want {
			t.Errorf("%q: sent %s", member, sent[len(sent)-1].Params)
		}
	}
}
