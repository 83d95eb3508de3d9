package tasks_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// What somebody else wrote into the database is an error that the log explains, and that nobody repeats for ever.
func TestStoredQuestionsThatDoNotDecode(t *testing.T) {
	t.Parallel()
	for _, pending := range []string{
		"rubbish",
		`{"wire":"w"}`,
		`[{"wire":"w","key":"k","digest":"","method":"elicitation/create","params":{}}]`,
	} {
		logger, log := harness.Logs()
		store := new(task.MemoryStore)
		s := harness.NewTaskServerOn(t, store, &askback.Options{Logger: logger}, harness.AddEcho)
		park := func(capabilities, params string) (id string) {
			created := s.Result(capabilities, "tools/call", "echo", `"name":"echo"`+params)
			id, ok := created["taskId"].(string)
			if !ok {
				id = harness.At(created, "task", "taskId").(string)
			}
			s.Get(capabilities, id, "input_required")
			now := expect.Must(store.Get(t.Context(), id))(t)
			now.Pending = []byte(pending)
			expect.Check(t, store.Update(t.Context(), now, task.Update{Keep: true}))
			return id
		}
		extension, proposal := park(harness.WithExtension, ""), park(harness.ProposalOnly, `,"task":{}`)
		for _, r := range []struct{ capabilities, method, id string }{
			{harness.WithExtension, "tasks/get", extension},
			{harness.WithExtension, "tasks/update", extension},
			{harness.ProposalOnly, "tasks/result", proposal},
			{harness.ProposalOnly, "tasks/input_response", proposal},
		} {
			status, response := s.Send(r.capabilities, r.method, r.id, harness.Answered(r.id, `"w":{"action":"cancel"}`))
			if code, message := harness.At(response, "error", "code"), harness.At(response, "error",
				"message"); status != http.StatusOK ||
				code != -32603.0 || message != "internal error: reading a stored task failed" {
				t.Errorf("%s with %s: %d %v", r.method, pending, status, response)
			}
		}
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "the stored question") {
			t.Errorf("%s: the log has %q", pending, log)
		}
		// They can be cancelled all the same.
		s.Result(harness.WithExtension, "tasks/cancel", extension, `"taskId":"`+extension+`"`)
		s.Get(harness.WithExtension, extension, "cancelled")
	}
}

// unreadable is a store whose journals are not what was written.
type unreadable struct {
	task.Store
	spoil  func(call []byte, entries [][]byte) ([]byte, [][]byte)
	claims atomic.Int32
}

func (s *unreadable) Journal(ctx context.Context, id string, most int) ([]byte, [][]byte, error) {
	call, entries, err := s.Store.Journal(ctx, id, most)
	call, entries = s.spoil(call, entries)
	return call, entries, err
}

func (s *unreadable) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, after, load, lease, limit)
	s.claims.Add(int32(len(claimed)))
	for _, c := range claimed {
		c.Call, c.Entries = s.spoil(c.Call, c.Entries)
	}
	return claimed, err
}

// A task whose journal does not decode is tried as often as any other, and then fails.
func TestStoredJournalsThatDoNotDecode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, logged string
		spoil        func(call []byte, entries [][]byte) ([]byte, [][]byte)
	}{
		{"the call is rubbish", "the stored call", func([]byte, [][]byte) ([]byte,
			[][]byte) {
			return []byte("secret"), nil
		}},
		{"there is no call", "the stored call", func([]byte, [][]byte) ([]byte, [][]byte) { return nil, nil }},
		{"the call has no parameters", "the stored call",
			func([]byte, [][]byte) ([]byte, [][]byte) { return []byte(`{"call":"secret"}`), nil }},
		{"an entry is rubbish", "entry 0 of the journal", func(call []byte, _ [][]byte) ([]byte,
			[][]byte) {
			return call, [][]byte{[]byte("\x01secret")}
		}},
		{"an entry is empty", "entry 0 of the journal", func(call []byte, _ [][]byte) ([]byte,
			[][]byte) {
			return call, [][]byte{nil}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger, log := harness.Logs()
				store := &unreadable{Store: new(task.MemoryStore), spoil: tt.spoil}
				w := newWaitingLogging(t, store, logger)
				time.Sleep(50 * time.Minute) // its time to live is an hour
				state := w.send(t, t.Context(), "tasks/get", `"taskId":"`+w.id+`"`).body(t)
				message, _ := harness.At(state, "result", "statusMessage").(string)
				if harness.At(state, "result", "status") != "failed" ||
					!strings.Contains(message, "it was begun 25 times and came to nothing") {
					t.Errorf("%v", state)
				}
				// 25 times to run and 25 times to clean up; and to give up each of them.
				expect.Equal(t, "the task was claimed times", store.claims.Load(), 52)
				if !strings.Contains(log.String(), tt.logged) || strings.Contains(log.String(), "secret") ||
					strings.Contains(log.String(), "panic") {
					t.Errorf("the log has %s", log)
				}
			})
		})
	}
}
