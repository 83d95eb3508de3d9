package consent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/test/expect"
)

var remembers = Policy{For: []string{"group:finance"}, Votes: 2, Rule: "large", Remember: time.Hour, Uses: 3,
	Digest: "d"}

// The key is the same for the same call in other spellings, and another one for any other call or policy.
func TestKeysAreOfOneCall(t *testing.T) {
	is := ToolCall{Tool: "pay", Definition: `{"name":"pay"}`, Arguments: []byte(`{"amount":50,"to":"bob"}`), Caller: "ada"}
	key := remembers.Key(&is, "bank")
	same := is
	same.Arguments = []byte(" {\"to\" : \"b\\u006fb\", \"amount\": 50.0}")
	same.Server = "a name for people"
	if got := remembers.Key(&same, "bank"); got != key || len(key) != 64 {
		t.Errorf("the same call in another spelling: %q and %q", key, got)
	}
	for name, change := range map[string]func(c *ToolCall, p *Policy){
		"tool":        func(c *ToolCall, _ *Policy) { c.Tool = "pays" },
		"definition":  func(c *ToolCall, _ *Policy) { c.Definition = `{"name": "pay"}` },
		"arguments":   func(c *ToolCall, _ *Policy) { c.Arguments = []byte(`{"amount":51,"to":"bob"}`) },
		"one more":    func(c *ToolCall, _ *Policy) { c.Arguments = []byte(`{"amount":50,"to":"bob","x":null}`) },
		"a text":      func(c *ToolCall, _ *Policy) { c.Arguments = []byte(`{"amount":"50","to":"bob"}`) },
		"none":        func(c *ToolCall, _ *Policy) { c.Arguments = nil },
		"caller":      func(c *ToolCall, _ *Policy) { c.Caller = "Ada" },
		"shifted":     func(c *ToolCall, _ *Policy) { c.Tool, c.Caller = "payada", "" },
		"rule":        func(_ *ToolCall, p *Policy) { p.Digest = "e" },
		"who":         func(_ *ToolCall, p *Policy) { p.For = []string{"group:sales"} },
		"votes":       func(_ *ToolCall, p *Policy) { p.Votes = 1 },
		"more of who": func(_ *ToolCall, p *Policy) { p.For = append(p.For, "user:zoe") },
	} {
		c, p := is, remembers
		change(&c, &p)
		if p.Key(&c, "bank") == key {
			t.Errorf("with another %s the key is the same", name)
		}
	}
	if remembers.Key(&is, "another") == key {
		t.Error("another server has the same key")
	}
	for _, arguments := range []string{`{"a":1,"a":1}`, `{`, strings.Repeat("[", 100)} {
		c := is
		if c.Arguments = []byte(arguments); remembers.Key(&c, "bank") != "" {
			t.Errorf("%.20s has a key", arguments)
		}
	}
	if p := (Policy{For: remembers.For, Votes: 2}); p.Key(&is, "bank") != "" {
		t.Error("nothing is to be remembered, and it has a key")
	}
}

// Only the decision of people at the desk is remembered, and not the caller's.
func TestWhoseDecisionIsRemembered(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	c := &ToolCall{Server: "bank", Tool: "pay", Caller: "ada",
		Arguments: []byte(`{"b":"` + strings.Repeat("é", 3000) + `"}`)}
	bob := input.Provenance{Who: "bob", When: at, Channel: "inbox"}
	cleo := input.Provenance{Who: "cleo", When: at.Add(time.Second), Channel: "slack"}
	for _, by := range [][]input.Provenance{
		nil, {{Who: "bob", When: at, Channel: input.ChannelHost}}, {bob, {Who: "ada", When: at, Channel: "inbox"}},
		{{Who: "bob", Channel: "inbox"}},
	} {
		if m, _ := NewMemory(remembers, c, by); m != nil {
			t.Errorf("the decision of %v is remembered", by)
		}
	}
	m, decided := NewMemory(remembers, c, []input.Provenance{bob, cleo})
	if m == nil || !decided.Equal(cleo.When) || m.Size != 6008 || len(m.Arguments) != 4096 {
		t.Fatalf("%+v, decided %v", m, decided)
	}
	row, err := m.Row("key", remembers, decided)
	expect.Check(t, err)
	if diff := cmp.Diff([]string{"group:finance", "user:ada", "user:bob", "user:cleo"}, row.Who); diff != "" ||
		!row.Until.Equal(decided.Add(time.Hour)) || row.Left != 3 {
		t.Errorf("%+v\n%s", row, diff)
	}
	read, err := DecodeMemory(row.Content)
	if diff := cmp.Diff(m, read); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestTimesInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", time.Minute: "1m",
		10 * time.Minute: "10m", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s", time.Second: "1s"} {
		expect.Equal(t, fmt.Sprint(d), Words(d), want)
	}
}

func FuzzDecodeMemory(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", "[]", `{"by":[]}`, `{"by":[{"who":"a"}],"uses":-1}`,
		fmt.Sprintf(`{"tool":"pay","caller":"ada","by":[{"who":"bob","when":%q,"channel":"desk"}]}`, "2026-11-28T00:00:00Z"),
		`{"by":[{"who":"a"}],"by":[{"who":"b"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := DecodeMemory(content)
		if err != nil {
			if m != nil {
				t.Errorf("%s: %+v with %v", content, m, err)
			}
			return
		}
		again, err := json.Marshal(m)
		if err != nil || len(m.By) == 0 {
			t.Fatalf("%s is read as %+v: %v", content, m, err)
		}
		second := expect.Must(DecodeMemory(again))(t)
		if third, err := json.Marshal(second); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%s becomes %s: %v", again, third, err)
		}
	})
}
