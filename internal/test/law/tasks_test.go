package law

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/task"
)

const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},` +
	`"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// thieves are the stores of two instances, on one store beneath. In one of them another worker sometimes gets the task
// just before an entry is recorded, as if the lease of the first one had ended.
type thieves struct {
	task.Store
	often  atomic.Int32 // in percent
	thefts atomic.Int64 // leases that were given away

	mu      sync.Mutex
	changed []func(id string, due bool)
}

type thief struct {
	*thieves
}

func (s thief) Watch(ctx context.Context, ready func(), changed func(id string, due bool)) error {
	s.mu.Lock()
	s.changed = append(s.changed, changed)
	s.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (s thief) tell(id string, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.changed {
		changed(task.Name(id), due)
	}
}

func (s thief) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	err := s.Store.Create(ctx, t, ttl, lease, call, entries, quota)
	s.tell(t.ID, err == nil && lease == 0)
	return err
}

func (s thief) Update(ctx context.Context, t *task.Task, u task.Update) error {
	err := s.Store.Update(ctx, t, u)
	s.tell(t.ID, err == nil && u.Lease <= 0 && !u.Keep && u.Due == 0)
	return err
}

// steal gives a lease away. It counts before, because the task may end at once.
func (s thief) steal(ctx context.Context, t *task.Task) bool {
	s.thefts.Add(1)
	err := s.Update(ctx, t, task.Update{})
	if err != nil {
		s.thefts.Add(-1)
	}
	return err == nil
}

func (s thief) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if rand.Int32N(100) < s.often.Load() {
		if t, err := s.Get(ctx, id); err == nil && t.Claim == claim && !t.Stopped && s.steal(ctx, t) {
			for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if now, err := s.Get(ctx, id); err != nil || now.Claim != claim {
					break
				}
			}
		}
	}
	return s.Store.Append(ctx, id, claim, there, entry)
}

// A program is a task from its beginning, or from the first of several Detaches. Two clients answer its questions, one
// after the other or at once, on two instances that take the task from each other; sometimes it is cancelled. Each step
// is recorded once, and the result has what was recorded. A step runs once, and once more at most for each lease that
// was lost. A task that is cancelled stays so, begins no further step, and cleans up.
func TestTasks(t *testing.T) {
	var ran, cleaned sync.Map // by the arguments of a call
	elsewhere := func(in arguments) *program.Runs {
		noted, _ := ran.LoadOrStore(in.String(), new(program.Runs))
		return noted.(*program.Runs)
	}
	handler := func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		call.OnCancel(func(context.Context) error { cleaned.Store(in.String(), true); return nil })
		return in.run(ctx, served{world{call}}, elsewhere(in))
	}
	register := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "whole"}, nil, handler)
		askback.AddTaskTool(s, &mcp.Tool{Name: "detaching"}, &askback.TaskSupport{AtDetach: true}, handler)
	}
	stores := &thieves{Store: new(task.MemoryStore)}
	ring := harness.NewRing(t)
	plenty := task.Quota{Unfinished: 1 << 20, Kept: 1 << 20, Bytes: 1 << 40}
	var instances []*harness.TaskServer
	for range 2 {
		opts := &askback.Options{Keys: ring,
			Tasks: &askback.Tasks{Settings: task.Settings{PerPrincipal: plenty, Anonymous: plenty}}}
		instances = append(instances, harness.NewTaskServerOn(t, thief{stores}, opts, register))
	}
	mark, cancelled := 0, 0
	law := func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"whole", "detaching"}).Draw(rt, "tool")
		p := programs(1, program.Detach, program.Detach).Draw(rt, "program")
		mark++
		in := arguments{p.String(), mark}
		stores.often.Store(rapid.SampledFrom([]int32{0, 30}).Draw(rt, "stolen"))
		thefts := stores.thefts.Load()
		fail := func(format string, a ...any) {
			rt.Helper()
			rt.Fatalf("%s of %s: %s", name, in, fmt.Sprintf(format, a...))
		}
		some := func() *harness.TaskServer { return instances[rapid.IntRange(0, 1).Draw(rt, "instance")] }
		given := make(map[string][]string) // all answers that fit, by author's key
		answered := make(map[string]bool)  // in earlier rounds
		answers := func(client int, requests any, sure bool) string {
			var parts []string
			all, _ := requests.(map[string]any)
			for wire := range all {
				key := authorKey(wire)
				if answered[key] {
					fail("the question %q is asked again", key)
				}
				seen, travels := reply(client, key)
				switch {
				case sure || rapid.IntRange(1, 4).Draw(rt, "answers") > 1:
					given[key] = append(given[key], seen)
				default:
					continue
				}
				parts = append(parts, harness.Quote(wire)+":"+travels)
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		markAnswered := func() {
			for key := range given {
				answered[key] = true
			}
		}

		params := `"name":` + harness.Quote(name) + `,"arguments":` + in.String()
		res := some().Result(everything, "tools/call", name, params)
		for res["resultType"] == "input_required" {
			more := `,"inputResponses":` + answers(0, res["inputRequests"], true)
			if state, ok := res["requestState"].(string); ok {
				more += `,"requestState":` + harness.Quote(state)
			}
			res = some().Result(everything, "tools/call", name, params+more)
			markAnswered()
		}
		id, isTask := res["taskId"].(string)
		text := ""
		if !isTask {
			text = res["content"].([]any)[0].(map[string]any)["text"].(string)
		}
		ended := ""
		for n := 0; isTask && ended == ""; n++ {
			if n > 20_000 {
				fail("it does not end")
			}
			now := some().Result(everything, "tasks/get", id, `"taskId":`+harness.Quote(id))
			switch now["status"] {
			case "working":
				if rand.IntN(200) == 0 { // in the middle of a run
					some().Send(everything, "tasks/cancel", id, `"taskId":`+harness.Quote(id))
				}
				time.Sleep(100 * time.Microsecond)
			case "input_required":
				requests, at, lossy := now["inputRequests"], `"taskId":`+harness.Quote(id), n < 50
				if lossy && rapid.IntRange(1, 12).Draw(rt, "cancel") == 1 {
					some().Result(everything, "tasks/cancel", id, at)
					continue
				}
				first, one, other := answers(0, requests, !lossy), some(), some()
				var both sync.WaitGroup
				if lossy && rapid.Bool().Draw(rt, "both") { // of which one counts for each question
					second := answers(1, requests, !lossy)
					both.Go(func() { other.Send(everything, "tasks/update", id, at+`,"inputResponses":`+second) })
				}
				one.Send(everything, "tasks/update", id, at+`,"inputResponses":`+first)
				both.Wait()
				markAnswered()
			case "completed":
				ended = "completed"
				text = harness.At(now, "result", "content").([]any)[0].(map[string]any)["text"].(string)
			case "cancelled":
				ended = "cancelled"
			default:
				fail("it has the status %v: %v", now["status"], now)
			}
		}

		// What was recorded, each step once.
		recorded := make(map[string]int64)
		if isTask {
			_, entries, err := stores.Journal(t.Context(), id, -1)
			if err != nil {
				fail("its journal: %v", err)
			}
			for _, data := range entries {
				e, err := journal.DecodeEntry(data)
				if err != nil {
					fail("its journal: %v", err)
				}
				if e.Kind != journal.Step {
					continue
				}
				if _, twice := recorded[e.Key]; twice {
					fail("the step %s is recorded twice", e.Key)
				}
				recorded[e.Key] = program.Number(e.Value)
			}
		}
		done := elsewhere(in).Numbers() // a step may be running in a task that was cancelled
		for step, numbers := range done {
			if !p.Records(step) {
				continue
			}
			if lost := stores.thefts.Load() - thefts; int64(len(numbers)-1) > lost {
				fail("the step %s ran %d times, and %d leases were lost", step, len(numbers), lost)
			}
			n, ok := recorded[step]
			switch {
			case !isTask:
				recorded[step] = numbers[0]
			case !ok && ended == "completed":
				fail("the step %s ran %d times, and is not recorded", step, len(numbers))
			case ok && !slices.Contains(numbers, n):
				fail("the step %s is recorded as run %d, of the runs %v", step, n, numbers)
			}
		}
		if ended == "cancelled" {
			cancelled++
			harness.Eventually(t, "cleaning up of "+in.String(), func() bool { _, ok := cleaned.Load(in.String()); return ok })
			if now := some().Result(everything, "tasks/get", id, `"taskId":`+harness.Quote(id)); now["status"] != "cancelled" {
				fail("it was cancelled, and is %v", now["status"])
			}
			return
		}
		// Of the answers that came at once the result says which one counted: one of those that were given, and everywhere
		// the same.
		counted := make(map[string]string)
		unrecorded := make(map[string]bool)
		for line := range strings.SplitSeq(text, "\n") {
			key, seen, isAnswer := strings.Cut(line, "=")
			if !isAnswer || strings.HasPrefix(key, "step ") {
				continue
			}
			if before, again := counted[key]; again && before != seen || !slices.Contains(given[key], seen) {
				fail("the answer to %q is %q, and of those that were given %q none, or another one than before",
					key, seen, given[key])
			}
			counted[key] = seen
		}
		want, err := p.Expect(counted)
		if err != nil {
			fail("it ended with %q, but %v", text, err)
		}
		for _, step := range want.Unrecorded {
			if unrecorded[step] = len(done[step]) > 0; !unrecorded[step] {
				fail("the step %s was not tried", step)
			}
		}
		if err := compare(p, text, &position{answers: counted, steps: recorded}, unrecorded); err != nil {
			fail("%v", err)
		}
	}
	for range 5 {
		rapid.Check(t, law)
	}
	t.Logf("%d leases were lost, and %d tasks were cancelled", stores.thefts.Load(), cancelled)
	if stores.thefts.Load() == 0 || cancelled == 0 {
		t.Error("the law was not tried")
	}
}
