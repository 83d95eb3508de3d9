package journal

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// within is a question that waits for so long.
func within(key string, d time.Duration) Ask {
	q := question(key, "?")
	q.Within = d
	return q
}

var noon = time.UnixMilli(1_767_225_600_123)

// deadlines returns the times of the pending questions, counted from noon.
func deadlines(j *Journal) (times []string) {
	for _, q := range j.Pending {
		s := q.Key
		if !q.Deadline.IsZero() {
			s += fmt.Sprint(" ", q.Asked.Sub(noon), "-", q.Deadline.Sub(noon))
		}
		times = append(times, s)
	}
	return times
}

// A deadline is fixed when its question is first put, to the millisecond. It stays where it is while the question is
// asked again: because other answers came, because its own does not fit, or because nothing came.
func TestADeadlineIsFixedOnce(t *testing.T) {
	asks := []Ask{within("day", 24*time.Hour), within("hour", time.Hour), question("none", "?")}
	j := &Journal{ID: "id"}
	next := func(after time.Duration, responses map[string][]byte, want ...string) {
		t.Helper()
		now := noon.Add(after + 999*time.Microsecond)
		if expired := j.Expire(now, nil); expired != nil {
			t.Fatalf("after %v the deadline of %v has passed", after, expired)
		}
		round(t, j, responses, asks...)
		j.Start(now)
		if got := deadlines(j); !slices.Equal(got, want) {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
		decoded := expect.Must(Decode(j.Append(nil)))(t)
		if got := deadlines(decoded); !slices.Equal(got, want) {
			t.Errorf("after %v and a journey: %q, want %q", after, got, want)
		}
		j = decoded
	}
	next(0, nil, "day 0s-24h0m0s", "hour 0s-1h0m0s", "none")
	next(time.Minute, nil, "day 0s-24h0m0s", "hour 0s-1h0m0s", "none")
	next(2*time.Minute, answers("none", "v"), "day 0s-24h0m0s", "hour 0s-1h0m0s")
	next(3*time.Minute, answers("day", "unfit"), "day 0s-24h0m0s", "hour 0s-1h0m0s")
	next(4*time.Minute, answers("day", "v"), "hour 0s-1h0m0s")
	asks = append(asks, within("later", time.Minute))
	next(5*time.Minute, nil, "hour 0s-1h0m0s", "later 5m0s-6m0s")
	asks[1].Within = time.Second // another release: what was put stays
	next(5*time.Minute+time.Second, nil, "hour 0s-1h0m0s", "later 5m0s-6m0s")
}

// A question is unanswered from its deadline on. Every later run gets the same error, also after a journey, whatever
// answer comes, and the other questions stay open.
func TestADeadlineIsAnAnswer(t *testing.T) {
	asks := []Ask{within("hour", time.Hour), within("day", 24*time.Hour), question("none", "?")}
	j := &Journal{ID: "id"}
	round(t, j, nil, asks...)
	j.Start(noon)
	if expired := j.Expire(noon.Add(time.Hour-time.Millisecond), nil); expired != nil {
		t.Errorf("a millisecond before its deadline nobody has answered %v", expired)
	}
	if expired := j.Expire(noon.Add(time.Hour), nil); len(expired) != 1 || expired[0].Key != "hour" {
		t.Errorf("at its deadline nobody has answered %v", expired)
	}
	if again := j.Expire(noon.Add(time.Hour), nil); again != nil {
		t.Errorf("once more: %v", again)
	}
	want := &UnansweredError{Key: "hour", Asked: noon, Deadline: noon.Add(time.Hour)}
	for i := range 3 {
		run := Begin(j, answers("hour", "late"), new(bound.Limits))
		value, err := run.Ask(asks[0])
		if got, ok := errors.AsType[*UnansweredError](err); !ok || *got != *want || value != nil {
			t.Errorf("run %d: %s, %v", i, value, err)
		}
		_, open := run.Ask(asks[1])
		_, _ = run.Ask(asks[2])
		if _, suspended, err := run.Finish(errors.Join(err, open)); !suspended || err != nil {
			t.Fatalf("run %d: suspended is %v, %v", i, suspended, err)
		}
		if got := deadlines(j); !slices.Equal(got, []string{"day 0s-24h0m0s", "none"}) {
			t.Errorf("run %d: %q are open", i, got)
		}
		if i == 1 {
			if j, err = Decode(j.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if text := want.Error(); text != `the question "hour" was not decided within 1h0m0s, until 2026-01-01T01:00:00Z` {
		t.Errorf("the error says %s", text)
	}
}

// What was answered in time counts, however long the round lasts that it came in.
func TestAnAnswerInTimeIsNotExpired(t *testing.T) {
	asks := []Ask{within("slow", time.Hour), within("quick", time.Minute)}
	j := &Journal{ID: "id"}
	round(t, j, nil, asks...)
	j.Start(noon)
	inTime := answers("quick", "unfit")
	if expired := j.Expire(noon.Add(time.Hour), inTime); len(expired) != 1 || expired[0].Key != "slow" {
		t.Errorf("nobody has answered %v", expired)
	}
	round(t, j, inTime, asks...)
	j.Start(noon.Add(time.Hour))
	expect.Same(t, "a question whose answer did not fit", deadlines(j), []string{"quick 0s-1m0s"})
}

// The wire key of an unanswered question never names another one.
func TestAnUnansweredQuestionKeepsItsKey(t *testing.T) {
	j := &Journal{ID: "id"}
	round(t, j, nil, within("k", time.Hour))
	j.Start(noon)
	j.Expire(noon.Add(time.Hour), nil)
	reworded := question("k", "reworded")
	round(t, j, nil, reworded)
	if wire := j.Pending[0].Wire; wire == "k" {
		t.Errorf("another question has the wire key %q", wire)
	}
	if got, _ := round(t, j, answers("k", "to the first"), reworded); got != nil {
		t.Errorf("a late answer to the first question is that to the second: %q", got)
	}
}

// A retry without a state answers what any client may be asked. It answers neither what is asked apart from the client,
// nor a question with a deadline, which is in the state.
func TestARetryWithoutAState(t *testing.T) {
	apart, fallback := question("apart", "?"), question("fallback", "?")
	apart.Apart = true
	fallback.Fallback, fallback.Apart = true, true // the client cannot be asked
	notShown := question("not shown", "?")
	notShown.Fallback = true
	j := &Journal{ID: "id", Entries: []Entry{{Kind: NotShown, Key: "not shown", Digest: notShown.Digest}}}
	asks := []Ask{question("any", "?"), within("timed", time.Hour), apart, fallback, notShown}
	run := new(Run)
	run.BeginBare(j, answers("any", "v", "timed", "v", "apart", "v", "fallback", "v", "not shown", "v"),
		new(bound.Limits))
	for _, a := range asks {
		value, err := run.Ask(a)
		if answered := err == nil; answered != (a.Key == "any") {
			t.Errorf("%s: %s, %v", a.Key, value, err)
		}
	}
}

// An answer that nobody was shown is dropped, and its question goes apart from the client's. What says so is recorded
// once, however often the answer is read, as it is from a store whose entries stay.
func TestNotShown(t *testing.T) {
	a := question("k", "?")
	a.Fallback = true
	a.Accept = func([]byte) ([]byte, error) { return nil, fmt.Errorf("5 ms: %w", ErrNotShown) }
	unread := Entry{Kind: Unread, Key: "k", Digest: a.Digest, Value: []byte("declined")}
	var marks []Entry
	for i := range 3 {
		j := &Journal{ID: "id", Entries: append([]Entry{unread}, marks...)}
		run := Begin(j, nil, new(bound.Limits))
		_, err := run.Ask(a)
		asks, suspended, err := run.Finish(err)
		if !suspended || err != nil || len(asks) != 1 || !asks[0].Apart || len(j.Apart) != 1 || len(j.Pending) != 0 {
			t.Fatalf("run %d: %+v, %v, %v, apart %+v, pending %+v", i, asks, suspended, err, j.Apart, j.Pending)
		}
		if refused := run.Refused(); refused != nil {
			t.Errorf("run %d: refused %v", i, refused)
		}
		marks = append(marks, run.marks...)
	}
	if len(marks) != 1 {
		t.Errorf("recorded %+v", marks)
	}
	a.Fallback = false // another release: the client is asked
	j := &Journal{ID: "id", Entries: marks}
	if _, open := round(t, j, nil, a); len(open) != 1 || len(j.Pending) != 1 {
		t.Errorf("without a fallback %q are open, %+v pending", open, j.Pending)
	}
}

// The error of an entry whose times are damaged has none, and does not panic.
func TestDamagedTimes(t *testing.T) {
	for _, value := range [][]byte{nil, {0x80}, {1}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		j := &Journal{Entries: []Entry{{Kind: Unanswered, Key: "k", Digest: question("k", "?").Digest, Value: value}}}
		_, err := Begin(j, nil, new(bound.Limits)).Ask(question("k", "?"))
		if late, ok := errors.AsType[*UnansweredError](err); !ok || late.Key != "k" || late.Error() == "" {
			t.Errorf("%x: %v", value, err)
		}
	}
}

// A row of the home names one question for good: the next one under the key of its author gets another.
func TestRowsOfQuestionsApart(t *testing.T) {
	first, second := question("k", "first"), question("k", "second")
	first.Apart, second.Apart = true, true
	j := &Journal{ID: "id"}
	apart := func(a Ask, wantRow string, wantKnown bool) {
		t.Helper()
		run := Begin(j, nil, new(bound.Limits))
		run.Numbered = true
		_, err := run.Ask(a)
		if _, _, err := run.Finish(err); err != nil {
			t.Fatal(err)
		}
		q := j.Apart[0]
		if q.Row != wantRow || q.Known != wantKnown {
			t.Errorf("the row is %q, known is %v; want %q, %v", q.Row, q.Known, wantRow, wantKnown)
		}
		if !q.Known {
			j.Entries = append(j.Entries, q.Put())
		}
	}
	apart(first, "k", false)
	apart(first, "k", true)
	apart(second, "k#2", false)
	apart(first, "k", true)
	apart(second, "k#2", true)
	// Another author's key with the same beginning, and the same words.
	third := question("k#2", "first")
	third.Apart = true
	apart(third, "k#2#2", false)
	fourth := question("k#2", "fourth")
	fourth.Apart = true
	apart(fourth, "k#2#3", false)
	fourth.Key = "k"
	apart(fourth, "k#3", false)
	apart(fourth, "k#3", true)
	// The client's questions get none of these keys either.
	for _, wire := range []string{"k", "k#2", "k#3", "k#2#2", "k#2#3"} {
		if got := j.WireKey(wire); got == wire {
			t.Errorf("%q is the wire key of another question", wire)
		}
	}
}
