package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

// manualTool is written in the SDK's manual style: its state is its own text.
func manualTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask := func(state string) *mcp.CallToolResult {
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
			"login": &mcp.ElicitParams{Message: "Who " + state + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
		}}
	}
	answer := ""
	if r, ok := req.Params.InputResponses["login"].(*mcp.ElicitResult); ok {
		answer = fmt.Sprint(r.Content["name"])
	}
	switch req.Params.RequestState {
	case "":
		return ask("one"), nil
	case "one":
		return ask("two:" + answer), nil
	case "shed":
		return harness.Text("resumed"), nil
	}
	if _, rest, ok := strings.Cut(req.Params.RequestState, "two:"); ok {
		if answer == "shed" {
			return &mcp.CallToolResult{RequestState: "shed"}, nil
		}
		return harness.Text(rest + "+" + answer), nil
	}
	return nil, fmt.Errorf("forged state %q", req.Params.RequestState)
}

func TestManualStyleIsSealed(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	for name, register := range map[string]func(*mcp.Server, *askback.Server){
		"on the SDK's server": func(m *mcp.Server, _ *askback.Server) {
			m.AddTool(&mcp.Tool{Name: "manual", InputSchema: schema}, manualTool)
		},
		"on Askback's": func(_ *mcp.Server, srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "manual", InputSchema: schema}, func(ctx context.Context, call *askback.Call, _ map[string]any) (*mcp.CallToolResult, error) {
				res, err := manualTool(ctx, call.Request().(*mcp.CallToolRequest))
				return res, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
			srv, err := askback.New(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			register(m, srv)
			h := srv.HTTPHandler(nil)
			answer := func(name string) string {
				return `{"login":{"action":"accept","content":{"name":"` + name + `"}},"other":{"action":"decline"}}`
			}
			r := harness.Request{Target: "manual", Arguments: `{"a":1}`}
			first := r.Send(t, h)
			r.State = first.Asked(t, "login")
			if strings.Contains(r.State, "one") || !strings.HasPrefix(r.State, "ab1.") {
				t.Errorf("the state is not sealed: %s", r.State)
			}
			if strings.Contains(first.Raw, `"content"`) || strings.Contains(first.Raw, "ttlMs") {
				t.Errorf("more than an input required result: %s", first.Raw)
			}
			r.Responses = answer("x")
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = answer("y")
			if got := r.Send(t, h).Text(t); got != "x+y" {
				t.Errorf("got %q", got)
			}
			r.Responses = answer("shed")
			res := r.Send(t, h)
			if state := res.Asked(t); state == "" || strings.Contains(res.Raw, "inputRequests") {
				t.Errorf("state only: %s", res.Raw)
			}
			if got := (harness.Request{Target: "manual", Arguments: `{"a":1}`, State: res.Result.State}).Send(t, h).Text(t); got != "resumed" {
				t.Errorf("got %q", got)
			}
			// Forged, plain and foreign states never reach the handler.
			for _, state := range []string{"two:admin", "one"} {
				harness.Request{Target: "manual", State: state}.Send(t, h).Refused(t, 400, -32602)
			}
			harness.Request{Target: "manual", Arguments: `{"a":2}`, State: r.State}.Send(t, h).Refused(t, 400, -32602)
			harness.Request{Target: "manual", Capabilities: `{}`}.Send(t, h).Refused(t, 400, -32021)

			// A legacy client is asked in all rounds inside its session.
			here, there := mcp.NewInMemoryTransports()
			if _, err := srv.Connect(t.Context(), there, nil); err != nil {
				t.Fatal(err)
			}
			var messages []string
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					messages = append(messages, req.Params.Message)
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "z"}}, nil
				},
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			legacy, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "manual"})
			if err != nil {
				t.Fatal(err)
			}
			if got := legacy.Content[0].(*mcp.TextContent).Text; got != "z+z" || !cmp.Equal(messages, []string{"Who one?", "Who two:z?"}) {
				t.Errorf("legacy: got %q after %q", got, messages)
			}
		})
	}
}

func TestBareFirstRoundInTheManualStyle(t *testing.T) {
	h := harness.NewServer(t, &askback.Options{BareFirstRound: true}, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "m"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			p := call.Request().(*mcp.CallToolRequest).Params
			if r, ok := p.InputResponses["login"].(*mcp.ElicitResult); ok {
				return harness.Text(fmt.Sprint(r.Content["name"])), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: "?"}}}, nil
		})
	}).HTTPHandler(nil)
	if state := (harness.Request{Target: "m"}).Send(t, h).Asked(t, "login"); state != "" {
		t.Error("the first round has a state")
	}
	if got := (harness.Request{Target: "m", Responses: harness.Octocat}).Send(t, h).Text(t); got != "octocat" {
		t.Errorf("got %q", got)
	}
}

// A result that an author returns to several calls is not modified.
func TestManualResultsAreNotWrittenTo(t *testing.T) {
	shared := &mcp.CallToolResult{RequestState: "mine"}
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "shared", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			return harness.Text(req.Params.RequestState), nil
		}
		return shared, nil
	})
	srv, err := askback.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := srv.HTTPHandler(nil)
	for range 2 {
		state := harness.Request{Target: "shared"}.Send(t, h).Asked(t)
		if got := (harness.Request{Target: "shared", State: state}).Send(t, h).Text(t); got != "mine" {
			t.Errorf("got %q", got)
		}
	}
	if shared.RequestState != "mine" {
		t.Errorf("the author's result became %q", shared.RequestState)
	}
}

// An answer to a question of an earlier round does not answer a question of this one.
func TestManualAnswersCountForTheirRoundOnly(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "two", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ask := func(key string) *mcp.CallToolResult {
			return &mcp.CallToolResult{RequestState: key, InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{Message: "?"}}}
		}
		switch req.Params.RequestState {
		case "":
			return ask("a"), nil
		case "a":
			return ask("b"), nil
		}
		return harness.Text(fmt.Sprint(len(req.Params.InputResponses), req.Params.InputResponses["a"] != nil)), nil
	})
	srv, err := askback.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := srv.HTTPHandler(nil)
	r := harness.Request{Target: "two"}
	r.State = r.Send(t, h).Asked(t, "a")
	r.Responses = `{"a":{"action":"accept"},"b":{"action":"accept"}}`
	r.State = r.Send(t, h).Asked(t, "b")
	if got := r.Send(t, h).Text(t); got != "1 false" {
		t.Errorf("got %q", got)
	}
}
