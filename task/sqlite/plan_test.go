package sqlite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each statement finds what it needs through an index, whatever the table holds. The
// scans are of constants, of as many rows as the quota, and of an index up to its first
// entry, which EXISTS and LIMIT 1 end.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	defer s.Close()
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"get", getSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"list", listSQL, []string{"SEARCH task USING INDEX task_list (principal=? AND dialect=? AND (created,id)<(?,?))"}},
		{"journal", journalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)", "SCALAR SUBQUERY", "SEARCH task USING COVERING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"expired", expiredSQL, []string{"SEARCH task USING INDEX task_expiry (expires<?)"}},
		{"any due", anyDueSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "SCAN task USING COVERING INDEX task_due", "SCALAR SUBQUERY", "SEARCH task USING COVERING INDEX task_wake (wake<?)"}},
		{"any to purge", anyPurgeableSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "SEARCH task USING INDEX task_purge (expires<?)"}},
		{"quota", quotaSQL, []string{"CO-ROUTINE", "SEARCH task USING COVERING INDEX task_unfinished (principal=?)", "SCAN (subquery-"}},
		{"wake", wakeSQL, []string{"SEARCH task USING INDEX task_wake (wake<?)"}},
		{"claim", claimSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)",
			"SCALAR SUBQUERY", "SEARCH task USING COVERING INDEX task_due (principal>?)",
			"SCALAR SUBQUERY", "SCAN task USING COVERING INDEX task_due"}},
		{"entry", entrySQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"leased", leasedSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"renew", renewSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"update, keep", updateKeepSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"update, due", updateDueSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"state", stateSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"purge", purgeSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY", "SEARCH task USING INDEX task_purge (expires<?)"}},
		{"purge the journal", purgeJournalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"get a state", getStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"swap a state", swapStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"find states", findStatesSQL, []string{"SEARCH state USING INDEX state_call (call=? AND expires>?)"}},
		{"delete a state", deleteStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"purge states", purgeStatesSQL, []string{"SEARCH state USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY", "SEARCH state USING COVERING INDEX state_expires (expires<?)"}},
	} {
		rows, err := s.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.sql, make([]any, 20)...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		rows.Close()
		if !slices.EqualFunc(plan, c.want, strings.HasPrefix) {
			t.Errorf("%s: the plan is\n\t%s\nwant\n\t%s", c.name, strings.Join(plan, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}
