package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestEchoInTheProposalsDialect(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	created := harness.At(s.Result(harness.ProposalOnly, "tools/call", "echo", `"name":"echo","task":{"ttl":60000}`),
		"task").(map[string]any)
	id := created["taskId"].(string)
	if created["status"] != "working" || created["ttl"] != 60000.0 || created["pollInterval"] != 100.0 ||
		created["statusMessage"] != "Task has been created for echo tool invocation." {
		t.Errorf("created %v", created)
	}
	parked := s.Get(harness.ProposalOnly, id, "input_required")
	if parked["statusMessage"] != "Input Required to Proceed call tasks/result" || parked["inputRequests"] != nil ||
		parked["resultType"] != "complete" {
		t.Errorf("parked %v", parked)
	}
	asked := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if asked["resultType"] != "input_required" || harness.At(asked, "inputRequests", "echo_input",
		"method") != "elicitation/create" ||
		harness.At(asked, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("asked %v", asked)
	}
	// another member of _meta
	related := harness.ProposalOnly + `,"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}`
	// What was not requested leaves the task as it is, and it is asked again.
	ack := s.Result(related, "tasks/input_response", "",
		`"inputResponses":{"echo_input":{"action":"accept","content":{"not_requested_parameter":"x"}}}`)
	harness.Want(t, "acknowledged", ack, id, "_meta", "io.modelcontextprotocol/related-task", "taskId")
	harness.Want(t, "after an answer that does not fit",
		s.Result(harness.ProposalOnly, "tasks/get", "", `"taskId":"`+id+`"`), "input_required", "status")
	again := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if harness.At(again, "inputRequests", "echo_input#2", "method") != "elicitation/create" ||
		harness.At(again, "inputRequests", "echo_input") != nil {
		t.Errorf("asked again %v", again)
	}
	s.Result(related, "tasks/input_response", "",
		`"inputResponses":{"echo_input#2":{"action":"accept","content":{"input":"Hello World!"}},"unknown":{"x":1}}`)
	if done := s.Get(harness.ProposalOnly, id,
		"completed"); done["statusMessage"] != "Task has been completed successfully, call tasks/result" ||
		done["result"] != nil {
		t.Errorf("done %v", done)
	}
	final := s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if text := final["content"].([]any)[0].(map[string]any)["text"]; text != "Echo: Hello World!" ||
		final["isError"] != false ||
		harness.At(final, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("final %v", final)
	}
	s.Refuses("cancelling a task that ended", -32602, "already in terminal status 'completed'", harness.ProposalOnly,
		"tasks/cancel", "", `"taskId":"`+id+`"`)
}

func TestEchoInTheExtensionsDialect(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	created := s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)
	id := created["taskId"].(string)
	if created["resultType"] != "task" || created["status"] != "working" || created["ttlMs"] != 3600000.0 ||
		created["pollIntervalMs"] != 100.0 || created["task"] != nil {
		t.Errorf("created %v", created)
	}
	parked := s.Get(harness.WithExtension, id, "input_required")
	if harness.At(parked, "inputRequests", "echo_input", "params",
		"message") != "Please provide the input string to echo back" || parked["resultType"] != "complete" {
		t.Errorf("parked %v", parked)
	}
	ack := s.Result(harness.WithExtension, "tasks/update", id,
		`"taskId":"`+id+`","inputResponses":{"other":{"action":"accept"}}`)
	if len(ack) != 2 || ack["resultType"] != "complete" {
		t.Errorf("acknowledged %v", ack)
	}
	s.Answer(id, `"echo_input":{"action":"accept","content":{"input":"Hello World!"}}`)
	done := s.Get(harness.WithExtension, id, "completed")
	if text := harness.At(done, "result", "content").([]any)[0].(map[string]any)["text"]; text != "Echo: Hello World!" ||
		done["inputRequests"] != nil {
		t.Errorf("done %v", done)
	}
	// Repeated answers change nothing.
	s.Answer(id, `"echo_input":{"action":"decline"}`)
	s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	s.Get(harness.WithExtension, id, "completed")
	for _, method := range []string{"tasks/result", "tasks/list", "tasks/input_response", "tasks/whatever"} {
		status, response := s.Send(harness.WithExtension, method, id, `"taskId":"`+id+`"`)
		if status != http.StatusNotFound || harness.At(response, "error", "code") != -32601.0 {
			t.Errorf("%s: %d %v", method, status, response)
		}
	}
}

func TestProposalTaskForAClientWithoutTheExtension(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s := harness.NewTaskServer(t, nil, harness.AddText("t", nil,
		func(ctx context.Context, call *askback.Call) (string, error) {
			got, err := askback.Elicit[harness.Color](call, "c", "Which?")
			if err == nil {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return got.Color, err
		}))
	created := s.Result(harness.ProposalOnly, "tools/call", "t", `"name":"t","task":{"ttl":null}`)
	id, _ := harness.At(created, "task", "taskId").(string)
	if harness.At(created, "task", "ttl") != 3600000.0 ||
		harness.At(created, "_meta", "io.modelcontextprotocol/serverInfo", "name") != "test" {
		t.Errorf("created %v", created)
	}
	s.Get(harness.ProposalOnly, id, "input_required")
	s.Refuses("tasks/update", -32021, "", harness.ProposalOnly, "tasks/update", "",
		harness.Answered(id, `"c":{"action":"decline"}`))
	s.Refuses("with another Mcp-Name", -32020, "", harness.ProposalOnly, "tasks/get", "another", `"taskId":"`+id+`"`)
	s.Result(harness.ProposalOnly, "tasks/input_response", "",
		harness.Answered(id, `"c":{"action":"accept","content":{"color":"red"}}`))
	harness.Want(t, "the result", s.Get(harness.ProposalOnly, id, "working"), "The operation is now in progress.",
		"statusMessage")
	close(gate)
	harness.Want(t, "the result", s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`), "test",
		"_meta", "io.modelcontextprotocol/serverInfo", "name")
}

func TestRoutingHeadersOfTasks(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, name := range []string{"", "another"} {
			s.Refuses(fmt.Sprintf("%s with Mcp-Name %q", method, name), -32020, "", harness.WithExtension, method, name,
				`"taskId":"`+id+`","inputResponses":{}`)
		}
	}
}

func TestForeignTasksAreNone(t *testing.T) {
	t.Parallel()
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}
	s := harness.NewTaskServer(t, &askback.Options{Principal: principal}, harness.AddEcho)
	_, response := s.Send(harness.WithExtension, "tools/call", "echo", `"name":"echo"`, "X-User: alice")
	id := harness.At(response, "result", "taskId").(string)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := func(id string) string { return `"taskId":"` + id + `","inputResponses":{}` }
		_, foreign := s.Send(harness.WithExtension, method, id, params(id), "X-User: bob")
		_, none := s.Send(harness.WithExtension, method, "none", params("none"), "X-User: bob")
		if a, b := fmt.Sprint(foreign), fmt.Sprint(none); a != b || harness.At(foreign, "error", "code") != -32602.0 {
			t.Errorf("%s: a foreign task gives %s, none gives %s", method, a, b)
		}
	}
	// A client that does not declare the extension does not see it, either.
	s.Refuses("without the extension", -32021, "", harness.ProposalOnly, "tasks/get", "", `"taskId":"`+id+`"`,
		"X-User: alice")
	s.Refuses("tasks/result without the extension", -32602, "", harness.ProposalOnly, "tasks/result", "",
		`"taskId":"`+id+`"`, "X-User: alice")
	// The list has only the caller's own tasks.
	for _, user := range []string{"alice", "bob"} {
		_, _ = s.Send(harness.ProposalOnly, "tools/call", "echo", `"name":"echo","task":{}`, "X-User: "+user)
	}
	_, list := s.Send(harness.ProposalOnly, "tasks/list", "", "", "X-User: bob")
	expect.Equal(t, "bob sees", len(harness.At(list, "result", "tasks").([]any)), 1)
	s.Refuses("an anonymous caller's list", -32601, "", harness.ProposalOnly, "tasks/list", "", "")
}

// A caller who cannot be identified gets 403 from every method.
func TestStatusOfARefusedPrincipal(t *testing.T) {
	t.Parallel()
	refuse := false
	s := harness.NewTaskServer(t, &askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string, error) {
		if refuse {
			return "", fmt.Errorf("unknown")
		}
		return "alice", nil
	}}, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	refuse = true
	for _, c := range [][3]string{{"tools/call", "echo", `"name":"echo"`}, {"tasks/get", id, `"taskId":"` + id + `"`},
		{"subscriptions/listen", "", `"notifications":{"taskIds":["` + id + `"]}`}} {
		status, res := s.Send(harness.WithExtension, c[0], c[1], c[2])
		if status != 403 {
			t.Errorf("%s: %d %v", c[0], status, strings.TrimSpace(fmt.Sprint(res)))
		}
	}
}

func TestTasksListIsPaged(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true,
		Settings: task.Settings{Anonymous: task.Quota{Unfinished: 200}}}}, harness.AddEcho)
	created := map[string]bool{}
	for range 120 {
		created[s.Start(harness.ProposalOnly, `"name":"echo","task":{"ttl":60000}`)] = true
	}
	for cursor, pages := "", 1; ; pages++ {
		page := s.Result(harness.ProposalOnly, "tasks/list", "", strings.TrimSuffix(cursor, ","))
		for _, listed := range page["tasks"].([]any) {
			id := harness.At(listed, "taskId").(string)
			if !created[id] {
				t.Errorf("%s is listed twice, or not ours", id)
			}
			delete(created, id)
		}
		next, ok := page["nextCursor"].(string)
		if !ok {
			if pages != 3 || len(created) != 0 {
				t.Errorf("%d pages, %d tasks missing", pages, len(created))
			}
			break
		}
		cursor = `"cursor":"` + next + `"`
	}
	for _, cursor := range []string{`"x"`, `7`, `"!!!"`, `"` + strings.Repeat("A", 1000) + `"`} {
		s.Refuses(fmt.Sprintf("cursor %.20s", cursor), -32602, "", harness.ProposalOnly, "tasks/list", "",
			`"cursor":`+cursor)
	}
}

func TestListAgreesWithGet(t *testing.T) {
	t.Parallel()
	add := harness.AddTask("bad", nil, func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
		return nil, errors.New("API rate limit exceeded")
	})
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true}}, add)
	id := s.Start(harness.ProposalOnly, `"name":"bad","task":{}`)
	get := s.Get(harness.ProposalOnly, id, "failed")
	listed := s.Result(harness.ProposalOnly, "tasks/list", "", "")["tasks"].([]any)[0]
	if harness.At(listed, "status") != "failed" || harness.At(listed, "statusMessage") != get["statusMessage"] {
		t.Errorf("listed as %v, got as %v", listed, get)
	}
}

func TestTasksResultWaits(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	add := harness.AddTask("wait", nil, func(ctx context.Context, call *askback.Call,
		_ struct{}) (string, error) {
		if err := call.Progress(ctx, 1, 2, "waiting"); err != nil {
			return "", err
		}
		<-gate
		return "now", nil
	})
	s := harness.NewTaskServer(t, nil, add)
	id := s.Start(harness.ProposalOnly, `"name":"wait","task":{}`)
	for {
		if now := s.Get(harness.ProposalOnly, id, "working"); now["statusMessage"] == "waiting (1 of 2)" {
			break
		}
	}
	got := make(chan map[string]any)
	go func() { got <- s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`) }()
	select {
	case r := <-got:
		t.Fatalf("tasks/result did not wait: %v", r)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	if r := <-got; r["content"].([]any)[0].(map[string]any)["text"] != "now" {
		t.Errorf("%v", r)
	}
}

func TestWaitingForAResultCostsNothing(t *testing.T) {
	t.Parallel()
	store := &counting{Store: new(task.MemoryStore)}
	gate := make(chan struct{})
	log := new(harness.Log)
	s := harness.NewTaskServerOn(t, store, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))},
		harness.AddText("t", nil, func(context.Context, *askback.Call) (string, error) {
			<-gate
			return "", nil
		}))
	defer close(gate)
	id := s.Start(harness.ProposalOnly, `"name":"t","task":{}`)
	before := store.gets.Load()
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r := harness.Request{Method: "tasks/result", Header: http.Header{"Mcp-Name": nil},
			Body: `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"` + id +
				`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			Context: func(r *http.Request) *http.Request { return r.WithContext(ctx) }}
		r.Send(t, s.Handler)
	}()
	harness.Eventually(t, "look", func() bool { return store.gets.Load() >= before+2 })
	before = store.gets.Load()
	const others = 50
	for range others { // meanwhile other requests are served
		s.Result(harness.ProposalOnly, "tasks/get", "", `"taskId":"`+id+`"`)
	}
	if n := store.gets.Load() - before; n > others+20 {
		t.Errorf("%d rows were read for %d requests", n, others)
	}
	leave()
	<-gone
	// A client that disconnects does not count as a failure of the store.
	if strings.Contains(log.String(), "waiting for a task failed") {
		t.Errorf("the log has %s", log)
	}
}

// counting is a store that counts how often a row is read.
type counting struct {
	task.Store
	gets atomic.Int32
}

func (c *counting) Get(ctx context.Context, id string) (*task.Task, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, id)
}

// Until the answer arrives, a task that waits for input answers every tasks/result with input
// required, under the ID of that request. A state that comes with the answer is ignored.
func TestTasksResultAsksUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	id := s.Start(harness.ProposalOnly, `"name":"echo","task":{}`)
	s.Get(harness.ProposalOnly, id, "input_required")
	var first map[string]any
	for range 3 {
		status, response := s.Send(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
		asked, _ := response["result"].(map[string]any)
		if status != 200 || response["id"] != 1.0 || asked["resultType"] != "input_required" ||
			harness.At(asked, "inputRequests", "echo_input") == nil || asked["content"] != nil || asked["requestState"] != nil {
			t.Fatalf("asked: %d %v", status, response)
		}
		if first == nil {
			first = asked
		}
		expect.Diff(t, "asked differently (-first +now)", first, asked)
	}
	s.Result(harness.ProposalOnly, "tasks/input_response", "",
		`"taskId":"`+id+`","requestState":"forged","inputResponses":{"echo_input":{"action":"accept",`+
			`"content":{"input":"x"}}}`)
	expect.Equal(t, "final", harness.Content(s.Result(harness.ProposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)),
		"Echo: x")
}

// Malformed answers are a protocol error in both dialects, and leave the task unchanged.
func TestMalformedAnswersOfATaskAreRefused(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	for capabilities, method := range map[string]string{harness.ProposalOnly: "tasks/input_response",
		harness.WithExtension: "tasks/update"} {
		id := s.Start(harness.ProposalOnly, `"name":"echo","task":{}`)
		before := s.Get(harness.ProposalOnly, id, "input_required")
		for _, members := range []string{``, `,"inputResponses":[]`, `,"inputResponses":null`,
			`,"inputResponses":{"echo_input":"x"}`, `,"inputResponses":{"echo_input":null}`} {
			s.Refuses(fmt.Sprintf("%s with %s", method, members), -32602, "inputResponses", capabilities, method, id,
				`"taskId":"`+id+`"`+members)
		}
		if diff := cmp.Diff(before, s.Get(harness.ProposalOnly, id, "input_required")); diff != "" {
			t.Errorf("%s changed the task (-before +after):\n%s", method, diff)
		}
	}
}

// Only retries use answers and state, and only four methods are answered with input required. Other
// requests ignore them.
func TestOtherRequestsNeitherAskNorTakeAnswers(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true}}, harness.AddEcho,
		harness.AddGreet)
	id := s.Start(harness.ProposalOnly, `"name":"echo","task":{}`)
	s.Get(harness.ProposalOnly, id, "input_required")
	const more = `,"inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}},` +
		`"login":{"action":"accept","content":{"name":"x"}}},"requestState":"forged"`
	for _, test := range []struct{ capabilities, method, name, members string }{
		{harness.ProposalOnly, "tools/list", "", ""},
		{harness.ProposalOnly, "prompts/list", "", ""},
		{harness.ProposalOnly, "resources/list", "", ""},
		{harness.ProposalOnly, "resources/templates/list", "", ""},
		{harness.ProposalOnly, "server/discover", "", ""},
		{harness.ProposalOnly, "tasks/list", "", ""},
		{harness.ProposalOnly, "tasks/get", id, `,"taskId":"` + id + `"`},
		{harness.WithExtension, "tasks/get", id, `,"taskId":"` + id + `"`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,`+
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":%s}%s%s}}`,
			test.method, test.capabilities, test.members, more)
		res := harness.Request{Method: test.method, Target: test.name, Body: body}.Send(t, s.Handler)
		if res.Result == nil || res.Result.Type != "complete" || res.Result.State != "" {
			t.Errorf("%s: %s", test.method, res.Raw)
		}
	}
	harness.Want(t, "an answer was taken from a request that carries none",
		s.Result(harness.ProposalOnly, "tasks/get", "", `"taskId":"`+id+`"`), "input_required", "status")
	// The response to an answer is not a question, even if another one is open.
	ack := s.Result(harness.ProposalOnly, "tasks/input_response", "", `"taskId":"`+id+`","inputResponses":{"other":{}}`)
	if ack["resultType"] != "complete" || ack["inputRequests"] != nil {
		t.Errorf("acknowledged %v", ack)
	}
	if cancelled := s.Result(harness.ProposalOnly, "tasks/cancel", "",
		`"taskId":"`+id+`"`+more); cancelled["resultType"] != "complete" || cancelled["status"] != "cancelled" {
		t.Errorf("cancelled %v", cancelled)
	}
}

// journalReads counts how often journals of tasks are read. How fast the store is, is measured without a task.
type journalReads struct {
	task.Store
	n atomic.Int64
}

func (s *journalReads) Journal(ctx context.Context, id string, most int) ([]byte, [][]byte, error) {
	if id != "" {
		s.n.Add(1)
	}
	return s.Store.Journal(ctx, id, most)
}

// A status request costs the same for every task, because it does not read the journal.
func TestLookingAtATaskReadsNoJournal(t *testing.T) {
	t.Parallel()
	counted := &journalReads{Store: new(task.MemoryStore)}
	s := harness.NewTaskServerOn(t, counted, nil, harness.AddEcho)
	id := s.Start(harness.ProposalOnly, `"name":"echo","task":{}`)
	look := func(status string) {
		t.Helper()
		s.Get(harness.ProposalOnly, id, status)
		before := counted.n.Load()
		for _, capabilities := range []string{harness.ProposalOnly, harness.WithExtension} {
			s.Get(capabilities, id, status)
		}
		if now := counted.n.Load(); now != before {
			t.Errorf("%s: the journal was read %d times", status, now-before)
		}
	}
	look("input_required")
	s.Result(harness.ProposalOnly, "tasks/input_response", "",
		`"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`)
	look("completed")
}

func TestSecretsOfTasksAreNotLogged(t *testing.T) {
	t.Parallel()
	log := new(harness.Log)
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := harness.NewTaskServer(t, &askback.Options{Logger: logger}, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"echo_input":{"action":"accept","content":{"input":"the secret"}}`)
	s.Get(harness.WithExtension, id, "completed")
	if strings.Contains(log.String(), "the secret") || strings.Contains(log.String(), id) {
		t.Errorf("the log has %s", log.String())
	}
}

// brokenStore is a store whose reads and writes of tasks fail once it is broken.
type brokenStore struct {
	task.Store
	broken atomic.Bool
}

func (s *brokenStore) err() error {
	if s.broken.Load() {
		return errors.New("the disk is on fire")
	}
	return nil
}

func (s *brokenStore) Get(ctx context.Context, id string) (*task.Task, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, id)
}

func (s *brokenStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Update(ctx, t, u)
}

func TestIDsAreNotInTheLogWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	log := new(harness.Log)
	logger := slog.New(slog.NewJSONHandler(log, nil))
	store := &brokenStore{Store: new(task.MemoryStore)}
	s := harness.ServeTasks(t, harness.NewServer(t, &askback.Options{Logger: logger, Tasks: &askback.Tasks{Store: store}},
		harness.AddEcho))
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	store.broken.Store(true)
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if code, message := s.Fault(harness.WithExtension, method, id,
			`"taskId":"`+id+`","inputResponses":{}`); code != -32603 || strings.Contains(message, "disk") {
			t.Errorf("%s: %d %s", method, code, message)
		}
	}
	if strings.Contains(log.String(), id) || !strings.Contains(log.String(), "disk") {
		t.Errorf("the log has %s", log.String())
	}
}

// A subscription whose store fails ends with an error that tells nothing of the store.
func TestASubscriptionWhoseStoreFails(t *testing.T) {
	t.Parallel()
	store := &brokenStore{Store: new(task.MemoryStore)}
	s := harness.NewTaskServerOn(t, store, nil, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	s.Get(harness.WithExtension, id, "input_required")
	w := &breaking{httptest.NewRecorder(), store}
	s.Handler.ServeHTTP(w, harness.Request{Method: "subscriptions/listen", Header: http.Header{"Mcp-Name": nil},
		Body: harness.Message(1, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`,
			harness.WithExtension)}.HTTP(t))
	if got := w.Body.String(); !strings.Contains(got, "following a task failed: send the request again") ||
		strings.Contains(got, "disk") {
		t.Errorf("the stream ends with %s", got)
	}
}

// breaking breaks a store with the first part of a response.
type breaking struct {
	*httptest.ResponseRecorder
	store *brokenStore
}

func (w *breaking) Write(part []byte) (int, error) {
	w.store.broken.Store(true)
	return w.ResponseRecorder.Write(part)
}

// FuzzTasks sends arbitrary parameters to the methods about tasks.
func FuzzTasks(f *testing.F) {
	s := harness.NewTaskServer(f, nil, harness.AddEcho)
	id := s.Start(harness.WithExtension, `"name":"echo"`)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/input_response",
		"tasks/list", "subscriptions/listen", "tools/call"} {
		f.Add(method, "x", `"taskId":"x","inputResponses":{"echo_input":{"action":"accept"}}`)
		f.Add(method, "x", `"taskId":{},"cursor":"MTIz","task":{"ttl":1e999}`)
		f.Add(method, "", `"notifications":{"taskIds":["x",7]},"name":"echo","task":{"ttl":0.5}`)
		f.Add(method, id, `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":7}}}`)
	}
	f.Fuzz(func(t *testing.T, method, name, members string) {
		if method == "tasks/result" && strings.Contains(members, id) || method == "subscriptions/listen" &&
			strings.Contains(members, "Changed") {
			return // these wait
		}
		var params map[string]json.RawMessage
		if json.Unmarshal([]byte("{"+members+"}"), &params) != nil || params["_meta"] != nil ||
			strings.ContainsAny(method+name, "\r\n\x00") {
			return
		}
		for _, capabilities := range []string{harness.WithExtension, harness.ProposalOnly} {
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
			if members != "" {
				meta = "," + meta
			}
			r := harness.Request{Method: method, Target: name, Body: `{"jsonrpc":"2.0","id":1,"method":` +
				harness.Quote(method) + `,"params":{` + members + meta + `}}`}
			res := r.Send(t, s.Handler)
			if kind := res.Header.Get("Content-Type"); res.Status >= 500 || kind == "application/json" &&
				!json.Valid([]byte(res.Raw)) {
				t.Fatalf("status %d, %s: %q", res.Status, kind, res.Raw)
			}
		}
	})
}
