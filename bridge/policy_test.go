package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// scene is what the bridges of one arrangement share, in virtual time: a store, its keys, and the servers behind.
type scene struct {
	t     *testing.T
	store *task.MemoryStore
	keys  *seal.Ring
	log   io.Writer       // of bridges, or nil
	life  context.Context // of bridges
	// anyhow leaves open who has approved an effect: the rules of bridges say that.
	anyhow bool
	rules  func(*bridge.Options) // of the next bridge, or nil

	mu      sync.Mutex
	effects map[int][]bool // of the tools, by call: whether the arguments were edited
	refused map[int]bool   // calls with an approval that was not accepted
	edited  map[int]bool   // calls whose arguments were edited
	asked   map[int]bool   // calls of which an approval was asked
	// approved are the approvals that were given, each by its call, who was asked, and how many of them.
	approved map[string]bool
}

// load are the arguments of the tools of a scene.
type load struct {
	N      int  `json:"n"`
	Edited bool `json:"edited,omitempty"`
}

func newScene(t *testing.T) *scene {
	keys := harness.NewRing(t)
	return &scene{t: t, store: new(task.MemoryStore), keys: keys, life: context.Background(),
		effects: make(map[int][]bool),
		refused: make(map[int]bool), edited: make(map[int]bool), asked: make(map[int]bool),
		approved: make(map[string]bool)}
}

// took notes that a tool has taken effect behind a bridge with this approval of it, or with none.
func (s *scene) took(behind *bridge.Approval, in load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects[in.N] = append(s.effects[in.N], in.Edited)
	switch {
	case s.refused[in.N]:
		s.t.Errorf("call %d takes effect, although an approval of it was not accepted", in.N)
	case s.anyhow:
	case behind == nil && s.asked[in.N]:
		s.t.Errorf("call %d takes effect behind a bridge without a gate, although another one asks for an approval", in.N)
	case behind != nil && !s.approved[approval(in.N, whom(behind), behind.Votes)]:
		s.t.Errorf("call %d takes effect behind a bridge that asks %q, and nobody has approved it", in.N, whom(behind))
	}
}

// tookEffect counts the effects of a call.
func (s *scene) tookEffect(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.effects[n])
}

func approval(n int, whom []string, votes int) string {
	return fmt.Sprint(n, slices.Sorted(slices.Values(whom)), max(votes, 1))
}

// whom an approval is asked of.
func whom(a *bridge.Approval) []string {
	if len(a.For) == 0 {
		return []string{askback.User("ada")}
	}
	return a.For
}

// row is the only task in the store.
func (s *scene) row() *task.Task {
	rows, err := s.store.Select(s.t.Context(), task.Filter{}, "", 10)
	if err != nil || len(rows) != 1 {
		s.t.Fatal(rows, err)
	}
	return rows[0]
}

func (s *scene) note(in map[int]bool, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[n] = true
}

// modern is a server that asks in rounds, whose tools are named so.
func (s *scene) modern(behind *bridge.Approval, tools ...string) *askback.Server {
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil),
		&askback.Options{Logger: quiet, Keys: s.keys}))(s.t)
	for _, name := range tools {
		tool := &mcp.Tool{Name: name}
		if strings.Contains(name, "again") {
			tool.Annotations = &mcp.ToolAnnotations{IdempotentHint: true}
		}
		askback.AddTool(srv, tool, func(_ context.Context, call *askback.Call, in load) (string, error) {
			if strings.Contains(name, "asks") {
				if err := sure(call); err != nil {
					return "", err
				}
			}
			s.took(behind, in)
			return "done", nil
		})
	}
	return srv
}

// older is a server that asks in its open call.
func (s *scene) older(behind *bridge.Approval, tools ...string) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "attic", Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	for _, name := range tools {
		tool := &mcp.Tool{Name: name}
		if strings.Contains(name, "again") {
			tool.Annotations = &mcp.ToolAnnotations{IdempotentHint: true}
		}
		mcp.AddTool(m, tool, func(ctx context.Context, req *mcp.CallToolRequest, in load) (*mcp.CallToolResult, any, error) {
			if strings.Contains(name, "asks") {
				if said, err := elicit(ctx, req, "Sure?"); err != nil || said != "yes" {
					return text("no"), nil, err
				}
			}
			s.took(behind, in)
			return text("done"), nil, nil
		})
	}
	return m
}

// connected is a server that connects to its clients in memory.
type connected interface {
	Connect(context.Context, mcp.Transport, *mcp.ServerSessionOptions) (*mcp.ServerSession, error)
}

// behind is a server of the scene as a bridge gets it.
func (s *scene) behind(identity, prefix string, srv connected) bridge.Server {
	title := prefix + fmt.Sprint(time.Now().UnixNano()) // its own name may change
	return bridge.Server{Identity: identity, Prefix: prefix, Name: title,
		Connect: func() (mcp.Transport, error) { return inMemory(srv) }}
}

// open starts a bridge of the scene. Its caller is ada.
func (s *scene) open(approval *bridge.Approval, servers ...bridge.Server) *front {
	f, log := &front{store: s.store, keys: s.keys}, quiet
	if s.log != nil {
		log = slog.New(slog.NewTextHandler(s.log, nil))
	}
	var err error
	opts := &bridge.Options{
		Implementation: &mcp.Implementation{Name: "bridge", Version: "1"}, Servers: servers, Approve: approval,
		Server: askback.Options{
			Keys: s.keys, Logger: log, Tasks: &askback.Tasks{Store: s.store},
			Desk:      &askback.DeskOptions{Fallback: true, Wait: time.Second},
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "ada", nil },
		},
	}
	if s.rules != nil {
		s.rules(opts)
	}
	if f.Bridge, err = bridge.Open(s.t.Context(), opts); err != nil {
		s.t.Fatal(err)
	}
	f.desk = expect.Must(desk.Open(s.store, nil))(s.t)
	f.stop = sync.OnceFunc(f.run(s.life))
	return f
}

// host connects a host to a bridge of the scene.
func (s *scene) host(f *front, version string, opts client.Options) *client.Session {
	here, there := mcp.NewInMemoryTransports()
	expect.Must(f.Server().Connect(s.life, there, nil))(s.t)
	session := expect.Must(client.New(&opts).Connect(s.t.Context(), here,
		&mcp.ClientSessionOptions{ProtocolVersion: version}))(s.t)
	return session
}

// people answer what waits on the desk.
type people struct {
	s    *scene
	desk *desk.Desk
	draw func() string // an answer to an approval: accept, decline, cancel, edit or misfit
}

// answer answers all that waits.
func (p *people) answer() {
	t := p.s.t
	for _, who := range []desk.Person{{Name: "ada"}, {Name: "bob"}, {Name: "cleo", Groups: []string{"release"}},
		{Name: "dan", Groups: []string{"release"}}} {
		for listed := range expect.Each(t, p.desk.Waiting(t.Context(), desk.Waiting{As: &who})) {
			q, err := p.desk.Question(t.Context(), listed.Name, listed.Key, &who)
			if err != nil {
				continue // decided meanwhile
			}
			var in load
			expect.Check(t, json.Unmarshal(q.Arguments, &in))
			a := desk.Answer{By: who, Action: "accept"}
			hasForm := strings.Contains(string(q.Schema), `"arguments"`)
			if strings.Contains(string(q.Schema), `"text"`) {
				a.Content = json.RawMessage(`{"text":"yes"}`)
			}
			if strings.HasPrefix(q.AuthorKey, "bridge_approve") {
				p.s.note(p.s.asked, in.N)
				switch drawn := p.draw(); {
				case drawn == "decline", drawn == "cancel":
					a.Action = drawn
					p.s.note(p.s.refused, in.N)
				case hasForm && drawn == "misfit":
					a.Content = json.RawMessage(`{"arguments":"{\"n\":\"none\"}"}`)
					if strings.HasSuffix(q.AuthorKey, "(5)") {
						p.s.note(p.s.refused, in.N)
					}
				case hasForm && drawn == "edit":
					a.Content = json.RawMessage(fmt.Sprintf(`{"arguments":"{\"n\":%d,\"edited\":true}"}`, in.N))
					p.s.note(p.s.edited, in.N)
				case hasForm:
					a.Content = json.RawMessage(fmt.Sprintf(`{"arguments":"{\"n\":%d}"}`, in.N))
				}
			} else if q.AuthorKey == "bridge_repeat" {
				a.Action = "decline"
			}
			if a.Action == "accept" && !strings.Contains(string(a.Content), "none") && (q.Votes == 1 || len(q.Count) == 1) {
				p.s.mu.Lock() // before the call can go on
				p.s.approved[approval(in.N, q.For, q.Votes)] = true
				p.s.mu.Unlock()
			}
			if _, err := p.desk.Answer(t.Context(), q.Name, q.Key, a); err != nil {
				t.Errorf("%s answers %q of call %d: %v", who.Name, q.AuthorKey, in.N, err)
			}
		}
	}
}

// approvals are the flags of bridges that an arrangement draws from. The first have no gate for the tools that are
// called.
func approvals(pattern string) []*bridge.Approval {
	all := []string{pattern}
	return []*bridge.Approval{
		nil,
		{Tools: []string{"other"}},
		{Tools: all},
		{Tools: all, Edit: true},
		{Tools: all, For: []string{askback.User("bob")}},
		{Tools: all, For: []string{askback.Group("release")}},
		{Tools: all, For: []string{askback.Group("release")}, Votes: 2},
		{Tools: all, For: []string{askback.User("bob"), askback.Group("release")}, Edit: true},
	}
}

// A call of which an approval was not accepted never takes effect, whatever the flags of the bridges that share the
// store, in whatever order they come and go. Each effect has been approved as the bridge that caused it wants, and
// arguments that were edited are those that arrive. All other calls go on: else the test would prove nothing.
func TestNoArrangementPassesADecline(t *testing.T) {
	const arrangements, calls = 8, 25
	passed, refused, asked := 0, 0, 0
	for seed := range uint64(arrangements) {
		synctest.Test(t, func(t *testing.T) {
			p, r := arrange(t, rand.New(rand.NewPCG(seed, 31)), calls)
			asked += len(p.s.asked)
			refused += len(p.s.refused)
			passed += r
			if t.Failed() {
				t.Fatalf("of the arrangement %d", seed)
			}
		})
	}
	t.Logf("of %d calls %d passed and %d were refused, of %d that had to be approved", arrangements*calls, passed, refused,
		asked)
	if passed < 30 || refused < 15 {
		t.Errorf("the arrangements are too much alike: %d calls passed, and %d were refused", passed, refused)
	}
}

// arrange draws an arrangement, and plays it. It returns how many calls took effect.
func arrange(t *testing.T, draw *rand.Rand, calls int) (p *people, passed int) {
	s := newScene(t)
	names := []string{"plain", "asks", "asks.again", "again", "other", "odd/asks", "odd asks"}
	flags := approvals([]string{"*", "*a*", "?_*", "[MO]_*"}[draw.IntN(4)])
	at := expect.Must(desk.Open(s.store, nil))(t)
	p = &people{s: s, desk: at, draw: func() string {
		return []string{"accept", "accept", "accept", "edit", "decline", "cancel", "misfit"}[draw.IntN(7)]
	}}
	play := func(lasts time.Duration, lazy int, used []*bridge.Approval, begins bool) {
		var fronts []*front
		var hosts []*client.Session
		var working sync.WaitGroup
		for _, a := range used {
			behind := a
			if a == flags[1] { // it has no gate for the tools that are called
				behind = nil
			}
			fronts = append(fronts, s.open(a, s.behind("modern", "m", s.modern(behind, names...)),
				s.behind("older", "o", s.older(behind, names...))))
		}
		for n := 0; begins && n < calls; n++ {
			opts := client.Options{Tasks: client.TasksOff}
			if draw.IntN(2) == 0 {
				opts = able()
			}
			h := s.host(fronts[draw.IntN(len(fronts))], []string{"2026-07-28", "2025-11-25"}[draw.IntN(2)], opts)
			hosts = append(hosts, h)
			tool := []string{"m", "o"}[draw.IntN(2)] + "_" + append(names[:4:4], names[5:]...)[draw.IntN(6)]
			working.Go(func() { // it may be refused, or end with its bridge
				_, _ = h.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: load{N: n}})
			})
		}
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Duration(1+draw.IntN(5)) * time.Second) {
			synctest.Wait()
			if draw.IntN(lazy) == 0 {
				p.answer()
			}
		}
		for _, f := range fronts {
			f.stop()
		}
		for _, h := range hosts {
			h.Close()
		}
		working.Wait()
	}
	for phase := range 2 + draw.IntN(2) {
		used := []*bridge.Approval{flags[draw.IntN(len(flags))]}
		if phase == 0 && draw.IntN(4) == 0 {
			used[0] = nil
		} else if draw.IntN(2) == 0 {
			used = append(used, flags[draw.IntN(len(flags))])
		}
		play(time.Duration(1+draw.IntN(30))*time.Second, 1+draw.IntN(20), used, phase == 0)
	}
	for _, i := range draw.Perm(len(flags)) { // each gets what is its own
		play(2*time.Minute, 2, flags[i:i+1], false)
	}
	for n, took := range s.effects {
		if len(took) > 0 {
			passed++
		}
		for _, edited := range took {
			if edited != s.edited[n] {
				t.Errorf("call %d took effect, and that its arguments were edited is %v, want %v", n, edited, s.edited[n])
			}
		}
	}
	for waits, err := range at.List(t.Context(), task.Filter{Statuses: []task.Status{task.Working}}) {
		// No bridge with a gate has the odd tools, and the hosts that have to answer are gone.
		if err != nil || !strings.Contains(waits.Target, "odd") && len(waits.Questions) == 0 {
			t.Errorf("a call of %s still waits: %s, %v", waits.Target, waits.Message, err)
		}
	}
	return p, passed
}

// A call that has begun without a gate is approved before a bridge with one sends anything more, also in a session, and
// where it was not stored before.
func TestAStricterBridgeAsksBeforeItGoesOn(t *testing.T) {
	for _, tool := range []string{"m_asks", "m_asks.again", "o_asks.again"} {
		for _, action := range []string{"accept", "decline"} {
			t.Run(tool+" "+action, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					gate := &bridge.Approval{Tools: []string{"*"}}
					open := func(a *bridge.Approval) *front {
						return s.open(a, s.behind("modern", "m", s.modern(a, "asks", "asks.again")),
							s.behind("older", "o", s.older(a, "asks", "asks.again")))
					}
					before := open(nil)
					h := s.host(before, "", client.Options{Tasks: client.TasksOff})
					if text, failed := call(t, h, tool, load{N: 1}); failed || !strings.Contains(text, "user:ada") {
						t.Fatalf("the words are %q", text)
					}
					h.Close()
					before.stop()
					next := open(gate)
					defer next.stop()
					p := &people{s: s, desk: next.desk, draw: func() string { return action }}
					for range 60 {
						p.answer()
						time.Sleep(5 * time.Second)
					}
					want := 1
					if action == "decline" {
						want = 0
					}
					if n := s.tookEffect(1); n != want || !s.asked[1] {
						t.Errorf("%d effects, asked %v", n, s.asked[1])
					}
				})
			})
		}
	}
}

// A bridge that does not ask what the call asks leaves it, with a pause and without an attempt, says once what it waits
// for, and tells the host and the card. The call goes on at a bridge that asks the same.
func TestACallIsLeftToABridgeThatAsksTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		log := new(logged)
		open := func(a *bridge.Approval) *front {
			return s.open(a, s.behind("modern", "m", s.modern(a, "plain")), s.behind("older", "o", s.older(a, "plain")))
		}
		gate := &bridge.Approval{Tools: []string{"plain"}, For: []string{askback.User("bob")}}
		before := open(gate)
		h := s.host(before, "", client.Options{Tasks: client.TasksOff})
		call(t, h, "m_plain", load{N: 1})
		h.Close()
		before.stop()

		s.log = log
		other := open(nil)
		h = s.host(other, "", client.Options{Tasks: client.TasksOff})
		p := &people{s: s, desk: other.desk, draw: func() string { return "accept" }}
		p.answer()
		time.Sleep(10 * time.Minute)
		row := s.row()
		const want = "It waits for a bridge that asks user:bob to approve it; the bridge that has looked at it asks nobody " +
			"to approve it."
		if row.Message != want || row.Attempts > 1 || row.Round > 2 || row.Claim.Fence > 130 {
			t.Errorf("after ten minutes the task is %+v", row)
		}
		name := task.Name(row.ID)
		expect.Contains(t, "the text", textOf(t, h, "askback_result", map[string]any{"name": name}), want)
		expect.Equal(t, "the card says",
			expect.Must(other.desk.Question(t.Context(), name, "bridge_approve", &desk.Person{Name: "bob"}))(t).Progress, want)
		said := log.String()
		if n := strings.Count(said, "leaving a call to another bridge"); n != 1 || !strings.Contains(said, "user:bob") {
			t.Errorf("the log says it %d times: %s", n, said)
		}
		h.Close()
		other.stop()

		last := open(gate)
		defer last.stop()
		time.Sleep(10 * time.Second)
		expect.Equal(t, "effects at a bridge that asks the same", s.tookEffect(1), 1)
	})
}

// The clocks of bridges may differ: what one has sealed another opens, and a call that nobody has is given up in time.
func TestBridgesWithOtherClocks(t *testing.T) {
	for _, older := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			ahead := clock.WithOff(s.life, func() time.Duration { return 10 * time.Minute })
			open := func(life context.Context) *front {
				s.life = life
				if older {
					return s.open(nil, s.behind("older", "m", s.older(nil, "asks")))
				}
				return s.open(nil, s.behind("modern", "m", s.modern(nil, "asks")))
			}
			before := open(ahead)
			h := s.host(before, "", client.Options{Tasks: client.TasksOff})
			call(t, h, "m_asks", load{N: 1})
			h.Close()
			before.stop()
			p := &people{s: s, desk: before.desk, draw: func() string { return "accept" }}
			p.answer()
			between := open(ahead)
			if older { // it notes since when nobody goes on with the call
				time.Sleep(time.Second)
			}
			between.stop()
			last := open(context.Background())
			defer last.stop()
			time.Sleep(2 * time.Minute)
			expect.Equal(t, fmt.Sprint("it is, older ", older), s.row().Status, task.Completed)
			if n := s.tookEffect(1); (n == 1) == older {
				t.Errorf("older %v: %d effects", older, n)
			}
		})
	}
}

// A call that has begun without the record of its gate is not passed on.
func TestACallWithoutItsGateIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		front := s.open(nil, s.behind("modern", "m", s.modern(nil, "asks")))
		h := s.host(front, "", client.Options{Tasks: client.TasksOff})
		call(t, h, "m_asks", load{N: 1})
		row := s.row()
		began, entries, err := s.store.Journal(t.Context(), row.ID, -1)
		if err != nil || !bytes.Contains(entries[0], []byte("gate 1")) {
			t.Fatalf("the first record is %q, %v", entries[0], err)
		}
		other := &task.Task{ID: "AAAABBBBCCCCDDDDEEEEFFFF", Principal: "ada", Method: row.Method, Target: row.Target,
			Status: task.Working, Round: row.Round}
		expect.Check(t, s.store.Create(t.Context(), other, time.Hour, 0, began, entries[1:], task.Quota{}))
		time.Sleep(10 * time.Second)
		refuses(t, h, "askback_result", map[string]any{"name": task.Name(other.ID)},
			"its journal does not say whether it has to be approved")
		h.Close()
		front.stop()
	})
}

// A round of a call that nobody has stored, and that began without a gate, is approved at a bridge with one.
func TestACarriedRoundMeetsAGate(t *testing.T) {
	for _, action := range []string{"accept", "decline"} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			gate := &bridge.Approval{Tools: []string{"*"}}
			without := s.open(nil, s.behind("modern", "", s.modern(nil, "asks.again")))
			with := s.open(gate, s.behind("modern", "", s.modern(gate, "asks.again")))
			defer without.stop()
			defer with.stop()
			opts := able()
			opts.Tasks = client.TasksOff
			first, second := s.host(without, "", opts), s.host(with, "", opts)
			defer first.Close()
			defer second.Close()
			_, next, err := first.Send(t.Context(), &client.Pending{Method: "tools/call",
				Params: json.RawMessage(`{"name":"asks.again","arguments":{"n":1}}`), Meta: elicits()})
			if err != nil || next == nil || next.State == "" {
				t.Fatalf("the first round: %+v, %v", next, err)
			}
			accept := json.RawMessage(`{"action":"accept","content":{}}`)
			next.Answers = map[string]json.RawMessage{next.Questions[0].Key: accept}
			next.Meta = elicits()
			result, _, err := second.Send(t.Context(), next)
			if err != nil || !strings.Contains(string(result), "askback_result") {
				t.Errorf("the second round: %s, %v", result, err)
			}
			p := &people{s: s, desk: with.desk, draw: func() string { return action }}
			// Chance decides which bridge looks at the call next, and so when it ends.
			for ended := false; !ended; {
				p.answer()
				time.Sleep(5 * time.Second)
				row := s.row()
				if time.Since(row.Created) > 12*time.Hour {
					t.Fatalf("the call has not ended: %+v", row)
				}
				ended = row.Status.Terminal()
			}
			if n := s.tookEffect(1); n != map[string]int{"accept": 1, "decline": 0}[action] || !s.asked[1] {
				t.Errorf("after %s: %d effects, asked %v", action, n, s.asked[1])
			}
		})
	}
}

// elicits is the _meta of a host that can show forms.
func elicits() mcp.Meta {
	return mcp.Meta{mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}}
}
