package desk_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// named returns a question with a message.
func named(key, message string, who ...string) *task.Question {
	return encode(key, who, stored.Asking{
		Key: "ask", Method: input.MethodElicit, Votes: 1,
		Params: fmt.Appendf(nil, `{"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{}}}`, message),
	})
}

// join returns the keys of what a list yields.
func join(t *testing.T, list iter.Seq2[*desk.Question, error]) string {
	t.Helper()
	var keys []string
	for q, err := range list {
		if err != nil {
			t.Error(err)
			continue
		}
		keys = append(keys, q.Key)
	}
	return strings.Join(keys, " ")
}

// A search finds text in what people see in a list, in upper or lower case, in the order that was asked for.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(task.MemoryStore)
		add := func(id, principal, target string, q *task.Question) string {
			t.Helper()
			time.Sleep(time.Second)
			name := expect.Must(asks(t.Context(), s, task.Task{ID: id, Principal: principal, Target: target}, q))(t)
			return name
		}
		first := add("1", "carol", "deploy", named("first", "Ship ÄPFEL to production?", "group:release"))
		add("2", "Carol Two", "refund", named("second", "Pay?", "user:alice"))
		preview := encode("third", []string{"user:alice"}, stored.Asking{Key: "ask", Method: input.MethodElicit, Votes: 1,
			Params: []byte(`{"message":"Look."}`), Preview: "production plan"})
		add("3", "dave", "plan", preview)
		add("4", "dave", "plan", named("hidden", "production", "user:bob"))
		d, alice := open(t, s), person("alice", "release")
		for _, c := range []struct {
			w    desk.Waiting
			want string
		}{
			{desk.Waiting{Search: "PRODUCTION"}, "first third hidden"},
			{desk.Waiting{Search: "production", As: &alice}, "first third"},
			{desk.Waiting{Search: "production", As: &alice, Newest: true}, "third first"},
			{desk.Waiting{As: &alice, Newest: true}, "third second first"},
			{desk.Waiting{Search: "äpfel"}, "first"},
			{desk.Waiting{Search: "carol", As: &alice}, "first second"},
			{desk.Waiting{Search: "REFUND"}, "second"},
			{desk.Waiting{Search: strings.ToLower(first[3:9])}, "first"},
			{desk.Waiting{Search: "group:release"}, ""},
			{desk.Waiting{Search: "requestedSchema"}, ""},
		} {
			list := d.Waiting(t.Context(), c.w)
			for range 2 {
				expect.Equal(t, fmt.Sprint(c.w), join(t, list), c.want)
			}
		}
		for i := range 10_100 {
			add(fmt.Sprint("many ", i), "dave", "many", named("of many", "?", "group:many"))
		}
		add("5", "erin", "many", named("last", "the needle", "group:many"))
		many := person("bob", "many")
		if got := join(t, d.Waiting(t.Context(), desk.Waiting{As: &many, Search: "needle"})); got != "" {
			t.Errorf("beyond its bound a search finds %q", got)
		}
		if got := join(t, d.Waiting(t.Context(), desk.Waiting{As: &many, Search: "needle", Newest: true})); got != "last" {
			t.Errorf("a search finds %q", got)
		}
	})
}

// The histories of a person have what they voted on and what their calls asked, whatever became of it.
func TestHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(task.MemoryStore)
		ctx := t.Context()
		d, alice := open(t, s), person("alice", "release")
		names := make(map[string]string)
		for i, c := range []struct{ key, principal string }{
			{"voted", "carol"}, {"decided", "carol"}, {"cancelled", "carol"}, {"open", "carol"}, {"own", "alice"},
			{"anonymous", ""}, {"outvoted", "carol"},
		} {
			time.Sleep(time.Second)
			votes := 2
			if c.key == "decided" {
				votes = 1
			}
			name, err := asks(ctx, s, task.Task{ID: fmt.Sprint(i), Principal: c.principal, Target: "deploy"},
				asking(c.key, votes, "group:release"))
			expect.Check(t, err)
			names[c.key] = name
		}
		answer := func(key string, a desk.Answer) {
			t.Helper()
			expect.Must(d.Answer(ctx, names[key], key, a))(t)
		}
		for _, key := range []string{"voted", "outvoted", "decided", "cancelled"} {
			answer(key, accepts("alice", 9))
		}
		answer("outvoted", accepts("bob", 10))
		expect.Must(d.Cancel(ctx, names["cancelled"], desk.Cancellation{By: "test", Reason: "over"}))(t)
		expect.Must(d.Claim(ctx, names["open"], "open", alice, time.Hour))(t)
		for _, c := range []struct {
			by              desk.Person
			answered, began string
		}{
			{alice, "outvoted cancelled decided voted", "own"},
			{person("alice"), "outvoted cancelled decided voted", "own"}, // who has left the group
			{person("bob"), "outvoted", ""},
			{person("carol"), "", "outvoted open cancelled decided voted"},
			{person("release"), "", ""},
			{person("mallory", "release"), "", ""},
		} {
			if got := join(t, d.Answered(ctx, c.by)); got != c.answered {
				t.Errorf("%v has answered %q, want %q", c.by, got, c.answered)
			}
			if got := join(t, d.Began(ctx, c.by)); got != c.began {
				t.Errorf("%v has asked %q, want %q", c.by, got, c.began)
			}
		}
		var invalid *desk.InvalidError
		for _, list := range []iter.Seq2[*desk.Question, error]{d.Answered(ctx, person("")), d.Began(ctx, person(""))} {
			for q, err := range list {
				if q != nil || !errors.As(err, &invalid) {
					t.Errorf("nobody has the history %+v, %v", q, err)
				}
			}
		}
		for range d.Answered(ctx, alice) {
			break
		}
		for _, key := range []string{"voted", "cancelled"} { // it is read, and no more
			left := person("alice")
			if q, err := d.Question(ctx, names[key], key, &left); err != nil || q.Arguments == nil || !q.Concerns(left) {
				t.Errorf("%s: %+v, %v", key, q, err)
			}
			if _, err := d.Claim(ctx, names[key], key, left, time.Hour); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("%s is claimed: %v", key, err)
			}
		}
		if q, err := d.Question(ctx, names["anonymous"], "anonymous", nil); err != nil || q.Concerns(desk.Person{}) {
			t.Errorf("nobody sees what an anonymous caller asks: %v", err)
		}
	})
}

// flaky is a store whose Changes fail when it is told so, and show what was changed late.
type flaky struct {
	*task.MemoryStore
	mu      sync.Mutex
	fails   bool
	hides   string // a key that is not seen yet
	queries int
	told    []string // what became of the changes
}

func (f *flaky) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *flaky) Changes(
	ctx context.Context, after *task.Question, limit int,
) (changed []*task.Question, now time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries++
	if f.fails {
		return nil, now, errors.New("the store is away")
	}
	all, now, err := f.MemoryStore.Changes(ctx, after, limit)
	for _, q := range all {
		if q.Key != f.hides {
			changed = append(changed, q)
		}
	}
	return changed, now, err
}

// Each change is yielded once, by one query a second, also what is seen late or comes while the store is away.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{MemoryStore: new(task.MemoryStore)}
		ctx, stop := context.WithCancel(t.Context())
		d := open(t, s)
		names := make(map[string]string)
		add := func(key string) {
			t.Helper()
			q := asking(key, 2, "group:release")
			q.Within = time.Hour
			name, err := asks(t.Context(), s, task.Task{ID: key, Principal: "carol", Target: "deploy"}, q, asking("timer", 0))
			expect.Check(t, err)
			names[key] = name
		}
		must := func(_ *desk.Question, err error) {
			t.Helper()
			expect.Check(t, err)
		}
		alice := person("alice", "release")
		add("before")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for q, err := range d.Changes(ctx, 0) {
				text := fmt.Sprint(err)
				if err == nil {
					text = fmt.Sprint(q.Key, " ", q.Status, " ", len(q.Count), q.Claim != nil)
				}
				s.do(func() { s.told = append(s.told, text) })
			}
		}()
		want := func(says string, wait time.Duration, want ...string) {
			t.Helper()
			s.do(func() { s.queries = 0 })
			time.Sleep(wait)
			synctest.Wait()
			s.do(func() {
				if strings.Join(s.told, ", ") != strings.Join(want, ", ") {
					t.Errorf("%s: %q, want %q", says, s.told, want)
				}
				if s.queries > 1+int(wait/time.Second) {
					t.Errorf("%s: %d queries in %v", says, s.queries, wait)
				}
				s.told = nil
			})
		}
		synctest.Wait()
		want("at the beginning", time.Second)
		add("asked")
		want("asked", time.Second, "asked open 0 false")
		want("nothing", 20*time.Second)
		must(d.Claim(ctx, names["asked"], "asked", alice, time.Minute))
		want("claimed", time.Second, "asked open 0 true")
		must(d.Answer(ctx, names["asked"], "asked", accepts("bob", 9)))
		time.Sleep(time.Millisecond)
		must(d.Extend(ctx, names["before"], "before", alice, time.Now().Add(2*time.Hour), ""))
		want("voted and extended", time.Second, "asked open 1 true", "before open 0 false")
		must(d.Answer(ctx, names["asked"], "asked", declines("dave")))
		time.Sleep(time.Millisecond)
		expect.Must(d.Cancel(ctx, names["before"], desk.Cancellation{By: "test", Reason: "over"}))(t)
		want("decided and withdrawn", time.Second, "asked decided 1 false", "before withdrawn 0 false")
		s.do(func() { s.hides = "late" })
		add("late")
		time.Sleep(time.Millisecond)
		add("after it")
		want("a transaction lasts", 5*time.Second, "after it open 0 false")
		s.do(func() { s.hides = "" })
		want("it has ended", time.Second, "late open 0 false")
		s.do(func() { s.fails = true })
		add("meanwhile")
		want("the store is away", 2*time.Second, "desk: look for changes: the store is away",
			"desk: look for changes: the store is away")
		s.do(func() { s.fails = false })
		for i := range 250 {
			add(fmt.Sprint("many ", i))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.do(func() {
			if len(s.told) != 251 || s.told[0] != "meanwhile open 0 false" {
				t.Errorf("%d changes: %.20q…", len(s.told), s.told[:1])
			}
			s.told = nil
		})
		time.Sleep(10 * time.Second) // what has just changed is read again
		want("nothing again", 15*time.Second)
		stop()
		<-ended
		want("it is over", 5*time.Second)
	})
}
