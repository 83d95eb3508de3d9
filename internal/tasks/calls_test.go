package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

func TestTaskSupportOfATool(t *testing.T) {
	t.Parallel()
	plain := harness.AddTool("plain", func(context.Context, *askback.Call,
		struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	s := harness.NewTaskServer(t, nil, harness.AddEcho, plain, harness.AddRequired)
	harness.Want(t, "a tool without tasks", s.Result(harness.WithExtension, "tools/call", "plain",
		`"name":"plain","task":{"ttl":"bad"}`), "complete", "resultType")
	s.Refuses("a forbidden task", -32601, "", harness.ProposalOnly, "tools/call", "plain", `"name":"plain","task":{}`)
	_, response := s.Send(harness.ProposalOnly, "tools/call", "required", `"name":"required"`)
	if harness.At(response, "error", "code") != -32021.0 ||
		harness.At(response, "error", "data", "requiredCapabilities", "extensions", "io.modelcontextprotocol/tasks") == nil {
		t.Errorf("a required task: %v", response)
	}
	if got := s.Result(harness.ProposalOnly, "tools/call", "echo",
		`"name":"echo"`); got["resultType"] != "input_required" || got["requestState"] == nil {
		t.Errorf("a client without tasks: %v", got)
	}
	harness.Want(t, "task null", s.Result(harness.ProposalOnly, "tools/call", "echo", `"name":"echo","task":null`),
		"input_required", "resultType")
	for _, member := range []string{`7`, `{"ttl":"x"}`, `{"ttl":-1}`, `{"ttl":0}`, `[]`} {
		s.Refuses("task "+member, -32602, "", harness.ProposalOnly, "tools/call", "echo",
			`"name":"echo","task":`+member)
	}
	harness.Want(t, "a huge time to live", s.Result(harness.ProposalOnly, "tools/call", "echo",
		`"name":"echo","task":{"ttl":1e300}`), 3600*1000.0, "task", "ttl")
}

func TestQuotaOfAPrincipal(t *testing.T) {
	t.Parallel()
	settings := task.Settings{Anonymous: task.Quota{Unfinished: 2}}
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: settings}}, harness.AddEcho)
	for range 2 {
		s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)
	}
	s.Refuses("one more", -32603, "at most 2", harness.WithExtension, "tools/call", "echo", `"name":"echo"`)
}

// One anonymous caller must not fill the store for everybody, neither with tasks that have ended nor with large ones.
func TestQuotaOfAnonymousCallers(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]task.Quota{
		"at most 3 are kept": {Kept: 3},
		"at most 2000 bytes": {Bytes: 2000},
	} {
		s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{Anonymous: quota}}},
			harness.AddEcho)
		call := `"name":"echo","arguments":{"input":"` + strings.Repeat("x", 300) + `"}`
		created := 0
		for {
			_, response := s.Send(harness.WithExtension, "tools/call", "echo", call)
			if response["error"] != nil {
				break
			}
			id := harness.At(response, "result", "taskId").(string)
			s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
			if created++; created > 10 {
				t.Fatalf("%s: no task is refused", name)
			}
		}
		if code, message := s.Fault(harness.WithExtension, "tools/call", "echo", call); code != -32603 ||
			!strings.Contains(message, name) || created < 2 {
			t.Errorf("after %d tasks: %d %s, want %q", created, code, message, name)
		}
	}
}

// An answer for which there is no room is refused, and the task still waits.
func TestQuotaOfAnswers(t *testing.T) {
	t.Parallel()
	settings := task.Settings{Anonymous: task.Quota{Bytes: 2000}}
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: settings}}, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	s.Get(harness.WithExtension, id, "input_required")
	long := harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"`+strings.Repeat("x", 2000)+`"}}`)
	s.Refuses("a long answer", -32603, "2000 bytes", harness.WithExtension, "tasks/update", id, long)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"echo_input":{"action":"accept","content":{"input":"short"}}`)
	s.Get(harness.WithExtension, id, "completed")
}

func TestMaxTTLAlone(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{MaxTTL: time.Hour}}},
		harness.AddEcho)
	harness.Want(t, "the result", s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`), 3600000.0,
		"ttlMs")
}

func TestCanTellsWhetherThereWillBeATask(t *testing.T) {
	t.Parallel()
	can := func(_ context.Context, call *askback.Call) (string, error) {
		return fmt.Sprint(call.Can(askback.CapabilityTasks)), nil
	}
	plain := harness.AddTool("plain", func(ctx context.Context, call *askback.Call,
		_ struct{}) (string, error) {
		said, err := can(ctx, call)
		return said, err
	})
	detaching := harness.AddText("detaching", &askback.TaskSupport{AtDetach: true}, can)
	s := harness.NewTaskServer(t, nil, plain, detaching)
	for _, c := range []struct{ capabilities, params, want string }{
		{harness.WithExtension, `"name":"plain"`, "false"},
		{harness.WithExtension, `"name":"detaching"`, "true"},
		{harness.ProposalOnly, `"name":"detaching"`, "false"},
		{harness.ProposalOnly, `"name":"detaching","task":{}`, "true"},
	} {
		name := strings.Split(c.params, `"`)[3]
		expect.Equal[any](t, c.params, harness.Content(s.Result(c.capabilities, "tools/call", name, c.params)), c.want)
	}
	// A server without a store has no tasks, even for a client that can take them.
	none := harness.ServeTasks(t, harness.NewServer(t, nil,
		harness.AddText("detaching", &askback.TaskSupport{AtDetach: true},
			func(ctx context.Context, call *askback.Call) (string, error) {
				return "no task", call.Detach()
			})))
	expect.Equal(t, "without Options.Tasks",
		harness.Content(none.Result(harness.WithExtension, "tools/call", "detaching", `"name":"detaching"`)), "no task")
}

func TestOtherRequestsIgnoreTheMemberTask(t *testing.T) {
	t.Parallel()
	add := func(s *askback.Server) {
		s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *askback.Call,
			map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	}
	s := harness.NewTaskServer(t, nil, add)
	harness.Want(t, "the result", s.Result(harness.ProposalOnly, "prompts/get", "p",
		`"name":"p","task":{"ttl":"no number"}`), "complete", "resultType")
}

func TestRoundsGoOnAsATask(t *testing.T) {
	t.Parallel()
	for name, capabilities := range map[string]string{"extension": harness.WithExtension,
		"proposal": harness.ProposalOnly} {
		t.Run(name, func(t *testing.T) {
			var first, second atomic.Int32
			s := harness.NewTaskServer(t, nil, addPainter(&first, &second))
			params := `"name":"paint"`
			if capabilities == harness.ProposalOnly {
				params += `,"task":{"ttl":60000}`
			}
			asked := s.Result(capabilities, "tools/call", "paint", params)
			if asked["resultType"] != "input_required" || harness.At(asked, "inputRequests", "base") == nil ||
				asked["taskId"] != nil {
				t.Fatalf("round 1: %v", asked)
			}
			created := s.Result(capabilities, "tools/call", "paint",
				params+`,"inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},`+
					`"requestState":"`+asked["requestState"].(string)+`"`)
			if created["requestState"] != nil || created["inputRequests"] != nil {
				t.Errorf("round 2: %v", created)
			}
			// The response was lost, and the client repeats the round: there is still one task.
			again := s.Result(capabilities, "tools/call", "paint",
				params+`,"inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},`+
					`"requestState":"`+asked["requestState"].(string)+`"`)
			if again["taskId"] != created["taskId"] || harness.At(again, "task", "taskId") != harness.At(created, "task",
				"taskId") {
				t.Errorf("round 2 again: %v, after %v", again, created)
			}
			answer := `"inputResponses":{"top":{"action":"accept","content":{"color":"blue"}}}`
			var text any
			if capabilities == harness.WithExtension {
				id := created["taskId"].(string)
				if parked := s.Get(capabilities, id, "input_required"); harness.At(parked, "inputRequests", "top") == nil ||
					harness.At(parked, "inputRequests", "base") != nil {
					t.Errorf("parked: %v", parked)
				}
				s.Result(capabilities, "tasks/update", id, `"taskId":"`+id+`",`+answer)
				text = s.Text(capabilities, id)
			} else {
				id := harness.At(created, "task", "taskId").(string)
				s.Get(capabilities, id, "input_required")
				s.Result(capabilities, "tasks/input_response", "", answer+`,"taskId":"`+id+`"`)
				text = s.Result(capabilities, "tasks/result", "",
					`"taskId":"`+id+`"`)["content"].([]any)[0].(map[string]any)["text"]
			}
			expect.Equal(t, "result", text, "red+white/blue")
			// The round that detached ran twice, because the store has nothing of it before the Detach.
			if first.Load() != 2 || second.Load() != 1 {
				t.Errorf("mixed %d times, painted %d times", first.Load(), second.Load())
			}
		})
	}
}

func TestDetachIsNothingForAClientWithoutTasks(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	s := harness.NewTaskServer(t, nil, addPainter(&first, &second))
	state, answer := "", ""
	for _, key := range []string{"base", "top"} {
		asked := s.Result(harness.ProposalOnly, "tools/call", "paint", `"name":"paint"`+answer+state)
		if harness.At(asked, "inputRequests", key) == nil {
			t.Fatalf("%v", asked)
		}
		state = `,"requestState":"` + asked["requestState"].(string) + `"`
		answer = `,"inputResponses":{"` + key + `":{"action":"accept","content":{"color":"` + key + `"}}}`
	}
	done := s.Result(harness.ProposalOnly, "tools/call", "paint", `"name":"paint"`+answer+state)
	if text := done["content"].([]any)[0].(map[string]any)["text"]; text != "base+white/top" {
		t.Errorf("%v", done)
	}
}

func TestDetachDoesNotPassAnOpenQuestion(t *testing.T) {
	t.Parallel()
	passed := make(chan error, 10)
	s := harness.NewTaskServer(t, nil, harness.AddText("t", &askback.TaskSupport{AtDetach: true},
		func(ctx context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[harness.Color](call, "c", "Which?") // not checked before the Detach
			detached := call.Detach()
			passed <- detached
			return "", errors.Join(err, detached)
		}))
	for _, capabilities := range []string{harness.ProposalOnly, harness.WithExtension} {
		harness.Want(t, "the result", s.Result(capabilities, "tools/call", "t", `"name":"t"`), "input_required",
			"resultType")
		expect.Is(t, capabilities+": Detach", <-passed, askback.ErrInputRequired)
	}
}

func TestTaskGoesOnWithTheRequestAndTheRoundsOfItsCall(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddText("t", &askback.TaskSupport{AtDetach: true},
		func(ctx context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[harness.Color](call, "c", "Which?"); err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err
			}
			req := call.Request().(*mcp.CallToolRequest)
			return fmt.Sprintf("%d %v %s %v", call.Round(), req.Params.Meta["example.com/own"], req.Params.Name,
				req.Extra == nil), nil
		}))
	asked := s.Result(harness.WithExtension, "tools/call", "t", `"name":"t"`)
	const andOwn = harness.WithExtension + `,"example.com/own":"mine"` // another member of _meta
	created := s.Result(andOwn, "tools/call", "t",
		`"name":"t","inputResponses":{"c":{"action":"accept","content":{"color":"red"}}},"requestState":"`+
			asked["requestState"].(string)+`"`)
	done := s.Get(harness.WithExtension, created["taskId"].(string), "completed")
	expect.Equal(t, "the result", harness.Content(harness.At(done, "result").(map[string]any)), "3 mine t true")
}

// A round that becomes a task at once uses the answers that it carries.
func TestRoundThatBecomesATaskKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	asked := s.Result(harness.ProposalOnly, "tools/call", "echo", `"name":"echo"`)
	created := s.Result(harness.WithExtension, "tools/call", "echo",
		`"name":"echo","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}},`+
			`"requestState":"`+asked["requestState"].(string)+`"`)
	expect.Equal(t, "the result", s.Text(harness.WithExtension, created["taskId"].(string)), "Echo: x")
}

func TestReplayByAClientWithoutTasksIsRefused(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	s := harness.NewTaskServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)},
		addPainter(&first, &second))
	asked := s.Result(harness.ProposalOnly, "tools/call", "paint", `"name":"paint","task":{}`)
	again := `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"` +
		asked["requestState"].(string) + `"`
	s.Result(harness.ProposalOnly, "tools/call", "paint", again+`,"task":{}`)
	s.Refuses("without tasks", -32602, "", harness.ProposalOnly, "tools/call", "paint", again)
}

func TestReplayedRoundFindsItsTask(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	s := harness.NewTaskServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)},
		addPainter(&first, &second))
	asked := s.Result(harness.WithExtension, "tools/call", "paint", `"name":"paint"`)
	again := `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"` +
		asked["requestState"].(string) + `"`
	id := s.Start(harness.WithExtension, again)
	expect.Equal(t, "the task", s.Start(harness.WithExtension, again), id)
	s.Get(harness.WithExtension, id, "input_required")
	if got := s.Result(harness.WithExtension, "tools/call", "paint", again); got["status"] != "input_required" ||
		got["statusMessage"] != nil {
		t.Errorf("while it asks: %v", got)
	}
	// A client without the extension gets no task in the extension's form.
	s.Refuses("without the extension", -32021, "", harness.ProposalOnly, "tools/call", "paint", again+`,"task":{}`)
	// A task that has ended says so.
	s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	if got := s.Result(harness.WithExtension, "tools/call", "paint", again); got["status"] != "cancelled" ||
		got["statusMessage"] != "The task was cancelled by request." {
		t.Errorf("after its end: %v", got)
	}
}

// A round that detached can be repeated until its state expires.
func TestTasksAreKeptAsLongAsARoundCanBeRepeated(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: 10 * time.Minute,
		3 * time.Hour: 3 * time.Hour} {
		store := &purging{new(task.MemoryStore), make(chan time.Duration, 1)}
		harness.NewTaskServerOn(t, store, &askback.Options{Limits: askback.Limits{RoundTTL: ttl}}, harness.AddEcho)
		if got := <-store.grace; got != want {
			t.Errorf("RoundTTL %v: kept for %v, want %v", ttl, got, want)
		}
	}
}

// purging is a store that reports how long ended tasks stay.
type purging struct {
	task.Store
	grace chan time.Duration
}

func (p *purging) Purge(ctx context.Context, grace time.Duration, limit int) (int, error) {
	select {
	case p.grace <- grace:
	default:
	}
	return p.Store.Purge(ctx, grace, limit)
}

func TestTaskOutcomes(t *testing.T) {
	t.Parallel()
	add := harness.AddTask("end", nil, func(ctx context.Context, call *askback.Call, in struct {
		How string `json:"how"`
	}) (*mcp.CallToolResult, error) {
		switch in.How {
		case "error":
			return nil, errors.New("no luck")
		case "panic":
			panic("with a secret")
		case "sample":
			_, err := askback.Sample(call, "s", &mcp.CreateMessageWithToolsParams{MaxTokens: 1,
				Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}})
			return nil, err
		}
		return &mcp.CallToolResult{Meta: mcp.Meta{"own": 1}}, nil
	})
	s := harness.NewTaskServer(t, nil, add)
	end := func(how, status string) map[string]any {
		t.Helper()
		id := s.Start(harness.WithExtension, `"name":"end","arguments":{"how":"`+how+`"}`)
		return s.Get(harness.WithExtension, id, status)
	}
	if got := end("error", "completed"); harness.At(got, "result", "isError") != true || got["error"] != nil {
		t.Errorf("a tool's error: %v", got)
	}
	if got := end("panic", "failed"); harness.At(got, "error", "code") != -32603.0 || got["result"] != nil ||
		strings.Contains(fmt.Sprint(got), "secret") {
		t.Errorf("a panic: %v", got)
	}
	harness.Want(t, "a question that the client cannot be asked", end("sample", "failed"), -32021.0, "error", "code")
	harness.Want(t, "a result with _meta", end("", "completed"), 1.0, "result", "_meta", "own")
	// In the proposals' dialect a tool error is a failure of the task.
	id := s.Start(harness.ProposalOnly, `"name":"end","arguments":{"how":"error"},"task":{}`)
	harness.Want(t, "a tool's error in the proposals' dialect", s.Get(harness.ProposalOnly, id, "failed"), "no luck",
		"statusMessage")
	harness.Want(t, "its result", s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`), true,
		"isError")
	id = s.Start(harness.ProposalOnly, `"name":"end","arguments":{"how":""},"task":{}`)
	if final := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); harness.At(final, "_meta",
		"own") != 1.0 || harness.At(final, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("_meta of a result: %v", final)
	}
	id = s.Start(harness.ProposalOnly, `"name":"end","arguments":{"how":"panic"},"task":{}`)
	s.Refuses("the error of a failed task", -32603, "", harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
}

func TestManualStyleIsNoTask(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddTask("manual", nil,
		func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{RequestState: "mine"}, nil
		}))
	id := s.Start(harness.WithExtension, `"name":"manual"`)
	if done := s.Get(harness.WithExtension, id, "completed"); harness.At(done, "result", "isError") != true ||
		!strings.Contains(fmt.Sprint(done), "manual style") {
		t.Errorf("%v", done)
	}
}

func TestProgressOfATask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		total         float64
		message, want string
	}{{0, "", "1"}, {3, "", "1 of 3"}, {0, "laying bricks", "laying bricks"}, {3, "laying bricks",
		"laying bricks (1 of 3)"}} {
		gate := make(chan struct{})
		s := harness.NewTaskServer(t, nil, harness.AddText("t", nil,
			func(ctx context.Context, call *askback.Call) (string, error) {
				err := call.Progress(ctx, 1, c.total, c.message)
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return "", err
			}))
		id := s.Start(harness.WithExtension, `"name":"t"`)
		harness.Eventually(t, c.want, func() bool {
			return s.Result(harness.WithExtension, "tasks/get", id, `"taskId":"`+id+`"`)["statusMessage"] == c.want
		})
		close(gate)
	}
}

func TestTimeToLiveOfACallThatIsATask(t *testing.T) {
	synctest.Test(t, testTimeToLiveOfACallThatIsATask)
}

func testTimeToLiveOfACallThatIsATask(t *testing.T) {
	s := harness.NewTaskServer(t, nil, harness.AddText("t", nil, asksColors("c")))
	id := s.Start(harness.ProposalOnly, `"name":"t","task":{"ttl":300}`)
	now := s.Get(harness.WithExtension, id, "failed") // the same task, to a client of the extension
	if harness.At(now, "error", "code") != -32603.0 || !strings.Contains(fmt.Sprint(harness.At(now, "error", "message")),
		"time to live of 300ms") || now["statusMessage"] != harness.At(now, "error", "message") {
		t.Errorf("%v", now)
	}
	s.Refuses("tasks/result", -32603, "time to live", harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
}

// A tool asks in the same form in a call and in a task.
func TestToolsAndTasksAskAlike(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	inCall := s.Result(harness.ProposalOnly, "tools/call", "echo", `"name":"echo"`)
	id := s.Start(harness.ProposalOnly, `"name":"echo","task":{}`)
	s.Get(harness.ProposalOnly, id, "input_required")
	inTask := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	for _, member := range []string{"resultType", "inputRequests"} {
		if diff := cmp.Diff(inCall[member], inTask[member]); diff != "" || inCall[member] == nil {
			t.Errorf("%s (-call +task):\n%s", member, diff)
		}
	}
	if diff := cmp.Diff(inCall["inputRequests"], s.Get(harness.WithExtension, id,
		"input_required")["inputRequests"]); diff != "" {
		t.Errorf("in tasks/get of the extension (-call +task):\n%s", diff)
	}
}

func TestEveryKindOfQuestionInATask(t *testing.T) {
	t.Parallel()
	sampling := &mcp.CreateMessageWithToolsParams{MaxTokens: 1,
		Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}}
	tools := *sampling
	tools.Tools = []*mcp.Tool{{Name: "hammer", InputSchema: map[string]any{"type": "object"}}}
	add := harness.AddText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		var sampled, used *mcp.CreateMessageWithToolsResult
		var roots []*mcp.Root
		var err error
		if err = askback.ElicitURL(call, "url", "Please pay", "https://example.com/pay"); err != nil {
			return "", err
		}
		if sampled, err = askback.Sample(call, "sample", sampling); err != nil {
			return "", err
		}
		if used, err = askback.Sample(call, "use", &tools); err != nil {
			return "", err
		}
		if roots, err = askback.Roots(call, "roots"); err != nil {
			return "", err
		}
		return fmt.Sprint(len(sampled.Content), len(used.Content), len(roots)), nil
	})
	const can = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},` +
		`"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	s := harness.NewTaskServer(t, nil, add)
	id := s.Start(can, `"name":"t"`)
	const plain, use = `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, `{"role":"assistant",` +
		`"model":"m","content":[{"type":"tool_use","id":"1","name":"hammer","input":{}}]}`
	for _, step := range [][2]string{
		{"url", `{"action":"accept"}`},
		{"sample", plain},
		{"use", use},
		{"roots", `{"roots":[{"uri":"file:///x"}]}`},
	} {
		harness.Eventually(t, "question "+step[0], func() bool {
			return harness.At(s.Result(can, "tasks/get", id, `"taskId":"`+id+`"`), "inputRequests", step[0]) != nil
		})
		s.Result(can, "tasks/update", id, harness.Answered(id, `"`+step[0]+`":`+step[1]))
	}
	expect.Equal(t, "the result", s.Text(can, id), "1 1 1")
}

// asksColors asks for some colors together, and returns them.
func asksColors(keys ...string) func(context.Context, *askback.Call) (string, error) {
	return func(_ context.Context, call *askback.Call) (string, error) {
		var all string
		var errs []error
		for _, key := range keys {
			answer, err := askback.Elicit[harness.Color](call, key, strings.ToUpper(key)+"?")
			all, errs = all+answer.Color, append(errs, err)
		}
		return all, errors.Join(errs...)
	}
}

func TestPartialAnswers(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddText("two", nil, asksColors("a", "b")))
	id := s.Start(harness.WithExtension, `"name":"two"`)
	if parked := s.Get(harness.WithExtension, id, "input_required"); harness.At(parked, "inputRequests", "a") == nil ||
		harness.At(parked, "inputRequests", "b") == nil {
		t.Errorf("both are asked at once, but got %v", parked)
	}
	update := func(answers string) {
		t.Helper()
		s.Answer(id, answers)
	}
	update(`"b":{"action":"accept","content":{"color":"2"}}`)
	if now := s.Get(harness.WithExtension, id, "input_required"); harness.At(now, "inputRequests", "b") != nil ||
		harness.At(now, "inputRequests", "a") == nil {
		t.Errorf("%v", now)
	}
	update(`"b":{"action":"accept","content":{"color":"changed"}}`)
	update(`"a":{"action":"accept","content":{"color":"1"}}`)
	expect.Equal(t, "the result", s.Text(harness.WithExtension, id), "12")

	// In the other dialect they come with the answer to tasks/result.
	id = s.Start(harness.ProposalOnly, `"name":"two","task":{}`)
	for answered, open := range [][]string{{"a", "b"}, {"a"}} {
		asked, _ := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)["inputRequests"].(map[string]any)
		if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, open) {
			t.Errorf("after %d answers tasks/result asks %q, want %q", answered, got, open)
		}
		s.Result(harness.ProposalOnly, "tasks/input_response", "",
			`"taskId":"`+id+`","inputResponses":{"`+open[len(open)-1]+`":{"action":"accept","content":{"color":"3"}}}`)
	}
	expect.Equal(t, "the result",
		harness.Content(s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)), "33")
}

// An answered key is not used for another question of the same name. That question gets a new key,
// and its answer is found.
func TestKeysOfATaskAreNeverUsedAgain(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddText("t", nil,
		func(ctx context.Context, call *askback.Call) (string, error) {
			all := ""
			for i := range 3 {
				got, err := askback.Elicit[harness.Color](call, "c", fmt.Sprintf("Which, for the %d. time?", i+1))
				if err != nil {
					return "", err
				}
				all += got.Color
			}
			return all, nil
		}))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	for i, key := range []string{"c", "c#2", "c#3"} {
		harness.Eventually(t, "question "+key, func() bool {
			return harness.At(s.Result(harness.WithExtension, "tasks/get", id, `"taskId":"`+id+`"`), "inputRequests", key) != nil
		})
		s.Answer(id, fmt.Sprintf(`%q:{"action":"accept","content":{"color":"%d"}}`, key, i))
	}
	expect.Equal(t, "the result", s.Text(harness.WithExtension, id), "012")
}

// A new key differs from the keys of other questions.
func TestFreshKeyIsNotAnotherQuestions(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddText("t", nil, asksColors("k", "k#2")))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"k":{"action":"accept","content":{}}`)
	requests := s.Get(harness.WithExtension, id, "input_required")["inputRequests"].(map[string]any)
	again := "K?\n\nThe answer before this one does not fit: color: is required."
	if len(requests) != 2 || harness.At(requests, "k#2", "params", "message") != "K#2?" ||
		harness.At(requests, "k#3", "params", "message") != again {
		t.Fatalf("%v", requests)
	}
	s.Answer(id, `"k#3":{"action":"accept","content":{"color":7}}`)
	requests = s.Get(harness.WithExtension, id, "input_required")["inputRequests"].(map[string]any)
	if got := fmt.Sprint(harness.At(requests, "k#4", "params", "message")); strings.Count(got, "does not fit") != 1 ||
		!strings.Contains(got, "string") {
		t.Fatalf("after two answers that do not fit: %v", requests)
	}
	s.Answer(id, `"k#2":{"action":"accept","content":{"color":"2"}},"k#4":{"action":"accept",`+`"content":{"color":"1"}}`)
	expect.Equal(t, "the result", s.Text(harness.WithExtension, id), "12")
}

// A refused answer is asked again as long as the call has rounds left, including the last one.
func TestEveryRoundOfATaskMayBeUsed(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 2}}, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"echo_input":{"action":"accept","content":{}}`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"echo_input#2":{"action":"accept","content":{"input":"x"}}`)
	s.Get(harness.WithExtension, id, "completed")
}

func TestAnswersThatNeverFitEndATask(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 3}}, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	used := map[string]bool{}
	for i := range 3 {
		now := s.Result(harness.WithExtension, "tasks/get", id, `"taskId":"`+id+`"`)
		if now["status"] != "input_required" {
			now = s.Get(harness.WithExtension, id, "input_required")
		}
		for key := range now["inputRequests"].(map[string]any) {
			if used[key] {
				t.Errorf("the key %q is used again", key)
			}
			used[key] = true
			s.Result(harness.WithExtension, "tasks/update", id, fmt.Sprintf(
				`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"input":%d}}}`, id, key, i))
		}
	}
	expect.Contains(t, "the result", s.Get(harness.WithExtension, id, "failed")["statusMessage"].(string),
		"3 rounds per call")
}

func TestAnswersThatChangeNothing(t *testing.T) {
	t.Parallel()
	store := new(task.MemoryStore)
	var runs atomic.Int32
	s := harness.NewTaskServerOn(t, store, nil, harness.AddText("t", nil,
		func(ctx context.Context, call *askback.Call) (string, error) {
			runs.Add(1)
			return asksColors("a", "b")(ctx, call)
		}))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	s.Get(harness.WithExtension, id, "input_required")
	version := func() int64 {
		now := expect.Must(store.Get(t.Context(), id))(t)
		return now.Version
	}
	before := version()
	s.Answer(id, `"unknown":{"action":"accept"}`)
	expect.Equal(t, "an answer to no question was written", version(), before)
	// While a question is open the handler does not run, because it could not continue.
	s.Answer(id, `"a":{"action":"accept","content":{"color":"1"}}`)
	if claimed, err := store.Claim(t.Context(), "", nil, time.Minute, 1); err != nil || claimed != nil {
		t.Errorf("a task that still asks is due: %v, %v", claimed, err)
	}
	s.Answer(id, `"b":{"action":"accept","content":{"color":"2"}}`)
	s.Get(harness.WithExtension, id, "completed")
	expect.Equal(t, "runs", runs.Load(), 2)
}
