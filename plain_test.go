package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

type parcel struct {
	Weight float64  `json:"weight" minimum:"0.5"`
	Count  int      `json:"count,omitempty" default:"1"`
	Marks  []string `json:"marks" enum:"fragile|cold"`
	Name   string   `json:"name"`
}

// addParcel adds a tool, a prompt and a resource that ask for a parcel, and a tool that does so through its session.
func addParcel(srv *askback.Server) {
	ask := func(call *askback.Call) (string, error) {
		p, err := askback.Elicit[parcel](call, "parcel", "What do you send?")
		return fmt.Sprintf("%v %d %q %s", p.Weight, p.Count, p.Marks, p.Name), err
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "send"}, &askback.TaskSupport{},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			return ask(call)
		})
	askback.AddTool(srv, &mcp.Tool{Name: "built"},
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			p, err := askback.ElicitWith[parcel](call,
				"parcel", askback.Question{Message: "What do you send?", Schema: map[string]any{
					"type": "object", "required": []string{"weight", "marks", "name"}, "properties": map[string]any{
						"weight": map[string]any{"type": "number", "minimum": 0.5}, "count": map[string]any{"type": "integer",
							"default": 1}, "name": map[string]any{"type": "string"},
						"marks": map[string]any{"type": "array",
							"items": map[string]any{"type": "string", "enum": []string{"fragile", "cold"}}},
					},
				}})
			return fmt.Sprintf("%v %d %q %s", p.Weight, p.Count, p.Marks, p.Name), err
		})
	srv.AddPrompt(&mcp.Prompt{Name: "send"},
		func(_ context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			text, err := ask(call)
			return &mcp.GetPromptResult{Description: text}, err
		})
	askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			res, err := req.Session.Elicit(ctx,
				&mcp.ElicitParams{Message: "What do you send?", RequestedSchema: &jsonschema.Schema{
					Type: "object", Properties: map[string]*jsonschema.Schema{"weight": {Type: "number"},
						"name": {Type: "string"}}, Required: []string{"weight", "name"},
				}})
			if err != nil {
				return nil, nil, err
			}
			return harness.Text(fmt.Sprintf("%v 1 [\"fragile\" \"cold\"] %v", res.Content["weight"],
				res.Content["name"])), nil, nil
		})
}

// What a client is sent, and what it answers, in both forms.
const (
	plainWeight  = `"weight":{"type":"string"`
	nativeWeight = `"weight":{"type":"number"`
	plainParcel  = `{"action":"accept","content":{"weight":"2.5","marks":"fragile, cold","name":"a vase"}}`
	nativeParcel = `{"action":"accept","content":{"weight":2.5,"marks":["fragile","cold"],"name":"a vase"}}`
	lightParcel  = `{"action":"accept","content":{"weight":"0.1","marks":"","name":"a vase"}}`
	sentParcel   = `2.5 1 ["fragile" "cold"] a vase`
)

const terminalInfo = `,"io.modelcontextprotocol/clientInfo":{"name":"terminal","version":"1"}`

// plainOptions are those of a server that knows one client to show plain forms only.
func plainOptions(keys *seal.Ring) *askback.Options {
	return &askback.Options{Keys: keys,
		PlainForms: func(client *mcp.Implementation) bool { return client.Name == "terminal" }}
}

func parcelRequest(method, target, info string) harness.Request {
	return harness.Request{Method: method, Target: target, Arguments: `{}`, Meta: info}
}

// askedAs returns the wire key of the only question, which must be sent in this form.
func askedAs(t *testing.T, res *harness.Response, form string) (key string) {
	t.Helper()
	if res.Result == nil || len(res.Result.Requests) != 1 || !strings.Contains(res.Raw, form) {
		t.Fatalf("want a question with %s, got %s", form, res.Raw)
	}
	for key = range res.Result.Requests {
	}
	return key
}

// A client that shows plain forms only is asked for numbers and multiple choices as text; others get the forms as they
// are. Handlers do not notice, and an instance with other settings continues the call.
func TestPlainForms(t *testing.T) {
	for _, of := range []struct{ method, target string }{
		{"tools/call", "send"}, {"tools/call", "built"}, {"prompts/get", "send"}, {"tools/call", "inline"},
	} {
		for _, c := range []struct {
			says, info, form, answer string
			other                    bool // the next instance has no PlainForms
		}{
			{"a client that shows plain forms only", terminalInfo, plainWeight, plainParcel, false},
			{"another client", `,"io.modelcontextprotocol/clientInfo":{"name":"browser","version":"1"}`, nativeWeight,
				nativeParcel, false},
			{"a client that does not say who it is", "", nativeWeight, nativeParcel, false},
			{"a plain answer to another instance", terminalInfo, plainWeight, plainParcel, true},
			{"a native answer to a plain form", terminalInfo, plainWeight, nativeParcel, false},
		} {
			t.Run(of.method+" "+of.target+"/"+c.says, func(t *testing.T) {
				keys := harness.NewRing(t)
				first := harness.NewServer(t, plainOptions(keys), addParcel).HTTPHandler(nil)
				next := first
				if c.other {
					next = harness.NewServer(t, &askback.Options{Keys: keys}, addParcel).HTTPHandler(nil)
				}
				r := parcelRequest(of.method, of.target, c.info)
				res := r.Send(t, first)
				key := askedAs(t, res, c.form)
				if r.State = res.Result.State; c.other { // it asks again in the same form
					key = askedAs(t, r.Send(t, next), c.form)
				}
				r.Responses = `{"` + key + `":` + c.answer + `}`
				if res = r.Send(t, next); !strings.Contains(unescaped(res.Raw), sentParcel) {
					t.Errorf("got %s", res.Raw)
				}
			})
		}
	}
}

func unescaped(raw string) string { return strings.ReplaceAll(raw, `\"`, `"`) }

// A task remembers what its client shows.
func TestPlainFormsOfATask(t *testing.T) {
	s := harness.NewTaskServer(t, plainOptions(harness.NewRing(t)), addParcel)
	with := harness.WithExtension + terminalInfo
	id := s.Start(with, `"name":"send","arguments":{}`)
	asked := fmt.Sprint(harness.At(s.Get(with, id, "input_required"), "inputRequests", "parcel", "params",
		"requestedSchema", "properties", "weight", "type"))
	expect.Equal(t, "the weight is asked for as", asked, "string")
	s.Result(with, "tasks/update", id, harness.Answered(id, `"parcel":`+plainParcel))
	if got, _ := json.Marshal(s.Get(with, id, "completed")["result"]); !strings.Contains(unescaped(string(got)),
		sentParcel) {
		t.Errorf("the result is %s", got)
	}
}

// In a session before 2026-07-28 the client says who it is when it opens the session.
func TestPlainFormsInASession(t *testing.T) {
	for name, form := range map[string]string{"terminal": "string", "browser": "number"} {
		pipe := harness.Pipe(t, harness.NewServer(t, plainOptions(harness.NewRing(t)), addParcel))
		pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
			harness.AllCapabilities +
			`,"clientInfo":{"name":"` + name + `","version":"1"}}}`)
		pipe.Response(1)
		pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		pipe.Request(2, "tools/call", `"name":"send","arguments":{}`, "")
		question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
		if got := harness.At(question, "params", "requestedSchema", "properties", "weight", "type"); got != form {
			t.Errorf("%s is asked for the weight as %v, want %s", name, got, form)
		}
		pipe.Answer(question, map[string]string{"string": plainParcel, "number": nativeParcel}[form])
		expect.Contains(t, name, fmt.Sprint(pipe.Response(2)), sentParcel)
	}
}

// A function that panics costs the forms nothing but their plain look.
func TestPlainFormsThatPanics(t *testing.T) {
	logger, log := harness.Logs()
	opts := plainOptions(nil)
	opts.Logger = logger
	opts.PlainForms = func(*mcp.Implementation) bool { panic("boom") }
	h := harness.NewServer(t, opts, addParcel).HTTPHandler(nil)
	askedAs(t, parcelRequest("tools/call", "send", terminalInfo).Send(t, h), nativeWeight)
	expect.Contains(t, "logged", log.String(), "Options.PlainForms panicked")
}
