package stored

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// Rows of a version never change, because tasks wait while their servers are upgraded.
func TestCallsStayTheSame(t *testing.T) {
	for _, v := range []struct {
		says, row string
		call      Call
		request   string // the parameters of the request, if the row has fewer
	}{
		{
			says: "all members", row: `{"version":1,"call":"ID","trace":"00-ab-cd-01","can":5,"plain":true,"desk":true,` +
				`"params":{"name":"deploy","arguments":{"to":"prod"},"_meta":{"k":1}}}`,
			call: Call{ID: "ID", Trace: "00-ab-cd-01", Can: wire.Capability(5), PlainForms: true, Desk: true,
				Params: []byte(`{"name":"deploy","arguments":{"to":"prod"},"_meta":{"k":1}}`)},
			request: `{"task":{"ttl":1},"_meta":{"k":1},"arguments":{"to":"prod"},"requestState":"s","name":"deploy"}`,
		},
		{
			says: "a call without a trace and without arguments",
			row:  `{"version":1,"call":"ID","can":0,"params":{"name":"deploy"}}`,
			call: Call{ID: "ID", Params: []byte(`{"name":"deploy"}`)},
		},
		{
			says: "more capabilities than there are", row: `{"version":1,"call":"ID","can":4294967295,"params":{}}`,
			call: Call{ID: "ID", Can: 1<<32 - 1, Params: []byte(`{}`)},
		},
		{
			says: "an ID with escapes", row: `{"version":1,"call":"a\"\\b","can":0,"params":{}}`,
			call: Call{ID: `a"\b`, Params: []byte(`{}`)},
		},
	} {
		written := v.call
		if v.request != "" {
			written.Params = []byte(v.request)
		}
		if got := written.Append([]byte("prefix")); string(got) != "prefix"+v.row {
			t.Errorf("%s: written as %s, want %s", v.says, got, v.row)
		}
		got, err := DecodeCall([]byte(v.row))
		if diff := cmp.Diff(v.call, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", v.says, err, diff)
		}
	}
}

// A call of another version says so. A damaged one is refused. A member that this program does not know is passed over.
func TestUnknownCalls(t *testing.T) {
	for _, row := range []string{
		`{"version":2,"call":"ID","can":0,"params":{}}`, `{"version":2}`, `{"version":0,"call":"ID","can":0,"params":{}}`,
	} {
		_, err := DecodeCall([]byte(row))
		if !errors.Is(err, journal.ErrNewer) || !strings.Contains(err.Error(), "version 1") {
			t.Errorf("%s: %v", row, err)
		}
	}
	for _, row := range []string{
		``, `null`, `[]`, `{"version":1,"call":"ID","can":0,"params":{}`, `{"version":1,"call":"ID","can":0}`,
		`{"version":1,"call":"ID","can":0,"params":[]}`, `{"version":1,"call":7,"can":0,"params":{}}`,
		`{"version":1,"can":0,"params":{}}`, `{"version":1,"call":"ID","params":{}}`,
		`{"version":1,"call":"ID","can":4294967296,"params":{}}`, `{"version":1,"call":"ID","can":-1,"params":{}}`,
		`{"version":1,"call":"ID","can":"1","params":{}}`, `{"version":1,"call":"ID","call":"ID","can":0,"params":{}}`,
		`{"call":"ID","can":0,"params":{}}`, `{"version":"1","call":"ID","can":0,"params":{}}`,
		`{"version":-1,"call":"ID","can":0,"params":{}}`,
	} {
		if c, err := DecodeCall([]byte(row)); err == nil || c.ID != "" || errors.Is(err, journal.ErrNewer) {
			t.Errorf("%s is read as %+v, %v", row, c, err)
		}
	}
	c, err := DecodeCall([]byte(`{"version":1,"call":"ID","new":{},"can":1,"params":{}}`))
	if err != nil || c.ID != "ID" || c.Can != 1 {
		t.Errorf("with another member: %+v, %v", c, err)
	}
}

func TestJournals(t *testing.T) {
	entries := []journal.Entry{
		{Kind: journal.Unread, Key: "sure", Digest: journal.Digest{1}, Value: []byte(`{"action":"accept"}`)},
		{Kind: journal.Delivered, Key: "sure"},
		{Kind: journal.Step, Key: "order", Value: []byte(`"7"`)},
	}
	encoded := EncodeEntries(entries)
	j, err := DecodeJournal("ID", 3, encoded)
	want := &journal.Journal{ID: "ID", Round: 3, Entries: entries}
	if diff := cmp.Diff(want, j); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if EncodeEntries(nil) != nil {
		t.Error("a journal without entries has entries")
	}
	encoded[1] = []byte{2}
	if _, err := DecodeJournal("ID", 3, encoded); err == nil || !strings.Contains(err.Error(), "entry 1 of the journal") ||
		!errors.Is(err, journal.ErrNewer) {
		t.Errorf("an entry of another version: %v", err)
	}
}

// Questions stay readable as calls do: see TestCallsStayTheSame.
func TestQuestionsStayTheSame(t *testing.T) {
	digest := journal.Digest{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	open := []Question{
		{"sure", "sure", digest[:], "elicitation/create", json.RawMessage(`{"message":"Sure?"}`), "", 0},
		{"sure-2", "sure", digest[:], "roots/list", json.RawMessage(`{}`), "", 0},
	}
	const row = `[{"wire":"sure","key":"sure","digest":"AAECAwQFBgcICQoLDA0ODw==","method":"elicitation/create",` +
		`"params":{"message":"Sure?"}},` +
		`{"wire":"sure-2","key":"sure","digest":"AAECAwQFBgcICQoLDA0ODw==","method":"roots/list","params":{}}]`
	got, err := EncodeQuestions(open)
	if err != nil || string(got) != row {
		t.Errorf("written as %s (%v), want %s", got, err, row)
	}
	read, err := DecodeQuestions([]byte(row))
	if diff := cmp.Diff(open, read); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	// With a deadline, and the time at which the client was asked.
	timed := []Question{{Wire: "sure-2", Key: "sure", Digest: digest[:], Method: "roots/list",
		Params: json.RawMessage(`{}`), Row: "sure", Asked: 1_767_225_600_123}}
	const timedRow = `[{"wire":"sure-2","key":"sure","digest":"AAECAwQFBgcICQoLDA0ODw==","method":"roots/list",` +
		`"params":{},"row":"sure","asked":1767225600123}]`
	if got, err := EncodeQuestions(timed); err != nil || string(got) != timedRow {
		t.Errorf("written as %s (%v), want %s", got, err, timedRow)
	}
	read, err = DecodeQuestions([]byte(timedRow))
	if diff := cmp.Diff(timed, read); err != nil || diff != "" || read[0].AskedAt().UnixMilli() != timed[0].Asked {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, none := range []string{"", "null", "[]"} {
		if open, err := DecodeQuestions([]byte(none)); err != nil || len(open) != 0 {
			t.Errorf("%q: %v, %v", none, open, err)
		}
	}
	for _, bad := range []string{`{`, `{}`, `[{"wire":"sure"}]`, `[{"wire":"sure","digest":"AAEC"}]`, `[{"digest":7}]`} {
		if open, err := DecodeQuestions([]byte(bad)); err == nil {
			t.Errorf("%s is read as %v", bad, open)
		}
	}
}

func TestQuestionsAsRecords(t *testing.T) {
	digest := journal.Digest{1}
	pending, err := EncodeQuestions([]Question{
		{"sure#2", "sure", digest[:], "elicitation/create",
			json.RawMessage(`{"message":"Sure?","mode":"url","url":"https://a.b"}`), "", 0},
		{"bad", "bad", digest[:], "elicitation/create", json.RawMessage(`{"message":1}`), "", 0},
	})
	expect.Check(t, err)
	want := []input.Question{
		{Key: "sure", Method: "elicitation/create", Mode: "url", Message: "Sure?", URL: "https://a.b",
			Params: json.RawMessage(`{"message":"Sure?","mode":"url","url":"https://a.b"}`)},
		{Key: "bad", Method: "elicitation/create", Params: json.RawMessage(`{"message":1}`)},
	}
	got, err := Asked(pending)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := Asked([]byte("{")); err == nil {
		t.Error("damaged questions are read")
	}
}

func TestResults(t *testing.T) {
	row := EncodeResult([]byte(`{"content":[],"_meta":{"k":1}}`), `"isError":false,`)
	if want := `{"isError":false,"content":[],"_meta":{"k":1}}`; string(row) != want {
		t.Errorf("written as %s, want %s", row, want)
	}
	for _, v := range []struct{ row, members, meta string }{
		{string(row), `"isError":false,"content":[]`, `{"k":1}`},
		{`{}`, ``, ``},
		{`{"_meta":{}}`, ``, ``},
		{`{"content":[1,{"_meta":2}]}`, `"content":[1,{"_meta":2}]`, ``},
		{`{"_meta":{"k":1},"b\n":2}`, `"b\n":2`, `{"k":1}`},
	} {
		members, meta, err := DecodeResult([]byte(v.row))
		if err != nil || string(members) != v.members || string(meta) != v.meta {
			t.Errorf("%s is read as %s and %s (%v), want %s and %s", v.row, members, meta, err, v.members, v.meta)
		}
	}
	for _, bad := range []string{``, `null`, `[]`, `"x"`, `{"_meta":null}`, `{"_meta":[]}`} {
		if members, meta, err := DecodeResult([]byte(bad)); err == nil {
			t.Errorf("%s is read as %s and %s", bad, members, meta)
		}
	}
}

func TestFaults(t *testing.T) {
	fault := &jsonrpc.Error{Code: -32021, Message: `a "reason"`, Data: json.RawMessage(`{"k":1}`)}
	row := EncodeFault(fault)
	if want := `{"code":-32021,"message":"a \"reason\"","data":{"k":1}}`; string(row) != want {
		t.Errorf("written as %s, want %s", row, want)
	}
	expect.Diff(t, "the value", fault, DecodeFault(row, "unused"))
	// Data that is not JSON, as a handler may give it, is left out.
	if row := EncodeFault(&jsonrpc.Error{Code: 1, Message: "m", Data: []byte("{")}); !bytes.Contains(row, []byte(`"m"`)) ||
		!json.Valid(row) {
		t.Errorf("written as %s", row)
	}
	for _, bad := range []string{``, `null`, `{}`, `{"code":"x"}`, `{"message":"m"}`} {
		got := DecodeFault([]byte(bad), "of the row")
		if got.Code != jsonrpc.CodeInternalError || got.Message != "of the row" {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}

func TestCancellationsStayTheSame(t *testing.T) {
	const row = `{"cancelled":{"by":"alice","reason":"the host is replaced","at":"2026-11-23T12:00:00.25Z"}}`
	want := Cancellation{By: "alice", Reason: "the host is replaced",
		At: time.Date(2026, 11, 23, 12, 0, 0, 250e6, time.UTC)}
	if got, err := EncodeCancellation(want); err != nil || string(got) != row {
		t.Errorf("encoded as %s, %v, want %s", got, err, row)
	}
	later := strings.Replace(row, `{"by"`, `{"vote":1,"by"`, 1)
	for _, outcome := range []string{row, later} {
		if got, ok := DecodeCancellation([]byte(outcome)); !ok || !cmp.Equal(got, want) {
			t.Errorf("%s is read as %+v, %v", outcome, got, ok)
		}
	}
	for _, outcome := range []string{"", "null", "{}", `{"cancelled":null}`, `{"cancelled":1}`,
		`{"code":-32603,"message":"no"}`, "{"} {
		if got, ok := DecodeCancellation([]byte(outcome)); ok || got != (Cancellation{}) {
			t.Errorf("%q is read as %+v", outcome, got)
		}
	}
}
