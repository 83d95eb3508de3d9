package stored

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A row that another version or another program wrote is read or refused. What is read is the same once it is written
// again.
func FuzzRow(f *testing.F) {
	digest := journal.Digest{1}
	questions, err := EncodeQuestions([]Question{
		{Wire: "q", Key: "q", Digest: digest[:], Method: "elicitation/create", Params: []byte(`{"message":"?"}`)}})
	expect.Check(f, err)
	began := Call{ID: "id", Trace: "trace", Params: []byte(`{"name":"t"}`)}
	answer := journal.Entry{Kind: journal.Unread, Key: "q", Digest: digest, Value: []byte(`{"action":"accept"}`)}
	step := journal.Entry{Kind: journal.Delivered, Key: "q"}
	f.Add(began.Append(nil), questions, answer.Append(nil), step.Append(nil), 1)
	f.Add([]byte(`{"version":1,"call":"id","can":64,"plain":true,"desk":true,"params":{}}`),
		questions, answer.Append(nil), step.Append(nil), 1)
	f.Add([]byte(`{}`), []byte(`[{"digest":"AA=="}]`), []byte{}, []byte{0xff}, -1)
	f.Add([]byte(`null`), []byte(`null`), []byte(nil), []byte(nil), 0)
	f.Fuzz(func(t *testing.T, call, pending, first, second []byte, round int) {
		if c, err := DecodeCall(call); err == nil {
			kept := c.Append(nil) // without members of the parameters that do not belong there
			again, err := DecodeCall(kept)
			if err != nil || again.ID != c.ID || again.Trace != c.Trace || again.Can != c.Can ||
				again.PlainForms != c.PlainForms || again.Desk != c.Desk {
				t.Fatalf("%s is written again as %s: %v", call, kept, err)
			}
			if twice := again.Append(nil); !bytes.Equal(twice, kept) {
				t.Fatalf("%s is written again as %s", kept, twice)
			}
		}
		if open, err := DecodeQuestions(pending); err == nil {
			for _, q := range open {
				if len(q.Digest) != len(journal.Digest{}) {
					t.Fatalf("a question with a digest of %d bytes", len(q.Digest))
				}
			}
			encoded, err := EncodeQuestions(open)
			expect.Check(t, err)
			again, err := DecodeQuestions(encoded)
			if err != nil || len(again) != len(open) {
				t.Fatalf("%s is written again as %s: %v", pending, encoded, err)
			}
		}
		entries := [][]byte{first, second}
		if j, err := DecodeJournal("id", round, entries); err == nil {
			if len(j.Entries) != 2 || j.Round != round {
				t.Fatalf("the journal has %d of 2 entries, and round %d of %d", len(j.Entries), j.Round, round)
			}
			again, err := DecodeJournal("id", round, EncodeEntries(j.Entries))
			if diff := cmp.Diff(j, again); err != nil || diff != "" {
				t.Fatalf("the journal changes: %v\n%s", err, diff)
			}
		}
	})
}

// An outcome that another version or another program wrote is read or refused, and a result that is JSON stays JSON.
func FuzzOutcome(f *testing.F) {
	f.Add([]byte(`{"content":[],"_meta":{"k":1},"isError":false}`))
	f.Add([]byte(`{"code":-32603,"message":"no"}`))
	f.Add([]byte(`{"_meta":null}`))
	f.Add([]byte(`{"cancelled":{"by":"alice","reason":"maintenance","at":"2026-11-23T12:00:00Z"}}`))
	f.Add([]byte(`{"_meta":{"a":`))
	f.Add([]byte(`{"\u0061":1,"b`))
	f.Fuzz(func(t *testing.T, outcome []byte) {
		if fault := DecodeFault(outcome, "message"); fault.Code == 0 {
			t.Fatalf("%s is an error without a code", outcome)
		}
		if c, ok := DecodeCancellation(outcome); ok {
			encoded, err := EncodeCancellation(c)
			if again, ok := DecodeCancellation(encoded); err != nil || !ok || again.By != c.By || !again.At.Equal(c.At) {
				t.Fatalf("%s is written again as %s: %v", outcome, encoded, err)
			}
		}
		members, meta, err := DecodeResult(outcome)
		if err != nil || !json.Valid(outcome) {
			return
		}
		if object := slices.Concat([]byte("{"), members, []byte("}")); !json.Valid(object) {
			t.Fatalf("of %q the members are %q", outcome, members)
		}
		if meta != nil && !json.Valid(meta) {
			t.Fatalf("of %q the _meta is %q", outcome, meta)
		}
	})
}

// A question that another version or another program wrote is read or refused. What is read is the same once it is
// written again, and can be compared.
func FuzzQuestion(f *testing.F) {
	digest := journal.Digest{1}
	asking, err := Encode(&Asking{Key: "q", Digest: digest[:], Votes: 2, Method: "elicitation/create",
		Params: []byte(`{"message":"?"}`), Shown: make([]byte, sha256.Size)})
	expect.Check(f, err)
	f.Add([]byte(`{"digest":"AAAAAAAAAAAAAAAAAAAAAA==","shown":"AA=="}`), []byte{}, []byte{})
	f.Add(asking, []byte(`{"votes":[{"who":"bob","when":"2026-11-23T12:00:00Z","channel":"desk","action":"accept",`+
		`"content":{"hour":9}},{"who":"dave","action":"decline"}],"from":1,"claim":{"by":"bob"},`+
		`"events":[{"kind":"claimed"}]}`),
		[]byte(`{"action":"accept","content":{"hour":9},"by":[{"who":"bob"}],"when":"2026-11-23T12:00:00Z"}`))
	f.Add(bytes.Replace(asking, []byte(`"votes":2`), []byte(`"votes":-2`), 1), []byte{}, []byte{})
	f.Add([]byte(`{"digest":"AA==","votes":1}`), []byte(`{"votes":[{"action":"accept","content":9}],"from":-1}`),
		[]byte(`{"action":"delegate"}`))
	f.Add([]byte(`null`), []byte(`{"votes":null,"from":1}`), []byte(`{"action":"unanswered","content":{}}`))
	f.Add([]byte(`[]`), []byte(`{"votes":[{"action":"accept","content":{"a":1,"a":2}}]}`),
		[]byte(`{"action":"decline\u0000"}`))
	f.Add([]byte{}, []byte{}, []byte("\xff"))
	f.Fuzz(func(t *testing.T, content, votes, decision []byte) {
		if a, err := DecodeAsking(content); err == nil {
			if len(a.Digest) != len(journal.Digest{}) || a.Votes < 0 || len(a.Shown) != 0 && len(a.Shown) != sha256.Size {
				t.Fatalf("%s is read as %+v", content, a)
			}
			sameAgain(t, a, DecodeAsking)
			told := a.Announce()
			if len(told.Message) > longestAnnounced || told.Votes != a.Votes || told.Call != a.Call {
				t.Fatalf("of %s is told %+v", content, told)
			}
			sameAgain(t, told, DecodeAnnouncement)
		}
		if a, err := DecodeAnnouncement(content); err == nil {
			if a.Votes < 0 {
				t.Fatalf("%s is read as %+v", content, a)
			}
			sameAgain(t, a, DecodeAnnouncement)
		}
		if b, err := DecodeBallot(votes); err == nil {
			if b.From < 0 || b.From > len(b.Votes) {
				t.Fatalf("%s is read as %+v", votes, b)
			}
			for _, v := range b.Votes {
				checkAnswer(t, v.Action, v.Content)
			}
			sameAgain(t, b, DecodeBallot)
		}
		if d, err := DecodeDecision(decision); err == nil {
			if d.Action == Unanswered {
				d.Action = "cancel" // which has no content either
			}
			checkAnswer(t, d.Action, d.Content)
			sameAgain(t, d, DecodeDecision)
		}
	})
}

// checkAnswer requires an answer that a journal can record.
func checkAnswer(t *testing.T, action string, content json.RawMessage) {
	t.Helper()
	if action != "accept" && (content != nil || action != "decline" && action != "cancel") {
		t.Fatalf("the answer %q has the content %s", action, content)
	}
	if content != nil && strictjson.TypeOf(content) != strictjson.TypeObject {
		t.Fatalf("the content is %s", content)
	}
	strictjson.AppendCanonical(nil, content) // which takes checked JSON only
}

func sameAgain[T Asking | Announcement | Ballot | Decision](t *testing.T, v *T, read func([]byte) (*T, error)) {
	t.Helper()
	encoded, err := Encode(v)
	if err != nil {
		t.Skip("a time beyond the years that JSON has: ", err)
	}
	again, err := read(encoded)
	if err != nil {
		t.Fatalf("%s cannot be read again: %v", encoded, err)
	}
	if twice, err := Encode(again); err != nil || !bytes.Equal(encoded, twice) {
		t.Fatalf("%s is written again as %s: %v", encoded, twice, err)
	}
}
