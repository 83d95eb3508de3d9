package desk_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// asks adds a task to a store that waits for the answers to questions, and returns its name.
func asks(ctx context.Context, s task.Store, row task.Task, questions ...*task.Question) (name string, err error) {
	return asksWith(ctx, s, row, `{"version":"1.2"}`, questions...)
}

// asksWith is asks for a call with these arguments.
func asksWith(
	ctx context.Context, s task.Store, row task.Task, arguments string, questions ...*task.Question,
) (name string, err error) {
	row.Status = task.Working
	call := fmt.Appendf(nil, `{"version":1,"call":"the secret call","can":0,"params":{"name":"deploy","arguments":%s}}`,
		arguments)
	if err := s.Create(ctx, &row, time.Hour, time.Minute, call, nil, task.Quota{}); err != nil {
		return "", err
	}
	row.Status = task.InputRequired
	return task.Name(row.ID), s.Update(ctx, &row, task.Update{Leased: true, Ask: questions, Due: -1})
}

const schema = `{"type":"object","properties":{"hour":{"type":"integer","minimum":0,"maximum":23},` +
	`"note":{"type":"string","default":"none"}},"required":["hour"]}`

// asking returns a question with a form whose answer is an hour.
func asking(key string, votes int, who ...string) *task.Question {
	return encode(key, who, stored.Asking{
		Key: "window", Method: input.MethodElicit, Votes: votes, Call: "CALL",
		Params: json.RawMessage(`{"mode":"form","message":"When?","requestedSchema":` + schema + `}`),
	})
}

func encode(key string, who []string, a stored.Asking) *task.Question {
	a.Digest = make([]byte, len(journal.Digest{}))
	content, err := stored.Encode(&a)
	if err != nil {
		panic(err)
	}
	return &task.Question{Key: key, For: who, Content: content}
}

// A page and a terminal say with the same words how a question stands.
func TestSummary(t *testing.T) {
	by := []input.Provenance{{Who: "bob"}, {Who: "carol"}}
	for want, q := range map[string]desk.Question{
		"open: 1 of 2 votes": {Status: task.QuestionOpen, Votes: 2, Count: make([]desk.Vote, 1)},
		"withdrawn: the call has ended, or no longer asks": {Status: task.QuestionWithdrawn},
		"unanswered: the deadline has passed":              {Status: task.QuestionDecided, Decision: new(desk.Decision)},
		"accepted by bob and carol":                        {Decision: &desk.Decision{Action: "accept", By: by}},
		"declined by bob":                                  {Decision: &desk.Decision{Action: "decline", By: by[:1]}},
		"dismissed by bob":                                 {Decision: &desk.Decision{Action: "cancel", By: by[:1]}},
	} {
		expect.Equal(t, "q.Summary()", q.Summary(), want)
	}
}

// one is a desk on a store with one task of carol's, which asks one question.
type one struct {
	*testing.T
	*desk.Desk
	store *task.MemoryStore
	name  string
}

func newOne(t *testing.T, questions ...*task.Question) *one {
	t.Helper()
	s := new(task.MemoryStore)
	name, err := asks(t.Context(), s, task.Task{ID: "parked", Principal: "carol", Target: "deploy"}, questions...)
	expect.Check(t, err)
	return &one{t, open(t, s), s, name}
}

// answer answers the question with the key "q".
func (o *one) answer(a desk.Answer) (*desk.Question, error) {
	return o.Desk.Answer(o.Context(), o.name, "q", a)
}

// read reads the question with the key "q".
func (o *one) read() *desk.Question {
	o.Helper()
	q, err := o.Question(o.Context(), o.name, "q", nil)
	if err != nil {
		o.Fatal(err)
	}
	return q
}

func person(name string, groups ...string) desk.Person {
	return desk.Person{Name: name, Groups: groups}
}

// accepts is an accept with this hour of somebody in the group release.
func accepts(who string, hour int) desk.Answer {
	return desk.Answer{By: person(who, "release"), Action: "accept", Content: fmt.Appendf(nil, `{"hour":%d}`, hour)}
}

func declines(who string) desk.Answer {
	return desk.Answer{By: person(who, "release"), Action: "decline", Reason: "no"}
}

// Who may answer, and what becomes of it, one answer after another: each is who, what, and the state after it.
func TestVotes(t *testing.T) {
	for _, c := range []struct {
		name    string
		votes   int
		answers []desk.Answer
		want    []string
	}{
		{"one is enough", 1, []desk.Answer{accepts("alice", 9)}, []string{`accept {"hour":9,"note":"none"} alice`}},
		{"two alike", 2, []desk.Answer{accepts("alice", 9), accepts("bob", 9)},
			[]string{"1 of 2", `accept {"hour":9,"note":"none"} alice,bob`}},
		{"one person is one vote", 2, []desk.Answer{accepts("alice", 9), accepts("alice", 9), accepts("bob", 9)},
			[]string{"1 of 2", "1 of 2", `accept {"hour":9,"note":"none"} alice,bob`}},
		{"alike is the value and not its spelling", 2, []desk.Answer{accepts("alice", 9),
			{By: person("bob", "release"), Action: "accept", Content: []byte(` {"note":"none", "hour":9.0e0}`)}},
			[]string{"1 of 2", `accept {"hour":9,"note":"none"} alice,bob`}},
		{"another content begins a new count", 2, []desk.Answer{accepts("alice", 9), accepts("bob", 10), accepts("dave", 9),
			accepts("alice", 9)},
			[]string{"1 of 2", "1 of 2 1 earlier", "1 of 2 2 earlier", `accept {"hour":9,"note":"none"} dave,alice`}},
		{"one's own edit, too", 2, []desk.Answer{accepts("alice", 9), accepts("alice", 10), accepts("bob", 10)},
			[]string{"1 of 2", "1 of 2 1 earlier", `accept {"hour":10,"note":"none"} alice,bob`}},
		{"a decline is a veto", 3, []desk.Answer{accepts("alice", 9), accepts("bob", 9), declines("dave")},
			[]string{"1 of 3", "2 of 3", "decline  dave"}},
		{"of one who has accepted, too", 2, []desk.Answer{accepts("alice", 9), declines("alice")},
			[]string{"1 of 2", "decline  alice"}},
		{"a dismissal ends it", 2, []desk.Answer{{By: person("bob", "release"), Action: "cancel"}}, []string{"cancel  bob"}},
		{"the second delivery of what decided", 2,
			[]desk.Answer{accepts("alice", 9), accepts("bob", 9), accepts("bob", 9), accepts("alice", 9)},
			[]string{"1 of 2", `accept {"hour":9,"note":"none"} alice,bob`, `accept {"hour":9,"note":"none"} alice,bob`,
				`accept {"hour":9,"note":"none"} alice,bob`}},
		{"the second delivery of a veto", 2, []desk.Answer{declines("alice"), declines("alice")},
			[]string{"decline  alice", "decline  alice"}},
		{"another's after it", 1, []desk.Answer{accepts("alice", 9), accepts("bob", 9)},
			[]string{`accept {"hour":9,"note":"none"} alice`, `closed: accept by "alice"`}},
		{"another of the same after it", 1, []desk.Answer{accepts("alice", 9), accepts("alice", 10), declines("alice")},
			[]string{`accept {"hour":9,"note":"none"} alice`, `closed: accept by "alice"`, `closed: accept by "alice"`}},
		{"what no longer counts is no second delivery", 2,
			[]desk.Answer{accepts("alice", 9), declines("bob"), accepts("alice", 9)},
			[]string{"1 of 2", "decline  bob", `closed: decline by "bob"`}},
		{"what does not fit leaves it open", 1, []desk.Answer{accepts("alice", 24), accepts("alice", 23)},
			[]string{"invalid: the answer does not fit: hour: must be at most 23", `accept {"hour":23,"note":"none"} alice`}},
		{"a required answer is missing", 1, []desk.Answer{{By: person("alice", "release"), Action: "accept"}},
			[]string{"invalid: the answer does not fit: hour: is required"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOne(t, asking("q", c.votes, "group:release"))
			for i, a := range c.answers {
				q, err := o.answer(a)
				if got := state(q, err); got != c.want[i] {
					t.Errorf("after answer %d: %s, want %s", i, got, c.want[i])
				}
				if err == nil && !cmp.Equal(q.Decision, o.read().Decision) {
					t.Errorf("the answer returns %+v, and %+v is stored", q, o.read())
				}
			}
		})
	}
}

// state tells what has become of a question in a few words.
func state(q *desk.Question, err error) string {
	if closed, ok := errors.AsType[*desk.ClosedError](err); ok {
		by := closed.Error()
		return "closed: " + by[strings.LastIndex(by, ": ")+2:]
	}
	if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
		return "invalid: " + invalid.Reason
	}
	if err != nil {
		return err.Error()
	}
	if d := q.Decision; d != nil {
		var who []string
		for _, p := range d.By {
			who = append(who, p.Who)
		}
		return d.Action + " " + string(d.Content) + " " + strings.Join(who, ",")
	}
	s := fmt.Sprintf("%d of %d", len(q.Count), q.Votes)
	if len(q.Earlier) > 0 {
		s += fmt.Sprintf(" %d earlier", len(q.Earlier))
	}
	return s
}

// Whoever is not asked cannot tell a question from one that does not exist, whatever they do.
func TestWhoMay(t *testing.T) {
	for _, c := range []struct {
		name   string
		asked  []string
		person desk.Person
		want   error
	}{
		{"a user", []string{"user:alice"}, person("alice"), nil},
		{"one of a group", []string{"user:bob", "group:release"}, person("alice", "eng", "release"), nil},
		{"another user", []string{"user:alice"}, person("bob"), task.ErrNotFound},
		{"one of another group", []string{"group:release"}, person("alice", "oncall"), task.ErrNotFound},
		{"a user with the name of a group", []string{"group:release"}, person("release"), task.ErrNotFound},
		{"a user with the name of an entry", []string{"group:release"}, person("group:release"), task.ErrNotFound},
		{"a group with the name of a user", []string{"user:alice"}, person("bob", "alice", "user:alice"), task.ErrNotFound},
		{"a name in other letters", []string{"user:alice"}, person("Alice"), task.ErrNotFound},
		{"groups that look alike", []string{"group:release"},
			person("bob", "Release", "rele\u0430se", "release\u200b", "rel\u00e9ase", "release/x"), task.ErrNotFound},
		{"the caller, as one of a group", []string{"group:release"}, person("carol", "release"), desk.ErrOwnCall},
		{"the caller, who is not asked", []string{"group:release"}, person("carol"), task.ErrNotFound},
		{"the caller by name", []string{"group:release", "user:carol"}, person("carol"), nil},
		{"the anonymous principal", []string{"group:release", "user:"}, person("", "release"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOne(t, asking("q", 2, c.asked...))
			ctx := t.Context()
			listed := 0
			for q, err := range o.Waiting(ctx, desk.Waiting{As: &c.person}) {
				if err == nil && q.Key == "q" {
					listed++
				}
			}
			_, read := o.Question(ctx, o.name, "q", &c.person)
			_, all := o.Questions(ctx, o.name, &c.person)
			_, claimed := o.Claim(ctx, o.name, "q", c.person, time.Minute)
			_, handed := o.HandOver(ctx, o.name, "q", c.person, "alice", time.Minute)
			_, extended := o.Extend(ctx, o.name, "q", c.person, time.Now().Add(time.Hour), "")
			_, answered := o.Desk.Answer(ctx, o.name, "q",
				desk.Answer{By: c.person, Action: "accept", Content: []byte(`{"hour":9}`), Channel: "host"})
			if err := o.read().May(c.person); !errors.Is(err, c.want) && c.person.Name != "" {
				t.Errorf("May: %v, want %v", err, c.want)
			}
			own := c.person.Name == "carol"
			if o.read().Concerns(c.person) != (c.person.Name != "" && c.want == nil || own) {
				t.Error("it concerns those whom it does not, or the other way round")
			}
			for what, err := range map[string]error{
				"Question": read, "Questions": all, "Claim": claimed, "HandOver": handed, "Extend": extended, "Answer": answered,
			} {
				if reads := what == "Question" || what == "Questions"; reads && own {
					if err != nil {
						t.Errorf("%s by whose call it is: %v", what, err)
					}
					continue
				}
				if _, invalid := errors.AsType[*desk.InvalidError](err); c.person.Name == "" && invalid {
					continue
				}
				if c.want == nil && (err == nil || what == "Extend") { // it has no deadline
					continue
				}
				_, unknown := o.Question(ctx, o.name, "another", &c.person)
				if c.want == nil || !errors.Is(err, c.want) ||
					c.want == task.ErrNotFound && cause(err) != cause(unknown) {
					t.Errorf("%s: %v, want %v", what, err, c.want)
				}
			}
			if (listed == 1) != (c.want == nil && c.person.Name != "") {
				t.Errorf("it is listed %d times", listed)
			}
			if q := o.read(); c.want != nil && (len(q.Count) != 0 || len(q.Events) != 0 || q.Claim != nil) {
				t.Errorf("it has changed: %+v", q)
			}
		})
	}
}

// counting is a store that counts what is read of it.
type counting struct {
	*task.MemoryStore
	reads              []string
	questions, entries int
	read               func() // called before each list is read, if it is not nil
}

func (c *counting) Questions(ctx context.Context, name string) ([]*task.Question, error) {
	c.reads = append(c.reads, "questions")
	questions, err := c.MemoryStore.Questions(ctx, name)
	c.questions += len(questions)
	return questions, err
}

func (c *counting) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) ([]*task.Question, error) {
	c.reads = append(c.reads, "waiting")
	if c.read != nil {
		c.read()
	}
	questions, err := c.MemoryStore.Waiting(ctx, f, after, limit)
	c.questions += len(questions)
	return questions, err
}

func (c *counting) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	c.reads = append(c.reads, "journal")
	call, entries, err = c.MemoryStore.Journal(ctx, id, most)
	c.entries += len(entries)
	return call, entries, err
}

// crowded returns a store with 300 tasks that ask alice, each with a journal of ten entries, and the name of one.
func crowded(t *testing.T) (s *counting, name string) {
	t.Helper()
	s = &counting{MemoryStore: new(task.MemoryStore)}
	for i := range 300 {
		row, err := task.Task{ID: fmt.Sprint(i), Principal: "carol"}, error(nil)
		if name, err = asks(t.Context(), s, row, asking("q", 1, "user:alice")); err != nil {
			t.Fatal(err)
		}
		got := expect.Must(s.Get(t.Context(), row.ID))(t)
		expect.Check(t, s.Update(t.Context(), got, task.Update{Keep: true, Entries: make([][]byte, 10)}))
	}
	return s, name
}

// What a card reads does not grow with the questions of others or with the journal of its call.
func TestACardReadsWhatItShows(t *testing.T) {
	s, name := crowded(t)
	d, alice := open(t, s), person("alice")
	for _, name := range []string{name, name[:8]} {
		for _, as := range []*desk.Person{&alice, nil} {
			s.questions, s.entries = 0, 0
			q, err := d.Question(t.Context(), name, "q", as)
			if err != nil || len(q.Arguments) == 0 || s.questions != 1 || s.entries != 0 {
				t.Errorf("%s: %v, after %d questions and %d entries", name, err, s.questions, s.entries)
			}
		}
	}
	s.questions = 0
	_, err := d.Answer(t.Context(), name[:8], "q", desk.Answer{By: alice, Action: "decline"})
	if err != nil || s.questions != 1 {
		t.Errorf("an answer: %v, after %d questions", err, s.questions)
	}
	if shown, err := d.Show(t.Context(), name); err != nil || shown.Call == "" || s.entries != 0 {
		t.Errorf("a task: %+v, %v, after %d entries", shown, err, s.entries)
	}
}

// A search that nobody waits for any more reads no further page. Others go on.
func TestASearchEndsWithItsContext(t *testing.T) {
	s, _ := crowded(t)
	d, alice := open(t, s), person("alice")
	ctx, cancel := context.WithCancel(t.Context())
	s.read = func() {
		if s.questions > 0 {
			cancel()
		}
	}
	if got := keys(ctx, d, desk.Waiting{As: &alice, Search: "nowhere"}); len(s.reads) != 2 || s.questions != 100 ||
		len(got) != 1 || !strings.Contains(got[0], context.Canceled.Error()) {
		t.Errorf("%q, after %q and %d questions", got, s.reads, s.questions)
	}
	s.read, s.questions = nil, 0
	if got := keys(t.Context(), d, desk.Waiting{As: &alice, Search: "nowhere"}); got != nil || s.questions != 300 {
		t.Errorf("%q, after %d questions", got, s.questions)
	}
}

// What a question that exists costs those whom it does not concern is what one costs that does not exist.
func TestNobodyLearnsByTime(t *testing.T) {
	s := &counting{MemoryStore: new(task.MemoryStore)}
	name, err := asks(t.Context(), s, task.Task{ID: "parked", Principal: "carol"}, asking("q", 1, "group:release"))
	expect.Check(t, err)
	d, mallory := open(t, s), person("mallory", "oncall")
	read := func(name string) []string {
		s.reads = nil
		if _, err := d.Question(t.Context(), name, "q", &mallory); !errors.Is(err, task.ErrNotFound) {
			t.Error(err)
		}
		if _, err := d.Questions(t.Context(), name, &mallory); !errors.Is(err, task.ErrNotFound) {
			t.Error(err)
		}
		return s.reads
	}
	for _, name := range []string{name, name[:8]} {
		is, isNot := read(name), read(strings.Repeat("A", len(name)))
		if !cmp.Equal(is, isNot) || len(is) != 2 {
			t.Errorf("%s: %q, and one that does not exist: %q", name, is, isNot)
		}
	}
}

// cause is the text of an error without what was being done.
func cause(err error) string {
	_, after, _ := strings.Cut(fmt.Sprint(err), "question")
	return strings.TrimLeft(after, "s: ")
}

// keys are the keys of what a list yields, with the errors in between.
func keys(ctx context.Context, d *desk.Desk, w desk.Waiting) (listed []string) {
	for q, err := range d.Waiting(ctx, w) {
		switch {
		case q == nil:
			listed = append(listed, err.Error())
		case err != nil:
			listed = append(listed, q.Key+"!")
		default:
			listed = append(listed, q.Key)
		}
	}
	return listed
}

// A list has what waits for somebody, each question once and however many there are, in the order that was asked for.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(task.MemoryStore)
		add := func(id, principal, target string, q *task.Question, within time.Duration) {
			t.Helper()
			time.Sleep(time.Second)
			q.Within = within
			expect.Must(asks(t.Context(), s, task.Task{ID: id, Principal: principal, Target: target}, q))(t)
		}
		start := time.Now()
		add("1", "carol", "deploy", asking("first", 1, "group:release"), time.Hour)
		add("2", "carol", "deploy", asking("both", 1, "group:release", "user:alice"), time.Minute)
		add("3", "alice", "deploy", asking("own", 1, "group:release"), time.Hour)
		add("4", "carol", "refund", asking("last", 1, "user:alice"), 0)
		add("5", "carol", "deploy", asking("bob's", 1, "user:bob"), time.Second)
		add("6", "carol", "deploy", asking("timer", 0), time.Hour)
		unreadable := asking("unreadable", 1, "user:dave")
		unreadable.Content = []byte("?")
		add("7", "carol", "deploy", unreadable, 0)
		d, alice := open(t, s), person("alice", "release")
		for _, c := range []struct {
			w    desk.Waiting
			want string
		}{
			{desk.Waiting{}, "first both own last bob's unreadable!"},
			{desk.Waiting{As: &alice}, "first both last"},
			{desk.Waiting{As: &alice, ByDeadline: true}, "both first"},
			{desk.Waiting{As: &alice, Targets: []string{"refund", "none"}}, "last"},
			{desk.Waiting{As: &alice, Before: start.Add(2 * time.Second)}, "first"},
			{desk.Waiting{As: new(person("mallory"))}, ""},
			{desk.Waiting{As: new(person(""))}, "desk: list the questions: the name of the person has 0 bytes: " +
				"it needs 1 to 256 of UTF-8, without control characters and space around it"},
		} {
			expect.Equal(t, fmt.Sprint(c.w), strings.Join(keys(t.Context(), d, c.w), " "), c.want)
		}
		for i := range 1234 {
			add(fmt.Sprint("of alice ", i), "alice", "deploy", asking("own", 1, "group:release"), 0)
		}
		add("8", "carol", "deploy", asking("after many", 1, "group:release"), 0)
		if got := strings.Join(keys(t.Context(), d, desk.Waiting{As: &alice}), " "); got != "first both last after many" {
			t.Error(got)
		}
		expect.Equal(t, "questions", len(keys(t.Context(), d, desk.Waiting{})), 6+1235)
		for range d.Waiting(t.Context(), desk.Waiting{}) {
			break
		}
	})
}

// A card has the arguments of the call and what the author shows beside them, and the names of equal calls.
func TestCards(t *testing.T) {
	s := new(task.MemoryStore)
	withPreview := stored.Asking{Key: "ask", Method: input.MethodElicit, Votes: 1, Preview: "the secret is not shown",
		Params: json.RawMessage(`{"message":"?"}`), Fallback: true}
	names := make(map[string]string)
	for id, q := range map[string]*task.Question{
		"plain":     asking("q", 1, "user:alice", "group:release"),
		"preview":   encode("q", []string{"user:alice"}, withPreview),
		"equal":     asking("q", 1, "user:alice"),
		"of others": asking("q", 1, "user:bob"),
		"own":       asking("q", 1, "group:release"),
	} {
		q.Equal = "the same"
		if id == "preview" {
			q.Equal = ""
		}
		row := task.Task{ID: id, Principal: "carol", Target: "deploy"}
		if id == "own" {
			row.Principal = "alice"
		}
		name := expect.Must(asks(t.Context(), s, row, q))(t)
		names[id] = name
	}
	d, alice := open(t, s), person("alice", "release")
	q, err := d.Question(t.Context(), names["plain"], "q", &alice)
	expect.Check(t, err)
	asked := q.Asked
	q.Params, q.Schema, q.Asked = nil, nil, time.Time{}
	want := &desk.Question{
		Name: names["plain"], Question: input.Question{Key: "q", Method: input.MethodElicit, Mode: "form", Message: "When?"},
		AuthorKey: "window", Target: "deploy", Principal: "carol", For: []string{"user:alice", "group:release"}, Votes: 1,
		Status: task.QuestionOpen, Call: "CALL", Arguments: json.RawMessage(`{"version":"1.2"}`),
		Equal: []string{names["equal"]},
	}
	if diff := cmp.Diff(want, q); diff != "" || time.Since(asked) > time.Minute {
		t.Errorf("asked %v: %s", asked, diff)
	}
	if q, err := d.Question(t.Context(), names["plain"], "q", nil); err != nil || len(q.Equal) != 3 {
		t.Errorf("for an operator: %+v, %v", q, err)
	}
	q, err = d.Question(t.Context(), names["preview"], "q", &alice)
	if err != nil || q.Preview != withPreview.Preview || q.Arguments == nil || q.Equal != nil || !q.Fallback {
		t.Errorf("%+v, %v", q, err)
	}
	all, err := d.Questions(t.Context(), names["plain"], nil)
	if err != nil || len(all) != 1 || all[0].Arguments == nil {
		t.Errorf("%+v, %v", all, err)
	}
}

// Arguments are shown as text, and their members in one order for every client. Of large arguments a question has the
// beginning, the size and the digest, and Desk.Arguments has all of them.
func TestArguments(t *testing.T) {
	large := `{"z":"` + strings.Repeat("é", 20_000) + `"}`
	digest := sha256.Sum256([]byte(large))
	for given, want := range map[string]*desk.Question{
		`{"b":1.50,"a":"\u003cb\u003e"}`: {Arguments: json.RawMessage(`{"a":"<b>","b":1.5}`)},
		large: {Excerpt: &desk.Excerpt{Begin: `{"z":"` + strings.Repeat("é", (4096-6)/2), Size: len(large),
			SHA256: hex.EncodeToString(digest[:])}},
	} {
		s := new(task.MemoryStore)
		row := task.Task{ID: "parked", Principal: "carol", Target: "deploy"}
		name, err := asksWith(t.Context(), s, row, given, asking("q", 1, "user:alice"))
		expect.Check(t, err)
		d, alice, eve := open(t, s), person("alice"), person("eve")
		q, err := d.Question(t.Context(), name, "q", &alice)
		if err != nil || string(q.Arguments) != string(want.Arguments) || !cmp.Equal(q.Excerpt, want.Excerpt) {
			t.Errorf("%.40s is shown as %.40s, %+v, %v", given, q.Arguments, q.Excerpt, err)
		}
		all, err := d.Arguments(t.Context(), name, "q", &alice)
		if err != nil || q.Excerpt == nil && string(all) != string(q.Arguments) || q.Excerpt != nil && string(all) != large {
			t.Errorf("all of %.40s is %.40s, %v", given, all, err)
		}
		if all, err := d.Arguments(t.Context(), name, "q", &eve); !errors.Is(err, task.ErrNotFound) || all != nil {
			t.Errorf("somebody else gets %.40s, %v", all, err)
		}
	}
}

// A line of a list has the names that scripts look for.
func TestAQuestionAsJSON(t *testing.T) {
	o := newOne(t, asking("q", 2, "group:release"))
	q := o.read()
	encoded := expect.Must(json.Marshal(q))(t)
	var members map[string]any
	expect.Check(t, json.Unmarshal(encoded, &members))
	delete(members, "params")
	expect.Equal[any](t, "asked", members["asked"], q.Asked.Format(time.RFC3339Nano))
	delete(members, "asked")
	if diff := cmp.Diff(map[string]any{
		"name": o.name, "key": "q", "method": "elicitation/create", "message": "When?", "authorKey": "window",
		"target": "deploy", "principal": "carol", "for": []any{"group:release"}, "votes": 2.0, "status": "open",
		"call": "CALL", "arguments": map[string]any{"version": "1.2"},
	}, members); diff != "" {
		t.Error(diff)
	}
}

// The beginning of a name finds what waits for a person. It finds nothing else for them, and all for an operator.
func TestBeginningsOfNames(t *testing.T) {
	o := newOne(t, asking("q", 1, "group:release"))
	alice, mallory := person("alice", "release"), person("mallory")
	ask := func(name, key string, as *desk.Person) error {
		_, err := o.Question(t.Context(), name, key, as)
		return err
	}
	for _, as := range []*desk.Person{&alice, nil} {
		if err := ask(o.name[:6], "q", as); err != nil {
			t.Errorf("%v: %v", as, err)
		}
	}
	for name, err := range map[string]error{
		"somebody else":  ask(o.name[:6], "q", &mallory),
		"too short":      ask(o.name[:5], "q", &alice),
		"none":           ask("", "q", &alice),
		"longer":         ask(o.name+"A", "q", &alice),
		"an ID":          ask("parked", "q", &alice),
		"an edited name": ask("A"+o.name[1:], "q", &alice),
		"an edited key":  ask(o.name, "q2", &alice),
		"no key":         ask(o.name, "", nil),
		"10 MB":          ask(strings.Repeat("A", 10<<20), "q", &alice),
	} {
		if !errors.Is(err, task.ErrNotFound) || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	expect.Must(o.answer(accepts("bob", 9)))(t)
	if err := ask(o.name[:6], "q", &alice); !errors.Is(err, task.ErrNotFound) ||
		!strings.Contains(err.Error(), "the whole name is needed") {
		t.Errorf("what is decided: %v", err)
	}
	if err := ask(o.name, "q", &alice); err != nil {
		t.Error(err)
	}
}
