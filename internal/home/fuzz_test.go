package home_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// A row that another version or another program wrote is read or refused.
func FuzzRow(f *testing.F) {
	digest := journal.Digest{1}
	questions, err := json.Marshal([]home.OpenQuestion{{Wire: "q", Key: "q", Digest: digest[:], Method: "elicitation/create", Params: []byte(`{"message":"?"}`)}})
	if err != nil {
		f.Fatal(err)
	}
	began := home.AppendStoredCall(nil, "id", "trace", 0, []byte(`{"name":"t"}`))
	answer := journal.Entry{Kind: journal.Unread, Key: "q", Digest: digest, Value: []byte(`{"action":"accept"}`)}
	step := journal.Entry{Kind: journal.Delivered, Key: "q"}
	f.Add(began, questions, answer.Append(nil), step.Append(nil), 1)
	f.Add([]byte(`{}`), []byte(`[{"digest":"AA=="}]`), []byte{}, []byte{0xff}, -1)
	f.Add([]byte(`null`), []byte(`null`), []byte(nil), []byte(nil), 0)
	f.Fuzz(func(t *testing.T, call, pending, first, second []byte, round int) {
		row := &task.Task{Pending: pending, Round: round}
		open, err := home.OpenQuestions(row)
		for _, q := range open {
			if err == nil && len(q.Digest) != len(journal.Digest{}) {
				t.Fatalf("a question with a digest of %d bytes", len(q.Digest))
			}
		}
		stored := &home.Stored{Work: &taskrun.Work{Task: row, Call: call, Entries: [][]byte{first, second}}}
		j, _, err := stored.Open(context.Background())
		if err == nil && (len(j.Entries) != 2 || j.Round != round) {
			t.Fatalf("the journal has %d of 2 entries, and round %d of %d", len(j.Entries), j.Round, round)
		}
	})
}
