package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

func TestTaskOfTheExtension(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "in progress")),
		"tasks/get": inTurn(flat("working", `,"statusMessage":"in progress"`), flat("working", `,"statusMessage":"halfway"`),
			flat("input_required", ","+askWho), // then not accepted yet:
			flat("input_required", ","+askWho), flat("working", ""), flat("working", ""),
			strings.Replace(flat("completed", `,"result":`+done), "complete", "task", 1)),
		"tasks/update": always(`{"resultType":"complete"}`),
	})
	opts := patient()
	seen := observed(&opts)
	asked := 0
	form := opts.Form
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		asked++
		if q.Server == nil || q.Server.Name != "hostile" {
			t.Errorf("it is not clear who asks: %v", q.Server)
		}
		return form(ctx, q)
	}
	session := connect(t, opts, srv.transport(), "")
	ends(t, session)
	expect.Equal(t, "asked", asked, 1)
	want := []string{
		`1 tools/call working "in progress"`,
		`1 tasks/get working "halfway"`,
		`2 tasks/get input_required "" asks who`,
		`2 tasks/update input_required "" answers 1`,
		`2 tasks/get working ""`,
		`2 tasks/get completed "" final ` + done,
	}
	expect.Diff(t, "observed", want, *seen)
	if sent, _ := srv.sent("tasks/update"); len(sent) != 1 || sent[0] != `{"inputResponses":{"who":{"action":"accept",`+
		`"content":{"name":"octocat"}}},"taskId":"tâche/1"}` {
		t.Errorf("update: %s", sent)
	}
	for _, method := range []string{"tasks/get", "tasks/update"} {
		if _, headers := srv.sent(method); headers[0].Get("Mcp-Method") != method || headers[0].Get("Mcp-Name") != oddName ||
			headers[0].Get("Mcp-Protocol-Version") != "2026-07-28" {
			t.Errorf("%s: headers %v", method, headers[0])
		}
	}
	if got := srv.methods(); slices.Contains(got, "tasks/cancel") || slices.Contains(got, "tasks/result") {
		t.Errorf("sent %v", got)
	}
}

func TestTaskOfTheProposal(t *testing.T) {
	var answered atomic.Int64
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": inTurn(`{"inputRequests":{"first":`+formQuestion+`},"requestState":"s1"}`,
			`{"task":`+draft("Working")+`}`),
		"tasks/get": func(n int, _ message) string { // the status may be requested more often than it changes
			if n == 1 {
				return draft("working")
			}
			return draft([]string{"InputRequired", "input_require", "Completed"}[answered.Load()])
		},
		"tasks/result": inTurn(`{`+askWho+`,"requestState":"s2","_meta":{}}`,
			`{"resultType":"input_required",`+strings.ReplaceAll(askWho, `"who"`, `"again"`)+`}`,
			done),
		"tasks/input_response": func(n int, _ message) string {
			answered.Store(int64(n))
			return `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}`
		},
	})
	opts := patient()
	opts.Tasks = client.TasksProposal
	seen := observed(&opts)
	session := connect(t, opts, srv.transport(), "")
	expect.Equal(t, "the result", textOf(expect.Must(session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "t", Arguments: map[string]any{"a": 1}}))(t)), "done")
	want := []string{
		`1 tools/call asks first`,
		`2 tools/call working "it is Working" answers 1`,
		`2 tasks/get working "it is working"`,
		`2 tasks/get input_required "it is InputRequired"`,
		`3 tasks/result input_required "it is InputRequired" asks who`,
		`3 tasks/input_response input_required "it is InputRequired" answers 1`,
		`3 tasks/get input_required "it is input_require"`,
		`4 tasks/result input_required "it is input_require" asks again`,
		`4 tasks/input_response input_required "it is input_require" answers 1`,
		`4 tasks/get completed "it is Completed"`,
		`4 tasks/result completed "it is Completed" final ` + done,
	}
	expect.Diff(t, "observed", want, *seen)
	sent, _ := srv.sent("tools/call")
	expect.Diff(t, "calls", []string{
		`{"arguments":{"a":1},"name":"t","task":{}}`,
		`{"arguments":{"a":1},"inputResponses":{"first":{"action":"accept","content":{}}},"name":"t","requestState":"s1",` +
			`"task":{}}`,
	}, sent)
	sent, headers := srv.sent("tasks/input_response")
	expect.Diff(t, "answers", []string{
		`{"inputResponses":{"who":{"action":"accept","content":{"name":"octocat"}}},"requestState":"s2"}`,
		`{"inputResponses":{"again":{"action":"accept","content":{"name":"octocat"}}}}`,
	}, sent)
	expect.Equal(t, "Mcp-Name", headers[0].Get("Mcp-Name"), oddName)
	if slices.Contains(srv.methods(), "subscriptions/listen") {
		t.Error("the dialect has no subscriptions")
	}
}

// A draft's server asks again under the same key if the answer does not fit.
func TestTheProposalAsksAgainUnderTheSameKey(t *testing.T) {
	n := 0
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(`{"task":` + draft("working") + `}`),
		"tasks/get":  always(draft("input_required")),
		"tasks/result": func(int, message) string {
			if n < 2 {
				return `{` + askWho + `}`
			}
			return done
		},
		"tasks/input_response": func(k int, _ message) string { n = k; return `{}` },
	})
	opts := patient()
	opts.Tasks = client.TasksProposal
	asked := counted(&opts)
	ends(t, connect(t, opts, srv.transport(), ""))
	expect.Equal(t, "asked", *asked, 2)
}

func TestTaskOfASession(t *testing.T) {
	t.Parallel()
	t.Run("that the tool cannot do without", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		ends(t, session)
	})
	t.Run("that is a result without content", func(t *testing.T) {
		opts := patient()
		opts.Tasks = client.TasksProposal
		srv := serveTasks(t, map[string]func(int, message) string{"tools/call": always(`{"structuredContent":{"a":1}}`)})
		expect.Equal(t, "the result",
			fmt.Sprint(expect.Must(called(t, connect(t, opts, srv.transport(), ""), "t"))(t).StructuredContent), "map[a:1]")
	})
	t.Run("that the tool cannot be", func(t *testing.T) {
		opts := patient()
		opts.Tasks = client.TasksProposal
		srv := serveTasks(t, map[string]func(int, message) string{"tools/call": func(_ int, m message) string {
			if m.Params["task"] != nil {
				return `error {"code":-32601,"message":"no tasks here"}`
			}
			return done
		}})
		started, res, err := connect(t, opts, srv.transport(), "").StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, 0)
		if started != nil || said(t, res, err) != "done" {
			t.Errorf("got %v, %v", started, res)
		}
	})
	t.Run("by its id", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		started := start(t, session, "t", time.Minute)
		list, next, err := session.ListTasks(t.Context(), "")
		if err != nil || len(list) != 1 || list[0].ID != oddID || next != "2" {
			t.Errorf("list: %v, %q, %v", list, next, err)
		}
		if list, next, err = session.ListTasks(t.Context(), next); err != nil || len(list) != 0 || next != "" {
			t.Errorf("list: %v, %q, %v", list, next, err)
		}
		now, err := session.GetTask(t.Context(), started.ID)
		if err != nil || now.Status != "input_required" || now.Questions != nil {
			t.Errorf("get: %v, %v", now, err)
		}
		if err := session.AnswerTask(t.Context(), started.ID, map[string]any{}); err == nil {
			t.Error("an answer had no way to go")
		}
		expect.Equal(t, "the result", textOf(expect.Must(session.WaitTask(t.Context(), started.ID))(t)), "done")
	})
	t.Run("cancelled", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		expect.Check(t, session.CancelTask(t.Context(), oddID))
		_, err := session.WaitTask(t.Context(), oddID)
		if !errors.Is(err, client.ErrTaskCancelled) || !strings.Contains(err.Error(), "it is cancelled") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("parked", func(t *testing.T) {
		server := legacyServer(t, tasksCapability, required)
		opts := patient()
		opts.Form = park
		session := connect(t, opts, server, "2025-11-25")
		_, err := called(t, session, "t")
		pending, ok := parked(err)
		if !ok || pending.TaskID != oddID || len(pending.Questions) != 1 {
			t.Fatalf("got %v", err)
		}
		for range 20 { // the question gets no response, of which the server would complain, while the session goes on
			expect.Must(session.GetTask(t.Context(), oddID))(t)
		}
		session.Close()
		expect.Equal(t, "the result",
			textOf(expect.Must(connect(t, patient(), server, "2025-11-25").Resume(t.Context(), stored(t, pending)))(t)), "done")
	})
}

// A waiting task can be parked in a file, and answered later.
func TestTaskIsParkedAndResumed(t *testing.T) {
	for _, dialect := range []client.TaskDialect{client.TasksAuto, client.TasksProposal} {
		t.Run(string(dialect), func(t *testing.T) {
			var mu sync.Mutex
			var answered string
			two := `"inputRequests":{"who":` + formQuestion + `,"roots":{"method":"roots/list"}}`
			take := func(_ int, m message) string {
				mu.Lock()
				defer mu.Unlock()
				answered = string(m.Params["inputResponses"])
				if strings.Contains(string(m.Params["_meta"]), "extensions") != (dialect == client.TasksAuto) {
					t.Errorf("declares %s", m.Params["_meta"])
				}
				return `{}`
			}
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": func(_ int, m message) string {
					if dialect == client.TasksAuto {
						return created("working", "")
					}
					return `{"task":` + draft("working") + `}`
				},
				"tasks/get": func(int, message) string {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case dialect == client.TasksProposal && answered == "":
						return draft("input_required")
					case dialect == client.TasksProposal:
						return draft("completed")
					case answered == "":
						return flat("input_required", ","+two)
					}
					return flat("completed", `,"result":`+done)
				},
				"tasks/result": func(int, message) string {
					mu.Lock()
					defer mu.Unlock()
					if answered == "" {
						return `{` + two + `,"requestState":"s"}`
					}
					return done
				},
				"tasks/update": take, "tasks/input_response": take,
			})
			opts := patient()
			opts.Tasks = dialect
			opts.Form = park
			transport := srv.transport()
			_, err := connect(t, opts, transport, "").CallTool(t.Context(),
				&mcp.CallToolParams{Name: "t", Arguments: map[string]any{"a": 1}})
			pending, ok := parked(err)
			if !ok || pending.TaskID != oddID || len(pending.Answers) != 1 || pending.Expires == nil || pending.Round != 2 {
				t.Fatalf("got %v: %+v", err, pending)
			}
			expect.Equal(t, "err.Error()", err.Error(), `the task "tâche/1" waits for answers to "who"`)
			pending = stored(t, pending)

			// Still nobody answers: it is the same round.
			opts.Tasks = client.TasksAuto
			opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, errors.New("asked again") }
			_, err = connect(t, opts, transport, "").Resume(t.Context(), pending)
			if pending, ok = parked(err); !ok || pending.Round != 2 {
				t.Fatalf("got %v: %+v", err, pending)
			}
			opts.Form = patient().Form
			res := expect.Must(connect(t, opts, transport, "").Resume(t.Context(), stored(t, pending)))(t)
			if got := said(t, res.(*mcp.CallToolResult), nil); got != "done" ||
				!strings.Contains(answered, `"roots":[{"uri":"file:///src"}]`) {
				t.Errorf("got %q, answered %s", got, answered)
			}
		})
	}
}

// A stored answer is sent only to the question that it answers.
func TestResumedTaskAsksSomethingElse(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": always(flat("input_required",
			`,"inputRequests":{"who":`+formQuestion+`,"roots":{"method":"roots/list"}}`)),
		"tasks/update": always(`{}`),
	})
	opts := patient()
	opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, client.ErrPark }
	transport := srv.transport()
	_, err := called(t, connect(t, opts, transport, ""), "t")
	pending, ok := parked(err)
	if !ok || len(pending.Answers) != 1 {
		t.Fatal(err)
	}
	srv.now("tasks/get", func(int, message) string {
		if sent, _ := srv.sent("tasks/update"); len(sent) > 0 {
			return flat("completed", `,"result":`+done)
		}
		return flat("input_required", ","+askWho)
	})
	expect.Must(connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending)))(t)
	if sent, _ := srv.sent("tasks/update"); len(sent) != 1 || !strings.Contains(sent[0], "octocat") {
		t.Errorf("sent %s", sent)
	}
}

// When the waiting ends the task continues, and the error names it.
func TestTaskOutlivesTheWaiting(t *testing.T) { synctest.Test(t, testTaskOutlivesTheWaiting) }

func testTaskOutlivesTheWaiting(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get":  always(flat("working", "")),
	})
	opts := patient()
	opts.Limits.CallTTL = 200 * time.Millisecond
	web := inBubble(func(w http.ResponseWriter, m message) { srv.answer(w, new(http.Request), m) })
	session := connect(t, opts, &mcp.StreamableClientTransport{Endpoint: chosen, HTTPClient: &http.Client{Transport: web}},
		"")
	_, err := called(t, session, "t")
	waited, ok := waitEnded(err)
	if !ok || !isLimit("seconds per call")(err) || waited.Pending.TaskID != oddID {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = session.WaitTask(ctx, oddID)
	if waited, ok = waitEnded(err); !ok || !errors.Is(err, context.Canceled) || waited.Pending.TaskID != oddID {
		t.Errorf("got %v", err)
	}
	if slices.Contains(srv.methods(), "tasks/cancel") {
		t.Error("the task was cancelled")
	}
	srv.now("tasks/get", always(flat("completed", `,"result":`+done)))
	expect.Equal(t, "resumed", textOf(expect.Must(session.Resume(t.Context(), stored(t, waited.Pending)))(t)), "done")
}

func TestTaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		last string
		want func(err error) bool
	}{
		"failed": {flat("failed", `,"error":{"code":-32000,"message":"no luck","data":{"a":1}}`), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && fault.Code == -32000 && fault.Message == "no luck" && string(fault.Data) == `{"a":1}`
		}},
		"failed without an error": {flat("failed", `,"statusMessage":"too late"`), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && strings.Contains(fault.Message, "too late")
		}},
		"cancelled": {flat("cancelled", ""), func(err error) bool { return errors.Is(err, client.ErrTaskCancelled) }},
		"forgotten": {`error {"code":-32602,"message":"Task not found"}`, func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			_, waited := waitEnded(err)
			return ok && fault.Code == -32602 && errors.Is(err, client.ErrTaskUnknown) && !waited
		}},
	} {
		srv := serveTasks(t, map[string]func(int, message) string{
			"tools/call": always(created("working", "")), "tasks/get": inTurn(flat("working", ""), c.last),
		})
		_, err := called(t, connect(t, patient(), srv.transport(), ""), "t")
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task that fails while the client waits for its result has failed, with any kind of error.
func TestTaskFailsWhileWaitedFor(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tasks/get":    inTurn(draft("input_required"), draft("failed")),
		"tasks/result": always(`error {"code":-32602,"message":"no such bug"}`),
	})
	opts := patient()
	opts.Tasks = client.TasksProposal
	_, err := connect(t, opts, srv.transport(), "").WaitTask(t.Context(), oddID)
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	_, waited := waitEnded(err)
	if !ok || fault.Message != "no such bug" || waited || errors.Is(err, client.ErrTaskUnknown) {
		t.Errorf("got %v", err)
	}
}

// A task and the waiting for it survive restarts of the server.
func TestWaitingOutlivesFailures(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": inTurn("status 503", "status 500", `error {"code":-32603,"message":"the database is away"}`,
			flat("input_required", ","+askWho),
			"status 502", flat("completed", `,"result":`+done)),
		"tasks/update": inTurn("status 500", `{"resultType":"complete"}`),
	})
	ends(t, connect(t, patient(), srv.transport(), ""))
	// The client stops trying after a while, and at once for errors that a retry cannot help.
	for _, status := range []string{"500", "403"} {
		srv.now("tasks/get", always("status "+status))
		before := len(srv.methods())
		_, err := connect(t, patient(), srv.transport(), "").WaitTask(t.Context(), oddID)
		if _, ok := waitEnded(err); !ok || !strings.Contains(err.Error(), status) {
			t.Errorf("got %v", err)
		}
		if tries := len(srv.methods()) - before; tries > 15 || status == "403" && tries > 4 {
			t.Errorf("%s: tried %d times", status, tries)
		}
	}
}

// A server that is killed can end the connection in many ways.
func TestWaitingOutlivesBrokenResponses(t *testing.T) {
	const progress = "event: message\nretry: 1\ndata: " +
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"
	raw := func(w http.ResponseWriter, text string) {
		conn, out, err := w.(http.Hijacker).Hijack()
		if err == nil {
			fmt.Fprint(out, text)
			out.Flush()
			conn.Close()
		}
	}
	stream := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
	breaks := map[string]func(w http.ResponseWriter){
		"at once":     func(w http.ResponseWriter) { raw(w, "") },
		"in the head": func(w http.ResponseWriter) { raw(w, "HTTP/1.1 200 OK\r\nContent-Len") },
		"in the body": func(w http.ResponseWriter) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"json")
		},
		"an empty stream":    func(w http.ResponseWriter) { stream(w, "") },
		"a stream":           func(w http.ResponseWriter) { stream(w, progress) },
		"a stream with ids":  func(w http.ResponseWriter) { stream(w, "id: 1\n"+progress) },
		"a stream in a line": func(w http.ResponseWriter) { stream(w, "id: 1\n"+progress+"data: {\"json") },
	}
	for how, breakOff := range breaks {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			t.Run(how+" "+version, func(t *testing.T) {
				t.Parallel()
				s := serveTasks(t, map[string]func(int, message) string{
					"tasks/get":    inTurn(flat("input_required", ","+askWho), flat("completed", `,"result":`+done)),
					"tasks/update": always(`{"resultType":"complete"}`),
					"tasks/result": always(done),
				})
				var mu sync.Mutex
				broken := make(map[string]bool)
				transport := wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
					mu.Lock()
					first := strings.HasPrefix(m.Method, "tasks/") && !broken[m.Method]
					broken[m.Method] = true
					mu.Unlock()
					switch {
					case r.Method != http.MethodPost:
						w.WriteHeader(http.StatusMethodNotAllowed)
					case first:
						breakOff(w)
					default:
						s.answer(w, r, m)
					}
				})
				ctx := harness.InTime(t)
				opts := patient()
				opts.Limits.FirstPause = time.Millisecond
				expect.Equal(t, "the result", textOf(expect.Must(connect(t, opts, transport, version).WaitTask(ctx, oddID))(t)),
					"done")
				if !broken["tasks/get"] || !broken["tasks/update"] && !broken["tasks/result"] {
					t.Errorf("broken: %v", broken)
				}
			})
		}
	}
}

const askTwo = `"inputRequests":{"a":` + formQuestion + `,"b":` + formQuestion + `}`

// While some answers are missing, the others stay in the Pending, and their questions are not asked again.
func TestAnswersAreKept(t *testing.T) {
	for name, interrupted := range map[string]bool{"parked": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call":   always(created("working", "")),
				"tasks/get":    always(flat("input_required", ","+askTwo)),
				"tasks/update": always(`{}`),
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan struct{})
			resumed := false
			opts := patient()
			opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
				switch {
				case q.Key == "a" && resumed:
					t.Error("asked again")
				case q.Key == "a":
					defer close(answered)
				case !resumed && interrupted:
					<-answered
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				case !resumed:
					return nil, client.ErrPark
				}
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			var told []string
			opts.OnRound = func(_ context.Context, r *client.Round) error {
				for _, q := range r.Questions {
					told = append(told, q.Key)
				}
				if r.Method == "tasks/update" {
					srv.now("tasks/get", always(flat("completed", `,"result":`+done)))
				}
				return nil
			}
			session := connect(t, opts, srv.transport(), "")
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
			p, ok := parked(err)
			if waited, outlived := waitEnded(err); outlived && interrupted {
				p, ok = waited.Pending, true
			}
			if !ok || len(p.Answers) != 1 || p.Answers["a"] == nil {
				t.Fatalf("got %v, %v", p, err)
			}
			resumed = true
			expect.Equal(t, "resumed", textOf(expect.Must(session.Resume(t.Context(), stored(t, p)))(t)), "done")
			expect.Diff(t, "told of", []string{"a", "b", "b"}, told)
		})
	}
}

// Answers that could not be sent are in the Pending.
func TestAnswersThatWereNotSentAreKept(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call":   always(created("working", "")),
		"tasks/get":    always(flat("input_required", ","+askWho)),
		"tasks/update": always("status 403"),
	})
	_, err := called(t, connect(t, patient(), srv.transport(), ""), "t")
	if waited, ok := waitEnded(err); !ok || waited.Pending.Answers["who"] == nil {
		t.Errorf("got %v", err)
	}
}

// An answer that the server acknowledged and lost is sent again without asking the user.
func TestLostAnswersAreSentAgain(t *testing.T) {
	updates := 0
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": func(int, message) string {
			if updates < 2 {
				return flat("input_required", ","+askWho)
			}
			return flat("completed", `,"result":`+done)
		},
		"tasks/update": func(n int, _ message) string { updates = n; return `{}` },
	})
	opts := patient()
	asked := counted(&opts)
	ends(t, connect(t, opts, srv.transport(), ""))
	expect.Equal(t, "asked", *asked, 1)
	if sent, _ := srv.sent("tasks/update"); len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("sent %q", sent)
	}
}

// A parked answer counts for the question that it was given to, and for no other one with the same key.
func TestAParkedAnswerIsForItsQuestion(t *testing.T) {
	for name, key := range map[string]string{"the same question": "a", "another question": "who"} {
		t.Run(name, func(t *testing.T) {
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": always(created("working", "")),
				"tasks/get":  always(flat("input_required", ","+askTwo)),
			})
			asked := 0
			opts := patient()
			opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
				if q.Key == "b" {
					return nil, client.ErrPark
				}
				asked++
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			session := connect(t, opts, srv.transport(), "")
			_, err := called(t, session, "t")
			p, ok := parked(err)
			if !ok || p.Answers["a"] == nil {
				t.Fatalf("got %v", err)
			}
			now := askTwo
			if key == "who" {
				now = strings.Replace(askWho, `"who":`, `"a":`, 1)
			}
			srv.now("tasks/get", always(flat("input_required", ","+now)))
			_, err = session.Resume(t.Context(), stored(t, p))
			again := asked == 2
			if again != (key == "who") {
				t.Errorf("asked %d times, %v", asked, err)
			}
		})
	}
}

// Nor does a Pending hold the answer to an earlier question with the key of one that is open.
func TestAPendingHasNoAnswerOfAnotherQuestion(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": inTurn(flat("input_required", `,"inputRequests":{"who":`+formQuestion+`}`),
			flat("input_required", ","+askWho)),
		"tasks/update": always(`{}`),
	})
	_, err := called(t, connect(t, patient(), srv.transport(), ""), "t")
	if waited, ok := waitEnded(err); !ok || !isProtocol(err) || len(waited.Pending.Answers) > 0 {
		t.Errorf("got %v", err)
	}
	if answers, _ := srv.sent("tasks/update"); len(answers) != 1 {
		t.Errorf("sent %v", answers)
	}
}

// A task may ask as often as the limit of rounds says, and nobody answers what would be one round more.
func TestRoundsOfATaskAreBounded(t *testing.T) {
	for _, rounds := range []int{1, 3} {
		srv := serveTasks(t, map[string]func(int, message) string{
			"tools/call": always(created("working", "")),
			"tasks/get": func(n int, _ message) string {
				if n > 9 {
					return flat("completed", `,"result":`+done)
				}
				return flat("input_required", fmt.Sprintf(`,"inputRequests":{"q%d":%s}`, n, formQuestion))
			},
			"tasks/update": always(`{}`),
		})
		opts := patient()
		opts.Limits.Rounds = rounds
		opts.Form = acting("decline")
		asked := counted(&opts)
		_, err := called(t, connect(t, opts, srv.transport(), ""), "t")
		// The call itself is the first round.
		if want := rounds - 1; !isLimit("rounds per call")(err) || *asked != want {
			t.Errorf("with %d rounds: asked %d times, want %d; %v", rounds, *asked, want, err)
		}
	}
}

// If one question of a round cannot be answered, nobody is asked the others: the answers could not be sent.
func TestNobodyIsAskedBesideAnUndeclaredQuestion(t *testing.T) {
	const both = `"inputRequests":{"a":` + formQuestion + `,"b":{"method":"roots/list","params":{}}}`
	for name, srv := range map[string]*tasks{
		"a call": serveTasks(t, map[string]func(int, message) string{
			"tools/call": always(`{"resultType":"input_required","requestState":"s",` + both + `}`),
		}),
		"a task": serveTasks(t, map[string]func(int, message) string{
			"tools/call": always(created("working", "")),
			"tasks/get":  always(flat("input_required", ","+both)),
		}),
	} {
		opts := patient()
		opts.Roots = nil
		opts.Form = acting("decline")
		asked := counted(&opts)
		_, err := called(t, connect(t, opts, srv.transport(), ""), "t")
		if !isUndeclared("roots")(err) || *asked != 0 {
			t.Errorf("%s: asked %d times; %v", name, *asked, err)
		}
	}
}
