package correct_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/check/planted/correct"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

type withToken string

func (b withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Everything that a correct server lists can be called to its end, with its rounds at both replicas in turn.
func TestServersCanBeCalled(t *testing.T) {
	for _, server := range correct.Servers() {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			defer group.Wait()
			defer cancel()
			first, replica, elsewhere, err := server.Start(ctx, &group)
			if err != nil || elsewhere == nil {
				t.Fatal(err)
			}
			var turn sync.Mutex
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				turn.Lock()
				first, replica = replica, first
				now := first
				turn.Unlock()
				now.ServeHTTP(w, r)
			}))
			defer web.Close()
			caller := client.New(&client.Options{Form: fill,
				URL: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
				Sample: func(context.Context, *client.Question,
					*mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
					return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
						Content: []mcp.Content{&mcp.TextContent{Text: "A text about Rome, Ada and Ada."}}}, nil
				}})
			session, err := caller.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL,
				HTTPClient: &http.Client{Transport: withToken(planted.Alice)}}, nil)
			expect.Check(t, err)
			defer session.Close()
			called := 0
			for tool, err := range session.SDK().Tools(ctx, nil) {
				expect.Check(t, err)
				if tool.Name == "review" { // which waits for somebody else
					continue
				}
				called++
				res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name,
					Arguments: map[string]any{"city": "Rome"}})
				if err != nil {
					t.Errorf("%s: %v", tool.Name, err)
					continue
				}
				if text := fmt.Sprint(res.Content[0].(*mcp.TextContent).Text); res.IsError || !strings.Contains(text, "Rome") {
					t.Errorf("%s has the result %q", tool.Name, text)
				}
			}
			if called < 9 {
				t.Errorf("there are %d tools", called)
			}
		})
	}
}

// fill gives each field of a form the least that fits.
func fill(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	var schema struct {
		Properties map[string]struct{ Type string }
	}
	if err := json.Unmarshal(q.Schema, &schema); err != nil {
		return nil, err
	}
	content := map[string]any{}
	for name, property := range schema.Properties {
		content[name] = map[string]any{"class": "first", "confirm": true, "seats": 1, "name": "Ada", "guest": "Ada"}[name]
		if name == "seats" && property.Type == "string" { // a plain form
			content[name] = "1"
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}
