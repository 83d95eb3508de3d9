// Package inbox judges the page of an inbox with browsers and people, over the example tools and a store in a file, its
// API by its description, and signing in at a provider of others.
package inbox

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/judge/bridge/rig"
	"github.com/askback-mcp/askback/task"
)

// hand is how somebody works a page.
type hand interface {
	// press presses what a selector finds, after which another page is there.
	press(v *viewer, selector string)
	// write writes into a field.
	write(v *viewer, selector, text string)
	// choose picks a radio button.
	choose(v *viewer, selector string)
}

// mouse points and clicks.
type mouse struct{}

func (mouse) press(v *viewer, selector string) {
	v.Helper()
	v.leaves(func() { v.do(chromedp.Click(chromedp.CSS(selector))) })
}

func (mouse) write(v *viewer, selector, text string) {
	v.Helper()
	v.do(chromedp.Click(chromedp.CSS(selector)), chromedp.KeyEvent(text))
}

func (mouse) choose(v *viewer, selector string) { v.do(chromedp.Click(chromedp.CSS(selector))) }

// keyboard has no other key than Tab, Space, Enter and those of a text.
type keyboard struct{}

// reach presses Tab until the focus is where a selector finds something.
func (keyboard) reach(v *viewer, selector string) {
	v.Helper()
	for range 60 {
		if read(v, chromedp.Evaluate[bool](fmt.Sprintf("!!document.activeElement?.matches(%q)", selector))) {
			return
		}
		v.do(chromedp.KeyEvent(kb.Tab))
	}
	v.Fatalf("Tab does not reach %s", selector)
}

func (k keyboard) press(v *viewer, selector string) {
	v.Helper()
	k.reach(v, selector)
	v.leaves(func() { v.do(chromedp.KeyEvent(kb.Enter)) })
}

func (k keyboard) write(v *viewer, selector, text string) {
	v.Helper()
	k.reach(v, selector) // which selects what is there
	v.do(chromedp.KeyEvent(kb.End), chromedp.KeyEvent(text))
}

func (k keyboard) choose(v *viewer, selector string) {
	v.Helper()
	group := strings.TrimSuffix(selector, fmt.Sprintf("[value=%q]", "2"))
	k.reach(v, group)
	for range 10 {
		if read(v, chromedp.Evaluate[bool](fmt.Sprintf("document.querySelector(%q).checked", selector))) {
			return
		}
		v.do(chromedp.KeyEvent(kb.ArrowDown))
	}
	v.Fatalf("the arrows do not reach %s", selector)
}

// shortcuts has the keys of the page, besides those of a keyboard.
type shortcuts struct{ keyboard }

func (s shortcuts) press(v *viewer, selector string) {
	v.Helper()
	key := map[string]string{".row a": "j", "[value=accept]": "a", "[value=decline]": "d"}[selector]
	if key == "" {
		s.keyboard.press(v, selector)
		return
	}
	v.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(key)) // Escape leaves a field
	if !read(v, chromedp.Evaluate[bool](fmt.Sprintf("!!document.activeElement?.matches(%q)", selector))) {
		v.Fatalf("the key %s does not lead to %s", key, selector)
	}
	v.leaves(func() { v.do(chromedp.KeyEvent(kb.Enter)) })
}

// leaves does what leads to another page, and waits for that.
func (v *viewer) leaves(do func()) {
	v.Helper()
	v.do(chromedp.Evaluate[chromedp.Void]("window.before = true"))
	do()
	v.eventually("another page", func() bool {
		is, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool]("!window.before && document.readyState === 'complete'"))
		return err == nil && is // between two pages there is nothing to ask
	})
}

func (v *viewer) eventually(what string, is func() bool) {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 2*time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			v.Fatalf("there is no %s; the browser said %q; the page is\n%s", what, v.complaints(), v.text())
		}
	}
}

// text is what somebody reads on the page.
func (v *viewer) text() string {
	v.Helper()
	return read(v, chromedp.Evaluate[string]("document.body.innerText"))
}

// reads requires that the page says something.
func (v *viewer) reads(text string) {
	v.Helper()
	v.eventually(fmt.Sprintf("%q", text), func() bool { return strings.Contains(v.text(), text) })
}

func pathOf(q *desk.Question) string { return "/q/" + q.Name + "/" + url.PathEscape(q.Key) }

// Two people in two browsers approve a call of deploy, carol fills in the form of provision_vm, and so does the caller
// of a bridge whose host can be asked nothing: at a desk and on a phone, by mouse, by keyboard alone and with the keys
// of the page, with JavaScript and without.
func TestPeopleAnswer(t *testing.T) {
	b := browser(t)
	other := browser(t)
	s := newScene(t)
	bridge := s.behindBridge()
	version := 0
	for _, size := range []look{wide, narrow} {
		for _, c := range []struct {
			name  string
			hand  hand
			plain bool
		}{
			{"mouse", mouse{}, false}, {"mouse, no JavaScript", mouse{}, true}, {"keyboard, no JavaScript", keyboard{}, true},
			{"keys of the page", shortcuts{}, false},
		} {
			version++
			name := fmt.Sprintf("v%d", version)
			size.plain = c.plain
			t.Run(fmt.Sprintf("%d, %s", size.width, c.name), func(t *testing.T) {
				s := s.in(t)
				s.approve(s.open(b, "ada", "release", size), s.open(other, "bob", "release", size), c.hand, name)
				s.provision(s.open(b, "carol", "", size), c.hand, name)
				through := bridge.in(t)
				through.provision(through.open(other, rig.Caller, "", size), c.hand, name+"b")
			})
		}
	}
}

// approve has two people approve a version. The first opens it from the list, and the second by its link.
func (s *scene) approve(ada, bob *viewer, hand hand, version string) {
	q := s.call("deploy", map[string]any{"version": version})
	ada.visit("/")
	hand.press(ada, ".row a")
	ada.reads("Deploy version " + version + "?")
	hand.write(ada, "#reason", "It runs on staging.")
	hand.press(ada, "[value=accept]")
	ada.reads("Your answer is recorded.")
	ada.reads("One more vote is needed.")

	bob.visit(pathOf(q))
	bob.reads("It runs on staging.")
	hand.press(bob, "[value=accept]")
	bob.reads("Accepted by ada and bob")
	s.ends(q, "Version "+version+" is deployed, approved by ada and bob.")
}

// provision has carol answer what her host could not ask her.
func (s *scene) provision(carol *viewer, hand hand, name string) {
	q := s.call("provision_vm", map[string]any{"name": name})
	carol.visit("/")
	hand.press(carol, ".row a")
	carol.reads("because the host that made the call cannot show it")
	hand.choose(carol, `#f0 input[value="2"]`) // isolated
	hand.write(carol, "#f1", "x")              // behind the default, which is the name
	hand.press(carol, "[value=accept]")
	carol.reads("Accepted by carol")
	s.ends(q, "network isolated, host name "+name+"x")
}

// votes has somebody of the group release answer, for a reason if there is one.
func (s *scene) votes(q *desk.Question, name, action string, reason ...string) {
	s.Helper()
	by := desk.Person{Name: name, Groups: []string{"release"}}
	a := desk.Answer{By: by, Action: action, Reason: strings.Join(reason, "")}
	if _, err := s.desk.Answer(s.Context(), q.Name, q.Key, a); err != nil {
		s.Fatal(err)
	}
}

// ends requires that the call of a question completes with a text.
func (s *scene) ends(q *desk.Question, text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	res := expect.Must(s.session.WaitTask(ctx, s.ids[q.Name]))(s)
	if got := fmt.Sprint(textOf(res)); !strings.Contains(got, text) {
		s.Errorf("the call ends with %q, want %q", got, text)
	}
	if got, err := s.desk.Question(ctx, q.Name, q.Key, nil); err != nil || got.Status == task.QuestionOpen {
		s.Errorf("the question is %+v, %v", got, err)
	}
}

// Edited arguments are compared with the call's while somebody writes, and cannot be sent while they are no JSON.
func TestArgumentsAreEdited(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	q := s.call("refund", map[string]any{"order": 4711, "amount": 24.8})
	bob := s.open(b, "bob", "", wide)
	bob.visit(pathOf(q))
	bob.reads("استرداد المبلغ للعميل 顧客への返金?")
	write := func(text string) {
		bob.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector('#f0').value = %q", text)),
			chromedp.Click(chromedp.CSS("#f0")), chromedp.KeyEvent(" "))
	}
	write(`{"order": 4711, "amount": }`)
	bob.reads("The arguments are not valid JSON")
	bob.do(chromedp.Click(chromedp.CSS("[value=accept]")))
	if read(bob, chromedp.Evaluate[bool]("document.querySelector('#answer-form').checkValidity()")) {
		t.Error("the browser sends what is no JSON")
	}
	write("{\n\"amount\": 19.9,\n\"order\": 4711\n}")
	bob.reads("Changes of the arguments\n\"amount\": 24.8\n\"amount\": 19.9")
	mouse{}.press(bob, "[value=accept]")
	bob.reads("Accepted by bob")
	bob.reads(`"amount": 19.9`)
	s.ends(q, `"amount\":19.9`)
}

// Who comes late is told who was first, and a form that does not fit says so at its field. Nothing that was written is
// lost.
func TestRefusals(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	for _, plain := range []bool{false, true} {
		l := narrow
		l.plain = plain
		q := s.call("deploy", map[string]any{"version": fmt.Sprint(plain)})
		ada := s.open(b, "ada", "release", l)
		if plain {
			ada.visit(pathOf(q))
		} else {
			ada.visit("/help") // another page is open when it is decided
		}
		s.votes(q, "bob", "accept")
		s.votes(q, "dora", "accept")
		if plain {
			mouse{}.press(ada, "[value=decline]")
			ada.reads("Your answer came too late and is not recorded. bob and dora had accepted it at")
		} else {
			ada.visit(pathOf(q))
			ada.reads("Accepted by bob and dora")
		}

		q = s.call("survey", map[string]any{"plain": plain})
		ada.visit(pathOf(q))
		ada.do(chromedp.Evaluate[chromedp.Void]("document.getElementById('answer-form').noValidate = true"))
		mouse{}.write(ada, "#f0", "ab")
		mouse{}.write(ada, "#reason", "because")
		mouse{}.press(ada, "[value=accept]")
		ada.reads("Not everything in the form can be taken")
		ada.reads("Must be at least 3 characters long")
		ada.reads("Choose one")
		expect.Equal(t, "the field", read(ada, chromedp.Value(chromedp.CSS("#f0"))), "ab")
		expect.Equal(t, "the reason", read(ada, chromedp.Value(chromedp.CSS("#reason"))), "because")
	}
}

// A list and a card follow what others do, and what somebody writes meanwhile stays.
func TestPagesFollow(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	list, card := s.open(b, "ada", "release", wide), s.open(b, "ada", "release", wide)
	list.visit("/")
	list.reads("Nothing waits for you.")
	q := s.call("deploy", map[string]any{"version": "4.2"})
	list.reads("Deploy version 4.2?")
	list.reads("A new question waits")

	card.visit(pathOf(q))
	mouse{}.write(card, "#reason", "I think that")
	s.votes(q, "bob", "accept")
	card.reads("1 of 2: bob")
	list.reads("1 of 2 votes")
	card.do(chromedp.KeyEvent(" it is fine"))
	s.votes(q, "dora", "accept")
	card.reads("It can no longer be answered.")
	list.reads("Nothing waits for you.")
	expect.Equal(t, "the reason", read(card, chromedp.Value(chromedp.CSS("#reason"))), "I think that it is fine")
	if !read(card, chromedp.Evaluate[bool]("document.querySelector('[value=accept]').disabled")) {
		t.Error("what is decided can be accepted")
	}
}

// A page that a question leads to is opened in a new tab that knows nothing of the inbox, and confirmed in the inbox.
func TestAPageIsConfirmed(t *testing.T) {
	b := browser(t)
	s := newScene(t)
	q := s.call("connect", nil)
	carol := s.open(b, "carol", "", narrow)
	carol.visit(pathOf(q))
	carol.reads("calendar.xn--exmple-cua.com:8443\n")
	link := read(carol, chromedp.Attributes(chromedp.CSS(".away a.button")))
	if link["rel"] != "noopener noreferrer" || link["target"] != "_blank" ||
		link["href"] != "https://calendar.xn--exmple-cua.com:8443/connect?team=release" {
		t.Errorf("the link is %v", link)
	}
	mouse{}.press(carol, "[value=accept]")
	carol.reads("Accepted by carol")
	s.ends(q, "connected")
}
