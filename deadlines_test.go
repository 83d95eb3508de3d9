package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

const days = 24 * time.Hour

// whoWithin asks for a name, for so long.
func whoWithin(call *askback.Call, key string, within time.Duration) (string, error) {
	l, err := askback.ElicitWith[harness.Login](call, key, askback.Question{Message: key + "?", Within: within,
		Schema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			"required": []string{"name"}}})
	if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
		return fmt.Sprintf("nobody in %v", late.Deadline.Sub(late.Asked)), nil
	}
	return l.Name, err
}

// sessionAnswer is what the user of a session does with a question, after a time. Nil is nothing.
type sessionAnswer struct {
	after   time.Duration
	content map[string]any
}

// In a session a question waits until its deadline and no longer, whatever the times to live of a round and of a call
// are. Then the client is told that it is cancelled, and what the client answers all the same does not count. A
// question without a deadline has the time of a round, and the call that of a call, counted from when the other was
// settled.
func TestDeadlinesInSessions(t *testing.T) {
	ada := map[string]any{"name": "Ada"}
	unfit := func(n int) map[string]any { return map[string]any{"name": n} }
	for _, c := range []struct {
		says      string
		tool      func(call *askback.Call) (string, error)
		answers   map[string][]sessionAnswer // by message, in turn
		want      string
		after     time.Duration
		cancelled []string // the questions that the client is told are cancelled, and when
	}{
		{says: "answered after the time of a round, and of a call",
			tool:    func(call *askback.Call) (string, error) { return whoWithin(call, "who", 3*days) },
			answers: map[string][]sessionAnswer{"who?": {{2 * days, ada}}}, want: "Ada", after: 2 * days},
		{says: "answered a millisecond before",
			tool:    func(call *askback.Call) (string, error) { return whoWithin(call, "who", 3*days) },
			answers: map[string][]sessionAnswer{"who?": {{3*days - time.Millisecond, ada}}}, want: "Ada",
			after: 3*days - time.Millisecond},
		{says: "answered later",
			tool:    func(call *askback.Call) (string, error) { return whoWithin(call, "who", 3*days) },
			answers: map[string][]sessionAnswer{"who?": {{3*days + time.Millisecond, ada}}},
			want:    "nobody in 72h0m0s", after: 3 * days, cancelled: []string{"who? after 72h0m0s"}},
		{says: "together, one of them in time",
			tool: func(call *askback.Call) (string, error) {
				quick, err1 := whoWithin(call, "quick", time.Minute)
				slow, err2 := whoWithin(call, "slow", 2*days)
				third, err3 := whoWithin(call, "third", 3*days)
				return fmt.Sprintf("%s, %s, %s", quick, slow, third), errors.Join(err1, err2, err3)
			},
			answers: map[string][]sessionAnswer{"third?": {{50 * time.Hour, ada}}, "quick?": {{30 * time.Second, ada}}},
			want:    "Ada, nobody in 48h0m0s, Ada", after: 50 * time.Hour, cancelled: []string{"slow? after 48h0m0s"}},
		{says: "asked again because an answer does not fit, which begins nothing anew",
			tool: func(call *askback.Call) (string, error) { return whoWithin(call, "who", 3*days) },
			answers: map[string][]sessionAnswer{
				"who?": {{1 * days, unfit(1)}, {1 * days, unfit(2)}, {1*days + time.Second, ada}},
			},
			want: "nobody in 72h0m0s", after: 3 * days, cancelled: []string{"who? after 72h0m0s"}},
		{says: "and then another, without a deadline",
			tool: func(call *askback.Call) (string, error) {
				who, err := whoWithin(call, "who", 3*days)
				if err != nil {
					return "", err
				}
				what, err := whoWithin(call, "what", 0)
				return who + ", " + what, err
			},
			answers: map[string][]sessionAnswer{"what?": {{59 * time.Minute, ada}}},
			want:    "nobody in 72h0m0s, Ada", after: 3*days + 59*time.Minute, cancelled: []string{"who? after 72h0m0s"}},
		{says: "beside one without a deadline, which has the time of a round",
			tool: func(call *askback.Call) (string, error) {
				who, err1 := whoWithin(call, "who", 3*days)
				what, err2 := whoWithin(call, "what", 0)
				return who + what, errors.Join(err1, err2)
			},
			want: "the limit of 3600 seconds per round is reached", after: time.Hour,
			cancelled: []string{"what? after 1h0m0s", "who? after 1h0m0s"}},
		{says: "and then the time of a call",
			tool: func(call *askback.Call) (string, error) {
				_, err := whoWithin(call, "who", 3*days)
				for i := 0; err == nil; i++ {
					_, err = whoWithin(call, fmt.Sprint("more ", i), 0)
				}
				return "", err
			},
			answers: map[string][]sessionAnswer{"who?": {{2 * days, ada}}, "": {{50 * time.Minute, ada}}},
			want:    "the limit of 86400 seconds per call is reached", after: 3 * days,
			cancelled: []string{"more 28? after 40m0s"}},
		{says: "without a deadline the call has its own time",
			tool: func(call *askback.Call) (string, error) {
				for i := 0; ; i++ {
					if _, err := whoWithin(call, fmt.Sprint("more ", i), 0); err != nil {
						return "", err
					}
				}
			},
			answers: map[string][]sessionAnswer{"": {{50 * time.Minute, ada}}},
			want:    "the limit of 86400 seconds per call is reached", after: days,
			cancelled: []string{"more 28? after 40m0s"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := func(_ context.Context, call *askback.Call, _ struct{}) (string, error) { return c.tool(call) }
				srv := harness.NewServer(t, &askback.Options{Limits: askback.Limits{Rounds: 100}}, harness.AddTool("x", tool))
				var mu sync.Mutex // the client may be asked several questions at once
				var cancelled []string
				turn := map[string]int{}
				client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
					Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}},
				})
				client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						q, ok := req.GetParams().(*mcp.ElicitParams)
						if !ok {
							return next(ctx, method, req)
						}
						asked := time.Now()
						message, _, _ := strings.Cut(q.Message, "\n")
						mu.Lock()
						answers, found := c.answers[message]
						if !found {
							answers = c.answers[""]
						} else {
							answers = answers[turn[message]:]
							turn[message]++
						}
						if len(answers) == 0 {
							answers = []sessionAnswer{{1000 * days, ada}}
						}
						first := asked
						if turn[message] > 1 {
							first = time.Time{}
						}
						mu.Unlock()
						wait := time.After(answers[0].after)
						select {
						case <-wait:
						case <-ctx.Done():
							since := time.Since(asked)
							if first.IsZero() {
								since = c.after // asked again
							}
							mu.Lock()
							cancelled = append(cancelled, fmt.Sprint(message, " after ", since))
							mu.Unlock()
							if answers[0].after < 1000*days {
								<-wait // and answers all the same
							}
						}
						return &mcp.ElicitResult{Action: "accept", Content: answers[0].content}, nil
					}
				})
				here, there := mcp.NewInMemoryTransports()
				session := expect.Must(srv.Connect(t.Context(), there, nil))(t)
				conn := expect.Must(client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}))(t)
				began := time.Now()
				result, err := conn.CallTool(t.Context(), &mcp.CallToolParams{Name: "x"})
				took, got := time.Since(began), fmt.Sprint(err)
				if err == nil {
					got = result.Content[0].(*mcp.TextContent).Text
				}
				synctest.Wait()
				if !strings.HasSuffix(got, c.want) || took != c.after {
					t.Errorf("%s after %v, want %s after %v", got, took, c.want, c.after)
				}
				mu.Lock()
				if fmt.Sprint(slices.Sorted(slices.Values(cancelled))) != fmt.Sprint(c.cancelled) {
					t.Errorf("cancelled are %q, want %q", cancelled, c.cancelled)
				}
				mu.Unlock()
				time.Sleep(time.Minute) // late answers come
				if _, err := conn.ListTools(t.Context(), nil); err != nil {
					t.Errorf("after a late answer: %v", err)
				}
				conn.Close()
				_ = session.Wait()
				time.Sleep(2000 * days)
			})
		})
	}
}

// sleeper is a server with tasks in a bubble of time, on a store that others share.
type sleeper struct {
	t    *testing.T
	h    http.Handler
	stop func()
}

func newSleeper(t *testing.T, store task.Store, tool func(ctx context.Context, call *askback.Call) (string, error),
) *sleeper {
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, harness.AddText("x", nil, tool))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = srv.RunTasks(ctx) })
	s := &sleeper{t, srv.HTTPHandler(nil), func() { cancel(); running.Wait() }}
	return s
}

// send sends a request, and returns its result or error.
func (s *sleeper) send(method, target, members string) map[string]any {
	s.t.Helper()
	r := harness.Request{Method: method, Target: target, Body: harness.Message(1, method, members, harness.WithExtension)}
	var m map[string]any
	expect.Check(s.t, json.Unmarshal([]byte(r.Send(s.t, s.h).Raw), &m))
	if result, ok := m["result"].(map[string]any); ok {
		return result
	}
	return m["error"].(map[string]any)
}

// call begins a task, and returns its ID.
func (s *sleeper) call() string {
	id, _ := s.send("tools/call", "x", `"name":"x"`)["taskId"].(string)
	synctest.Wait()
	return id
}

// status returns the status of a task, and the keys of its open questions, the text of its result, or its error.
func (s *sleeper) status(id string) string {
	s.t.Helper()
	now := s.send("tasks/get", id, `"taskId":"`+id+`"`)
	got := fmt.Sprint(now["status"])
	if open, ok := now["inputRequests"].(map[string]any); ok {
		got += fmt.Sprint(" ", slices.Sorted(maps.Keys(open)))
	}
	if result, ok := now["result"].(map[string]any); ok {
		got += fmt.Sprint(" ", harness.Content(result))
	}
	if failed, ok := now["error"].(map[string]any); ok {
		got += fmt.Sprint(" ", failed["message"])
	}
	return got
}

// is checks the status of a task.
func (s *sleeper) is(id, want string) {
	s.t.Helper()
	expect.Equal(s.t, "the task", s.status(id), want)
}

func (s *sleeper) update(id, answers string) map[string]any {
	result := s.send("tasks/update", id, harness.Answered(id, answers))
	synctest.Wait()
	return result
}

// A question of a task waits until its deadline, longer than the task would live without it, and so does a sleep. What
// comes late is told so, and the other answers with it count.
func TestDeadlinesInTasks(t *testing.T) {
	const ada = `"who":{"action":"accept","content":{"name":"Ada"}}`
	const tea = `"what":{"action":"accept","content":{"name":"tea"}}`
	both := func(_ context.Context, call *askback.Call) (string, error) {
		who, err1 := whoWithin(call, "who", 30*time.Minute)
		what, err2 := whoWithin(call, "what", 0)
		return who + ", " + what, errors.Join(err1, err2)
	}
	for says, run := range map[string]func(t *testing.T, store *task.MemoryStore){
		"answered in time": func(t *testing.T, store *task.MemoryStore) {
			s := newSleeper(t, store, both)
			defer s.stop()
			id := s.call()
			time.Sleep(30*time.Minute - time.Second)
			s.is(id, "input_required [what who]")
			s.update(id, ada)
			time.Sleep(time.Minute)
			s.is(id, "input_required [what]")
			s.update(id, tea)
			s.is(id, "completed Ada, tea")
		},
		"late, beside one that counts": func(t *testing.T, store *task.MemoryStore) {
			s := newSleeper(t, store, both)
			defer s.stop()
			id := s.call()
			time.Sleep(30*time.Minute + 2*time.Second)
			s.is(id, "input_required [what]")
			got := s.update(id, ada+","+tea)
			if want := `too late: the deadline of ["who"]`; got["code"] != float64(-32602) ||
				!strings.HasPrefix(fmt.Sprint(got["message"]), want) {
				t.Errorf("a late answer: %v", got)
			}
			s.is(id, "completed nobody in 30m0s, tea")
		},
		"late, before anybody has found out": func(t *testing.T, store *task.MemoryStore) {
			s := newSleeper(t, store, both)
			id := s.call()
			s.stop() // nobody expires questions
			time.Sleep(30 * time.Minute)
			got := s.update(id, ada+","+tea)
			if want := `too late: the deadline of ["who"]`; got["code"] != float64(-32602) ||
				!strings.HasPrefix(fmt.Sprint(got["message"]), want) {
				t.Errorf("a late answer: %v", got)
			}
			s.is(id, "input_required [who]")
			s = newSleeper(t, store, both)
			defer s.stop()
			time.Sleep(2 * time.Second)
			s.is(id, "completed nobody in 30m0s, tea")
		},
		"an answer that does not fit begins nothing anew": func(t *testing.T, store *task.MemoryStore) {
			s := newSleeper(t, store, both)
			defer s.stop()
			id := s.call()
			time.Sleep(20 * time.Minute)
			s.update(id, `"who":{"action":"accept","content":{"name":1}},`+tea)
			s.is(id, "input_required [who#2]")
			time.Sleep(10*time.Minute + 2*time.Second)
			s.is(id, "completed nobody in 30m0s, tea")
		},
		"a sleep, beside a question": func(t *testing.T, store *task.MemoryStore) {
			began := time.Now()
			tool := func(_ context.Context, call *askback.Call) (string, error) {
				slept := call.Sleep("nap", 50*time.Minute)
				what, err := whoWithin(call, "what", 0)
				if err := errors.Join(slept, err); err != nil {
					return "", err
				}
				return fmt.Sprint(what, " after ", time.Since(began).Round(time.Minute)), nil
			}
			s := newSleeper(t, store, tool)
			id := s.call()
			s.is(id, "input_required [what]")
			time.Sleep(20 * time.Minute)
			s.update(id, tea)
			s.is(id, "working")
			s.stop() // and another instance goes on
			time.Sleep(10 * time.Minute)
			s = newSleeper(t, store, tool)
			defer s.stop()
			time.Sleep(20*time.Minute - time.Second)
			s.is(id, "working")
			time.Sleep(3 * time.Second)
			s.is(id, "completed tea after 50m0s")
		},
		"cancelled while it sleeps": func(t *testing.T, store *task.MemoryStore) {
			var happened []string
			s := newSleeper(t, store, func(ctx context.Context, call *askback.Call) (string, error) {
				call.OnCancel(func(context.Context) error { happened = append(happened, "cleaned up"); return nil })
				err := call.Do(ctx, "begin", func(context.Context) error { happened = append(happened, "begun"); return nil })
				if err == nil {
					err = call.Sleep("nap", 50*time.Minute)
				}
				if err == nil {
					happened = append(happened, "slept")
				}
				return "", err
			})
			defer s.stop()
			id := s.call()
			time.Sleep(10 * time.Minute)
			s.send("tasks/cancel", id, `"taskId":"`+id+`"`)
			time.Sleep(50 * time.Minute)
			synctest.Wait() // for what the worker has written
			expect.Equal(t, "happened", fmt.Sprint(happened), "[begun cleaned up]")
		},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, new(task.MemoryStore)) })
		})
	}
}

// A task may sleep as often as it likes, because nobody is asked meanwhile. Its questions have the limit of rounds all
// the same, wherever a sleep stands: before them, beside them, or before answers that do not fit. A task that reaches
// the limit leaves the other tasks as they are.
func TestSleepsCountAsNoRounds(t *testing.T) {
	const most, pause = 32, 5 * time.Second // the limit, by default
	key := func(i int) string { return fmt.Sprint("who ", i) }
	asks := func(n int, beside bool) func(context.Context, *askback.Call) (string, error) {
		return func(_ context.Context, call *askback.Call) (string, error) {
			for i := range n {
				err := call.Sleep(fmt.Sprint("pause ", i), pause)
				if err == nil || beside {
					_, asked := whoWithin(call, key(i), 0)
					err = errors.Join(err, asked)
				}
				if err != nil {
					return "", err
				}
			}
			return fmt.Sprint(n, " answers"), nil
		}
	}
	const limit = "failed the limit of 32 rounds per call is reached"
	for says, c := range map[string]struct {
		asks   int
		beside bool
		first  bool // the answer comes first, and then the sleep ends
		want   string
	}{
		"a sleep before each question":                {asks: most, want: "completed 32 answers"},
		"one question more":                           {asks: most + 1, want: limit},
		"a sleep beside each question":                {asks: most, beside: true, first: true, want: "completed 32 answers"},
		"one question more, beside a sleep":           {asks: most + 1, beside: true, first: true, want: limit},
		"a sleep that ends beside an open question":   {asks: most / 2, beside: true, want: "completed 16 answers"},
		"one question more that stays open meanwhile": {asks: most/2 + 1, beside: true, want: limit},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSleeper(t, new(task.MemoryStore), asks(c.asks, c.beside))
				defer s.stop()
				id, other := s.call(), s.call()
				for i := range c.asks {
					if !c.first {
						time.Sleep(pause + 2*time.Second)
					}
					s.update(id, `"`+key(i)+`":{"action":"accept","content":{"name":"Ada"}}`)
					for c.first && s.status(id) == "working" {
						time.Sleep(time.Second)
					}
				}
				s.is(id, c.want)
				s.is(other, "input_required [who 0]")
			})
		})
	}
	t.Run("answers that do not fit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t, new(task.MemoryStore), func(_ context.Context, call *askback.Call) (string, error) {
				for i := range 2 * most {
					if err := call.Sleep(fmt.Sprint("pause ", i), pause); err != nil {
						return "", err
					}
				}
				return whoWithin(call, "who", 0)
			})
			defer s.stop()
			id, other := s.call(), s.call()
			time.Sleep(2 * most * (pause + 2*time.Second))
			for i, wire := 1, "who"; i <= most; i++ {
				s.is(id, "input_required ["+wire+"]")
				s.update(id, fmt.Sprintf(`%q:{"action":"accept","content":{"name":%d}}`, wire, i))
				wire = fmt.Sprint("who#", i+1)
			}
			s.is(id, limit+`; the last answer to the question "who" does not fit: name: must be a string`)
			s.update(other, `"who":{"action":"accept","content":{"name":"Grace"}}`)
			s.is(other, "completed Grace")
		})
	})
}

// A watch that looks every so often goes on for as long as it has to, at any instance, and each look happens once.
func TestAWatchSleepsOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const often, pause = 100, 10 * time.Second
		looked := 0
		store := new(task.MemoryStore)
		tool := func(ctx context.Context, call *askback.Call) (string, error) {
			for i := range often {
				err := call.Do(ctx, fmt.Sprint("look ", i), func(context.Context) error { looked++; return nil })
				if err == nil {
					err = call.Sleep(fmt.Sprint("pause ", i), pause)
				}
				if err != nil {
					return "", err
				}
			}
			return fmt.Sprint("looked ", looked, " times, the last time in run ", call.Round()), nil
		}
		s := newSleeper(t, store, tool)
		id := s.call()
		time.Sleep(often / 2 * pause)
		s.is(id, "working")
		s.stop()
		s = newSleeper(t, store, tool)
		defer s.stop()
		time.Sleep(often * pause)
		s.is(id, "completed looked 100 times, the last time in run 101")
	})
}
