package inbox_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// office is an inbox on a store, whose requests say themselves who sends them.
type office struct {
	*testing.T
	*desk.Desk
	store task.Store
	in    *inbox.Inbox
	log   *logBuffer
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, store: new(task.MemoryStore)}
	o.Desk = openDesk(t, o.store)
	o.in, o.log = newInbox(t, o.store, inbox.IdentityFunc(who))
	return o
}

// who returns the person that the header As names, such as "alice:release,oncall".
func who(r *http.Request) (desk.Person, error) {
	name, groups, _ := strings.Cut(r.Header.Get("As"), ":")
	if name == "" {
		return desk.Person{}, errors.New("there is no As")
	}
	return desk.Person{Name: name, Groups: strings.FieldsFunc(groups, func(c rune) bool { return c == ',' })}, nil
}

const hours = `{"type":"object","properties":{"hour":{"type":"integer","minimum":0,"maximum":23}},"required":["hour"]}`

// asked is a question of carol's call of the tool deploy, for the group release, that asks for an hour. Its key is "q".
func asked(votes int, change ...func(*stored.Asking, *task.Question)) *task.Question {
	a := stored.Asking{Key: "window", Method: input.MethodElicit, Votes: votes, Call: "CALL",
		Params: json.RawMessage(`{"mode":"form","message":"When?","requestedSchema":` + hours + `}`),
		Digest: make([]byte, len(journal.Digest{}))}
	q := &task.Question{Key: "q", For: []string{"group:release"}}
	for _, c := range change {
		c(&a, q)
	}
	content, err := stored.Encode(&a)
	if err != nil {
		panic(err)
	}
	q.Content = content
	return q
}

// within gives a question a deadline.
func within(d time.Duration) func(*stored.Asking, *task.Question) {
	return func(_ *stored.Asking, q *task.Question) { q.Within = d }
}

// ask adds a task that asks a question, and returns its name.
func (o *office) ask(id string, q *task.Question) string {
	o.Helper()
	return o.askFor(id, task.Task{ID: id, Principal: "carol", Target: "deploy"}, `{"version":"1.2"}`, q)
}

func (o *office) askFor(id string, row task.Task, arguments string, q *task.Question) string {
	o.Helper()
	ctx := context.Background()
	call := fmt.Appendf(nil, `{"version":1,"call":"x","can":0,"params":{"name":"deploy","arguments":%s}}`, arguments)
	row.Status = task.Working
	if err := o.store.Create(ctx, &row, time.Hour, time.Minute, call, nil, task.Quota{}); err != nil {
		o.Fatal(err)
	}
	row.Status = task.InputRequired
	if err := o.store.Update(ctx, &row, task.Update{Leased: true, Ask: []*task.Question{q}, Due: -1}); err != nil {
		o.Fatal(err)
	}
	return task.Name(id)
}

// send sends a request as somebody. A body is JSON.
func (o *office) send(as, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	o.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if as != "" {
		r.Header.Set("As", as)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return send(o.in, r)
}

// shown is a part of what the API says of a question.
type shown struct {
	Name, Key, Message string
	MayAnswer          bool
	Status             any
	Arguments          json.RawMessage
	Count              []desk.Vote
	Claim              *desk.Claim
	Deadline           time.Time
	Decision           *desk.Decision
	Type, Title        string // of a problem
}

// api sends a request as somebody, and reads what comes.
func (o *office) api(want int, as, method, path, body string) (q shown) {
	o.Helper()
	w := o.send(as, method, path, body)
	if w.Code != want {
		o.Fatalf("%s %s %s: %d, want %d: %s\n%s", as, path, body, w.Code, want, w.Body, o.log)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil {
		o.Fatal(err)
	}
	return q
}

func path(name string, parts ...string) string {
	return "/api/questions/" + name + "/q" + strings.Join(parts, "")
}

const accepted = `{"action":"accept","content":{"hour":9},"reason":"It runs on staging."}`

// Two people answer, the same answer twice is one vote, and who comes later is told who was first.
func TestAPIAnswers(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(2))
	q := o.api(200, "alice:release", "GET", path(name), "")
	if q.Name != name || q.Message != "When?" || !q.MayAnswer || string(q.Arguments) != `{"version":"1.2"}` {
		t.Errorf("%+v", q)
	}
	for range 2 {
		q = o.api(200, "alice:release", "POST", path(name, "/answer"), accepted)
		if len(q.Count) != 1 || q.Count[0].Who != "alice" || q.Count[0].Channel != "inbox api" || q.Decision != nil {
			t.Errorf("%+v", q)
		}
	}
	q = o.api(422, "bob:release", "POST", path(name, "/answer"), `{"action":"accept","content":{"hour":24}}`)
	if !strings.Contains(q.Title, "must be at most 23") {
		t.Errorf("%+v", q)
	}
	q = o.api(200, "bob:release", "POST", path(name, "/answer"), `{"action":"accept","content":{"hour":9}}`)
	if q.Decision == nil || q.Decision.Action != "accept" || string(q.Decision.Content) != `{"hour":9}` {
		t.Errorf("%+v", q)
	}
	o.api(200, "bob:release", "POST", path(name, "/answer"), `{"action":"accept","content":{"hour":9}}`)
	q = o.api(409, "eve:release", "POST", path(name, "/answer"), `{"action":"decline"}`)
	if q.Type != "urn:askback:problem:closed" || q.Decision == nil || q.Decision.By[0].Who != "alice" ||
		q.Decision.Content != nil || !strings.Contains(q.Title, `accept by "alice" and "bob"`) {
		t.Errorf("%+v", q)
	}
}

// Whose call it is sees the question, and is told why somebody else must answer.
func TestAPIOwnCall(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	if q := o.api(200, "carol", "GET", path(name), ""); q.MayAnswer {
		t.Errorf("%+v", q)
	}
	q := o.api(403, "carol:release", "POST", path(name, "/answer"), accepted)
	if q.Type != "urn:askback:problem:own-call" {
		t.Errorf("%+v", q)
	}
	if q := o.api(403, "carol", "POST", path(name, "/answer"), accepted); q.Type != "urn:askback:problem:not-asked" {
		t.Errorf("%+v", q)
	}
}

// Claims, and a deadline that moves.
func TestAPIClaims(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1, within(time.Hour)))
	q := o.api(200, "alice:release", "POST", path(name, "/claim"), `{"seconds":600}`)
	if q.Claim == nil || q.Claim.By != "alice" {
		t.Errorf("%+v", q)
	}
	o.api(422, "bob:release", "POST", path(name, "/claim"), `{"seconds":600}`)
	o.api(422, "alice:release", "POST", path(name, "/claim"), `{"seconds":9223372036854775807}`)
	q = o.api(200, "alice:release", "POST", path(name, "/hand-over"), `{"to":"bob","seconds":600}`)
	if q.Claim == nil || q.Claim.By != "bob" {
		t.Errorf("%+v", q)
	}
	if q := o.api(200, "bob:release", "POST", path(name, "/claim"), `{}`); q.Claim != nil {
		t.Errorf("%+v", q)
	}
	later := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	q = o.api(200, "alice:release", "POST", path(name, "/extend"),
		fmt.Sprintf(`{"deadline":%q,"reason":"We meet on Monday."}`, later.Format(time.RFC3339)))
	if !q.Deadline.Equal(later) {
		t.Errorf("%+v", q)
	}
	o.api(422, "alice:release", "POST", path(name, "/extend"), `{"deadline":"2020-01-01T00:00:00Z"}`)
}

// list reads a list, and returns the names of its questions and the next page.
func (o *office) list(as, query string) (names []string, next int) {
	o.Helper()
	w := o.send(as, "GET", "/api/questions?"+query, "")
	var l struct {
		Questions []shown
		Next      int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != http.StatusOK || l.Questions == nil {
		o.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	for _, q := range l.Questions {
		names = append(names, q.Name)
	}
	return names, l.Next
}

// The three lists, in their orders.
func TestAPILists(t *testing.T) { synctest.Test(t, testAPILists) }

func testAPILists(t *testing.T) {
	o := newOffice(t)
	message := func(text string) func(*stored.Asking, *task.Question) {
		return func(a *stored.Asking, _ *task.Question) { a.Params = json.RawMessage(`{"message":"` + text + `"}`) }
	}
	var names []string
	for i, text := range []string{"red", "green", "blue"} {
		names = append(names, o.ask(text, asked(1, message(text), within(time.Hour*time.Duration(3-i)))))
		time.Sleep(time.Second)
	}
	const alice = "alice:release"
	for query, want := range map[string][]string{
		"": names, "list=waiting&order=oldest": names, "order=newest": {names[2], names[1], names[0]},
		"order=deadline": {names[2], names[1], names[0]}, "search=GREEN": {names[1]}, "tool=deploy": names,
		"tool=other": nil, strings.Repeat("tool=deploy&", 20): names,
		"limit=2&page=2": {names[2]}, "list=answered": nil, "list=began": nil,
	} {
		if got, _ := o.list(alice, query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if got, next := o.list(alice, "limit=2"); len(got) != 2 || next != 2 {
		t.Errorf("%v, then %d", got, next)
	}
	o.api(200, alice, "POST", path(names[0], "/answer"), `{"action":"decline"}`)
	if got, _ := o.list(alice, "list=answered"); !slices.Equal(got, names[:1]) {
		t.Errorf("answered: %v", got)
	}
	if got, _ := o.list("carol", "list=began"); len(got) != 3 {
		t.Errorf("began: %v", got)
	}
	for _, query := range []string{"list=all", "order=random", "list=began&order=newest", "list=answered&search=x",
		"limit=0", "limit=201", "limit=x", "page=0", "page=201", "x=1", "list=began&list=answered",
		"search=" + strings.Repeat("x", 201), strings.Repeat("tool=x&", 21)} {
		if q := o.api(400, alice, "GET", "/api/questions?"+query, ""); q.Type != "urn:askback:problem:malformed" {
			t.Errorf("%s: %+v", query, q)
		}
	}
}

// A body is read strictly, and the error repeats nothing of its values.
func TestAPIBodies(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	for body, want := range map[string]int{
		`{}`: 422, `[]`: 400, `null`: 400, `{"action":1}`: 400, `{"action":"accept","x":1}`: 400, `{"ACTION":"accept"}`: 400,
		`{"action":"accept","action":"decline"}`: 400, `{"action":"accept"} {}`: 400, `{"action":"secret"`: 400,
		`{"action":"accept","content":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + `}`: 400,
		`{"action":"accept","content":[]}`: 422, `{"action":"decline","content":{"hour":9}}`: 422,
		`{"action":"decline","reason":"` + strings.Repeat("x", 4097) + `"}`:        422,
		`{"action":"accept","content":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`: 413,
	} {
		w := o.send(rand.Text()+":release", "POST", path(name, "/answer"), body) // each within the bounds of one person
		if w.Code != want || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%.100s: %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
	r := o.send("alice:release", "POST", path(name, "/answer"), accepted, "Content-Type", "text/plain")
	expect.Equal(t, "a text", r.Code, http.StatusUnsupportedMediaType)
	if q := o.api(200, "alice:release", "GET", path(name), ""); len(q.Count) != 0 {
		t.Errorf("%+v", q)
	}
}

// failing is a store that is away.
type failing struct{ *task.MemoryStore }

func (failing) Questions(context.Context, string) ([]*task.Question, error) {
	return nil, errors.New("the secret host of the database does not answer")
}

// While the store is away a request can be sent again, and the log says what is wrong.
func TestAPIStoreFails(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	o.in, o.log = newInbox(t, failing{o.store.(*task.MemoryStore)}, inbox.IdentityFunc(who))
	for _, c := range [][2]string{{"GET", ""}, {"POST", "/answer"}} {
		w := o.send("alice:release", c[0], path(name, c[1]), accepted)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
			strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
	if !strings.Contains(o.log.String(), "the secret host") {
		t.Errorf("the log is %s", o.log)
	}
}

// Who is not concerned is told the same of a question as of none, byte by byte.
func TestAPINotFound(t *testing.T) { synctest.Test(t, testAPINotFound) }

func testAPINotFound(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	none := task.Name("none")
	for _, as := range []string{"mallory", "mallory:oncall", "release"} {
		for _, c := range []struct{ method, suffix, body string }{
			{"GET", "", ""}, {"POST", "/answer", accepted}, {"POST", "/claim", `{"seconds":60}`},
			{"POST", "/hand-over", `{"to":"mallory","seconds":60}`}, {"POST", "/extend", `{"deadline":"2000-02-01T00:00:00Z"}`},
			{"POST", "/answer", `{"action":"decline"}`},
		} {
			is := o.send(as, c.method, path(name, c.suffix), c.body)
			isNot := o.send(as, c.method, path(none, c.suffix), c.body)
			nowhere := o.send(as, "GET", "/api/nowhere", "")
			for _, w := range []*httptest.ResponseRecorder{isNot, nowhere} {
				if diff := cmp.Diff(is.Result().Header, w.Result().Header); is.Code != http.StatusNotFound || w.Code != is.Code ||
					diff != "" || is.Body.String() != w.Body.String() {
					t.Errorf("%s %+v: %d %s, and of none %d %s%s", as, c, is.Code, is.Body, w.Code, w.Body, diff)
				}
			}
			time.Sleep(time.Second) // which has a bound
		}
		if names, _ := o.list(as, ""); names != nil {
			t.Errorf("%s sees %v", as, names)
		}
	}
	// The beginning of the name does as well as nothing.
	is, isNot := o.send("mallory", "GET", path(name[:8]), ""), o.send("mallory", "GET", path("AAAAAAAA"), "")
	if is.Code != http.StatusNotFound || is.Body.String() != isNot.Body.String() {
		t.Errorf("%d %s, %s", is.Code, is.Body, isNot.Body)
	}
	if q := o.api(200, "alice:release", "GET", path(name[:8]), ""); q.Name != name {
		t.Errorf("%+v", q)
	}
}

// A key may have any character of one line.
func TestAPIKeys(t *testing.T) {
	o := newOffice(t)
	for i, key := range []string{"a/b", "a b?#%", "Ä", `"<script>`, "%2F", "answer", "a//b", "..a"} {
		name := o.ask(fmt.Sprint(i), asked(1, func(_ *stored.Asking, q *task.Question) { q.Key = key }))
		at := "/api/questions/" + name + "/" + url.PathEscape(key)
		if q := o.api(200, "alice:release", "GET", at, ""); q.Key != key {
			t.Errorf("%q: %+v", key, q)
		}
		o.api(200, "alice:release", "POST", at+"/answer", accepted)
	}
}
