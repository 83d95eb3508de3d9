package journal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/input"
)

// vectors reads the encodings that a release has written, in hexadecimal by their names. Such a file never changes:
// later releases read what it has, and the release that wrote it still runs beside the next one.
func vectors(t *testing.T, file string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	encoded := map[string]string{}
	if err := json.Unmarshal(data, &encoded); err != nil {
		t.Fatal(err)
	}
	decoded := map[string][]byte{}
	for name, text := range encoded {
		if decoded[name], err = hex.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return decoded
}

var vectorDigest = Digest{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// journalsOfVersion1 are the journals whose encodings are in version1.json. Commit 17e539f wrote that file.
var journalsOfVersion1 = map[string]*Journal{
	"empty": {Started: time.UnixMilli(0)},
	"a first question": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: time.UnixMilli(1_767_225_600_123), Round: 1,
		Pending: []Question{{Key: "sure", Wire: "sure", Digest: vectorDigest}},
	},
	"every kind of entry": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: time.UnixMilli(1_767_225_600_123), Round: 300,
		Pending: []Question{{Key: "sure", Wire: "sure#2", Digest: vectorDigest}, {Key: "Größe/→", Wire: "Größe/→"}},
		Entries: []Entry{
			{Kind: Answer, Key: "sure", Digest: vectorDigest, Value: []byte(`{"action":"accept","content":{"n":1}}`)},
			{Kind: Unread, Key: "other", Digest: Digest{15: 1}, Value: []byte(`{"action":"decline"}`)},
			{Kind: Step, Key: "order", Value: []byte(`"12345"`)},
			{Kind: Step, Key: "binary", Value: []byte{0, 255, 128}},
			{Kind: Checkpoint, Key: "half"},
			{Kind: Delivered, Key: "sure"},
			{Kind: Checkpoint, Key: "(handed back)"},
			{Kind: Delivered, Key: "(unfit) sure 0123456789abcdef"},
		},
	},
	"a trace": {
		ID: "id", Started: time.UnixMilli(1), Round: 2, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Entries: []Entry{{Kind: Step, Key: "s", Value: []byte("null")}},
	},
	"plain forms":             {ID: "id", Started: time.UnixMilli(1), Round: 1, PlainForms: true},
	"plain forms and a trace": {ID: "id", Started: time.UnixMilli(1), Round: 1, PlainForms: true, Trace: "t"},
	"the manual style": {
		ID: "id", Started: time.UnixMilli(1), Round: 1, Manual: "state of the handler",
		Pending: []Question{{Key: "q", Wire: "q"}},
	},
}

var (
	alice = input.Provenance{Who: "alice", When: time.UnixMilli(1_767_225_600_123), Channel: input.ChannelHost}
	bob   = input.Provenance{
		Who: "bob@example.com", When: time.UnixMilli(1_767_225_600_999), Channel: "inbox", Why: "Größe fits",
	}
)

// journalsOfVersion2 are the journals whose encodings are in version2.json.
var journalsOfVersion2 = map[string]*Journal{
	"an anonymous answer": {
		ID: "id", Started: time.UnixMilli(1), Round: 1,
		Entries: []Entry{{Kind: Unread, Key: "k", Digest: vectorDigest, Value: []byte(`{}`), By: []input.Provenance{
			{When: time.UnixMilli(0)},
		}}},
	},
	"every kind of entry": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: time.UnixMilli(1_767_225_600_123), Round: 300,
		Trace: "trace", PlainForms: true,
		Pending: []Question{{Key: "sure", Wire: "sure#2", Digest: vectorDigest}},
		Entries: []Entry{
			{Kind: Answer, Key: "a", Digest: vectorDigest, Value: []byte(`{"action":"accept"}`),
				By: []input.Provenance{alice, bob}},
			{Kind: Unread, Key: "b", Digest: vectorDigest, Value: []byte(`{"action":"decline"}`), By: []input.Provenance{bob}},
			{Kind: Answer, Key: "c", Digest: vectorDigest, Value: []byte(`{"action":"cancel"}`)}, // of the version before
			{Kind: Step, Key: "order", Value: []byte(`"12345"`)},
			{Kind: Checkpoint, Key: "half"},
			{Kind: Delivered, Key: "sure"},
		},
	},
}

// Old journals are read, and those that nobody's name is in are written so that the release before this one reads them.
func TestJournalsStayTheSame(t *testing.T) {
	for file, journals := range map[string]map[string]*Journal{
		"version1.json": journalsOfVersion1, "version2.json": journalsOfVersion2, "timed.json": journalsWithTimes,
	} {
		encoded := vectors(t, file)
		if len(encoded) != len(journals) {
			t.Errorf("%s: %d encodings of %d journals", file, len(encoded), len(journals))
		}
		for name, want := range journals {
			got, err := Decode(encoded[name])
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: %v\n%s", file, name, err, diff)
			}
			if written := want.Append(nil); string(written) != string(encoded[name]) {
				t.Errorf("%s, %s: written as %x, want %x", file, name, written, encoded[name])
			}
			for i := range want.Entries {
				e, err := DecodeEntry(want.Entries[i].Append(nil))
				if diff := cmp.Diff(want.Entries[i], e); err != nil || diff != "" {
					t.Errorf("%s, %s, entry %d: %v\n%s", file, name, i, err, diff)
				}
			}
		}
	}
}

// What is cut off, has more behind it, or has no provenance after all is refused. What a newer release wrote is another
// error.
func TestAttributedEntriesAreWhole(t *testing.T) {
	whole := journalsOfVersion2["every kind of entry"].Entries[0].Append(nil)
	for n := range whole {
		if _, err := DecodeEntry(whole[:n]); err == nil || errors.Is(err, ErrNewer) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	step := Entry{Kind: Step, Key: "s", Value: []byte("1")}
	plain := step.Append(nil)
	for _, damaged := range [][]byte{append(whole, 0), append([]byte{attributed}, append(plain, 0)...), append(plain, 0)} {
		if e, err := DecodeEntry(damaged); err == nil || errors.Is(err, ErrNewer) {
			t.Errorf("%x is %+v, %v", damaged, e, err)
		}
	}
	for _, newer := range [][]byte{{3}, {'y', 1, 'k'}, {attributed, attributed}, append([]byte{3}, plain...)} {
		if _, err := DecodeEntry(newer); !errors.Is(err, ErrNewer) {
			t.Errorf("%x: %v", newer, err)
		}
	}
	old := (&Journal{ID: "id", Entries: []Entry{step}}).Append(nil)
	if _, err := Decode(append(old[:len(old)-len(plain)], whole...)); err == nil {
		t.Error("a journal of the version before has an attributed entry")
	}
}

// An answer keeps who gave it, from the moment when the client's answer comes to the later rounds.
func TestAnswersKeepTheirProvenance(t *testing.T) {
	j := &Journal{ID: "id"}
	round(t, j, nil, question("k", "?"), question("l", "?"))
	j.By = []input.Provenance{alice}
	round(t, j, answers("k", "v"), question("k", "?"), question("l", "?"))
	j, err := Decode(j.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	j.By = []input.Provenance{bob}
	round(t, j, answers("l", "w"), question("k", "?"), question("l", "?"))
	j.By = nil
	want := []Entry{
		{Kind: Answer, Key: "k", Digest: question("k", "?").Digest, Value: []byte("v"), By: []input.Provenance{alice}},
		{Kind: Answer, Key: "l", Digest: question("l", "?").Digest, Value: []byte("w"), By: []input.Provenance{bob}},
	}
	if diff := cmp.Diff(want, j.Entries); diff != "" {
		t.Error(diff)
	}
}
