package desk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// add adds a parked task to a store, and returns its row.
func add(t *testing.T, s task.Store, row task.Task) *task.Task {
	t.Helper()
	if row.Status == "" {
		row.Status = task.Working
	}
	call := []byte(`{"version":1,"call":"ID","can":0,"params":{}}`)
	expect.Check(t, s.Create(t.Context(), &row, time.Hour, 0, call, nil, task.Quota{}))
	expect.Check(t, s.Update(t.Context(), &row, task.Update{Due: -1}))
	return &row
}

func open(t *testing.T, s task.Store) *desk.Desk {
	t.Helper()
	d, err := desk.Open(s, nil)
	expect.Check(t, err)
	return d
}

const question = `[{"wire":"w","key":"window","digest":"AAECAwQFBgcICQoLDA0ODw==",` +
	`"method":"elicitation/create","params":{"message":"When?"}}]`

// A list has each task once, however many there are, and only those that the filter lets pass.
func TestList(t *testing.T) {
	s := new(task.MemoryStore)
	const n = 1203
	for i := range n {
		add(t, s, task.Task{ID: fmt.Sprint("task ", i), Principal: fmt.Sprint("p", i%3), Target: "deploy"})
	}
	for _, c := range []struct {
		filter task.Filter
		want   int
	}{
		{task.Filter{}, n},
		{task.Filter{Principals: []string{"p0", "p1"}}, n / 3 * 2},
		{task.Filter{Statuses: []task.Status{task.InputRequired}}, 0},
	} {
		seen := make(map[string]bool)
		for shown, err := range open(t, s).List(t.Context(), c.filter) {
			if err != nil || seen[shown.Name] {
				t.Fatalf("%+v again, or %v", shown, err)
			}
			seen[shown.Name] = true
		}
		if len(seen) != c.want {
			t.Errorf("%+v lets %d tasks pass, want %d", c.filter, len(seen), c.want)
		}
	}
	count := 0
	for range open(t, s).List(t.Context(), task.Filter{}) {
		if count++; count == 2 {
			break
		}
	}
}

// Questions that cannot be read, as another release may store them, do not hide their task or those after it.
func TestQuestionsThatCannotBeRead(t *testing.T) {
	s := new(task.MemoryStore)
	bad := add(t, s, task.Task{ID: "bad", Status: task.InputRequired, Pending: []byte("?")})
	good := add(t, s, task.Task{ID: "good", Status: task.InputRequired, Pending: []byte(question)})
	d := open(t, s)
	got := make(map[string]string)
	for shown, err := range d.List(t.Context(), task.Filter{}) {
		got[shown.Name] = fmt.Sprint(len(shown.Questions), err == nil)
	}
	expect.Diff(t, "the value", map[string]string{task.Name(bad.ID): "0 false", task.Name(good.ID): "1 true"}, got)
	if shown, err := d.Show(t.Context(), task.Name(bad.ID)); err == nil || shown == nil ||
		shown.Status != task.InputRequired {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestShow(t *testing.T) {
	s := new(task.MemoryStore)
	row := add(t, s, task.Task{ID: "the secret ID", Principal: "alice", Method: "tools/call", Target: "deploy",
		Status: task.InputRequired, Message: "waiting", Pending: []byte(question)})
	unreadable := &task.Task{ID: "of another release", Status: task.Working}
	expect.Check(t, s.Create(t.Context(), unreadable, time.Hour, 0, []byte("?"), nil, task.Quota{}))
	d, name := open(t, s), task.Name(row.ID)
	for _, which := range []string{name, name[:6], row.ID} {
		shown, err := d.Show(t.Context(), which)
		expect.Check(t, err)
		if len(shown.Questions) != 1 || shown.Questions[0].Key != "window" || shown.Questions[0].Message != "When?" {
			t.Errorf("the questions are %+v", shown.Questions)
		}
		shown.Questions = nil
		want := &desk.Task{Name: name, Call: "B5YTBLXKJ22WWV4E4HLR7C2TT7", Principal: "alice", Method: "tools/call",
			Target: "deploy", Status: task.InputRequired, Message: "waiting",
			Created: row.Created, Updated: row.Updated, Expires: row.Expires}
		expect.Diff(t, which, want, shown)
	}
	if shown, err := d.Show(t.Context(), task.Name(unreadable.ID)); err != nil || shown.Call != "" {
		t.Errorf("%+v, %v", shown, err)
	}
	for _, c := range []struct{ name, want string }{
		{name[:5], "at least 6 characters"},
		{"", "at least 6 characters"},
		{"ANOTHERSECRETID", `begins with "ANOTHE…"`},
	} {
		_, err := d.Show(t.Context(), c.name)
		if !errors.Is(err, task.ErrNotFound) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", c.name, err)
		}
	}
}

// The beginnings of names are as many as 32 to the power of six, so two tasks with the same are searched for once.
func TestABeginningOfSeveralNames(t *testing.T) {
	ids := make(map[string]string) // by the beginning of the name
	var same []string
	for i := 0; same == nil; i++ {
		id := fmt.Sprint(i)
		if other, ok := ids[task.Name(id)[:6]]; ok {
			same = []string{other, id}
		}
		ids[task.Name(id)[:6]] = id
	}
	s := new(task.MemoryStore)
	for i, id := range same {
		q := asking("q", 1, "user:dave", []string{"user:alice", "user:bob"}[i])
		expect.Must(asks(t.Context(), s, task.Task{ID: id, Principal: "carol"}, q, asking("timer", 0)))(t)
	}
	d, name := open(t, s), task.Name(same[0])
	alice, bob, dave := person("alice"), person("bob"), person("dave")
	for _, as := range []*desk.Person{&dave, nil} {
		_, err := d.Questions(t.Context(), name[:6], as)
		if _, ok := errors.AsType[*desk.InvalidError](err); !ok || !strings.Contains(err.Error(), "give more of it") {
			t.Errorf("%v", err)
		}
	}
	for id, as := range map[string]*desk.Person{same[0]: &alice, same[1]: &bob} {
		q, err := d.Question(t.Context(), name[:6], "q", as)
		if all, _ := d.Questions(t.Context(), name[:6], as); err != nil || q.Name != task.Name(id) || len(all) != 1 {
			t.Errorf("%s: %+v, %d, %v", as.Name, q, len(all), err)
		}
	}
	expect.Fails(t, "the error", expect.Err(d.Show(t.Context(), name[:6])), "give more of it")
	if shown, err := d.Show(t.Context(), name); err != nil || shown.Name != name {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestCancelParked(t *testing.T) {
	s := new(task.MemoryStore)
	row := add(t, s, task.Task{ID: "parked", Principal: "bob", Status: task.InputRequired, Pending: []byte(question)})
	before := time.Now().Truncate(time.Millisecond)
	cancelled, err := open(t, s).Cancel(t.Context(), task.Name(row.ID)[:8],
		desk.Cancellation{By: "alice", Reason: "the host is being replaced", At: time.Unix(1, 0)})
	expect.Check(t, err)
	c := cancelled.Cancellation
	if cancelled.Status != task.Cancelled || len(cancelled.Questions) != 0 || c == nil || c.By != "alice" ||
		c.Reason != "the host is being replaced" || c.At.Before(before) || c.At.After(time.Now()) {
		t.Errorf("%+v", cancelled)
	}
	if strings.Contains(cancelled.Message, "alice") || strings.Contains(cancelled.Message, "host") {
		t.Errorf("the client is told %q", cancelled.Message)
	}
	shown, err := open(t, s).Show(t.Context(), cancelled.Name) // another process
	if err != nil || !cmp.Equal(c, shown.Cancellation) {
		t.Errorf("%+v, %v", shown, err)
	}
	_, err = open(t, s).Cancel(t.Context(), row.ID, desk.Cancellation{By: "carol", Reason: "again"})
	if !errors.Is(err, task.ErrEnded) || !strings.Contains(err.Error(), "it is cancelled") ||
		strings.Contains(err.Error(), row.ID) {
		t.Errorf("again: %v", err)
	}
	if _, err := open(t, s).Cancel(t.Context(), cancelled.Name,
		desk.Cancellation{By: "carol", Reason: "again"}); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("again by its name: %v", err)
	}
	claimed, err := s.Claim(t.Context(), "", nil, time.Minute, 1)
	if err != nil || len(claimed) != 1 || !claimed[0].Stopped {
		t.Errorf("nobody is to clean up: %+v, %v", claimed, err)
	}
}

// What a client is told of a task that a desk has cancelled is that it is cancelled, and not by whom. Who it was is
// still there when an instance has cleaned up.
func TestClientsDoNotSeeWhoCancelled(t *testing.T) {
	s := new(task.MemoryStore)
	var cleaned atomic.Bool
	srv := harness.NewTaskServerOn(t, s, nil, harness.AddText("waits", nil,
		func(ctx context.Context, call *askback.Call) (string, error) {
			call.OnCancel(func(context.Context) error { cleaned.Store(true); return nil })
			return "", call.Do(ctx, "wait", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}))
	for _, dialect := range []string{harness.WithExtension, harness.ProposalOnly} {
		member := ""
		if dialect == harness.ProposalOnly {
			member = `,"task":{}`
		}
		res := srv.Result(dialect, "tools/call", "waits", `"name":"waits"`+member)
		id, ok := res["taskId"].(string)
		if !ok {
			id = harness.At(res, "task", "taskId").(string)
		}
		cleaned.Store(false)
		if _, err := open(t, s).Cancel(t.Context(), task.Name(id),
			desk.Cancellation{By: "alice", Reason: "maintenance"}); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(srv.Get(dialect, id, "cancelled"))
		if strings.Contains(got, "alice") || strings.Contains(got, "maintenance") {
			t.Errorf("the client sees %s", got)
		}
		if dialect == harness.ProposalOnly {
			code, message := srv.Fault(dialect, "tasks/result", id, `"taskId":`+harness.Quote(id))
			if code == 0 || strings.Contains(message, "alice") {
				t.Errorf("the client gets %d %s", code, message)
			}
		}
		harness.Eventually(t, "the cleaning up", cleaned.Load)
		harness.Eventually(t, "the end of it", func() bool {
			shown, err := open(t, s).Show(t.Context(), task.Name(id))
			if err != nil || shown.Cancellation == nil || shown.Cancellation.By != "alice" {
				t.Fatalf("%+v, %v", shown, err)
			}
			n, err := s.Evict(t.Context(), "", -time.Hour, 10) // what nobody has to clean up any more
			return n == 1 && err == nil
		})
	}
}

// The outcome of a task that was not cancelled is the author's.
func TestAResultIsNoCancellation(t *testing.T) {
	s := new(task.MemoryStore)
	row := add(t, s, task.Task{ID: "done", Status: task.Completed, Outcome: []byte(`{"cancelled":{"by":"mallory"}}`)})
	if shown, err := open(t, s).Show(t.Context(), task.Name(row.ID)); err != nil || shown.Cancellation != nil {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestCancellationsThatAreRefused(t *testing.T) {
	s := new(task.MemoryStore)
	row := add(t, s, task.Task{ID: "parked"})
	for _, c := range []struct {
		by, reason, want string
	}{
		{"", "why", "its By is empty"},
		{"who", " ", "its Reason is empty"},
		{strings.Repeat("x", 257), "why", "at most 256"},
		{"who", strings.Repeat("x", 4097), "at most 4096"},
		{"who", "\xff", "its Reason is not UTF-8"},
	} {
		_, err := open(t, s).Cancel(t.Context(), row.ID, desk.Cancellation{By: c.by, Reason: c.reason})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("by %.5q, reason %.5q: %v", c.by, c.reason, err)
		}
	}
	if now, err := s.Get(t.Context(), row.ID); err != nil || now.Status != task.Working {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	if _, err := desk.Open(nil, nil); err == nil {
		t.Error("a desk without a store")
	}
	if _, err := desk.Open(new(task.MemoryStore), &desk.Options{StoreTimeout: -1}); err == nil {
		t.Error("a negative timeout")
	}
}

// broken is a store whose database fails, or does not answer.
type broken struct {
	task.Store
	err error
}

func (b broken) wait(ctx context.Context) error {
	if b.err == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.err
}

func (b broken) Select(ctx context.Context, _ task.Filter, _ string, _ int) ([]*task.Task, error) {
	return nil, b.wait(ctx)
}
func (b broken) Get(ctx context.Context, _ string) (*task.Task, error) { return nil, b.wait(ctx) }

func TestAStoreThatFails(t *testing.T) {
	for name, err := range map[string]error{"fails": errors.New("the disk is full"), "is silent": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := desk.Open(broken{new(task.MemoryStore), err}, &desk.Options{StoreTimeout: time.Second})
				begun, times := time.Now(), 0
				for shown, got := range d.List(t.Context(), task.Filter{}) {
					if times++; shown != nil || got == nil || err != nil && !errors.Is(got, err) {
						t.Errorf("%+v, %v", shown, got)
					}
				}
				if _, got := d.Show(t.Context(), "ABCDEF"); got == nil || errors.Is(got, task.ErrNotFound) {
					t.Errorf("Show: %v", got)
				}
				_, got := d.Cancel(t.Context(), "ABCDEF", desk.Cancellation{By: "alice", Reason: "why"})
				if got == nil || errors.Is(got, task.ErrNotFound) {
					t.Errorf("Cancel: %v", got)
				}
				if times != 1 || err == nil && time.Since(begun) != 3*time.Second {
					t.Errorf("%d errors of the list, after %v", times, time.Since(begun))
				}
			})
		})
	}
}
