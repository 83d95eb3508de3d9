package journal

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// Old journals are read, and the journals that this release writes can be read by the release before it.
func TestJournalsStayTheSame(t *testing.T) {
	encoded := vectors(t, "version1.json")
	if len(encoded) != len(journalsOfVersion1) {
		t.Errorf("%d encodings of %d journals", len(encoded), len(journalsOfVersion1))
	}
	for name, want := range journalsOfVersion1 {
		got, err := Decode(encoded[name])
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if written := want.Append(nil); string(written) != string(encoded[name]) {
			t.Errorf("%s: written as %x, want %x", name, written, encoded[name])
		}
		for i := range want.Entries {
			e, err := DecodeEntry(want.Entries[i].Append(nil))
			if diff := cmp.Diff(want.Entries[i], e); err != nil || diff != "" {
				t.Errorf("%s, entry %d: %v\n%s", name, i, err, diff)
			}
		}
	}
}
