package postgres

import (
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// The store's statements are never compiled, and Claim is not where a pooler lends out sessions either.
func TestNothingIsCompiled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "?default_query_exec_mode=exec"} {
		s := expect.Must(Open(t.Context(), pgtest.DSN(t)+mode))(t)
		defer s.Close()
		var jit string
		if err := s.pool.QueryRow(t.Context(), "SHOW jit").Scan(&jit); err != nil || mode == "" && jit != "off" {
			t.Errorf("jit is %q for all statements; %v", jit, err)
		}
		// A row is an error: it has too few columns.
		s.sql.claim = `SELECT 1 WHERE current_setting('jit') <> 'off' AND num_nulls($1::text, $2::text[], $3::text[],
			$4::bigint[], $5::interval, $6::bigint, $7::text) = 0`
		if _, err := s.Claim(t.Context(), "", nil, time.Hour, 1); err != nil {
			t.Errorf("with %q Claim may be compiled: %v", mode, err)
		}
	}
}
