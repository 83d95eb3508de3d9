package inline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
)

// handler is one that asks through its session.
type handler func(ctx context.Context, req *mcp.CallToolRequest) (string, error)

// service runs handlers inline, and carries their calls from round to round.
type service struct {
	server  *Server
	engine  *call.Engine
	carrier *home.Carrier
	logged  bytes.Buffer
}

func newService(t *testing.T) *service {
	t.Helper()
	ring := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	s := new(service)
	log := slog.New(slog.NewTextHandler(&s.logged, nil))
	limits := bound.Limits{Rounds: 3, Questions: 4, StateBytes: 64 << 10, RoundTTL: time.Hour, CallTTL: time.Hour}
	s.engine = &call.Engine{Limits: limits, Log: log}
	s.carrier = &home.Carrier{Keys: ring, Limits: limits, Log: log}
	s.server = New(s.engine, func(err error) error { return err })
	return s
}

// round is one request.
type round struct {
	state    string
	answers  map[string]string
	meta     string // the _meta, an object; empty means one that declares everything
	progress call.ProgressFunc
}

const everything = `{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},` +
	`"sampling":{"tools":{}},"roots":{}}}`

// serve runs one round. What comes of it is the result's text, or the error, or "asks" and the
// keys, with the state.
func (s *service) serve(t *testing.T, r round, h handler) (got, state string) {
	t.Helper()
	if r.meta == "" {
		r.meta = everything
	}
	meta, invalid := wire.ParseMeta([]byte(r.meta))
	if invalid != nil {
		t.Fatal(invalid)
	}
	params := &wire.Params{Target: "t", State: r.state, HasState: r.state != "", Responses: make(map[string][]byte)}
	for key, answer := range r.answers {
		params.Responses[key] = []byte(answer)
	}
	q := &call.Request{Params: params, Can: meta.Capabilities, Progress: r.progress, As: func(m call.Manual) mcp.Request {
		return call.View(wire.CallTool, []byte(`{"name":"t","_meta":`+r.meta+`}`), nil, nil, m)
	}}
	q.Handler = &call.Handler{Method: wire.CallTool,
		Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
			said := ""
			err := s.server.Run(ctx, c, func(ctx context.Context, req *mcp.CallToolRequest) (err error) {
				said, err = h(ctx, req)
				return err
			})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, err
		}}
	out, err := s.engine.Serve(t.Context(), q, s.carrier.Home(q))
	expect.Equal(t, "stand-ins are left", s.server.Open(), 0)
	switch {
	case err != nil:
		sent := fault.Wire(err)
		return fmt.Sprint("error ", sent.Code, ": ", sent.Message, string(sent.Data)), ""
	case out.InputRequired():
		return strings.Join(append([]string{"asks"}, slices.Sorted(maps.Keys(out.Typed()))...), " "), out.State
	}
	return out.Result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, ""
}

func elicit(ctx context.Context, req *mcp.CallToolRequest, message string) (*mcp.ElicitResult, error) {
	return req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(nameSchema)})
}

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

func name(ctx context.Context, req *mcp.CallToolRequest, message string) (string, error) {
	res, err := elicit(ctx, req, message)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(res.Content["name"]), nil
}

func named(name string) string { return `{"action":"accept","content":{"name":"` + name + `"}}` }

func sampling() *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{MaxTokens: 9,
		Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}}}
}

// Each question of a session becomes one of the call, and its answer what the session returns.
func TestQuestionsOfASession(t *testing.T) {
	const completion = `{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`
	for says, test := range map[string]struct {
		ask    handler
		key    string // its beginning
		answer string
		want   string
	}{
		"a form": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) { return name(ctx, req, "?") },
			"elicit-", named("octocat"), "octocat"},
		"a form that is declined": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			res, err := elicit(ctx, req, "?")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Action, len(res.Content)), nil
		}, "elicit-", `{"action":"decline"}`, "decline0"},
		"a page": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			// The id of each round is another; that of the question is not.
			res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", URL: "https://example.com/",
				ElicitationID: fmt.Sprint(time.Now().UnixNano())})
			if err != nil {
				return "", err
			}
			return res.Action, nil
		}, "elicit-", `{"action":"accept"}`, "accept"},
		"a model": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			res, err := req.Session.CreateMessage(ctx,
				&mcp.CreateMessageParams{MaxTokens: 9,
					Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}})
			if err != nil {
				return "", err
			}
			return res.Content.(*mcp.TextContent).Text, nil
		}, "sample-", completion, "hello"},
		"a model with tools": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			p := sampling()
			p.Tools = []*mcp.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}}
			res, err := req.Session.CreateMessageWithTools(ctx, p)
			if err != nil {
				return "", err
			}
			return res.Content[0].(*mcp.TextContent).Text, nil
		}, "sample-", completion, "hello"},
		"roots": {func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			res, err := req.Session.ListRoots(ctx, nil)
			if err != nil {
				return "", err
			}
			return res.Roots[0].URI, nil
		}, "roots-", `{"roots":[{"uri":"file:///src"}]}`, "file:///src"},
	} {
		s := newService(t)
		asks, state := s.serve(t, round{}, test.ask)
		key, ok := strings.CutPrefix(asks, "asks ")
		if !ok || !regexp.MustCompile(`^`+test.key+`[0-9a-f]{8}$`).MatchString(key) {
			t.Errorf("%s: %s", says, asks)
			continue
		}
		unfit := round{state: state, answers: map[string]string{key: `{"action":7,"roots":7,"model":7}`}}
		again, next := s.serve(t, unfit, test.ask)
		if test.key == "elicit-" {
			if again != asks {
				t.Errorf("%s, after an answer that does not fit: %s", says, again)
			}
			state = next
		} else if !strings.Contains(again, "-32602") || !strings.Contains(again, key) {
			t.Errorf("%s, after an answer that nobody can correct: %s", says, again)
		}
		if got, _ := s.serve(t, round{state: state, answers: map[string]string{key: test.answer}},
			test.ask); got != test.want {
			t.Errorf("%s: got %q, want %q", says, got, test.want)
		}
	}
}

// Equal questions are numbered as they are answered.
func TestEqualQuestions(t *testing.T) {
	s := newService(t)
	h := func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		a, err := name(ctx, req, "?")
		if err != nil {
			return "", err
		}
		b, err := name(ctx, req, "?")
		return a + b, err
	}
	asks, state := s.serve(t, round{}, h)
	key := strings.TrimPrefix(asks, "asks ")
	asks, state = s.serve(t, round{state: state, answers: map[string]string{key: named("a")}}, h)
	expect.Equal(t, "the second of them", asks, "asks "+key+"-2")
	if got, _ := s.serve(t, round{state: state, answers: map[string]string{key + "-2": named("b")}}, h); got != "ab" {
		t.Errorf("got %q", got)
	}
}

// Questions of goroutines that ask at once share a round, though the first open one cancels the
// others' context.
func TestQuestionsShareARound(t *testing.T) {
	s := newService(t)
	asks, _ := s.serve(t, round{}, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { _, err := name(ctx, req, "a"); return err })
		group.Go(func() error {
			<-ctx.Done()
			_, err := name(ctx, req, "b")
			return err
		})
		return "done", group.Wait()
	})
	if strings.Count(asks, "elicit-") != 2 {
		t.Errorf("got %q", asks)
	}
}

// An open question ends the handler's own goroutine, and is an error in one that it started.
func TestWhereAQuestionIsOpen(t *testing.T) {
	s := newService(t)
	for says, deep := range map[string]int{"at the top": 0, "below many frames": 5000} {
		var reached error
		asks, _ := s.serve(t, round{}, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			var ask func(n int)
			ask = func(n int) {
				if n > 0 {
					ask(n - 1)
					return
				}
				_, reached = elicit(ctx, req, "?")
			}
			reached = errors.New("nothing returned")
			ask(deep)
			t.Errorf("%s: the handler went on", says)
			return "", nil
		})
		if !strings.HasPrefix(asks, "asks ") || reached.Error() != "nothing returned" {
			t.Errorf("%s: %s, and the error %v", says, asks, reached)
		}
	}
	var inside error
	asks, _ := s.serve(t, round{}, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		var all sync.WaitGroup
		all.Go(func() { _, inside = elicit(ctx, req, "?") })
		all.Wait()
		return "", errors.New("no name")
	})
	if !strings.HasPrefix(asks, "asks ") || !errors.Is(inside, journal.ErrInputRequired) {
		t.Errorf("in a goroutine: %s, and the error %v", asks, inside)
	}
}

// What ends a handler other than by returning, and which errors its client gets.
func TestEnds(t *testing.T) {
	fault := &jsonrpc.Error{Code: -32001, Message: "x"}
	for _, test := range []struct {
		says, want, log string
		handler         handler
	}{
		{"a panic", "error -32603: internal error", "boom", func(context.Context, *mcp.CallToolRequest) (string, error) {
			panic("boom")
		}},
		{"a panic while it is unwound", "error -32603: internal error", "boom",
			func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
				defer func() { panic("boom") }()
				return name(ctx, req, "a")
			}},
		{"Goexit", "error -32603: the handler ended its goroutine instead of returning", "",
			func(context.Context, *mcp.CallToolRequest) (string, error) {
				runtime.Goexit()
				return "", nil
			}},
		{"an error", "error -32603: no", "", func(context.Context, *mcp.CallToolRequest) (string, error) {
			return "", errors.New("no")
		}},
		{"an error of the protocol", "error -32001: x", "", func(context.Context, *mcp.CallToolRequest) (string, error) {
			return "", fault
		}},
		{"a wrapped error of the protocol", "error -32603: while: x", "",
			func(context.Context, *mcp.CallToolRequest) (string, error) {
				return "", fmt.Errorf("while: %w", fault)
			}},
		{"an error of another server", "error -32603: upstream: client does not support elicitation", "",
			func(context.Context, *mcp.CallToolRequest) (string, error) {
				return "", errors.New("upstream: client does not support elicitation")
			}},
		{"an error of another server that says which", `error -32603: upstream: client does not support "form" elicitation`,
			"", func(context.Context, *mcp.CallToolRequest) (string, error) {
				return "", errors.New(`upstream: client does not support "form" elicitation`)
			}},
		{"a form that cannot be", "error -32603: elicitation/create: form: requestedSchema: property \"nested\"", "",
			func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
				_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "a", RequestedSchema: json.RawMessage(`{"type":` +
					`"object","properties":{"nested":{"type":"object"}}}`)})
				return "", err
			}},
		{"sampling without MaxTokens", "error -32603: sampling/createMessage: sampling needs MaxTokens", "",
			func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
				p := sampling()
				p.MaxTokens = 0
				_, err := req.Session.CreateMessageWithTools(ctx, p)
				return "", err
			}},
		{"a context that is done", "error -32603: context canceled", "",
			func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return name(ctx, req, "a")
			}},
	} {
		t.Run(test.says, func(t *testing.T) {
			s := newService(t)
			if got, _ := s.serve(t, round{}, test.handler); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if log := s.logged.String(); (log != "") != (test.log != "") || !strings.Contains(log, test.log) ||
				test.log == "boom" && !strings.Contains(log, "inline_test.go") {
				t.Errorf("logged %s", log)
			}
		})
	}
}

// A question that depends on anything but arguments and answers is never the same, and the log says so.
func TestAQuestionThatIsNeverTheSame(t *testing.T) {
	s := newService(t)
	n := 0
	h := func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		n++
		return name(ctx, req, fmt.Sprint("It is ", n))
	}
	asks, state := s.serve(t, round{}, h)
	if s.logged.Len() > 0 {
		t.Errorf("logged %s", &s.logged)
	}
	s.serve(t, round{state: state, answers: map[string]string{strings.TrimPrefix(asks, "asks "): named("x")}}, h)
	if !strings.Contains(s.logged.String(), "asked something new") || !strings.Contains(s.logged.String(), "target=t") {
		t.Errorf("logged %s", &s.logged)
	}
}

// A handler's deferred functions find why it ends, and may ask.
func TestUnwinding(t *testing.T) {
	s := newService(t)
	var cause error
	var recovered any
	asks, _ := s.serve(t, round{}, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		defer func() {
			cause, recovered = context.Cause(ctx), recover()
			_, _ = elicit(context.WithoutCancel(ctx), req, "b")
		}()
		return name(ctx, req, "a")
	})
	if !errors.Is(cause, journal.ErrInputRequired) || recovered != nil || strings.Count(asks, "elicit-") != 2 {
		t.Errorf("cause %v, recovered %v, %s", cause, recovered, asks)
	}
}

// A goroutine that outlives its handler asks nobody.
func TestAskAfterTheEnd(t *testing.T) {
	s := newService(t)
	late, end := make(chan error), make(chan struct{})
	got, _ := s.serve(t, round{}, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
		go func() {
			<-end
			_, err := elicit(context.WithoutCancel(ctx), req, "a")
			late <- err
		}()
		return "done", nil
	})
	close(end)
	if err := <-late; got != "done" || !errors.Is(err, errEnded) {
		t.Errorf("got %q, and %v", got, err)
	}
	// Nor does one whose question was on its way when the handler returned.
	r := &run{server: s.server, call: new(call.Call)}
	r.end()
	if _, err := r.ask(t.Context(), "roots", question.Roots()); !errors.Is(err, errEnded) {
		t.Errorf("on its way: %v", err)
	}
}

// A client that cannot be asked is told what it lacks, unless the handler knows better.
func TestWithoutCapability(t *testing.T) {
	ask := map[string]func(context.Context, *mcp.ServerSession) error{
		"form": func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "a", RequestedSchema: json.RawMessage(nameSchema)})
			return err
		},
		"url": func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "a", URL: "https://example.com/"})
			return err
		},
		"model": func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.CreateMessageWithTools(ctx, sampling())
			return err
		},
		"roots": func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.ListRoots(ctx, nil)
			return err
		},
	}
	s := newService(t)
	for _, test := range []struct{ ask, capabilities, want string }{
		{"form", `{}`, `{"elicitation":{}}`}, // Without a mode it means forms.
		{"url", `{}`, `{"elicitation":{}}`},
		{"form", `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"url", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"model", `{}`, `{"sampling":{}}`},
		{"roots", `{}`, `{"roots":{}}`},
	} {
		r := round{meta: `{"io.modelcontextprotocol/clientCapabilities":` + test.capabilities + `}`}
		got, _ := s.serve(t, r, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			err := ask[test.ask](ctx, req.Session)
			if err != nil {
				err = fmt.Errorf("asking: %w", err)
			}
			return "", err
		})
		if !strings.HasPrefix(got, "error -32021: ") || !strings.HasSuffix(got, `{"requiredCapabilities":`+test.want+`}`) {
			t.Errorf("%s with %s: %s", test.ask, test.capabilities, got)
		}
		got, _ = s.serve(t, r, func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
			return fmt.Sprint("without: ", ask[test.ask](ctx, req.Session)), nil
		})
		if !strings.HasPrefix(got, "without: ") || strings.HasSuffix(got, "<nil>") {
			t.Errorf("%s with %s: %s", test.ask, test.capabilities, got)
		}
	}
}

// The stand-in is a session of the client's, as far as there is one.
func TestStandIn(t *testing.T) {
	s := newService(t)
	var progress []string
	var before, during int
	for i, test := range []struct{ meta, want string }{
		{`{}`, ` map[] map[] false false false`},
		{`{"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}`, `x map[] map[] false false false`},
		{`{"io.modelcontextprotocol/clientInfo":{"name":7}}`, ` map[] map[] false false false`},
		{`{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/ui":{"a":1}},"experimental":{"x":{}},` +
			`"elicitation":{},"sampling":{"tools":{}},"roots":{"listChanged":true}}}`,
			` map[com.example/ui:map[a:1]] map[x:map[]] true true true`},
	} {
		progress = nil
		report := func(_ context.Context, done, total float64, message string) error {
			progress = append(progress, fmt.Sprint(done, total, message))
			return nil
		}
		before = runtime.NumGoroutine()
		got, _ := s.serve(t, round{meta: test.meta, progress: report},
			func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
				during = s.server.Open()
				if err := req.Session.Ping(ctx, nil); err != nil {
					return "", err
				}
				if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "x"}); err != nil {
					return "", err
				}
				if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: 1, Total: 2,
					Message: "half"}); err != nil {
					return "", err
				}
				for method, code := range map[string]int64{"notifications/message": 0,
					"elicitation/unknown": jsonrpc.CodeMethodNotFound} {
					_, err := s.server.send(ctx, method, &mcp.ServerRequest[*mcp.LoggingMessageParams]{Session: req.Session,
						Params: &mcp.LoggingMessageParams{}})
					if fault, _ := errors.AsType[*jsonrpc.Error](err); (err != nil) != (code != 0) || fault != nil &&
						fault.Code != code {
						t.Errorf("%s: %v", method, err)
					}
				}
				who := req.Session.InitializeParams()
				c := who.Capabilities
				return fmt.Sprint(who.ClientInfo.Name, " ", c.Extensions, " ", c.Experimental, " ", c.Elicitation != nil, " ",
					c.Sampling != nil && c.Sampling.Tools != nil, " ", c.RootsV2 != nil && c.RootsV2.ListChanged), nil
			})
		expect.Equal(t, test.meta, got, test.want)
		if !slices.Equal(progress, []string{"1 2half"}) || during == 0 {
			t.Errorf("%d: progress %q, %d stand-ins during the round", i, progress, during)
		}
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before the round, %d after", before, runtime.NumGoroutine())
		}
	}
}

// In a session the handler asks through the session that is there.
func TestInASession(t *testing.T) {
	s := newService(t)
	req := &mcp.CallToolRequest{Session: new(mcp.ServerSession)}
	c := &call.Call{Request: &call.Request{InSession: true}}
	c.SetView(req)
	wrapped := fmt.Errorf("while: %w", &jsonrpc.Error{Code: 1, Message: "x"})
	err := s.server.Run(t.Context(), c, func(_ context.Context, got *mcp.CallToolRequest) error {
		if got != req || got.Session != req.Session || s.server.Open() != 0 || !c.Inline {
			t.Error("there is a stand-in")
		}
		return wrapped
	})
	if _, fault := errors.AsType[*jsonrpc.Error](err); fault || err == nil || err.Error() != "while: x" {
		t.Errorf("got %v", err)
	}
}

// Schemas that were written for the SDK are read as forms, as far as they are forms.
func TestSchemasWrittenForTheSDK(t *testing.T) {
	type object = map[string]any
	text := object{"name": object{"type": "string"}}
	for says, test := range map[string]struct {
		schema any
		want   string // the form, or what the error says
	}{
		"none":  {nil, `{"type":"object","properties":{}}`},
		"empty": {object{}, `{"type":"object","properties":{}}`},
		"a form": {object{"type": "object", "properties": text},
			`{"type":"object","properties":{"name":{"type":"string"}}}`},
		"without a type":     {object{"properties": text}, `{"properties":{"name":{"type":"string"}},"type":"object"}`},
		"without properties": {object{"type": "object"}, `{"properties":{},"type":"object"}`},
		"with what a form has no use for": {object{"type": "object", "properties": text, "additionalProperties": false,
			"title": "T", "description": "D", "$id": "I"},
			`{"properties":{"name":{"type":"string"}},"type":"object"}`},
		"raw JSON":         {json.RawMessage(nameSchema), nameSchema},
		"a string":         {"x", "must be an object"},
		"a number":         {7, "must be an object"},
		"what is not JSON": {func() {}, "unsupported type"},
		"a nested object": {object{"type": "object", "properties": object{"nested": object{"type": "object"}}},
			`property "nested"`},
		"another type":       {object{"type": "array"}, "object"},
		"an unknown keyword": {object{"type": "object", "properties": text, "oneOf": []any{}}, "oneOf"},
	} {
		schema, err := parseSchema(test.schema)
		if err != nil {
			if strings.HasPrefix(test.want, "{") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", says, err)
			}
			continue
		}
		var got, want any
		if !strings.HasPrefix(test.want, "{") || json.Unmarshal(schema.JSON(), &got) != nil ||
			json.Unmarshal([]byte(test.want), &want) != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %s, want %s", says, schema.JSON(), test.want)
		}
	}
}
