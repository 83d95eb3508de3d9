package inbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each list has what concerns a person, in pages of a bounded size, and its searches and orders stay when one turns
// the page.
func TestLists(t *testing.T) {
	s := newScene(t, release)
	var names []string
	for i := range 60 {
		names = append(names, s.call(map[string]any{"n": i}))
	}
	_, page := s.get("ada:release", "/?order=newest")
	expect.Equal(t, "a page", strings.Count(page, `class="row"`), 50)
	s.has(page, "?order=newest&amp;page=2", names[59])
	_, page = s.get("ada:release", "/?order=newest&page=2")
	expect.Equal(t, "the second page", strings.Count(page, `class="row"`), 10)
	s.has(page, names[0], "?order=newest&amp;page=1")
	_, page = s.get("ada:release", "/?search="+names[7][:12])
	if n := strings.Count(page, `class="row"`); n != 1 || !strings.Contains(page, names[7]) {
		t.Errorf("a search finds %d", n)
	}
	_, page = s.get("ada:release", "/?order=deadline")
	s.has(page, "Nothing waits for you.", "Questions without a deadline are not in this order.")
	if status, _ := s.get("ada:release", "/?search="+strings.Repeat("a", 201)); status != http.StatusBadRequest {
		t.Errorf("a search of 201 bytes: status %d", status)
	}
	for _, number := range []string{"-1", "x", "99999999999999999999"} {
		if status, _ := s.get("ada:release", "/?page="+number); status != http.StatusOK {
			t.Errorf("page %s: status %d", number, status)
		}
	}

	if _, err := s.desk.Answer(t.Context(), names[3], "ask", desk.Answer{
		By: desk.Person{Name: "ada", Groups: []string{"release"}}, Action: "decline", Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	_, page = s.get("ada:release", "/answered")
	s.has(page, names[3], "declined")
	_, page = s.get("carol", "/began?search="+names[3])
	s.has(page, names[3], "declined")
	for _, path := range []string{"/", "/answered", "/began"} {
		if _, page = s.get("mallory:sales", path); strings.Contains(page, "Deploy") {
			t.Errorf("%s shows mallory what does not concern her", path)
		}
	}
}

// Who began a call reads what became of it, without buttons and with the reason why there are none.
func TestAnOwnCall(t *testing.T) {
	s := newScene(t, release)
	_, page := s.get("carol:release", "/q/"+s.call(nil)+"/ask")
	s.has(page, "Somebody else must answer", "The call is your own.")
	if strings.Contains(page, "<button") {
		t.Error("carol can press a button")
	}
}

// Claims, hand-overs and extensions are shown to everybody who may answer, and a form that is sent twice extends once.
func TestClaims(t *testing.T) {
	ask := release
	ask.Within = time.Hour
	s := newScene(t, ask)
	name := s.call(nil)
	path := "/q/" + name + "/ask"
	do := func(as string, form url.Values) (int, string) { t.Helper(); return s.post(as, path, form) }
	if status, page := do("ada:release", url.Values{"do": {"claim"}, "for": {"1h"}}); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, page)
	}
	_, page := s.get("bob:release", path)
	s.has(page, "About to answer", "ada")
	status, page := do("bob:release", url.Values{"do": {"claim"}, "for": {"1h"}})
	expect.Equal(t, "a second claim", status, http.StatusUnprocessableEntity)
	s.has(page, "&#34;ada&#34; is about to answer it")
	do("ada:release", url.Values{"do": {"handover"}, "to": {"bob"}, "for": {"1h"}})
	_, page = s.get("ada:release", path)
	s.has(page, "handed over", "bob")

	q, err := s.desk.Question(t.Context(), name, "ask", nil)
	expect.Check(t, err)
	from := q.Deadline.UTC().Format("2006-01-02T15:04:05Z07:00")
	for range 2 {
		if status, page := do("bob:release", url.Values{"do": {"extend"}, "from": {from}, "for": {"4h"},
			"reason": {"a meeting"}}); status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, page)
		}
	}
	again, err := s.desk.Question(t.Context(), name, "ask", nil)
	if err != nil || again.Deadline.Sub(q.Deadline).Round(time.Minute).Hours() != 4 {
		t.Errorf("the deadline was %v and is %v, %v", q.Deadline, again.Deadline, err)
	}
	for _, form := range []url.Values{
		{"do": {"claim"}}, {"do": {"claim"}, "for": {"48h"}}, {"do": {"handover"}, "to": {""}, "for": {"1h"}},
		{"do": {"extend"}, "for": {"1h"}}, {"do": {"unheard of"}}, {},
	} {
		if status, _ := do("bob:release", form); status != http.StatusUnprocessableEntity {
			t.Errorf("%v: status %d", form, status)
		}
	}
}

// An edit of a proposal begins a new count, and the votes before it are shown as such. Who accepts it as it is shown
// votes for the same.
func TestAnEdit(t *testing.T) {
	ask := release
	ask.Schema = json.RawMessage(`{"type":"object","properties":{"note":{"type":"string","default":"none"}}}`)
	s := newScene(t, ask)
	path := "/q/" + s.call(nil) + "/ask"
	for i, c := range []struct{ as, shown, note string }{
		{"ada", "", "none"}, {"bob", `{"note":"none"}`, "at night"}, {"dora", `{"note":"at night"}`, "at night"},
	} {
		if i == 2 {
			_, page := s.get("dora:release", path)
			s.has(page, "Earlier votes", `value="at night"`, "1 of 2: <bdi>bob</bdi>")
		}
		status, page := s.post(c.as+":release", path, url.Values{"do": {"accept"}, "shown": {c.shown}, "f0": {c.note}})
		if status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", c.as, status, page)
		}
	}
	_, page := s.get("ada:release", path)
	s.has(page, "Accepted by bob and dora")
}

// filledIn matches what a form has in its fields, which must be exact.
var filledIn = regexp.MustCompile(`value="[^"]*"|<textarea[^>]*>[^<]*`)

// Nothing that a caller, a server or a person writes becomes an element of the page.
func TestHostileTexts(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e{{.}}"
	ask := release
	ask.Message = evil
	ask.Preview = evil
	property, _ := json.Marshal(map[string]any{"type": "string", "title": evil, "description": evil, "default": evil})
	ask.Schema = json.RawMessage(`{"type":"object","properties":{"x":` + string(property) + `,
		"y":{"type":"string","enum":["a"],"enumNames":[` + fmt.Sprintf("%q", `"><script>alert(2)</script>`) + `]}}}`)
	for _, markdown := range []bool{false, true} {
		ask.Markdown = markdown
		s := newScene(t, ask)
		name := s.call(map[string]any{"x": evil})
		path := "/q/" + name + "/ask"
		status, page := s.post("ada:release", path, url.Values{"do": {"accept"}, "reason": {evil}, "f0": {evil}, "f1": {"9"}})
		pages := []string{page}
		if status != http.StatusSeeOther && status != http.StatusUnprocessableEntity {
			t.Errorf("status %d", status)
		}
		for _, at := range []string{path, "/?search=" + url.QueryEscape(evil), path + "?done=" + url.QueryEscape(evil), "/"} {
			_, page := s.get("ada:release", at)
			pages = append(pages, page)
		}
		for _, page := range pages {
			page = filledIn.ReplaceAllString(page, "")
			if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") {
				t.Errorf("the page has an element of somebody else's:\n%s", page)
			}
		}
	}
}

// Assets are kept by browsers as long as they do not change, and what is not one is not found.
func TestAssets(t *testing.T) {
	s := newScene(t, release)
	_, page := s.get("ada:release", "/")
	_, rest, _ := strings.Cut(page, `rel="stylesheet" href="./`)
	path, _, _ := strings.Cut(rest, `"`)
	get := func(path, etag string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		s.inbox.ServeHTTP(w, r)
		return w.Result()
	}
	first := get("/"+path, "")
	if first.StatusCode != http.StatusOK || !strings.Contains(first.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d, %v", path, first.StatusCode, first.Header)
	}
	if again := get("/"+path, first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("again: %d", again.StatusCode)
	}
	if old := get("/assets/old/inbox.css", ""); old.StatusCode != http.StatusOK ||
		strings.Contains(old.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("an old address: %d, %v", old.StatusCode, old.Header)
	}
	if none := get("/assets/x/../../inbox.go", ""); none.StatusCode == http.StatusOK {
		t.Error("a file that is no asset is served")
	}
}
