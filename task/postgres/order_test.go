package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

// The order of a journal does not depend on where its rows lie, or on how the database finds them.
func TestAJournalIsReadInItsOrder(t *testing.T) {
	t.Parallel()
	dsn := with(pgtest.DSN(t), "search_path=ordered")
	s := open(t, dsn)
	n := newTask()
	want := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	expect.Check(t, s.Create(t.Context(), n, time.Hour, 0, []byte("call"), want,
		task.Quota{Unfinished: 1, Kept: 1, Bytes: 1 << 20}))
	conn, err := pgx.Connect(t.Context(), dsn)
	expect.Check(t, err)
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`ALTER TABLE ordered.journal DROP CONSTRAINT journal_pkey`, // whose index happens to have the order
		`UPDATE ordered.journal SET body = body WHERE seq < 2`,     // rows that are written again lie behind the others
	} {
		expect.Must(conn.Exec(t.Context(), sql))(t)
	}
	call, entries, err := s.Journal(t.Context(), n.ID, -1)
	if err != nil || string(call) != "call" || !cmp.Equal(entries, want) {
		t.Errorf("the journal of %q is %q, %v", call, entries, err)
	}
}
