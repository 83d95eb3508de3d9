package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
)

var release = askback.Question{Message: "Deploy version 4.2?", For: []string{askback.Group("release")}, Votes: 2}

// Two people of a group approve a call, without JavaScript. A third is told who was first.
func TestTwoApprove(t *testing.T) {
	s := newScene(t, release)
	name := s.call(map[string]any{"version": "4.2"})
	path := "/q/" + name + "/ask"

	status, page := s.get("ada:release", "/")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, page)
	}
	s.has(page, `href="./q/`+name+`/ask"`, "Deploy version 4.2?", "0 of 2 votes", "carol")
	_, page = s.get("ada:release", path)
	s.has(page, "Deploy version 4.2?", "&#34;version&#34;: &#34;4.2&#34;", "anybody of release", `value="accept"`)

	status, to := s.post("ada:release", path, url.Values{"do": {"accept"}, "reason": {"It runs on staging."}})
	if status != http.StatusSeeOther || to != "../../q/"+name+"/ask?done=accept" {
		t.Fatalf("status %d, to %q", status, to)
	}
	_, page = s.get("ada:release", path+"?done=accept")
	s.has(page, "Your answer is recorded.", "You have accepted. One more vote is needed.", "1 of 2", "It runs on staging.")

	if status, _ = s.post("bob:release", path, url.Values{"do": {"accept"}}); status != http.StatusSeeOther {
		t.Fatalf("status %d", status)
	}
	_, page = s.get("bob:release", path)
	s.has(page, "Accepted by ada and bob")

	status, page = s.post("eve:release", path, url.Values{"do": {"decline"}, "reason": {"no"}})
	if status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
	s.has(page, "came too late and is not recorded", "ada and bob had accepted it at")
}

// Who is not asked learns nothing, and whose call it is cannot answer.
func TestOthers(t *testing.T) {
	s := newScene(t, release)
	path := "/q/" + s.call(nil) + "/ask"
	for _, c := range []struct {
		as   string
		want int
	}{{"mallory:sales", http.StatusNotFound}, {"carol:release", http.StatusForbidden}} {
		if status, page := s.post(c.as, path, url.Values{"do": {"accept"}}); status != c.want {
			t.Errorf("%s: status %d: %s", c.as, status, page)
		}
	}
	status, page := s.get("mallory:sales", path)
	otherStatus, other := s.get("mallory:sales", "/q/AAAAAAAAAAAAAAAAAAAAAAAAAA/ask")
	if status != http.StatusNotFound || status != otherStatus || page != other {
		t.Errorf("%d %s\ndiffers from\n%d %s", status, page, otherStatus, other)
	}
}

// What the form asks for reaches the desk, and what does not fit is said at its field, with what was filled in.
func TestAFormIsAnswered(t *testing.T) {
	ask := askback.Question{Message: "When?", For: []string{askback.User("ada")}, Schema: json.RawMessage(`{
		"type": "object", "required": ["hour"], "properties": {
			"hour": {"type": "integer", "minimum": 0, "maximum": 23, "title": "Hour"},
			"kind": {"type": "string", "enum": ["now", "later"], "default": "later"}}}`)}
	s := newScene(t, ask)
	name := s.call(nil)
	path := "/q/" + name + "/ask"
	_, page := s.get("ada", path)
	s.has(page, `type="number"`, `min="0" max="23"`, `value="1" checked`)
	status, page := s.post("ada", path, url.Values{"do": {"accept"}, "f0": {"24"}, "f1": {"0"}, "reason": {"typed"}})
	if status != http.StatusUnprocessableEntity {
		t.Fatalf("status %d: %s", status, page)
	}
	s.has(page, "must be at most 23", `value="24"`, `value="0" checked`, "typed", `aria-invalid="true"`)
	status, page = s.post("ada", path, url.Values{"do": {"accept"}, "f0": {"9"}, "f1": {"0"}})
	if status != http.StatusSeeOther {
		t.Fatalf("status %d: %s", status, page)
	}
	q, err := s.desk.Question(t.Context(), name, "ask", &desk.Person{Name: "ada"})
	if err != nil || q.Decision == nil || string(q.Decision.Content) != `{"hour":9,"kind":"now"}` {
		t.Errorf("%+v, %v", q, err)
	}
}
