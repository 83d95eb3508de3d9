package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// ruledWorld is a store with one instance at a time, in a bubble. Its tools count their effects.
type ruledWorld struct {
	t       *testing.T
	store   task.Store
	desk    *desk.Desk
	handler http.Handler
	server  *askback.Server
	stop    func()

	mu      sync.Mutex
	effects []string
	events  []askback.AuditEvent
}

func newRuledWorld(t *testing.T) *ruledWorld { return newRuledWorldOn(t, new(task.MemoryStore)) }

func newRuledWorldOn(t *testing.T, store task.Store) *ruledWorld {
	w := &ruledWorld{t: t, store: store}
	var err error
	if w.desk, err = desk.Open(w.store, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

type ruledRules = func(context.Context, *askback.ToolCall) *askback.Verdict

// open starts an instance with rules, or with none, in place of the one before.
func (w *ruledWorld) open(rules ruledRules) {
	if w.stop != nil {
		w.stop()
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	srv := expect.Must(askback.New(m, &askback.Options{
		Principal: harness.UserHeader, Keys: harness.NewRing(w.t), Tasks: &askback.Tasks{Store: w.store},
		Desk: &askback.DeskOptions{Rules: rules, Wait: time.Hour},
		Audit: func(_ context.Context, e askback.AuditEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}))(w.t)
	w.server = srv
	w.add("pay", "Pays.")
	askback.AddTaskTool(srv, &mcp.Tool{Name: "transfer"}, nil, w.pays("transfer"))
	askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"},
		func(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
			var in payment
			_ = json.Unmarshal(req.Params.Arguments, &in)
			w.count(fmt.Sprint("inline ", in.Amount))
			return harness.Text("paid"), nil, nil
		})
	mcp.AddTool(m, &mcp.Tool{Name: "theirs"},
		func(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
			w.count("theirs " + string(req.Params.Arguments))
			return harness.Text("theirs"), nil, nil
		})
	srv.AddResultTool()
	w.handler = srv.HTTPHandler(nil)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { _ = srv.RunTasks(ctx) })
	w.stop = func() { cancel(); working.Wait() }
}

// add adds a tool with a description, or describes it anew.
func (w *ruledWorld) add(name, description string) {
	askback.AddTool(w.server, &mcp.Tool{Name: name, Description: description}, w.pays(name))
}

type payment struct {
	Amount int    `json:"amount,omitempty"`
	Note   string `json:"note,omitempty"`
}

func (w *ruledWorld) pays(tool string) askback.ToolHandler[payment, string] {
	return func(ctx context.Context, call *askback.Call, in payment) (string, error) {
		err := call.Do(ctx, "pay", func(context.Context) error {
			w.count(fmt.Sprint(tool, " ", in.Amount, in.Note))
			return nil
		})
		return "paid", err
	}
}

func (w *ruledWorld) count(effect string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects = append(w.effects, effect)
}

// call calls a tool, and returns its text, or the ID of the task that the call has become.
func (w *ruledWorld) call(caller, tool, arguments string) (text, id string) {
	w.t.Helper()
	r := harness.Request{Method: "tools/call", Target: tool, Header: http.Header{"X-User": {caller}},
		Body: harness.Message(1, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments),
			harness.WithExtension)}
	return w.outcome(r)
}

func (w *ruledWorld) outcome(r harness.Request) (text, id string) {
	w.t.Helper()
	var response struct {
		Result map[string]any
		Error  map[string]any
	}
	res := r.Send(w.t, w.handler)
	_, message, _ := strings.Cut("data: "+strings.TrimPrefix(res.Raw, "event: message\n"), "data: ")
	message = strings.TrimPrefix(message, "data: ")
	if err := json.Unmarshal([]byte(message), &response); err != nil {
		w.t.Fatalf("%v in %s", err, res.Raw)
	}
	if id, ok := response.Result["taskId"].(string); ok && response.Result["resultType"] == "task" {
		return "", id
	}
	return fmt.Sprint(response.Error, harness.Content(response.Result)), ""
}

// ended is the outcome of a task.
func (w *ruledWorld) ended(id string) string {
	w.t.Helper()
	time.Sleep(time.Second)
	row := expect.Must(w.store.Get(w.t.Context(), id))(w.t)
	return string(row.Status) + " " + string(row.Outcome)
}

// asked are the questions that wait.
func (w *ruledWorld) asked() (all []*desk.Question) {
	w.t.Helper()
	time.Sleep(time.Second)
	for q, err := range w.desk.Waiting(w.t.Context(), desk.Waiting{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, q)
	}
	return all
}

func (w *ruledWorld) answer(q *desk.Question, action string, by ...desk.Person) {
	w.t.Helper()
	for _, p := range by {
		a := desk.Answer{By: p, Action: action, Reason: "checked"}
		expect.Must(w.desk.Answer(w.t.Context(), q.Name, q.Key, a))(w.t)
	}
}

var (
	finance = []string{"finance"}
	bob     = desk.Person{Name: "bob", Groups: finance}
	cleo    = desk.Person{Name: "cleo", Groups: finance}
)

// byAmount allows small payments, has people asked for larger ones, and denies the largest.
func byAmount(_ context.Context, c *askback.ToolCall) *askback.Verdict {
	var in payment
	_ = json.Unmarshal(c.Arguments, &in)
	switch {
	case c.Server != "bank":
		return nil
	case in.Amount < 10:
		return &askback.Verdict{Action: askback.RuleAllow}
	case in.Amount == 13:
		panic("the rules are broken")
	case in.Amount == 14:
		return &askback.Verdict{Action: "ask politely"}
	case in.Amount == 15:
		return nil
	case in.Amount == 16:
		return &askback.Verdict{Action: askback.RuleAsk, Edit: true}
	case in.Amount < 100:
		return &askback.Verdict{Action: askback.RuleAsk, Rule: "large", For: []string{askback.Group("finance")}, Votes: 2,
			Within: time.Hour}
	}
	return &askback.Verdict{Action: askback.RuleDeny, Rule: "huge", Reason: "It is too much."}
}

// Rules decide about every tool of a server: ours, the SDK's, and those that ask in their session.
func TestRulesOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRuledWorld(t)
		w.open(byAmount)
		defer func() { w.stop() }()
		for _, tool := range []string{"pay", "transfer", "inline", "theirs"} {
			for arguments, want := range map[string]string{
				`{"amount":5}`:   "",
				`{"amount":500}`: `The tool "` + tool + `" was not called: the rule "huge" denies it: It is too much.`,
				`{"amount":13}`:  "the default of the rules denies it: the rules have failed.",
				`{"amount":14}`:  "the default of the rules denies it: no reason is given.",
				`{"amount":15}`:  "the default of the rules denies it: the rules say nothing.",
				`{"amount":16}`:  "it lets people edit the arguments, which only a bridge can.",
			} {
				before := len(w.effects)
				text, id := w.call("ada", tool, arguments)
				if id != "" {
					text = w.ended(id)
				}
				want = strings.ReplaceAll(want, `"`, quoteOf(id))
				if !strings.Contains(text, want) || len(w.effects)-before != btoi(want == "") {
					t.Errorf("%s %s: %q, and %d effects", tool, arguments, text, len(w.effects)-before)
				}
			}
			text, id := w.call("", tool, `{"amount":50}`)
			if id != "" {
				text = w.ended(id)
			}
			expect.Contains(t, tool+" by nobody", text, "nobody can be asked, because the caller has no name")
			text, id = w.call("ada", tool, `{"amount":50}`)
			if tool == "theirs" {
				expect.Contains(t, tool, text, "it has to be approved, and people cannot be asked here")
				continue
			}
			for _, q := range w.asked() {
				expect.Equal(t, tool+" asks", q.Message, "Call the tool \""+tool+"\"?\n\nAsked by the rule \"large\".")
				w.answer(q, "accept", bob)
				if n := len(w.effects); w.effects[n-1] == tool+" 50" {
					t.Errorf("%s runs after one vote of two", tool)
				}
				w.answer(q, "accept", cleo)
			}
			if text := w.ended(id); !strings.Contains(text, "paid") || w.effects[len(w.effects)-1] != tool+" 50" {
				t.Errorf("%s: %q after %q", tool, text, w.effects)
			}
			_, id = w.call("ada", tool, `{"amount":51}`)
			w.answer(w.asked()[0], "decline", bob)
			expect.Contains(t, tool+", declined", w.ended(id), "was not approved, says bob: checked.")
			_, id = w.call("ada", tool, `{"amount":52}`)
			time.Sleep(2 * time.Hour)
			expect.Contains(t, tool+", not answered", w.ended(id), "nobody approved the call in time.")
			if slices.Contains(w.effects, tool+" 51") || slices.Contains(w.effects, tool+" 52") {
				t.Errorf("%q", w.effects)
			}
		}
		if text, _ := w.call("ada", "askback_result", `{"amount":500}`); strings.Contains(text, "was not called") {
			t.Errorf("askback_result: %q", text)
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// quoteOf is how a quotation mark stands in the outcome of a task with this ID, or in a text.
func quoteOf(id string) string {
	if id != "" {
		return `\"`
	}
	return `"`
}

// A call belongs to the rules under which it began, and to the stricter ones of a process that continues it. A process
// without rules keeps to those that are recorded.
func TestACallKeepsToItsRules(t *testing.T) {
	always := func(v askback.Verdict) ruledRules {
		return func(context.Context, *askback.ToolCall) *askback.Verdict { return &v }
	}
	allow := always(askback.Verdict{Action: askback.RuleAllow})
	deny := always(askback.Verdict{Action: askback.RuleDeny, Reason: "not today"})
	byBob := always(askback.Verdict{Action: askback.RuleAsk, For: []string{askback.User("bob")}})
	byCleo := always(askback.Verdict{Action: askback.RuleAsk, For: []string{askback.User("cleo")}})
	for i, c := range []struct {
		instances []ruledRules
		asked     string
		paid      bool
	}{
		{[]ruledRules{byBob, byBob}, "bob", true},
		{[]ruledRules{byBob, nil}, "bob", true},
		{[]ruledRules{byBob, allow}, "bob", true},
		{[]ruledRules{byBob, byCleo}, "bob cleo", true},
		{[]ruledRules{byBob, byCleo, allow}, "bob cleo", true},
		{[]ruledRules{byBob, byCleo, nil}, "bob cleo", true},
		{[]ruledRules{byBob, deny}, "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newRuledWorld(t)
			w.open(c.instances[0])
			_, id := w.call("ada", "pay", `{"amount":1}`)
			time.Sleep(time.Minute)
			var asked []string
			for round := range 6 {
				w.open(c.instances[min(round+1, len(c.instances)-1)])
				for _, q := range w.asked() {
					if round == 0 && len(c.instances) > 2 {
						continue // the next instance goes on
					}
					name := strings.TrimPrefix(q.For[0], "user:")
					asked = append(asked, name)
					w.answer(q, "accept", desk.Person{Name: name})
				}
				if round == 0 { // wake the task: an instance that finds nothing decided leaves it asleep
					w.wake(id)
					time.Sleep(time.Minute)
				}
			}
			text := w.ended(id)
			w.stop()
			const words = "had begun, and was not continued: the default of the rules denies it: not today"
			if !c.paid && !strings.Contains(text, words) {
				t.Errorf("%d: %q", i, text)
			}
			if strings.Join(asked, " ") != c.asked && c.asked != "" || strings.Contains(text, "paid") != c.paid ||
				len(w.effects) != btoi(c.paid) {
				t.Errorf("%d: asked %q, %d effects, %q", i, asked, len(w.effects), text)
			}
		})
	}
}

// wake has a task run that waits for people.
func (w *ruledWorld) wake(id string) {
	w.t.Helper()
	row := expect.Must(w.store.Get(w.t.Context(), id))(w.t)
	if row.Status == task.InputRequired {
		row.Status, row.Attempts = task.Working, 0
		expect.Check(w.t, w.store.Update(w.t.Context(), row, task.Update{}))
	}
}

// losing is a store that loses every fourth call about remembered decisions: before it is made, or its answer.
type losing struct {
	*task.MemoryStore
	mu   sync.Mutex
	draw *rand.Rand
}

var errLost = errors.New("the answer was lost")

func (s *losing) lose(do func() error) error {
	s.mu.Lock()
	fate := s.draw.IntN(8)
	s.mu.Unlock()
	if fate == 0 {
		return errLost
	}
	err := do()
	if fate == 1 {
		return errLost
	}
	return err
}

func (s *losing) Remember(ctx context.Context, r *task.Remembered) error {
	return s.lose(func() error { return s.MemoryStore.Remember(ctx, r) })
}

func (s *losing) Recall(ctx context.Context, key, call string) (r *task.Remembered, err error) {
	err = s.lose(func() error { r, err = s.MemoryStore.Recall(ctx, key, call); return err })
	return r, err
}

func (s *losing) Forget(ctx context.Context, key string) error {
	return s.lose(func() error { return s.MemoryStore.Forget(ctx, key) })
}

// What is remembered lets exactly those calls pass that it is for: a slow model of the words in Verdict says which. Of
// a store that loses answers, it lets no others pass.
func TestRememberedDecisions(t *testing.T) {
	t.Run("exactly", func(t *testing.T) { drawRemembered(t, 400, false) })
	t.Run("with lost answers", func(t *testing.T) { drawRemembered(t, 200, true) })
}

func drawRemembered(t *testing.T, draws int, loses bool) {
	passed, asked := 0, 0
	reasons := make(map[string]int)
	synctest.Test(t, func(t *testing.T) {
		draw := rand.New(rand.NewPCG(36, 4))
		w := newRuledWorld(t)
		if loses {
			w = newRuledWorldOn(t, &losing{MemoryStore: new(task.MemoryStore), draw: rand.New(rand.NewPCG(36, 5))})
		}
		verdict := askback.Verdict{Action: askback.RuleAsk, Rule: "large", For: []string{"group:finance", "user:dora"},
			Votes: 2, Remember: 8 * time.Minute, Uses: 3, Digest: "1"}
		w.open(func(context.Context, *askback.ToolCall) *askback.Verdict { v := verdict; return &v })
		defer func() { w.stop() }()
		type memory struct {
			until time.Time
			left  int
		}
		model := make(map[string]*memory)
		last := make(map[string]string) // by caller and tool: the key of the call before
		description := "Pays."
		for n := range draws {
			switch draw.IntN(14) {
			case 0:
				time.Sleep(time.Duration(draw.IntN(5)) * time.Minute)
			case 1:
				verdict.Digest = fmt.Sprint(draw.IntN(3))
			case 2:
				description = fmt.Sprintf("Pays %d.", draw.IntN(3))
				w.add("pay", description)
			case 3:
				for r, err := range w.desk.Remembered(t.Context(), nil) {
					expect.Check(t, err)
					if draw.IntN(2) == 0 {
						continue
					}
					if _, err := w.desk.Forget(t.Context(), r.Name, &bob); loses && err != nil {
						continue
					} else if err != nil {
						t.Fatal(err)
					}
					for key, m := range model {
						if strings.HasPrefix(key, r.Caller+"|"+r.Tool+"|") && strings.Contains(key, "|"+r.Excerpt.Begin+"|") &&
							m.until.Equal(r.Until) {
							delete(model, key)
						}
					}
				}
			}
			caller := []string{"ada", "alf", "dora"}[draw.IntN(3)]
			tool := []string{"pay", "pay", "transfer"}[draw.IntN(3)]
			in := draw.IntN(4)
			arguments := []string{`{"amount":50}`, `{"amount":51}`, `{"note":"x","amount":50}`, `{"amount":50,"note":"x"}`}[in]
			canonical := []string{`{"amount":50}`, `{"amount":51}`, `{"amount":50,"note":"x"}`, `{"amount":50,"note":"x"}`}[in]
			defined := description
			if tool == "transfer" {
				defined = ""
			}
			key := strings.Join([]string{caller, tool, defined, canonical, verdict.Digest}, "|")
			m := model[key]
			expects := m != nil && m.left > 0 && time.Now().Before(m.until)
			before := len(w.effects)
			text, id := w.call(caller, tool, arguments)
			waits := w.asked()
			passes := len(waits) == 0
			if passes != expects && (passes || !loses) {
				t.Fatalf("draw %d: %s passes: %v, want %v", n, key, passes, expects)
			}
			if passes {
				m.left--
				passed++
				if id != "" {
					text = w.ended(id)
				}
				if !strings.Contains(text, "paid") || len(w.effects) != before+1 {
					t.Fatalf("draw %d: %q, %d effects", n, text, len(w.effects)-before)
				}
				continue
			}
			asked++
			if at := last[caller+tool]; m != nil {
				reasons["spent, ended or revoked"]++
			} else if at != key {
				reasons["another call"]++
			}
			last[caller+tool] = key
			switch draw.IntN(4) {
			case 0:
				w.answer(waits[0], "decline", bob)
				w.ended(id)
				if len(w.effects) != before {
					t.Fatalf("draw %d: a declined call takes effect", n)
				}
			default:
				w.answer(waits[0], "accept", bob)
				w.answer(waits[0], "accept", cleo)
				decided := time.Now().Truncate(time.Millisecond)
				w.ended(id)
				if len(w.effects) != before+1 {
					t.Fatalf("draw %d: an approved call does not take effect", n)
				}
				if caller != "dora" { // whom the rule names
					model[key] = &memory{decided.Add(8 * time.Minute), 3}
				}
			}
		}
		recalled := 0
		for _, e := range w.events {
			if e.Kind == askback.AuditRecalled {
				recalled++
				if e.By != "bob" && e.By != "cleo" || e.Channel != "desk" || e.Principal == "" || e.Call == "" {
					t.Errorf("the operator is told %+v", e)
				}
			}
		}
		if recalled != 2*passed && !loses {
			t.Errorf("the operator is told %d times that a vote of two has let one of %d calls pass", recalled, passed)
		}
	})
	t.Logf("%d passed, %d asked: %v", passed, asked, reasons)
	if passed < draws/10 || asked < draws/10 {
		t.Errorf("%d passed and %d were asked for: the draws are too much alike", passed, asked)
	}
}

// An author's step is never taken for what rules have recorded.
func TestStepsAreNoGates(t *testing.T) {
	step := func(context.Context) (string, error) { return "", errors.New("it runs") }
	for name, do := range map[string]func(context.Context, *askback.Call) error{
		"askback_rules": func(ctx context.Context, call *askback.Call) error {
			_, err := askback.Do(ctx, call, "askback_rules", step)
			return err
		},
		"askback_rules_2": func(ctx context.Context, call *askback.Call) error {
			_, err := askback.AtMostOnce(ctx, call, "askback_rules_2", step)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newRuledWorld(t)
			w.open(byAmount)
			defer func() { w.stop() }()
			askback.AddTaskTool(w.server, &mcp.Tool{Name: "spoofs"}, nil,
				func(ctx context.Context, call *askback.Call, _ payment) (string, error) { return "", do(ctx, call) })
			text, id := w.call("ada", "spoofs", "{}")
			if id != "" {
				text = w.ended(id)
			}
			expect.Contains(t, "the step "+name, text, `are for what rules record; rename it`)
		})
	}
}

// A call that has passed by a remembered decision is asked for after all, if it goes on under rules that remember
// nothing, or in another form of its tool.
func TestAPassIsForItsRulesAndItsTool(t *testing.T) {
	remembers := askback.Verdict{Action: askback.RuleAsk, For: []string{askback.User("bob")}, Remember: time.Hour, Uses: 5,
		Digest: "1"}
	forgets := remembers
	forgets.Remember = 0
	for _, c := range []struct {
		name        string
		next        askback.Verdict
		description string
		asksAgain   bool
	}{
		{"the same", remembers, "Pays later.", false},
		{"rules that remember nothing", forgets, "Pays later.", true},
		{"another form of the tool", remembers, "Pays anybody.", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newRuledWorld(t)
			open := func(v askback.Verdict, description string) {
				w.open(func(context.Context, *askback.ToolCall) *askback.Verdict { return &v })
				pay := w.pays("later")
				askback.AddTaskTool(w.server, &mcp.Tool{Name: "later", Description: description}, nil,
					func(ctx context.Context, call *askback.Call, in payment) (string, error) {
						err := askback.Approve(call, "now", askback.Question{Message: "Now?", For: []string{askback.User("dora")}})
						if err != nil {
							return "", err
						}
						return pay(ctx, call, in)
					})
			}
			open(remembers, "Pays later.")
			w.call("ada", "later", `{"amount":1}`)
			w.answer(w.asked()[0], "accept", bob)
			w.answer(w.asked()[0], "accept", desk.Person{Name: "dora"})
			_, id := w.call("ada", "later", `{"amount":1}`)
			now := w.asked()[0]
			if now.AuthorKey != "now" || len(w.effects) != 1 {
				t.Fatalf("%s: %q is asked first, %d effects", c.name, now.Key, len(w.effects))
			}
			open(c.next, c.description)
			w.answer(now, "accept", desk.Person{Name: "dora"})
			again := w.asked()
			if (len(again) > 0) != c.asksAgain || (len(w.effects) == 1) != c.asksAgain {
				t.Errorf("%s: %d questions, %d effects", c.name, len(again), len(w.effects))
			}
			for _, q := range again {
				w.answer(q, "accept", bob)
			}
			if text := w.ended(id); !strings.Contains(text, "paid") || len(w.effects) != 2 {
				t.Errorf("%s: %q, %d effects", c.name, text, len(w.effects))
			}
			w.stop()
		})
	}
}

// A tool that changes while people look at its old definition is asked for again: they have not approved the new one.
func TestAToolThatChangesBeforeItsApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRuledWorld(t)
		w.open(func(context.Context, *askback.ToolCall) *askback.Verdict {
			return &askback.Verdict{Action: askback.RuleAsk, For: []string{"user:bob"}, Remember: time.Hour, Uses: 3,
				Digest: "1"}
		})
		defer func() { w.stop() }()
		for n, description := range []string{"Pays.", "Pays twice.", "Pays."} {
			w.add("pay", description)
			_, id := w.call("ada", "pay", `{"amount":50}`)
			if asked := w.asked(); len(asked) != btoi(n < 2) {
				t.Fatalf("%d: %d questions", n, len(asked))
			} else if n < 2 {
				w.add("pay", "Pays three times.")
				w.answer(asked[0], "accept", bob)
				w.ended(id)
			}
		}
		w.add("pay", "Pays three times.")
		if w.call("ada", "pay", `{"amount":50}`); len(w.asked()) != 1 {
			t.Error("a definition that nobody has seen passes")
		}
	})
}

// Whom a remembered approval concerns may see it, and end it; nobody else may.
func TestWhoSeesWhatIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRuledWorld(t)
		w.open(func(context.Context, *askback.ToolCall) *askback.Verdict {
			return &askback.Verdict{Action: askback.RuleAsk, Rule: "large", For: []string{"group:finance"}, Remember: time.Hour,
				Uses: 3, Digest: "1"}
		})
		defer func() { w.stop() }()
		_, id := w.call("ada", "pay", `{"amount":50,"note":"<b>"}`)
		q := w.asked()[0]
		const says = "An approval is remembered: the same call of ada passes for 1h, up to 3 more times."
		expect.Contains(t, "people are asked", q.Message, says)
		w.answer(q, "accept", bob)
		w.ended(id)
		if text, _ := w.call("ada", "pay", `{"note":"<b>","amount":50}`); !strings.Contains(text, "paid") {
			t.Errorf("the same call again: %q", text)
		}
		for _, p := range []desk.Person{{Name: "bob"}, {Name: "ada"}, {Name: "eve", Groups: finance}} {
			var seen []*desk.Remembered
			for r, err := range w.desk.Remembered(t.Context(), &p) {
				expect.Check(t, err)
				seen = append(seen, r)
			}
			if len(seen) != 1 {
				t.Fatalf("%s sees %d", p.Name, len(seen))
			}
			r := seen[0]
			if r.Tool != "pay" || r.Server != "bank" || r.Rule != "large" || r.Caller != "ada" || r.Left != 2 || r.Uses != 3 ||
				r.Task != q.Name || len(r.By) != 1 || r.By[0].Who != "bob" || r.By[0].Why != "checked" ||
				r.Excerpt.Begin != `{"amount":50,"note":"<b>"}` || r.Excerpt.Size != 26 || r.Until.Sub(r.Decided) != time.Hour {
				t.Errorf("%s sees %+v", p.Name, r)
			}
		}
		var name string
		for r := range w.desk.Remembered(t.Context(), nil) {
			name = r.Name
		}
		for _, p := range []desk.Person{{Name: "eve"}, {Name: "eve", Groups: []string{"sales"}}} {
			for r := range w.desk.Remembered(t.Context(), &p) {
				t.Errorf("%v sees %v", p, r)
			}
			if _, err := w.desk.Forget(t.Context(), name, &p); err == nil {
				t.Errorf("%v ends it", p)
			}
		}
		for _, short := range []string{"", name[:5], strings.ToUpper(name), name + "0"} {
			if _, err := w.desk.Forget(t.Context(), short, &bob); err == nil {
				t.Errorf("%q ends it", short)
			}
		}
		expect.Equal(t, "the result", expect.Must(w.desk.Forget(t.Context(), name[:6], &desk.Person{Name: "ada"}))(t).Tool,
			"pay")
		if _, id := w.call("ada", "pay", `{"note":"<b>","amount":50}`); id == "" || len(w.asked()) != 1 {
			t.Error("it passes after it was ended")
		}
	})
}
