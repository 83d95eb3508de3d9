package inbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox/receipt"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// order requires that a page has these texts in this order, and none of the others.
func (s *scene) order(page string, texts []string, none ...string) {
	s.Helper()
	rest := page
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			s.Fatalf("%q is not in the page, or not there:\n%s", text, page)
		}
		rest = after
	}
	for _, text := range none {
		if strings.Contains(page, text) {
			s.Errorf("%q is in the page", text)
		}
	}
}

// A question to one person has no votes and no claims, and ends without an answer only from a fold. Deadline and votes
// stand above a long text.
func TestACardForOne(t *testing.T) {
	s := newScene(t, askback.Question{Message: "Deploy?\nA long text.", For: []string{askback.User("ada")},
		Within: time.Hour})
	path := "/q/" + s.call(nil) + "/ask"
	_, page := s.get("ada", path)
	s.order(page, []string{"Deploy?</bdi></h1>", "<dt>Deadline</dt>", " UTC, in 59 min", "A long text.", `value="decline"`,
		"Extend the deadline, or dismiss", `value="cancel"`}, "<dt>Votes</dt>", "<h2>Votes</h2>", `value="claim"`)

	s.ask.For, s.ask.Votes, s.ask.Within = []string{askback.Group("release")}, 2, 0
	_, page = s.get("ada:release", "/q/"+s.call(nil)+"/ask")
	s.order(page, []string{"<dt>Votes</dt><dd>0 of 2", "A long text.", `value="decline"`, "Claim, hand over, or dismiss",
		`value="claim"`, `value="cancel"`}, "Extend")
}

// Who has voted is led to the next question, and can change the answer from a fold until it is decided.
func TestAfterAVote(t *testing.T) {
	s := newScene(t, release)
	first, second := s.call(map[string]any{"n": 1}), s.call(map[string]any{"n": 2})
	path := "/q/" + first + "/ask"
	_, page := s.get("ada:release", path)
	s.order(page, []string{`id="answer-form"`}, "Next question", "Nothing else waits")
	s.post("ada:release", path, url.Values{"do": {"accept"}})
	_, page = s.get("ada:release", path)
	s.order(page, []string{"You have accepted.", `href="../../q/` + second + `/ask">Next question`,
		"<summary>Change your answer</summary>", `id="answer-form"`})
	_, page = s.get("ada:release", "/")
	s.order(page, []string{"<title>(1) Waiting", second, `faded" data-name="` + first})

	s.post("ada:release", "/q/"+second+"/ask", url.Values{"do": {"decline"}})
	_, page = s.get("ada:release", "/q/"+second+"/ask?done=decline")
	s.order(page, []string{`class="note">You have declined.`, "you declined it", "Nothing else waits for you."}, "told\">")
	_, page = s.get("ada:release", "/")
	s.order(page, []string{"<title>Waiting", first})
}

// Search and order are for lists that are longer than a glance. An empty list says who somebody is, and what will come.
func TestToolsOfAList(t *testing.T) {
	s := newScene(t, release)
	_, page := s.get("ada:release,night", "/")
	s.order(page, []string{"Nothing waits for you.",
		"You are <bdi>ada</bdi>, in the groups <bdi>release</bdi>, <bdi>night</bdi>.", "appear here by themselves"},
		`role="search"`)
	_, page = s.get("eve", "/")
	s.order(page, []string{"in no group."})
	for range 8 {
		if _, page = s.get("ada:release", "/"); strings.Contains(page, `role="search"`) {
			t.Error("a short list has tools")
		}
		s.call(nil)
	}
	_, page = s.get("ada:release", "/")
	s.order(page, []string{"<title>(8) ", `role="search"`})
	for _, path := range []string{"/?search=none", "/?order=newest", "/?page=2"} {
		if _, page = s.get("eve", path); !strings.Contains(page, `role="search"`) {
			t.Errorf("%s has no tools, and so no way back", path)
		}
	}
}

// The heading of Markdown is the heading of the page, and the text of the row.
func TestAHeadingOfMarkdown(t *testing.T) {
	for message, want := range map[string]string{
		"## Deploy `4.2` <b> ##\n\nTonight.": "Deploy `4.2` &lt;b&gt;",
		"Deploy?\n# Tonight":                 "",
		"#tag":                               "",
	} {
		s := newScene(t, askback.Question{Message: message, Markdown: true, For: []string{askback.Group("release")}})
		_, page := s.get("ada:release", "/q/"+s.call(nil)+"/ask")
		_, list := s.get("ada:release", "/")
		if want == "" {
			s.has(page, ">A question of deploy</bdi></h1>")
			continue
		}
		s.order(page, []string{">" + want + "</bdi></h1>", "<dt>Deadline", "Tonight."})
		s.has(list, "<bdi>"+want+"</bdi>")
	}
}

// People edit arguments in a field of several lines. What they change is shown, what is no JSON object is refused where
// it is wrong, and the same change in other words is the same vote.
func TestEditedArguments(t *testing.T) {
	ask := release
	original := `{"n": 1.0, "where": "\u202eeu"}`
	ask.Schema = json.RawMessage(fmt.Sprintf(`{"type":"object","required":["arguments"],"properties":{
		"arguments":{"type":"string","default":%q}}}`, original))
	s := newScene(t, ask)
	path := "/q/" + s.call(map[string]any{"n": 1, "where": "\u202eeu"}) + "/ask"
	_, page := s.get("ada:release", path)
	s.has(page, "<textarea id=\"f0\" name=\"f0\" rows=\"4\" class=\"json\"",
		">\n{\n  &#34;n&#34;: 1.0,\n  &#34;where&#34;: &#34;\\u202eeu&#34;\n}</textarea>")

	vote := func(as, text string, want int) string {
		t.Helper()
		status, page := s.post(as+":release", path, url.Values{"do": {"accept"}, "f0": {text}})
		if status != want {
			t.Fatalf("%s: %d: %s", text, status, page)
		}
		return page
	}
	page = vote("ada", "{\n\"n\": 2,\n}", http.StatusUnprocessableEntity)
	s.has(page, "is not valid JSON in line 3", "&#34;n&#34;: 2,\n}</textarea>")
	s.has(vote("ada", "[]", http.StatusUnprocessableEntity), "must be a JSON object")
	vote("ada", "{\r\n  \"n\": 2,\r\n  \"where\": \"us\"\r\n}", http.StatusSeeOther)
	_, page = s.get("bob:release", path)
	s.order(page, []string{"Changes of the arguments", "<del>  &#34;n&#34;: 1,</del>", "<ins>  &#34;n&#34;: 2,</ins>",
		"<ins>  &#34;where&#34;: &#34;us&#34;</ins>"})
	vote("bob", `{"n":2,"where":"us"}`, http.StatusSeeOther)
	_, page = s.get("bob:release", path)
	s.order(page, []string{"Accepted by ada and bob", "Changes of the arguments"})
}

// Who may read a decision can download its receipt, which anybody can verify with the keys that the inbox publishes.
func TestReceiptsOnThePage(t *testing.T) {
	s := newScene(t, release)
	name := s.call(nil)
	path := "/q/" + name + "/ask"
	if status, _ := s.get("ada:release", "/api/questions/"+name+"/ask/receipt"); status != http.StatusNotFound {
		t.Errorf("before the decision: status %d", status)
	}
	s.post("ada:release", path, url.Values{"do": {"decline"}, "reason": {"Not on a Friday."}})
	link := `href="../../api/questions/` + name + `/ask/receipt" download`
	harness.Eventually(t, "receipt", func() bool { // the call has to act upon the decision
		_, page := s.get("ada:release", path)
		return strings.Contains(page, link)
	})
	status, body := s.get("carol", "/api/questions/"+name+"/ask/receipt")
	var held desk.Receipt
	if err := json.Unmarshal([]byte(body), &held); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	_, keys := s.get("", "/receipts.jwks")
	got, err := receipt.Verify(held.JWS, []byte(keys))
	if err != nil || got.Action != "decline" || !got.HasReason(held.Salt, "ada", held.Reasons["ada"]) {
		t.Errorf("%+v, %v", got, err)
	}
	if status, _ := s.get("eve", "/api/questions/"+name+"/ask/receipt"); status != http.StatusNotFound {
		t.Errorf("eve: status %d", status)
	}
}

// Who accepted a call of a tool is told if its server describes the tool otherwise by the next one.
func TestAToolThatIsDescribedAnew(t *testing.T) {
	s := newScene(t, release)
	call := func(n int) (path string) { return "/q/" + s.call(map[string]any{"n": n}) + "/ask" }
	accept := func(path string) {
		t.Helper()
		if status, page := s.post("ada:release", path, url.Values{"do": {"accept"}}); status != http.StatusSeeOther {
			t.Errorf("accepting %s: %d %s", path, status, page)
		}
	}
	warned := func(as string, n int) bool {
		t.Helper()
		path := call(n)
		_, page := s.get(as, path)
		accept(path)
		return strings.Contains(page, "describes this tool otherwise than when you last accepted")
	}
	if warned("ada:release", 1) || warned("ada:release", 2) {
		t.Error("ada is warned of a tool that is as it was")
	}
	s.describe("Deploys, and tells the board.")
	if !warned("ada:release", 3) {
		t.Error("ada is not warned of a tool that has changed")
	}
	if warned("ada:release", 4) {
		t.Error("ada is warned again")
	}
	s.describe("Deploys.")
	if warned("bob:release", 5) {
		t.Error("bob, who has accepted nothing, is warned")
	}
	asked := call(6)
	s.describe("Deploys it all.")
	accept(call(7))
	time.Sleep(2 * time.Millisecond) // times are kept in milliseconds
	accept(asked)
	if !warned("ada:release", 8) {
		t.Error("ada is not warned of a tool that was another one in the call that she accepted last, and not asked last")
	}
}
