package law

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
)

// inlined is a world whose handler asks through the session of its request.
type inlined struct {
	world
	ctx context.Context
	req *mcp.CallToolRequest
}

func (w inlined) Ask(key string) (string, error) {
	res, err := w.req.Session.Elicit(w.ctx, &mcp.ElicitParams{Message: howMany(key), RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(res.Content["n"]), nil
}

// clients is a server for clients of every kind, which counts what the one call does that is made at a time.
type clients struct {
	runs   atomic.Pointer[program.Runs]
	rounds atomic.Int32
}

func (c *clients) run(ctx context.Context, w program.World, text string) (string, error) {
	c.rounds.Add(1)
	return arguments{Program: text}.run(ctx, w, c.runs.Load())
}

// register adds a handler of each kind and style.
func (c *clients) register(s *askback.Server) {
	askback.AddTool(s, &mcp.Tool{Name: "tool"},
		func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
			return c.run(ctx, world{call}, in.Program)
		})
	askback.AddInlineTool(s, &mcp.Tool{Name: "inline"},
		func(ctx context.Context, req *mcp.CallToolRequest, in arguments) (*mcp.CallToolResult, any, error) {
			text, err := c.run(ctx, inlined{world{askback.CallFrom(ctx)}, ctx, req}, in.Program)
			return harness.Text(text), nil, err
		})
	s.AddPrompt(&mcp.Prompt{Name: "prompt"},
		func(ctx context.Context, call *askback.Call, in map[string]string) (*mcp.GetPromptResult, error) {
			text, err := c.run(ctx, world{call}, in["program"])
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: text}}}}, err
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "resource", URITemplate: "program:{hex}"},
		func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			data, err := hex.DecodeString(strings.TrimPrefix(uri, "program:"))
			if err != nil {
				return nil, err
			}
			text, err := c.run(ctx, world{call}, string(data))
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: text}}}, err
		})
}

// call calls the handler of a kind, and returns its text.
func call(ctx context.Context, session *client.Session, kind string, p program.Program) (string, error) {
	switch kind {
	case "prompt":
		res, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: kind, Arguments: map[string]string{
			"program": p.String()}})
		if err != nil {
			return "", err
		}
		return res.Messages[0].Content.(*mcp.TextContent).Text, nil
	case "resource":
		res, err := session.ReadResource(ctx, &mcp.ReadResourceParams{
			URI: "program:" + hex.EncodeToString([]byte(p.String()))})
		if err != nil {
			return "", err
		}
		return res.Contents[0].Text, nil
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: kind, Arguments: arguments{Program: p.String()}})
	if err != nil {
		return "", err
	}
	return res.Content[0].(*mcp.TextContent).Text, nil
}

// answering is a client that answers everything as [reply] does.
func answering() *client.Client {
	return client.New(&client.Options{
		Drafts: true,
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			key := strings.TrimSuffix(strings.TrimPrefix(q.Message, "How many "), "?")
			_, travels := reply(1, key)
			var res mcp.ElicitResult
			err := json.Unmarshal([]byte(travels), &res)
			return &res, err
		},
		URL: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		Sample: func(context.Context, *client.Question,
			*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			seen, _ := reply(1, "model")
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
				Content: []mcp.Content{&mcp.TextContent{Text: seen}}}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) {
			seen, _ := reply(1, "roots")
			return []*mcp.Root{{URI: seen}}, nil
		},
		Limits: client.Limits{FirstPause: 1, MaxPause: 1},
	})
}

// A client sees a call of each kind of handler to its end, in each form of the protocol and with the journal in memory
// or in its state. Each recorded step runs once in the call. A step that fails or panics runs once in each round at
// most.
func TestClients(t *testing.T) {
	c := new(clients)
	ring := harness.NewRing(t)
	var instances []http.Handler
	for range 2 {
		instances = append(instances, harness.NewServer(t, &askback.Options{Keys: ring}, c.register).
			HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instance := rand.IntN(2)
		if r.URL.Query().Get("draft") == "state" { // a session stays on its instance
			instance = 0
		}
		instances[instance].ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	over := func(query string) func() mcp.Transport {
		return func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: web.URL + query} }
	}
	inMemory := func() mcp.Transport {
		here, there := mcp.NewInMemoryTransports()
		if _, err := harness.NewServer(t, nil, c.register).Connect(t.Context(), there, nil); err != nil {
			t.Fatal(err)
		}
		return here
	}
	outcomes := make(map[string]string)
	for _, key := range questions {
		outcomes[key], _ = reply(1, key)
	}
	inline := program.Choices{Keys: questions[:3], Ops: []program.Op{program.Ask, program.Step, program.Branch}}
	for _, way := range []struct {
		says, version string
		transport     func() mcp.Transport
	}{
		{"in memory", "2026-07-28", inMemory},
		{"in memory, older", "2025-11-25", inMemory},
		{"in memory, oldest", "2025-03-26", inMemory},
		{"over HTTP", "2026-07-28", over("")},
		{"over HTTP, in a session with states", "2025-11-25", over("?draft=state")},
	} {
		t.Run(way.says, func(t *testing.T) {
			session := expect.Must(answering().Connect(t.Context(), way.transport(),
				&mcp.ClientSessionOptions{ProtocolVersion: way.version}))(t)
			defer session.Close()
			rapid.Check(t, func(rt *rapid.T) {
				kind := rapid.SampledFrom([]string{"tool", "inline", "prompt", "resource"}).Draw(rt, "kind")
				p := programs(2).Draw(rt, "program")
				if kind == "inline" {
					p = inline.Program(2, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") })
				}
				runs := new(program.Runs)
				c.runs.Store(runs)
				c.rounds.Store(0)
				text, err := call(t.Context(), session, kind, p)
				if err != nil {
					rt.Fatalf("%s of %s: %v", kind, p, err)
				}
				end, unrecorded := &position{answers: outcomes, steps: make(map[string]int64)}, make(map[string]bool)
				for step, numbers := range runs.Numbers() {
					if !p.Records(step) {
						unrecorded[step] = true
						if len(numbers) > int(c.rounds.Load()) {
							rt.Fatalf("%s: the step %s ran %d times in %d rounds", p, step, len(numbers), c.rounds.Load())
						}
						continue
					}
					if len(numbers) != 1 {
						rt.Fatalf("%s of %s: the step %s ran %d times", kind, p, step, len(numbers))
					}
					end.steps[step] = numbers[0]
				}
				if err := compare(p, text, end, unrecorded); err != nil {
					rt.Fatalf("%s of %s: %v", kind, p, err)
				}
			})
		})
	}
}
