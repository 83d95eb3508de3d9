package upgrade

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
	taskpostgres "github.com/askback-mcp/askback/task/postgres"
	tasksqlite "github.com/askback-mcp/askback/task/sqlite"
)

// newRun returns a run on a store that nobody has used.
func newRun(t *testing.T, open func(*run) store) *run {
	r := &run{
		t: t, dir: t.TempDir(), servers: make(map[string]*server), slowest: make(map[string]time.Duration),
		flags: []string{"--drain-delay", "0s"}, phase: "one release continues the other",
	}
	r.store = open(r)
	if err := process.NewKeys(filepath.Join(r.dir, "keys")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.killAll)
	return r
}

func (r *run) send(method string, params map[string]any) (result rawclient.Result) {
	r.t.Helper()
	if err := r.call(r.t.Context(), method, params, &result); err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *run) create(tool string, arguments map[string]any) (id string) {
	r.t.Helper()
	return r.send("tools/call", map[string]any{"name": tool, "arguments": arguments}).TaskID
}

// until waits for a status of a task.
func (r *run) until(id, status string) rawclient.Result {
	r.t.Helper()
	for deadline := time.Now().Add(taskPatience); ; time.Sleep(50 * time.Millisecond) {
		now := r.send("tasks/get", map[string]any{"taskId": id})
		if now.Status == status {
			return now
		}
		if now.Status == "failed" || now.Status == "completed" || time.Now().After(deadline) {
			r.t.Fatalf("a task is %s, want %s", now.Status, status)
		}
	}
}

func (r *run) answer(id, key string, content map[string]any) {
	r.t.Helper()
	r.send("tasks/update", map[string]any{"taskId": id, "inputResponses": map[string]any{key: rawclient.Accept(content)}})
}

// What one release leaves behind, the other continues: tasks that have begun, that are parked, and that are half done
// with an answer, and calls whose clients carry their state.
func TestEachReleaseContinuesTheOther(t *testing.T) {
	t.Parallel()
	old, now := programs(t)
	for name, open := range map[string]func(*run) store{"postgres": openPostgres, "sqlite": openSQLite} {
		for direction, program := range map[string][2]string{"upgrade": {old, now}, "rollback": {now, old}} {
			t.Run(name+" "+direction, func(t *testing.T) {
				t.Parallel()
				r := newRun(t, open)
				if direction == "rollback" { // both releases have used the store before
					r.start("earlier", old)
					r.stop("earlier")
				}
				r.start("first", program[0])
				machine := func(n int) map[string]any {
					return map[string]any{"name": fmt.Sprint("vm-", n), "cpus": 1, "memoryMiB": 128, "diskMiB": 1}
				}
				parked := r.create("echo", map[string]any{})
				r.until(parked, "input_required")
				half := r.create("provision_vm", machine(1))
				r.until(half, "input_required")
				weather := map[string]any{"name": "get_weather", "arguments": map[string]any{"location": "Oslo"}}
				asked := r.send("tools/call", weather)
				begun := r.create("provision_vm", machine(2))
				r.answer(half, "network", map[string]any{"network": "nat"})

				r.stop("first")
				r.start("second", program[1])
				r.answer(parked, "echo_input", map[string]any{"input": "hello"})
				if now := r.until(parked, "completed"); now.Result == nil || now.Result.Text() != "Echo: hello" {
					t.Errorf("the parked task has the result %+v", now.Result)
				}
				r.until(begun, "input_required")
				r.answer(begun, "network", map[string]any{"network": "bridge"})
				for _, id := range []string{half, begun} {
					if now := r.until(id, "completed"); now.Result == nil || now.Result.IsError {
						t.Errorf("a task ends with %+v", now.Result)
					}
				}
				answers := map[string]any{"github_login": rawclient.Accept(map[string]any{"name": "octocat"})}
				if done := r.send("tools/call", asked.Retry(weather, answers)); done.Type != "complete" || done.IsError {
					t.Errorf("the call with a state ends with %+v", done)
				}
			})
		}
	}
}

// The release before neither shows nor takes what waits for people, and spends no attempts on it, also when the
// decision has come. What it cancels is no longer asked.
func TestTheReleaseBeforeLeavesQuestionsForPeople(t *testing.T) {
	t.Parallel()
	old, now := programs(t)
	for name, open := range map[string]func(*run) store{"postgres": openPostgres, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r := newRun(t, open)
			r.start("now", now)
			like := r.create("echo", map[string]any{})
			r.until(like, "input_required")
			r.stop("now")
			s := openTasks(r)
			defer s.Close()
			asker := s.(task.Asker)
			if o, ok := s.(task.Outbox); ok {
				if err := o.Listen(ctx, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			park := func(id string) {
				row, err := s.Get(ctx, like)
				if err != nil {
					t.Fatal(err)
				}
				call, _, err := s.Journal(ctx, like)
				if err != nil {
					t.Fatal(err)
				}
				row.ID, row.Method, row.Status, row.Pending = id, stored.TaskMethod("tools/call", true), task.Working, nil
				row.Message, row.Attempts = "", 0
				if err := s.Create(ctx, row, time.Hour, time.Hour, call, nil, task.Quota{}); err != nil {
					t.Fatal(err)
				}
				row.Status, row.Attempts = task.InputRequired, 0
				if err := s.Update(ctx, row, task.Update{Leased: true, Due: -1, Ask: []*task.Question{
					{Key: "secret.1", For: []string{"group:secret"}, Content: []byte(`{"key":"secret"}`)},
				}}); err != nil {
					t.Fatal(err)
				}
			}
			question := func(id string) *task.Question {
				questions, err := asker.Questions(ctx, task.Name(id))
				if err != nil || len(questions) != 1 {
					t.Fatalf("the task has %d questions, want one: %v", len(questions), err)
				}
				return questions[0]
			}
			const open, decided = "waits for people, open", "waits for people, decided"
			park(open)
			park(decided)
			q := question(decided)
			q.Decision = []byte(`{"action":"accept"}`)
			if err := asker.ChangeQuestion(ctx, q, false); err != nil {
				t.Fatal(err)
			}

			r.start("old", old)
			var seen []any
			for range 3 { // it looks for what is due, and works
				r.until(r.create("echo", map[string]any{"input": "hello"}), "completed")
				seen = append(seen, r.send("tasks/get", map[string]any{"taskId": open}))
			}
			for id, want := range map[string]task.Status{open: task.InputRequired, decided: task.Working} {
				got, err := s.Get(ctx, id)
				if err != nil || got.Status != want || got.Attempts > 0 {
					t.Errorf("the task that %s is %s after %d attempts, %v", id, got.Status, got.Attempts, err)
				}
			}
			if q := question(open); q.Status != task.QuestionOpen || q.Version > 0 {
				t.Errorf("the question is %s, in version %d", q.Status, q.Version)
			}
			seen = append(seen, r.send("tasks/cancel", map[string]any{"taskId": open}))
			r.until(open, "cancelled")
			r.stop("old")
			if text := fmt.Sprintf("%s", seen); strings.Contains(text, "secret") {
				t.Errorf("the client sees %s", text)
			}
			if q := question(open); q.Status != task.QuestionWithdrawn {
				t.Errorf("the question of the cancelled task is %s, want it withdrawn", q.Status)
			}
			if q := question(decided); q.Status != task.QuestionDecided || len(q.Decision) == 0 {
				t.Errorf("the decided question is %s, decision %s", q.Status, q.Decision)
			}
			if o, ok := s.(task.Outbox); ok {
				wantEnded(t, o, open)
			}
		})
	}
}

// wantEnded requires that the last notice of a task says that it has ended.
func wantEnded(t *testing.T, o task.Outbox, id string) {
	t.Helper()
	var last task.NoticeKind
	for {
		notices, err := o.Notices(t.Context(), time.Hour, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(notices) == 0 {
			break
		}
		for _, n := range notices {
			if n.Question.Task == id {
				last = n.Kind
			}
			if err := o.Settle(t.Context(), n, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last != task.NoticeEnded {
		t.Errorf("the last notice of the task that the release before has cancelled is %q, want %q", last, task.NoticeEnded)
	}
}

// The release before cleans up what a desk has cancelled. It keeps who cancelled it and why, which it does not know of,
// and does not show them to the client.
func TestTheReleaseBeforeCleansUpAfterADesk(t *testing.T) {
	t.Parallel()
	old, now := programs(t)
	for name, open := range map[string]func(*run) store{"postgres": openPostgres, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, open)
			r.start("now", now)
			machine := map[string]any{"name": "vm", "cpus": 1, "memoryMiB": 128, "diskMiB": 1}
			id := r.create("provision_vm", machine)
			r.until(id, "input_required")
			r.stop("now")
			s := openTasks(r)
			defer s.Close()
			d, err := desk.Open(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			name, by := task.Name(id), desk.Cancellation{By: "alice", Reason: "maintenance"}
			if _, err := d.Cancel(t.Context(), name, by); err != nil {
				t.Fatal(err)
			}
			row, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			r.start("old", old)
			cancelled := row.Version
			for deadline := time.Now().Add(taskPatience); row.Version == cancelled; time.Sleep(50 * time.Millisecond) {
				if row, err = s.Get(t.Context(), id); err != nil || time.Now().After(deadline) {
					t.Fatalf("nobody has cleaned up: %+v, %v", row, err)
				}
			}
			if seen := fmt.Sprintf("%+v", r.until(id, "cancelled")); strings.Contains(seen, "alice") {
				t.Errorf("the client sees %s", seen)
			}
			r.stop("old")
			shown, err := d.Show(t.Context(), name)
			if err != nil || shown.Cancellation == nil || shown.Cancellation.By != by.By ||
				shown.Cancellation.Reason != by.Reason {
				t.Errorf("the task is %+v, %v", shown, err)
			}
		})
	}
}

// openTasks opens the store in this process.
func openTasks(r *run) task.Store {
	r.t.Helper()
	if p, ok := r.store.(*postgres); ok {
		s, err := taskpostgres.Open(r.t.Context(), p.dsn)
		if err != nil {
			r.t.Fatal(err)
		}
		return s
	}
	s, err := tasksqlite.Open(r.t.Context(), r.store.url()[len("sqlite:"):])
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}
