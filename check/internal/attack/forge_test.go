package attack

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each value is replaced in its own format.
func TestValuesAreForgedInTheirFormat(t *testing.T) {
	t.Parallel()
	l, err := transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"})
	expect.Check(t, err)
	defer l.Close()
	k := &Attacker{talk.New(l, redact.New())}
	soon := time.Now().Add(time.Minute).Truncate(time.Second)
	target := &talk.Target{Free: "order", Make: func(text string) map[string]any { return map[string]any{"order": text} },
		Inputs: map[string]fit.Property{"class": {Enum: []any{"first", "second"}}}}
	c := &talk.Call{Target: target}
	expect.Check(t, k.Fill(c))
	text, err := json.Marshal(map[string]any{"at": soon.Format(time.RFC3339), "exp": soon.UnixMilli(), "step": 2,
		"ok": true, "id": "0b0e7a54-6b0f-4b6f-9d38-2f5a3c1d8e77", "mail": "a@example.org", "page": "https://example.org/a",
		"class": "first", "order": "no. " + c.Text, "yes": "true"})
	expect.Check(t, err)
	state, got := string(text), map[string][]string{}
	target.Text = c.Text
	for _, how := range k.Forgeries(target, state) {
		if how == Wholly {
			continue // it goes to another call
		}
		change, _, err := k.forge(c, c.Text, state, how)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		forged, err := alter.State(state, change)
		if err != nil {
			t.Fatalf("%s: %v", change, err)
		}
		var values map[string]any
		decoder := json.NewDecoder(strings.NewReader(forged))
		decoder.UseNumber()
		expect.Check(t, decoder.Decode(&values))
		name := strings.TrimPrefix(strings.Fields(how)[0], "/")
		value, _ := json.Marshal(values[name]) // it was read from JSON
		got[name] = append(got[name], string(value))
	}
	millis, _ := json.Marshal(soon.Add(time.Hour).UnixMilli())
	for name, want := range map[string]string{"ok": "false", "yes": `"false"`, "step": "987654321 3 1",
		"class": `"second"`, "at": `"` + soon.Add(time.Hour).Format(time.RFC3339) + `"`, "exp": string(millis)} {
		if all := strings.Join(got[name], " "); !strings.HasPrefix(all, want) {
			t.Errorf("%s is forged as %s, want %s", name, all, want)
		}
	}
	for name, pattern := range map[string]string{"id": `-`, "mail": `@example.org"`, "page": `"https://example.org/canary`,
		"order": `"no. canary`} {
		if all := strings.Join(got[name], " "); !strings.Contains(all, pattern) {
			t.Errorf("%s is forged as %s", name, all)
		}
	}
}
