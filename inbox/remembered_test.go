package inbox_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// remember has bob of finance approve a call of carol that the rules then let pass three times.
func (s *scene) remember(arguments map[string]any) {
	s.Helper()
	began, _, err := s.session.StartTask(s.Context(), &mcp.CallToolParams{Name: "deploy", Arguments: arguments}, 0)
	expect.Check(s, err)
	var q *desk.Question
	harness.Eventually(s.T, "the rules ask", func() bool {
		found, _ := s.desk.Questions(s.Context(), task.Name(began.ID), nil)
		if len(found) > 0 {
			q = found[0]
		}
		return q != nil
	})
	bob := desk.Person{Name: "bob", Groups: []string{"finance"}}
	if _, err := s.desk.Answer(s.Context(), q.Name, q.Key, desk.Answer{By: bob, Action: "accept"}); err != nil {
		s.Fatal(err)
	}
	harness.Eventually(s.T, "it is remembered", func() bool {
		for r := range s.desk.Remembered(s.Context(), nil) {
			if r.Task == q.Name {
				return true
			}
		}
		return false
	})
}

// People see on the page, and programs by the API, what was approved once and passes now, and end it there. Somebody
// whom it does not concern sees nothing of it.
func TestRememberedApprovals(t *testing.T) {
	s := newScene(t, askback.Question{Message: "Sure?", For: []string{"user:zoe"}})
	s.verdict = askback.Verdict{Action: askback.RuleAsk, Rule: "pay<b>", For: []string{"group:finance"},
		Remember: time.Hour, Uses: 3, Digest: "1"}
	s.remember(map[string]any{"to": "<script>alert(1)</script>\u202e"})
	s.remember(map[string]any{"text": strings.Repeat("a", 5000)})
	status, page := s.get("bob", "/remembered")
	s.has(page, "called by <bdi>carol</bdi>", "approved by bob", "3 of 3 left",
		"by the rule <bdi>pay&lt;b&gt;</bdi>", "&lt;script&gt;", " … (5011 bytes)", `aria-current="page">Remembered<`)
	if status != http.StatusOK || strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") ||
		strings.Contains(page, strings.Repeat("a", 300)) || strings.Count(page, `<li class="row">`) != 2 {
		t.Errorf("%d\n%s", status, page)
	}
	if _, page := s.get("eve:sales", "/remembered"); strings.Contains(page, "carol") {
		t.Errorf("eve sees\n%s", page)
	}
	var list struct{ Remembered []*desk.Remembered }
	status, body := s.get("dan:finance", "/api/remembered")
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK || len(list.Remembered) != 2 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	for _, r := range list.Remembered {
		if r.Receipt == "" || r.Left != 3 || r.Caller != "carol" || len(r.Excerpt.Begin) > 4096 ||
			len(r.Excerpt.SHA256) != 64 {
			t.Errorf("%+v", r)
		}
	}
	var signed desk.Receipt
	status, body = s.get("dan:finance", "/api/remembered/"+list.Remembered[0].Name+"/receipt")
	if err := json.Unmarshal([]byte(body), &signed); err != nil || signed.JWS != list.Remembered[0].Receipt {
		t.Errorf("%d %v %s", status, err, body)
	}
	status, _ = s.get("eve:sales", "/api/remembered/"+list.Remembered[0].Name+"/receipt")
	expect.Equal(t, "eve gets the receipt", status, http.StatusNotFound)
	send := func(as, name, kind string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/api/remembered/"+name+"/forget", strings.NewReader("{}"))
		r.Header.Set("Content-Type", kind)
		return s.send(as, r)
	}
	first, second := list.Remembered[0].Name, list.Remembered[1].Name
	for _, c := range []struct {
		as, name, kind string
		want           int
	}{
		{"eve:sales", first, "application/json", http.StatusNotFound},
		{"dan:finance", first, "text/plain", http.StatusUnsupportedMediaType},
		{"dan:finance", "none-of-this-name", "application/json", http.StatusNotFound},
		{"dan:finance", first, "application/json", http.StatusOK},
		{"dan:finance", first, "application/json", http.StatusNotFound},
	} {
		if status, body := send(c.as, c.name, c.kind); status != c.want {
			t.Errorf("%s, %s, %s: %d %s", c.as, c.name, c.kind, status, body)
		}
	}
	for i, as := range []string{"eve:sales", "carol", "carol"} { // the caller gives it up, and sends the form again
		status, to := s.post(as, "/remembered", url.Values{"name": {second}})
		if ends := i == 1; ends != (status == http.StatusSeeOther && strings.HasSuffix(to, "remembered?ended=1")) ||
			!ends && (status != http.StatusNotFound || !strings.Contains(to, "Nothing of this name is remembered")) {
			t.Errorf("%s: %d %s", as, status, to)
		}
		_, page = s.get("bob", "/remembered?ended=1")
		if has := strings.Contains(page, second); has != (i == 0) {
			t.Errorf("after %s has ended it, it is there: %v", as, has)
		}
	}
	s.has(page, "It is not remembered any more", "No approval that you could give is remembered")
}
