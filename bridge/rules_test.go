package bridge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// ruled has a bridge decide by rules.
func ruled(t testing.TB, text string) func(*bridge.Options) {
	t.Helper()
	r := expect.Must(rules.Parse("rules.yaml", []byte(text)))(t)
	return func(o *bridge.Options) { o.Server.Desk.Rules = r.Decide }
}

// A rule denies a call in words, allows one, or asks the people that it names.
func TestRulesDecide(t *testing.T) {
	t.Parallel()
	behind := newBehind(t)
	front := newFront(t, behind.url, patient, ruled(t, `
default: {deny: nothing else}
rules:
  - name: echoes
    when: tool == "echo" && has(arguments.n) && arguments.n < 10
    allow: true
  - name: large
    when: tool == "echo" && arguments.n < 1000 && caller == "ada"
    ask: {for: [user:bob]}
  - name: huge
    when: tool == "echo"
    deny: It is too large.
`))
	for _, version := range revisions {
		s := host(t, front.url, version, able())
		before := behind.count("echo")
		for arguments, want := range map[string]string{
			`{"n":3}`:    "map[n:3]",
			`{}`:         `The tool "echo" was not called: the rule "huge" denies it: It is too large.`, // "large" fails
			`{"n":5000}`: `The tool "echo" was not called: the rule "huge" denies it: It is too large.`,
		} {
			expect.Equal(t, version+": "+arguments, textOf(t, s, "echo", json.RawMessage(arguments)), want)
		}
		const denied = `The tool "capabilities" was not called: the default of the rules denies it: nothing else.`
		if got, failed := call(t, s, "capabilities", nil); !failed || got != denied {
			t.Errorf("%s: the default returns %q", version, got)
		}
		words := calling(t, s, "echo", json.RawMessage(`{"n":50}`))
		q := front.answer(t, "bob", desk.Answer{Action: "accept"})
		expect.Contains(t, version+": the message", q.Message, `Asked by the rule "large".`)
		expect.Equal(t, version+": the approved call returns", <-words, "map[n:50]")
		expect.Equal(t, version+": the tool ran times", behind.count("echo")-before, 2)
	}
}

// What people have approved once lets the same call of the same caller pass, for as long and as often as the rule says,
// and until it is ended at the desk. Other arguments are asked for, and so is the same call once the rule is another.
func TestAnApprovalIsRemembered(t *testing.T) {
	t.Parallel()
	behind := newBehind(t)
	const text = `
default: {ask: {for: [user:bob], remember: {for: 1h, uses: 2}}}
rules:
  - {name: ours, when: 'has(arguments.n) && arguments.n > 100', ask: {for: [user:bob, "user:ada"], remember: {for: 1h, uses: 2}}}
`
	front := newFront(t, behind.url, patient, ruled(t, text))
	s := host(t, front.url, "", able())
	pass := func(arguments string, asks bool) {
		t.Helper()
		words := calling(t, s, "echo", json.RawMessage(arguments))
		if asks {
			q := front.answer(t, "bob", desk.Answer{Action: "accept"})
			const says = "the same call of ada passes for 1h, up to"
			if remembers := strings.Contains(q.Message, says); remembers != (len(q.For) == 1) {
				t.Errorf("%s: people are asked %q", arguments, q.Message)
			}
		}
		if got := <-words; !strings.HasPrefix(got, "map[n:") {
			t.Errorf("%s: %q", arguments, got)
		}
		for q := range front.desk.Waiting(t.Context(), desk.Waiting{}) {
			t.Errorf("%s: somebody is asked %q", arguments, q.Message)
		}
	}
	pass(`{"n":1}`, true)
	pass(`{"n":2}`, true)
	pass(`{"n":1}`, false)
	pass(`{ "n" : 1 }`, false)
	pass(`{"n":1}`, true) // they are used up
	pass(`{"n":500}`, true)
	pass(`{"n":500}`, true) // the caller is among those who may answer
	var left []string
	for r := range expect.Each(t, front.desk.Remembered(t.Context(), nil)) {
		left = append(left, fmt.Sprint(r.Tool, r.Excerpt.Begin, r.Left, r.Caller))
	}
	expect.Equal(t, "what is remembered", fmt.Sprint(left), `[echo{"n":1}2ada echo{"n":2}2ada]`)
	for r := range front.desk.Remembered(t.Context(), &desk.Person{Name: "ada"}) {
		if _, err := front.desk.Forget(t.Context(), r.Name, &desk.Person{Name: "bob"}); err != nil {
			t.Error(err)
		}
	}
	pass(`{"n":1}`, true)
	next := newFront(t, behind.url, patient, func(o *bridge.Options) { o.Server.Tasks.Store = front.store },
		ruled(t, strings.Replace(text, "uses: 2", "uses: 3", 1)))
	front, s = next, host(t, next.url, "", able())
	pass(`{"n":1}`, true)
	pass(`{"n":1}`, false)
}

// Edited arguments are judged again: people cannot edit past a rule.
func TestNobodyEditsPastARule(t *testing.T) {
	t.Parallel()
	behind := newBehind(t)
	front := newFront(t, behind.url, patient, ruled(t, `
default: {ask: {for: [user:bob], edit: true}}
rules:
  - {name: gold, when: 'arguments.item == "gold"', deny: no gold}
  - {name: silver, when: 'arguments.item == "silver"', ask: {for: [user:cleo]}}
`))
	s := host(t, front.url, "", able())
	words := calling(t, s, "order", map[string]any{"item": "hat"})
	for _, edit := range []struct{ item, before string }{
		{"gold", `Asked by the default`},
		{"silver", `with these arguments the rule "gold" denies it: no gold`},
		{"cap", `with these arguments the rule "silver" asks user:cleo to approve it`},
	} {
		arguments := fmt.Sprintf(`{"item":%q}`, edit.item)
		content := expect.Must(json.Marshal(map[string]string{"arguments": arguments}))(t)
		if q := front.answer(t, "bob", desk.Answer{Action: "accept", Content: content}); !strings.Contains(q.Message,
			edit.before) {
			t.Errorf("before %s the message is %q", edit.item, q.Message)
		}
	}
	expect.Equal(t, "the result", <-words, "red cap ordered")
}

// Rules and flags are not given together, and a tool whose name rules could misread is not offered.
func TestRulesAreGivenAlone(t *testing.T) {
	t.Parallel()
	opts := frontOptions(t, "http://127.0.0.1:1")
	ruled(t, "default: {allow: true}")(opts)
	opts.Approve = &bridge.Approval{Tools: []string{"*"}}
	expect.Fails(t, "the error", expect.Err(bridge.New(opts)), "want one of them")
}

// A call that waits goes on under the rules of the process that continues it: what these ask beyond its approvals is
// asked, too, and a deny ends it before anything is sent.
func TestOtherRulesAskAgain(t *testing.T) {
	const (
		bob   = "default: {ask: {for: [user:bob]}}"
		both  = "default: {ask: {for: [user:cleo]}}"
		deny  = "default: {deny: not today}"
		allow = "default: {allow: true}"
	)
	for _, c := range []struct {
		first, next string
		answers     []string // who is asked, in order
		effects     int
		words       string
	}{
		{allow, bob, []string{"bob"}, 1, ""},
		{bob, both, []string{"bob", "cleo"}, 1, ""},
		{bob, allow, []string{"bob"}, 1, ""},
		{bob, deny, []string{"bob"}, 0, "the default of the rules denies it: not today"},
		{allow, deny, nil, 0, "the default of the rules denies it: not today"},
	} {
		for _, tool := range []string{"m_asks", "o_asks.again"} {
			t.Run(fmt.Sprint(c.first, " ", c.next, " ", tool), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					s.anyhow = true
					open := func(text string) *front {
						s.rules = ruled(t, text)
						return s.open(nil, s.behind("modern", "m", s.modern(nil, "asks")),
							s.behind("older", "o", s.older(nil, "asks.again")))
					}
					before := open(c.first)
					h := s.host(before, "", client.Options{Tasks: client.TasksOff})
					call(t, h, tool, load{N: 1})
					h.Close()
					before.stop()
					next := open(c.next)
					defer next.stop()
					var asked []string
					for range 60 {
						for _, who := range []string{"bob", "cleo", "ada"} {
							person := desk.Person{Name: who}
							for q := range expect.Each(t, next.desk.Waiting(t.Context(), desk.Waiting{As: &person})) {
								a := desk.Answer{By: person, Action: "accept"}
								switch shown, err := next.desk.Question(t.Context(), q.Name, q.Key, &person); {
								case err != nil:
									t.Error(err)
								case who != "ada":
									asked = append(asked, who)
								case strings.Contains(string(shown.Schema), `"text"`): // the tool itself asks ada
									a.Content = json.RawMessage(`{"text":"yes"}`)
								}
								if _, err := next.desk.Answer(t.Context(), q.Name, q.Key, a); err != nil {
									t.Error(err)
								}
							}
						}
						time.Sleep(5 * time.Second)
					}
					if n := s.tookEffect(1); n != c.effects || fmt.Sprint(asked) != fmt.Sprint(c.answers) {
						t.Errorf("%d effects, want %d; asked %q, want %q", n, c.effects, asked, c.answers)
					}
					row := s.row()
					host := s.host(next, "", client.Options{Tasks: client.TasksOff})
					defer host.Close()
					text, _ := call(t, host, "askback_result", map[string]any{"name": task.Name(row.ID)})
					expect.Contains(t, "the host is told", text, c.words)
				})
			})
		}
	}
}

// Rules that deny what people have made of the arguments end the call of a bridge that had let it begin.
func TestOtherRulesDenyAnEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.anyhow = true
		open := func(text string) *front {
			s.rules = ruled(t, text)
			return s.open(nil, s.behind("modern", "m", s.modern(nil, "asks")))
		}
		before := open("default: {ask: {for: [user:bob], edit: true}}")
		h := s.host(before, "", client.Options{Tasks: client.TasksOff})
		call(t, h, "m_asks", load{N: 1})
		name := before.answer(t, "bob", desk.Answer{Action: "accept",
			Content: json.RawMessage(`{"arguments":"{\"n\":50,\"edited\":true}"}`)}).Name
		time.Sleep(time.Minute) // the tool asks
		h.Close()
		before.stop()
		next := open(`
default: {ask: {for: [user:bob], edit: true}}
rules:
  - {name: large, when: arguments.n > 10, deny: It is too large.}
`)
		defer next.stop()
		next.answer(t, "ada", desk.Answer{Action: "accept"})
		time.Sleep(time.Minute)
		host := s.host(next, "", client.Options{Tasks: client.TasksOff})
		defer host.Close()
		text, _ := call(t, host, "askback_result", map[string]any{"name": name})
		if !strings.Contains(text, `the rule "large" denies it: It is too large.`) || s.tookEffect(50) != 0 {
			t.Errorf("%q, and %d effects", text, s.tookEffect(50))
		}
	})
}

// Whatever rules two bridges of one store draw, no call takes effect that a person declined or that the rules of the
// bridge that continues it deny.
func TestNoArrangementOfRulesPassesADecline(t *testing.T) {
	files := []string{"default: {allow: true}", "default: {ask: {}}", "default: {ask: {for: [user:bob]}}",
		"default: {ask: {for: [group:release], votes: 2}}", "default: {ask: {for: [user:bob], edit: true}}",
		"default: {allow: true}\nrules: [{name: odd, when: arguments.n % 2 == 1, deny: odd}]",
		"default: {ask: {for: [user:bob]}}\nrules: [{name: fails, when: arguments.none == 1, allow: true}]",
		"default: {allow: true}\nrules: [{name: fails, when: arguments.none == 1, allow: true}]"}
	passed, refused := 0, 0
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			draw := rand.New(rand.NewPCG(seed, 36))
			s := newScene(t)
			s.anyhow = true
			tools := []string{"plain", "asks", "asks.again", "again"}
			open := func() (*front, string) {
				text := files[draw.IntN(len(files))]
				s.rules = ruled(t, text)
				return s.open(nil, s.behind("modern", "m", s.modern(nil, tools...)),
					s.behind("older", "o", s.older(nil, tools...))), text
			}
			denied := make(map[int]bool) // by the rules of every bridge
			for phase := range 3 {
				f, text := open()
				p := &people{s: s, desk: f.desk, draw: func() string {
					return []string{"accept", "accept", "edit", "decline", "cancel"}[draw.IntN(5)]
				}}
				for n := phase * 10; n < phase*10+10; n++ {
					h := s.host(f, []string{"2026-07-28", "2025-11-25"}[draw.IntN(2)], client.Options{Tasks: client.TasksOff})
					denied[n] = strings.Contains(text, "deny: odd") && n%2 == 1 ||
						text == files[len(files)-1]
					tool := []string{"m", "o"}[draw.IntN(2)] + "_" + tools[draw.IntN(len(tools))]
					_, _ = h.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: load{N: n}})
					h.Close()
				}
				for range draw.IntN(4) {
					p.answer()
					time.Sleep(3 * time.Second)
				}
				f.stop()
			}
			for range 2 {
				f, _ := open()
				p := &people{s: s, desk: f.desk, draw: func() string { return "accept" }}
				for range 30 {
					p.answer()
					time.Sleep(5 * time.Second)
				}
				f.stop()
			}
			for n, took := range s.effects {
				if len(took) > 0 {
					passed++
				}
				if denied[n] && len(took) > 0 {
					t.Errorf("seed %d: call %d takes effect, although the rules denied it", seed, n)
				}
			}
			refused += len(s.refused)
		})
	}
	t.Logf("%d calls passed, and %d were declined", passed, refused)
	if passed < 50 || refused < 10 {
		t.Errorf("the arrangements are too much alike: %d calls passed, and %d were declined", passed, refused)
	}
}
