package askback_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// stealing is a store in which now and then another worker takes a task over at the moment
// when a step is to be recorded, as if the first one's lease had ended.
type stealing struct {
	task.Store
	often  *atomic.Int32 // in a hundred
	news   *news
	stolen atomic.Int32
}

// news tells the instances of what was stolen.
type news struct {
	mu      sync.Mutex
	changed []func(id string)
}

func (s *stealing) Watch(ctx context.Context, ready func(), changed func(id string)) error {
	s.news.mu.Lock()
	s.news.changed = append(s.news.changed, changed)
	s.news.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (s *stealing) Append(ctx context.Context, id string, fence int64, entry []byte) error {
	if rand.Int32N(100) < s.often.Load() {
		if t, err := s.Get(ctx, id); err == nil && t.Fence == fence && !t.Stopped {
			if s.Update(ctx, t, task.Update{}) == nil {
				s.news.mu.Lock()
				for _, changed := range s.news.changed {
					changed(id)
				}
				s.news.mu.Unlock()
				for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if now, err := s.Get(ctx, id); err != nil || now.Fence != fence {
						s.stolen.Add(1)
						break
					}
				}
			}
		}
	}
	return s.Store.Append(ctx, id, fence, entry)
}

// The law of TestLawInEveryHome where the journal's home is a store: from the first round
// or from a Detach in the middle, on two instances that take tasks from each other, with
// partial, wrong and repeated answers. And no step is recorded twice.
func TestLawInTheStore(t *testing.T) {
	var often atomic.Int32
	var ran sync.Map // call id and step to how often it ran
	handler := executes(func(call *askback.Call, name rune) {
		n, _ := ran.LoadOrStore(call.ID()+string(name), new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
	})
	register := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "plan"}, nil, handler)
		askback.AddTaskTool(s, &mcp.Tool{Name: "detaching"}, &askback.TaskSupport{AtDetach: true}, handler)
	}
	store := new(task.MemoryStore)
	ring := newRing(t)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var instances []*taskServer
	var stores []*stealing
	told := new(news)
	for range 2 {
		stores = append(stores, &stealing{Store: store, often: &often, news: told})
		srv := newServer(t, &askback.Options{Keys: ring, Tasks: &askback.Tasks{Store: stores[len(stores)-1], Settings: task.Settings{PerPrincipal: 1 << 20}}}, register)
		all.Go(func() { _ = srv.RunTasks(ctx) })
		instances = append(instances, serveTasks(t, srv))
	}
	defer all.Wait()
	defer cancel()

	rapid.Check(t, func(rt *rapid.T) {
		plan := plans().Draw(rt, "plan")
		arguments := `"arguments":{"plan":` + quote(plan) + `}`
		want := planResult(t, instances[0], arguments)

		// The same plan, as a task.
		name := "plan"
		if rapid.Bool().Draw(rt, "detach") {
			name = "detaching"
			at := rapid.IntRange(0, len(plan)).Draw(rt, "at")
			arguments = `"arguments":{"plan":` + quote(plan[:at]+"!"+plan[at:]) + `}`
		}
		ran.Clear()
		often.Store(int32(rapid.SampledFrom([]int{0, 30}).Draw(rt, "stolen")))
		some := func() *taskServer { return instances[rapid.IntRange(0, 1).Draw(rt, "instance")] }
		params := `"name":"` + name + `",` + arguments
		res := some().result(withExtension, "tools/call", name, params)
		for res["resultType"] == "input_required" {
			more := ""
			if requests, ok := res["inputRequests"].(map[string]any); ok {
				more = `,"inputResponses":` + planAnswers(requests, func() int { return 1 })
			}
			res = some().result(withExtension, "tools/call", name, params+more+`,"requestState":"`+res["requestState"].(string)+`"`)
		}
		if res["resultType"] == "complete" { // it stopped before it came to the Detach
			if got := res["content"].([]any)[0].(map[string]any)["text"]; got != want {
				rt.Fatalf("plan %q: got %q, want %q", plan, got, want)
			}
			return
		}
		id := res["taskId"].(string)
		used := map[string]bool{}
		for wrong := 0; ; {
			now := some().result(withExtension, "tasks/get", id, `"taskId":"`+id+`"`)
			switch now["status"] {
			case "working":
				continue
			case "input_required":
				requests := now["inputRequests"].(map[string]any)
				answers := planAnswers(requests, func() int {
					if wrong++; wrong > 8 {
						return 1
					}
					return rapid.IntRange(0, 2).Draw(rt, "answer")
				})
				for key := range requests {
					if used[key] {
						rt.Fatalf("plan %q: the key %q is used again", plan, key)
					}
				}
				some().result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":`+answers)
				for key := range requests {
					used[key] = strings.Contains(answers, quote(key)+":")
				}
				continue
			case "completed":
				if got := at(now, "result", "content").([]any)[0].(map[string]any)["text"]; got != want {
					rt.Fatalf("plan %q as a task: got %q, want %q", plan, got, want)
				}
			default:
				rt.Fatalf("plan %q: %v", plan, now)
			}
			break
		}
		ran.Range(func(key, n any) bool {
			if n := n.(*atomic.Int32).Load(); often.Load() == 0 && n != 1 {
				rt.Fatalf("plan %q: step %v ran %d times", plan, key, n)
			}
			return true
		})
		steps := map[string]int{}
		_, entries, err := stores[0].Journal(t.Context(), id)
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range entries {
			if e[0] == 's' {
				if steps[string(e)]++; steps[string(e)] > 1 {
					rt.Fatalf("plan %q: a step is recorded twice", plan)
				}
			}
		}
	})
	if stores[0].stolen.Load()+stores[1].stolen.Load() == 0 {
		t.Error("no lease was ever lost")
	}
}

// planResult runs a plan in rounds, every answer at once.
func planResult(t *testing.T, s *taskServer, arguments string) any {
	t.Helper()
	params := `"name":"plan",` + arguments
	res := s.result(proposalOnly, "tools/call", "plan", params)
	for res["resultType"] == "input_required" {
		more := ""
		if requests, ok := res["inputRequests"].(map[string]any); ok {
			more = `,"inputResponses":` + planAnswers(requests, func() int { return 1 })
		}
		res = s.result(proposalOnly, "tools/call", "plan", params+more+`,"requestState":"`+res["requestState"].(string)+`"`)
	}
	return res["content"].([]any)[0].(map[string]any)["text"]
}

// planAnswers answers questions: 0 leaves one out, 1 answers it, 2 gives what does not fit.
func planAnswers(requests map[string]any, how func() int) string {
	given := map[string]any{}
	for key := range requests {
		switch how() {
		case 1:
			given[key] = map[string]any{"action": "accept", "content": count{howMany(key)}}
		case 2:
			given[key] = map[string]any{"action": "accept", "content": map[string]any{"n": "many"}}
		}
	}
	data, _ := json.Marshal(given) // strings and numbers
	return string(data)
}

// FuzzTasks sends whatever parameters to the methods about tasks.
func FuzzTasks(f *testing.F) {
	s := newTaskServer(f, nil, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/input_response", "tasks/list", "subscriptions/listen", "tools/call"} {
		f.Add(method, "x", `"taskId":"x","inputResponses":{"echo_input":{"action":"accept"}}`)
		f.Add(method, "x", `"taskId":{},"cursor":"MTIz","task":{"ttl":1e999}`)
		f.Add(method, "", `"notifications":{"taskIds":["x",7]},"name":"echo","task":{"ttl":0.5}`)
		f.Add(method, id, `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":7}}}`)
	}
	f.Fuzz(func(t *testing.T, method, name, members string) {
		if method == "tasks/result" && strings.Contains(members, id) || method == "subscriptions/listen" && strings.Contains(members, "Changed") {
			return // these wait
		}
		var params map[string]json.RawMessage
		if json.Unmarshal([]byte("{"+members+"}"), &params) != nil || params["_meta"] != nil || strings.ContainsAny(method+name, "\r\n\x00") {
			return
		}
		for _, capabilities := range []string{withExtension, proposalOnly} {
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
			if members != "" {
				meta = "," + meta
			}
			r := request{method: method, target: name, body: `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"params":{` + members + meta + `}}`}
			res := r.send(t, s.handler)
			if kind := res.header.Get("Content-Type"); res.status >= 500 || kind == "application/json" && !json.Valid([]byte(res.raw)) {
				t.Fatalf("status %d, %s: %q", res.status, kind, res.raw)
			}
		}
	})
}
