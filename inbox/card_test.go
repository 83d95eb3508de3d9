package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
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
	expect.Equal(t, "status", status, http.StatusConflict)
	s.has(page, "came too late and is not recorded", "ada and bob had accepted it at")
}

// An answer whose response was lost is sent again. Its sender is told that it counts, or that it is recorded, and never
// that it is not, no matter what others have done meanwhile.
func TestAnswersWhoseResponseWasLost(t *testing.T) {
	for name, meanwhile := range map[string]url.Values{
		"nothing":               nil,
		"another accepts":       {"do": {"accept"}},
		"another declines":      {"do": {"decline"}},
		"another dismisses":     {"do": {"cancel"}},
		"another is of no mind": {"do": {"claim"}, "for": {"1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, release)
			path := "/q/" + s.call(nil) + "/ask"
			answer := url.Values{"do": {"accept"}, "reason": {"It runs on staging."}}
			s.post("ada:release", path, answer)
			if meanwhile != nil {
				s.post("bob:release", path, meanwhile)
			}
			switch status, page := s.post("ada:release", path, answer); status {
			case http.StatusSeeOther:
				if !strings.HasSuffix(page, "?done=accept") {
					t.Errorf("it leads to %s", page)
				}
			case http.StatusConflict:
				s.has(page, "is recorded: you accepted it. What you have sent now changes nothing. bob had", "It runs on staging.")
				if strings.Contains(page, "not recorded") {
					t.Error("a vote that is recorded is said not to be")
				}
			default:
				t.Errorf("status %d: %s", status, page)
			}
		})
	}
}

// A form that is not taken comes back with what was written, whichever form of the page it is and whatever the reason:
// what does not fit, and a question that has ended.
func TestRefusedFormsKeepWhatWasWritten(t *testing.T) {
	s := newScene(t, askback.Question{Message: "When?", For: []string{askback.User("ada"), askback.User("bob")},
		Within: time.Hour, Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","maxLength":3},
			"b":{"type":"array","maxItems":1,"items":{"type":"string","enum":["x","y"]}}}}`)})
	path := "/q/" + s.call(nil) + "/ask"
	forms := map[string]url.Values{
		"answer-form":   {"do": {"accept"}, "f0": {" typed "}, "f1": {"0", "1"}, "reason": {" because\r\nof it "}},
		"handover-form": {"do": {"handover"}, "to": {"somebody else"}, "for": {"4h"}},
		"extend-form":   {"do": {"extend"}, "reason": {" later, please "}, "for": {"24h"}},
	}
	kept := map[string][]string{
		"answer-form":   {`value=" typed "`, `value="0" checked`, `value="1" checked`, ">\n because\nof it </textarea>"},
		"handover-form": {`value="somebody else"`, `value="4h" selected`, `class="rest" open`},
		"extend-form":   {`value=" later, please "`, `value="24h" selected`, `class="rest" open`},
	}
	for id, form := range forms {
		status, page := s.post("ada", path, form)
		expect.Equal(t, id+": status", status, http.StatusUnprocessableEntity)
		s.has(page, append(kept[id], `data-refused="`+id+`"`)...)
	}
	if status, _ := s.post("ada", path, url.Values{"do": {"decline"}}); status != http.StatusSeeOther {
		t.Fatalf("status %d", status)
	}
	_, page := s.post("ada", path, forms["answer-form"])
	s.has(page, kept["answer-form"]...)
	_, page = s.post("ada", path, url.Values{"do": {"handover"}, "to": {"somebody else"}, "for": {"4h"}})
	s.has(page, "somebody else")
	_, page = s.post("ada", path, url.Values{"do": {"extend"}, "reason": {"later"}, "for": {"4h"},
		"from": {"2026-01-01T00:00:00Z"}})
	s.has(page, ">\nlater</textarea>")
}

// A form of somebody who is signed out comes back as a page that can send it again.
func TestSignedOutFormsAreKept(t *testing.T) {
	s := newScene(t, release)
	path := "/q/" + s.call(nil) + "/ask"
	form := url.Values{"do": {"accept"}, "f1": {"0", "2"}, "reason": {"It is <fine>.\nReally"}}
	status, page := s.post("", path, form)
	expect.Equal(t, "status", status, http.StatusUnauthorized)
	s.has(page, `name="do" value="accept"`, `name="f1" value="0"`, `name="f1" value="2"`,
		"value=\"It is &lt;fine&gt;.\nReally\"", `href="../..`+path+`" target="_blank"`)
	if _, page := s.get("", path); !strings.Contains(page, "<h1>Sign in</h1>") || strings.Contains(page, "Send it again") {
		t.Error(page)
	}
	form["reason"] = []string{strings.Repeat("x", 1<<16)}
	if status, page := s.post("", path, form); status != http.StatusUnauthorized || len(page) > 4096 {
		t.Errorf("status %d: %d bytes", status, len(page))
	}
	if status, to := s.post("ada:release", path, form); status != http.StatusUnprocessableEntity {
		t.Errorf("somebody who is known gets %d: %s", status, to)
	}
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
