package inspectcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
)

var (
	issued  = time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	expires = issued.Add(time.Hour)
)

// hostile has what an attacker would send to a terminal: an escape sequence, its one-character form, a line break, a
// bidirectional override, a byte that is no text.
const hostile = "\x1b[2J\u009b31m\r\n\u202eabc\xff"

func state(payload []byte) (seal.Visible, *seal.State) {
	return seal.Visible{Version: "ab1", KeyID: "abcdefgh", ID: "nonce", Size: 99},
		&seal.State{Issued: issued, Expires: expires, Payload: payload, Binding: seal.Binding{
			Audience: "tracker", Principal: hostile, Method: "tools/call", Target: hostile, Arguments: [32]byte{0xab},
		}}
}

func hostileJournal() []byte {
	return (&journal.Journal{
		ID:      hostile,
		Started: issued.Add(-90 * time.Second),
		Round:   3,
		Pending: []journal.Question{{Key: hostile, Wire: "wire" + hostile, Digest: journal.Digest{1}}},
		Entries: []journal.Entry{
			{
				Kind: journal.Answer, Key: "login", Digest: journal.Digest{2},
				Value: []byte(`{"name":"` + "\u009b31m\u202e\U000e0041\xff" + `"}`),
				By: []input.Provenance{
					{Who: hostile, When: issued.Add(-time.Minute), Channel: hostile, Why: hostile},
					{Who: "bob", When: issued, Channel: "host"},
				},
			},
			{Kind: journal.Unread, Key: "early", Digest: journal.Digest{3}, Value: []byte(hostile)},
			{Kind: journal.Step, Key: "order", Value: []byte(`12345678901234567890`)},
			{Kind: journal.Checkpoint, Key: "half"},
			{Kind: journal.Delivered, Key: "login"},
			{Kind: journal.HandedBack},
			{Kind: journal.Refused, Key: "login", Digest: journal.Digest{2}, Value: []byte(hostile)},
		},
		Manual: hostile,
	}).Append(nil)
}

func TestReportAsText(t *testing.T) {
	t.Parallel()
	r := newReport(state(hostileJournal()))
	want := strings.ReplaceAll(`format     ab1
key        abcdefgh
id         nonce
size       99 bytes
issued     2026-11-20T11:00:00Z (1h3m ago)
expires    2026-11-20T12:00:00Z (expired 3m ago)

bound to
  audience   "tracker"
  method     "tools/call"
  target     "HOSTILE"
  arguments  digest ab00000000000000000000000000000000000000000000000000000000000000
  principal  "HOSTILE"

call
  id       "HOSTILE"
  started  2026-11-20T10:58:30Z (1h4m ago)
  rounds   3 so far

pending questions
  "HOSTILE"  digest 01000000000000000000000000000000  sent as "wireHOSTILE"

journal
  answer "login"  digest 02000000000000000000000000000000
    by "HOSTILE" through "HOSTILE", 2026-11-20T10:59:00Z (1h4m ago), because "HOSTILE"
    by "bob" through "host", 2026-11-20T11:00:00Z (1h3m ago)
    {
      "name": "\u009b31m\u202e\udb40\udc41\ufffd"
    }
  unread answer "early"  digest 03000000000000000000000000000000
    "HOSTILE"
  step "order"
    12345678901234567890
  checkpoint "half"
  used key "login"
  handed back ""
  refused answer "login"  digest 02000000000000000000000000000000
    "HOSTILE"
  the handler's own state
    "HOSTILE"
`, "HOSTILE", `\x1b[2J\u009b31m\r\n\u202eabc\xff`)
	expect.Diff(t, "the value", want, r.text(expires.Add(3*time.Minute)))
}

func TestReportOfAnotherPayload(t *testing.T) {
	t.Parallel()
	r := newReport(state([]byte("mine" + hostile)))
	text := r.text(issued)
	want := "\npayload, not a journal that this release knows\n  \"mine\\x1b[2J\\u009b31m\\r\\n\\u202eabc\\xff\"\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("got %s\nwant at its end %s", text, want)
	}
	encoded := expect.Must(cli.IndentedJSON(r))(t)
	var out struct{ Payload []byte }
	if err := json.Unmarshal([]byte(encoded), &out); err != nil || string(out.Payload) != "mine"+hostile {
		t.Errorf("payload %q, error %v", out.Payload, err)
	}
}

func TestReportOfAReference(t *testing.T) {
	t.Parallel()
	text := newReport(state(journal.AppendReference(nil, [32]byte{0xab, 31: 0xcd}))).text(issued)
	want := "\nthe journal is in the server's store (States.Overflow)\n  ab" + strings.Repeat("0", 60) + "cd\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("got %s\nwant at its end %s", text, want)
	}
}

// Nothing that a client can put into a state acts on a terminal, in either form.
func TestReportIsInert(t *testing.T) {
	t.Parallel()
	r := newReport(state(hostileJournal()))
	encoded := expect.Must(cli.IndentedJSON(r))(t)
	for name, text := range map[string]string{"text": r.text(issued), "JSON": encoded} {
		for i, c := range text {
			if c != '\n' && !unicode.IsPrint(c) || c == unicode.ReplacementChar {
				t.Errorf("%s: character %U at %d of %s", name, c, i, text)
			}
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	encoded := expect.Must(cli.IndentedJSON(newReport(state(hostileJournal()))))(t)
	var got struct {
		Binding struct{ Arguments string }
		Call    struct {
			Rounds  int
			Pending []struct{ Key, Wire string }
			Journal []struct {
				Kind   string
				Value  json.RawMessage
				Base64 []byte
			}
		}
	}
	expect.Check(t, json.Unmarshal([]byte(encoded), &got))
	text := strings.ToValidUTF8(hostile, "\ufffd") // JSON has no other bytes
	if p := got.Call.Pending[0]; p.Key != text || p.Wire != "wire"+text {
		t.Errorf("pending %q", p)
	}
	var answer struct{ Name string }
	if err := json.Unmarshal(got.Call.Journal[0].Value, &answer); err != nil ||
		answer.Name != "\u009b31m\u202e\U000e0041\ufffd" {
		t.Errorf("answer %q, error %v", answer.Name, err)
	}
	if e := got.Call.Journal[1]; e.Kind != "unread answer" || string(e.Base64) != hostile {
		t.Errorf("unread %q", e)
	}
	if e := got.Call.Journal[2]; string(e.Value) != "12345678901234567890" {
		t.Errorf("step %s", e.Value)
	}
	if got.Call.Rounds != 3 || !strings.HasPrefix(got.Binding.Arguments, "ab00") {
		t.Errorf("%+v", got)
	}
}
