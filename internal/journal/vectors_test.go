package journal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/test/expect"
)

var vectorDigest = Digest{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

var (
	alice = input.Provenance{Who: "alice", When: time.UnixMilli(1_767_225_600_123), Channel: input.ChannelHost}
	bob   = input.Provenance{
		Who: "bob@example.com", When: time.UnixMilli(1_767_225_600_999), Channel: "inbox", Why: "Größe fits",
	}
)

// examples are the journals whose encodings are in testdata/version1.json, in hexadecimal by their names.
var examples = map[string]*Journal{
	"empty": {Started: time.UnixMilli(0)},
	"a first question": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: time.UnixMilli(1_767_225_600_123), Round: 1,
		Pending: []Question{{Key: "sure", Wire: "sure", Digest: vectorDigest}},
	},
	"every kind of entry": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: time.UnixMilli(1_767_225_600_123), Round: 300,
		Pending: []Question{{Key: "sure", Wire: "sure#2", Digest: vectorDigest}, {Key: "Größe/→", Wire: "Größe/→"}},
		Entries: []Entry{
			{Kind: Answer, Key: "sure", Digest: vectorDigest, Value: []byte(`{"action":"accept","content":{"n":1}}`),
				By: []input.Provenance{alice, bob}},
			{Kind: Answer, Key: "c", Digest: vectorDigest, Value: []byte(`{"action":"cancel"}`)},
			{Kind: Unread, Key: "other", Digest: Digest{15: 1}, Value: []byte(`{"action":"decline"}`),
				By: []input.Provenance{{When: time.UnixMilli(0)}}},
			(&Question{Key: "late", Digest: vectorDigest, Asked: noon, Deadline: noon.Add(time.Hour)}).Unanswered(),
			{Kind: Step, Key: "order", Value: []byte(`"12345"`)},
			{Kind: Step, Key: "binary", Value: []byte{0, 255, 128}},
			{Kind: Checkpoint, Key: "half"},
			{Kind: HandedBack},
			{Kind: Delivered, Key: "sure"},
			{Kind: Refused, Key: "sure", Digest: vectorDigest, Value: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
			{Kind: NotShown, Key: "sure", Digest: vectorDigest},
			{Kind: Put, Key: "approve", Digest: vectorDigest, Value: []byte("approve#2")},
			{Kind: Timed, Key: "late", Digest: vectorDigest, Value: []byte("late")},
		},
	},
	"steps that never run twice": {
		ID: "id", Started: time.UnixMilli(1), Round: 1,
		Entries: []Entry{
			{Kind: Begun, Key: "pay", Value: appendBytes(appendTime(nil, noon), "host, process 7")},
			{Kind: Failed, Key: "pay", Value: []byte("\x01no money")}, {Kind: Failed, Key: "ship", Value: []byte("\x00late")},
		},
	},
	"a receipt": {
		ID: "id", Started: time.UnixMilli(1), Round: 1,
		Entries: []Entry{{Kind: Answer, Key: "sure", Digest: vectorDigest, Value: []byte(`{"action":"decline"}`),
			By: []input.Provenance{bob}, Receipt: []byte("e30.e30.AA")}},
	},
	"a watch": {
		ID: "id", Started: time.UnixMilli(1), Round: 2,
		Entries: []Entry{
			{Kind: Put, Key: "(sleep) 0", Digest: vectorDigest, Value: []byte("(sleep) 0")}, {Kind: Slept},
			(&Question{Key: "(sleep) 0", Digest: vectorDigest, Asked: noon, Deadline: noon.Add(time.Hour)}).Unanswered(),
		},
	},
	"a trace": {
		ID: "id", Started: time.UnixMilli(1), Round: 2, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Entries: []Entry{{Kind: Step, Key: "s", Value: []byte("null")}},
	},
	"plain forms":         {ID: "id", Started: time.UnixMilli(1), Round: 1, PlainForms: true},
	"a call that moved":   {ID: "id", Started: time.UnixMilli(1), Round: 1, Moved: true},
	"everything is moved": {ID: "id", Started: time.UnixMilli(1), Round: 1, PlainForms: true, Moved: true, Trace: "t"},
	"the manual style": {
		ID: "id", Started: time.UnixMilli(1), Round: 1, Manual: "state of the handler",
		Pending: []Question{{Key: "q", Wire: "q"}},
	},
	"a deadline": {
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Started: noon, Round: 1,
		Pending: []Question{
			{Key: "sure", Wire: "sure#2", Digest: vectorDigest, Asked: noon, Deadline: noon.Add(time.Hour)},
			{Key: "other", Wire: "other", Digest: vectorDigest},
		},
	},
}

// The encodings of a version never change, because calls and tasks wait while their servers are upgraded.
func TestJournalsStayTheSame(t *testing.T) {
	data := expect.Must(os.ReadFile("testdata/version1.json"))(t)
	var encoded map[string]string
	expect.Check(t, json.Unmarshal(data, &encoded))
	expect.Equal(t, "encodings", len(encoded), len(examples))
	for name, want := range examples {
		data, err := hex.DecodeString(encoded[name])
		expect.Check(t, err)
		got, err := Decode(data)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if written := want.Append(nil); string(written) != string(data) {
			t.Errorf("%s: written as %x, want %x", name, written, data)
		}
		for i := range want.Entries {
			e, err := DecodeEntry(want.Entries[i].Append(nil))
			if diff := cmp.Diff(want.Entries[i], e); err != nil || diff != "" {
				t.Errorf("%s, entry %d: %v\n%s", name, i, err, diff)
			}
		}
	}
}

// What is of another version says so, and what to do. What is cut off, has more behind it, or has a kind or a flag that
// this version does not have is damaged.
func TestWhatIsNoJournal(t *testing.T) {
	whole := examples["every kind of entry"].Append(nil)
	entry := examples["every kind of entry"].Entries[0].Append(nil)
	both := func(data []byte) (err, entryErr error) {
		_, err = Decode(data)
		_, entryErr = DecodeEntry(data)
		return err, entryErr
	}
	for _, v := range []byte{2, 3, 8, 255} {
		for _, data := range [][]byte{{v}, append([]byte{v}, whole[1:]...), append([]byte{v}, entry[1:]...)} {
			err, entryErr := both(data)
			for _, err := range []error{err, entryErr} {
				if want := fmt.Sprintf("of version %d", v); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), want) {
					t.Errorf("%.8x: %v, want an error that says %q", data, err, want)
				}
			}
		}
	}
	damaged := [][]byte{
		nil, {0}, {version}, append(slices.Clone(whole), 0), append(slices.Clone(entry), 0), append([]byte{0}, whole[1:]...),
		append([]byte{0}, entry[1:]...), append([]byte{version, 'y'}, entry[2:]...), append([]byte{version, 4}, whole[2:]...),
	}
	for n := range whole {
		damaged = append(damaged, whole[:n])
	}
	for n := range entry {
		damaged = append(damaged, entry[:n])
	}
	for _, data := range damaged {
		if err, entryErr := both(data); err == nil || entryErr == nil || errors.Is(errors.Join(err, entryErr), ErrNewer) {
			t.Errorf("%x: %v, %v", data, err, entryErr)
		}
	}
}

// Another kind of entry gets another version. A release that does not know the kind then leaves the task to others.
// Without it the entry would be damage, and the task would fail: no checksum covers the entries of a task.
func TestAVersionHasItsKinds(t *testing.T) {
	versions := map[byte]string{1: "abcdfghnprstuxz"}
	var known, written []byte
	for kind := range 256 {
		for n := range 24 { // the length of its empty fields
			if _, err := DecodeEntry(append([]byte{version, byte(kind)}, make([]byte, n)...)); err == nil {
				known = append(known, byte(kind))
			}
		}
	}
	if string(known) != versions[version] {
		t.Errorf("version %d has the kinds %q, not %q: give another kind another version", version, versions[version], known)
	}
	for _, j := range examples {
		for i := range j.Entries {
			written = append(written, j.Entries[i].append(nil)[0])
		}
	}
	slices.Sort(written)
	if written = slices.Compact(written); string(written) != versions[version] {
		t.Errorf("the examples have the kinds %q, and the version has %q", written, versions[version])
	}
}

// No name that an author gives stands for what the engine records by itself, not even its encoding.
func TestNamesAreOnlyNames(t *testing.T) {
	d := question("k", "?").Digest
	j := &Journal{ID: "id", Entries: []Entry{
		{Kind: HandedBack},
		{Kind: Slept},
		{Kind: Refused, Key: "k", Digest: d, Value: []byte("12345678")},
		{Kind: NotShown, Key: "k", Digest: d},
		{Kind: Put, Key: "k", Digest: d, Value: []byte("row")},
		{Kind: Timed, Key: "k", Digest: d, Value: []byte("other row")},
	}}
	for _, e := range j.Entries {
		text := string(e.append(nil))
		for _, name := range []string{text, text[1:], string(e.Kind), e.Key + "#" + d.String(), string(e.Value)} {
			for _, apart := range []bool{false, true} {
				if row, known := j.row(name, d, apart); known {
					t.Errorf("a question %q has the row %q", name, row)
				}
			}
			if j.notShown(name, d) || j.answer(name, d) >= 0 || j.find(Delivered, name) != nil || j.find(Step, name) != nil ||
				j.find(Checkpoint, name) != nil {
				t.Errorf("what the engine recorded is about %q", name)
			}
		}
	}
	for _, row := range []string{"row", "other row"} {
		if wire := j.WireKey(row); wire == row {
			t.Errorf("a question %q is sent as %q, which names another", row, wire)
		}
	}
}

// An answer keeps who gave it, from the moment when the client's answer comes to the later rounds.
func TestAnswersKeepTheirProvenance(t *testing.T) {
	j := &Journal{ID: "id"}
	round(t, j, nil, question("k", "?"), question("l", "?"))
	j.By = []input.Provenance{alice}
	round(t, j, answers("k", "v"), question("k", "?"), question("l", "?"))
	j = expect.Must(Decode(j.Append(nil)))(t)
	j.By = []input.Provenance{bob}
	round(t, j, answers("l", "w"), question("k", "?"), question("l", "?"))
	j.By = nil
	want := []Entry{
		{Kind: Answer, Key: "k", Digest: question("k", "?").Digest, Value: []byte("v"), By: []input.Provenance{alice}},
		{Kind: Answer, Key: "l", Digest: question("l", "?").Digest, Value: []byte("w"), By: []input.Provenance{bob}},
	}
	expect.Diff(t, "the value", want, j.Entries)
}
