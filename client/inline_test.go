package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// other serves a tool of the SDK's server to a legacy client in memory.
func other(t *testing.T, opts client.Options, tool mcp.ToolHandlerFor[struct{}, any]) *client.Session {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "t"}, tool)
	here, there := mcp.NewInMemoryTransports()
	expect.Must(m.Connect(t.Context(), there, nil))(t)
	return connect(t, opts, here, "2025-11-25")
}

func TestQuestionsInsideASessionHaveTheirKeys(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		expect.Equal(t, "key", q.Key, "who")
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := connect(t, opts, web(t, newServer(t, askback.Options{})), "2025-11-25")
	expect.Must(called(t, session, "ask"))(t)
}

// Other servers send requests in a session without keys, and roots/list without parameters.
func TestQuestionsOfOtherServers(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		expect.Equal(t, "key", q.Key, "elicitation/create")
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := other(t, opts, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult,
		any, error) {
		roots, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		res, err := req.Session.Elicit(ctx,
			&mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return nil, nil, err
		}
		return text(roots.Roots[0].URI + res.Action), nil, nil
	})
	expect.Equal(t, "the result", textOf(expect.Must(called(t, session, "t"))(t)), "file:///srcdecline")
}

// A question inside a session ends with its call, even if the server does not withdraw it.
func TestQuestionsInsideASessionEndWithTheirCall(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	opts := answers()
	opts.Form = func(ctx context.Context, _ *client.Question) (*mcp.ElicitResult, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}
	session := other(t, opts, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult,
		any, error) {
		go req.Session.Elicit(context.WithoutCancel(ctx), &mcp.ElicitParams{Message: "?"})
		<-began
		return text("done"), nil, nil
	})
	expect.Must(called(t, session, "t"))(t)
	soon(t, "the question", func() { <-ended })
	soon(t, "closing", func() { session.Close() })
}

// The limits also bound a server in a session.
func TestQuestionsInsideASessionAreBounded(t *testing.T) {
	var answered atomic.Int64
	opts := answers()
	opts.Limits = client.Limits{Questions: 2, Rounds: 2}
	opts.Form = func(ctx context.Context, _ *client.Question) (*mcp.ElicitResult, error) {
		answered.Add(1)
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := other(t, opts, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult,
		any, error) {
		for range 100 {
			if _, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?"}); err != nil {
				return text(err.Error()), nil, nil
			}
		}
		return text("asked 100 times"), nil, nil
	})
	expect.Must(called(t, session, "t"))(t)
	expect.Equal(t, "answered questions", answered.Load(), 4)
}

// The user is not asked if the answer could not be sent.
func TestNobodyIsAskedInVain(t *testing.T) {
	opts := answers()
	opts.Limits.Rounds = 1
	opts.Form = acting("decline")
	asked := counted(&opts)
	_, err := called(t, connect(t, opts, web(t, newServer(t, askback.Options{})), ""), "ask")
	if !isLimit("rounds per call")(err) || *asked != 0 {
		t.Errorf("at the limit of rounds: asked %d times, err %v", *asked, err)
	}

	opts = answers()
	opts.Form = park
	opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, client.ErrPark }
	pending := parkedBy(t,
		expect.Err(called(t, connect(t, opts, web(t, newServer(t, askback.Options{})), ""), "everything")))
	opts = answers()
	opts.Roots = nil
	opts.Form = acting("decline")
	again := counted(&opts)
	_, err = connect(t, opts, web(t, newServer(t, askback.Options{})), "").Resume(t.Context(), pending)
	if !isUndeclared("roots")(err) || *again != 0 {
		t.Errorf("resumed without roots: asked %d times, err %v", *again, err)
	}
}

// Answers of every kind name their task, and their other members stay.
func TestAnswersAreRelatedToTheirTask(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	opts := answers()
	sample := opts.Sample
	opts.Sample = func(ctx context.Context, q *client.Question,
		p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		res, err := sample(ctx, q, p)
		res.Meta = mcp.Meta{"cost": 7}
		return res, err
	}
	transport := &mcp.LoggingTransport{Transport: memory(t, newTaskServer(t)), Writer: lockedWriter{&mu, &log}}
	session := connect(t, opts, transport, "2025-11-25")
	started := start(t, session, "only", time.Minute)
	expect.Equal(t, "the result", textOf(expect.Must(session.WaitTask(t.Context(), started.ID))(t)), worked)
	related := fmt.Sprintf(`"io.modelcontextprotocol/related-task":{"taskId":%q}`, started.ID)
	for _, kind := range []string{`"action":"accept"`, `"roots":[`, `"model":"m"`} {
		// A message is logged when it has been written: by then the task may have ended.
		harness.Eventually(t, kind+" with its task", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
				return strings.Contains(line, `"result":`) && strings.Contains(line, kind) && strings.Contains(line, related) &&
					(kind != `"model":"m"` || strings.Contains(line, `"cost":7`))
			})
		})
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// A server may ask inside a session at any time, but nobody is shown a question that belongs to no call.
func TestQuestionsOutsideOfCallsAreNotShown(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	done := func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return text("done"), nil, nil
	}
	mcp.AddTool(m, &mcp.Tool{Name: "t"}, done)
	here, there := mcp.NewInMemoryTransports()
	server := expect.Must(m.Connect(t.Context(), there, nil))(t)
	var shown atomic.Int64
	opts := answers()
	opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		shown.Add(1)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
	}
	session := connect(t, opts, here, "2025-11-25")
	ctx := harness.InTime(t)
	for _, when := range []string{"before any call", "after a call"} {
		_, err := server.Elicit(ctx, &mcp.ElicitParams{Message: "Your password?"})
		expect.Fails(t, when, err, "no call is running")
		expect.Must(session.CallTool(ctx, &mcp.CallToolParams{Name: "t"}))(t)
	}
	expect.Equal(t, "questions were shown", shown.Load(), 0)
}

// A question in a session reaches its handler as it came: with its fields in their order, its numbers, and members that
// nobody knows. So does a sampling request.
func TestQuestionsInASessionComeAsBytes(t *testing.T) {
	const (
		schema = `{"type":"object","x-widget":"wide","properties":{"zip":{"type":"string"},"city":{"type":"number",` +
			`"maximum":12345678901234567890,"minimum":1.50}},"required":["zip"]}`
		form   = `{"message":"Where?","x-note":"a <b>","requestedSchema":` + schema + `}`
		sample = `{"messages":[{"role":"user","content":{"type":"text","text":"","x":1}}],"maxTokens":9,"temperature":0}`
	)
	var mu sync.Mutex
	got := make(map[string]string)
	keep := func(q *client.Question) {
		mu.Lock()
		defer mu.Unlock()
		got[q.Method] = string(q.Params)
		if q.Schema != nil && string(q.Schema) != schema {
			t.Errorf("the schema is %s", q.Schema)
		}
	}
	opts := client.Options{
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			keep(q)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"zip": "1"}}, nil
		},
		Sample: func(_ context.Context, q *client.Question, _ *mcp.CreateMessageWithToolsParams) (
			*mcp.CreateMessageWithToolsResult, error,
		) {
			keep(q)
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{
				&mcp.TextContent{Text: "hi"}}}, nil
		},
	}
	answered := make(chan string, 2)
	overHTTP := wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
		switch {
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"f\",\"method\":\"elicitation/create\",\"params\":%s}\n\n", form)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"sampling/createMessage\",\"params\":%s}\n\n",
				sample)
			w.(http.Flusher).Flush()
			<-answered
			<-answered
			respondOn(w, m, `{"content":[]}`)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			if w.WriteHeader(http.StatusAccepted); m.Method == "" {
				answered <- string(m.ID)
			}
		}
	})
	session := connect(t, opts, overHTTP, "2025-11-25")
	expect.Must(called(t, session, "t"))(t)
	want := map[string]string{"elicitation/create": form, "sampling/createMessage": sample}
	expect.Diff(t, "over HTTP", want, got)
	clear(got)
	inMemory := other(t, opts, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error,
	) {
		_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Where?", RequestedSchema: json.RawMessage(schema)})
		return &mcp.CallToolResult{}, nil, err
	})
	expect.Must(called(t, inMemory, "t"))(t)
	expect.Equal(t, "questions came in memory", len(got), 1)
}

// The answer to a question is sent again if its connection breaks, because the server waits for it.
func TestAnAnswerIsSentAgain(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "t"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?"})
			if err != nil {
				return nil, nil, err
			}
			return text(res.Action), nil, nil
		})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
	var broke atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"decline"`)) && !broke.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	opts := answers()
	opts.Form = acting("decline")
	session := connect(t, opts, &mcp.StreamableClientTransport{Endpoint: web.URL}, "2025-11-25")
	res, err := called(t, session, "t")
	if err != nil || textOf(res) != "decline" || !broke.Load() {
		t.Errorf("%v, %v", res, err)
	}
}
