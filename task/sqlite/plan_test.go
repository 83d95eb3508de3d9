package sqlite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each statement finds what it needs through an index, whatever the table holds. The
// scans are of constants, of the IDs that are asked for, and of an index up to its first
// entry, which EXISTS and LIMIT 1 end.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	defer s.Close()
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"get", getSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"list", listSQL, []string{"SEARCH task USING INDEX task_list (principal=? AND dialect=? AND (created,id)<(?,?))"}},
		{"journal", journalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)", "SCALAR SUBQUERY",
			"SEARCH task USING COVERING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"expired", expiredSQL, []string{"SEARCH task USING INDEX task_expiry (expires<?)"}},
		{"woken", wokenSQL, []string{"SEARCH task USING INDEX task_parked (parked_until<?)"}},
		{"count", countSQL, []string{"SCAN task USING INDEX task_expiry"}},
		{"any due", anyDueSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "SCAN task USING COVERING INDEX task_due",
			"SCALAR SUBQUERY", "SEARCH task USING COVERING INDEX task_wake (wake<?)"}},
		{"any to purge", anyPurgeableSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "SEARCH task USING INDEX " +
			"task_purge (expires<?)"}},
		{"versions", versionsSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)", "LIST SUBQUERY",
			"SCAN json_each VIRTUAL TABLE"}},
		{"usage", usageSQL, []string{"SEARCH usage USING PRIMARY KEY (principal=?)"}},
		{"usage of the owner", ownerSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH usage USING " +
			"PRIMARY KEY (principal=?)"}},
		{"wake", wakeSQL, []string{"SEARCH task USING INDEX task_wake (wake<?)"}},
		{"first principal", firstPrincipalSQL, []string{"SCAN task USING COVERING INDEX task_due"}},
		{"next principal", nextPrincipalSQL, []string{"SEARCH task USING COVERING INDEX task_due (principal>?)"}},
		{"first target", firstTargetSQL, []string{"SEARCH task USING COVERING INDEX task_turns (principal=?)"}},
		{"next target", nextTargetSQL, []string{"SEARCH task USING COVERING INDEX task_turns (principal=? AND target>?)"}},
		{"claim", claimSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"journal of a claimed task", claimedJournalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"entry", entrySQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"append", appendSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"leased", leasedSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"renew", renewSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"update, keep", updateKeepSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"update, due", updateDueSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"state", stateSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"purge", purgeSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH task USING INDEX task_purge (expires<?)"}},
		{"evict", evictSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH task USING INDEX task_evict (principal=?)"}},
		{"purge the journal", purgeJournalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"get a state", getStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"swap a state", swapStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"find states", findStatesSQL, []string{"SEARCH state USING INDEX state_call (call=? AND expires>?)"}},
		{"delete a state", deleteStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"purge used states", purgeUsedSQL, []string{"SEARCH used_state USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH used_state USING COVERING INDEX used_state_expires (expires<?)"}},
		{"purge states", purgeStatesSQL, []string{"SEARCH state USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH state USING COVERING INDEX state_expires (expires<?)"}},
	} {
		rows, err := s.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.sql, make([]any, 21)...)
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
