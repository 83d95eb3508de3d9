package sqlite

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each statement finds what it needs through an index, whatever the table holds. The
// scans are of constants, of what is asked for, of the one row that says until when somebody
// listens, and of an index up to its first entry, which EXISTS and LIMIT 1 end.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	ofTask := "SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"
	ofSubscription := "SEARCH subscription USING INDEX sqlite_autoindex_subscription_1 (id=?)"
	updates := []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)", "CORRELATED SCALAR SUBQUERY",
		"SEARCH question USING COVERING INDEX question_open (task=?)"}
	listFilters := []string{"LIST SUBQUERY", "SCAN json_each VIRTUAL TABLE", "CREATE BLOOM FILTER",
		"CORRELATED SCALAR SUBQUERY", "SEARCH m USING PRIMARY KEY (question=? AND list=?)", "LIST SUBQUERY",
		"SCAN json_each VIRTUAL TABLE"}
	notices := []string{"SEARCH notice USING INTEGER PRIMARY KEY (rowid=?)", "SCALAR SUBQUERY",
		"SEARCH notice USING COVERING INDEX notice_task (task=?)"}
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"get", getSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"list", listSQL, []string{"SEARCH task USING INDEX task_list (principal=? AND dialect=? AND (created,id)<(?,?))"}},
		{"journal", journalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=? AND n<?)", "SCALAR SUBQUERY",
			"SEARCH task USING COVERING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"expired", expiredSQL, []string{"SEARCH task USING INDEX task_expiry (expires<?)"}},
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
		{"update, keep", updateKeepSQL, updates},
		{"update, due", updateDueSQL, updates},
		{"questions", questionsSQL, []string{"SEARCH question USING INDEX question_name (name>? AND name<?)", ofTask}},
		{"overdue", overdueSQL, []string{"SEARCH question USING INDEX question_deadline (deadline<?)", ofTask}},
		{"listed", listedSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SCAN json_each VIRTUAL TABLE", ofTask}},
		{"a list, as asked", byAskedSQL, append([]string{
			"SEARCH l USING COVERING INDEX question_list_asked (list=? AND (asked,id,key)>(?,?,?) AND asked<?)",
		}, listFilters...)},
		{"a list, by deadline", byDeadlineSQL, append([]string{
			"SEARCH l USING COVERING INDEX question_list_deadline (list=? AND (deadline,id,key)>(?,?,?))",
		}, listFilters...)},
		{"a list, the newest first", newestSQL, append([]string{
			"SEARCH l USING COVERING INDEX question_list_asked (list=? AND (asked,id,key)<(?,?,?))",
		}, listFilters...)},
		{"changes", changesSQL, []string{
			"SEARCH question USING INDEX question_changes ((changed,name,key)>(?,?,?))", ofTask}},
		{"question", questionSQL, []string{"SEARCH question USING INDEX sqlite_autoindex_question_1 (task=? AND key=?)",
			"SCALAR SUBQUERY", "SEARCH task USING COVERING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"a question by its key", namedSQL, []string{
			"SEARCH question USING INDEX sqlite_autoindex_question_1 (task=? AND key=?)"}},
		{"open questions", openSQL, []string{"SEARCH question USING INDEX question_open (task=?)"}},
		{"open a question again", reopenSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"withdraw a question", withdrawSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"change a question", changeQuestionSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"wake the task of a question", dueAtOnceSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"any notice", anyNoticeSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY",
			"SCAN notice USING COVERING INDEX notice_due", "SCALAR SUBQUERY",
			"SEARCH notice USING COVERING INDEX notice_wake (wake<?)", "SCALAR SUBQUERY",
			"SEARCH question USING COVERING INDEX question_remind (remind<?)", "SCALAR SUBQUERY", "SCAN listening"}},
		{"write what is due soon", remindSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)",
			"LIST SUBQUERY", "SEARCH question USING COVERING INDEX question_remind (remind<?)", ofTask, "SCAN listening"}},
		{"what is due soon is written", remindedSQL, []string{"SEARCH question USING INTEGER PRIMARY KEY (rowid=?)",
			"LIST SUBQUERY", "SEARCH question USING COVERING INDEX question_remind (remind<?)", "SCALAR SUBQUERY",
			"SCAN listening"}},
		{"wake notices", wakeNoticesSQL, []string{"SEARCH notice USING INDEX notice_wake (wake<?)"}},
		{"first principal with notices", firstNotifiedSQL, []string{"SCAN notice USING INDEX notice_due"}},
		{"next principal with notices", nextNotifiedSQL, []string{"SEARCH notice USING INDEX notice_due (principal>?)"}},
		{"take a notice", takeNoticeSQL, []string{"SEARCH notice USING INTEGER PRIMARY KEY (rowid=?)", "SCALAR SUBQUERY",
			"SEARCH notice USING INDEX notice_due (principal=? AND due>?)"}},
		{"settle a notice", settleSQL, notices},
		{"take a notice again", retrySQL, notices},
		{"anything refused", anyRefusedSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY",
			"SCAN notice USING COVERING INDEX notice_refused"}},
		{"refused", refusedSQL, []string{"SEARCH notice USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SCAN notice USING COVERING INDEX notice_refused", "USE TEMP B-TREE"}},
		{"state", stateSQL, []string{"SEARCH task USING INDEX sqlite_autoindex_task_1 (id=?)"}},
		{"purgeable", purgeableSQL, []string{"SEARCH task USING INDEX task_purge (expires<?)"}},
		{"evictable", evictableSQL, []string{"SEARCH task USING INDEX task_evict (principal=?)"}},
		{"delete", deleteSQL, []string{"SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"}},
		{"purge the journal", purgeJournalSQL, []string{"SEARCH journal USING PRIMARY KEY (task=?)"}},
		{"events", eventsSQL, []string{"SEARCH event USING INDEX event_reader (reader=? AND seq>?)", "LIST SUBQUERY",
			"SCAN json_each VIRTUAL TABLE", "CREATE BLOOM FILTER", ofTask}},
		{"the event at a position, and the last", eventMarksSQL, []string{
			"SEARCH event USING INTEGER PRIMARY KEY (rowid=?)", "SCALAR SUBQUERY", "SEARCH json_each VIRTUAL TABLE",
			"CORRELATED SCALAR SUBQUERY", "SEARCH event USING COVERING INDEX event_reader (reader=?)", ofTask}},
		{"deleted events", eventsDeletedSQL, []string{"SEARCH deleted_event USING PRIMARY KEY (reader=?)", "LIST SUBQUERY",
			"SCAN json_each VIRTUAL TABLE"}},
		{"trim events", trimEventsSQL, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH event USING COVERING INDEX event_reader (reader=?)"}},
		{"any that has expired", anyExpiredSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY",
			"SEARCH event USING COVERING INDEX event_expires (expires<?)"}},
		{"purge events", purgeEventsSQL, []string{"SEARCH event USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH event USING COVERING INDEX event_expires (expires<?)"}},
		{"forget events", forgetEventsSQL, []string{"SEARCH deleted_event USING INDEX deleted_event_written (written<?)"}},
		{"any subscription", anySubscriptionSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "MULTI-INDEX OR", "INDEX 1",
			"SEARCH subscription USING INDEX subscription_due (due<?)", "INDEX 2",
			"SEARCH subscription USING INDEX subscription_expires (expires<?)"}},
		{"add a subscription", addSubscriptionSQL, []string{"SCAN CONSTANT ROW", "SCALAR SUBQUERY", "CO-ROUTINE",
			"SEARCH subscription USING COVERING INDEX subscription_principal (principal=?)", "SCAN (subquery-1)"}},
		{"subscribed", subscribedSQL, []string{"SEARCH subscription USING INDEX subscription_principal (principal=?)",
			"USE TEMP B-TREE"}},
		{"save a subscription", saveSubscriptionSQL, []string{ofSubscription}},
		{"end subscriptions", endSubscriptionsSQL, []string{
			"SEARCH subscription USING INDEX subscription_expires (expires<?)"}},
		{"claim subscriptions", claimSubscriptionsSQL, []string{
			"SEARCH subscription USING COVERING INDEX sqlite_autoindex_subscription_1 (id=?)", "LIST SUBQUERY",
			"SEARCH subscription USING INDEX subscription_due (due<?)", "LIST SUBQUERY", "SCAN json_each VIRTUAL TABLE",
			"CREATE BLOOM FILTER", "LIST SUBQUERY", "SCAN json_each VIRTUAL TABLE", "CREATE BLOOM FILTER",
			"USE TEMP B-TREE"}},
		{"get a state", getStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"swap a state", swapStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"find states", findStatesSQL, []string{"SEARCH state USING INDEX state_call (call=? AND expires>?)"}},
		{"delete a state", deleteStateSQL, []string{"SEARCH state USING INDEX sqlite_autoindex_state_1 (id=?)"}},
		{"purge used states", purgeUsedSQL, []string{"SEARCH used_state USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH used_state USING COVERING INDEX used_state_expires (expires<?)"}},
		{"purge states", purgeStatesSQL, []string{"SEARCH state USING INTEGER PRIMARY KEY (rowid=?)", "LIST SUBQUERY",
			"SEARCH state USING COVERING INDEX state_expires (expires<?)"}},
	} {
		if plan := explain(t, s, c.sql); !slices.EqualFunc(plan, c.want, strings.HasPrefix) {
			t.Errorf("%s: the plan is\n\t%s\nwant\n\t%s", c.name, strings.Join(plan, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}

func explain(t *testing.T, s *Store, query string) (plan []string) {
	t.Helper()
	rows, err := s.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, 21)...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		expect.Check(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	return plan
}

// What a trigger does is not in the plan of the statement that fires it.
func TestNoTriggerReadsAWholeTable(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	triggers, err := s.conn.QueryContext(t.Context(), "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	expect.Check(t, err)
	statements := make(map[string][]string)
	for triggers.Next() {
		var name, sql string
		expect.Check(t, triggers.Scan(&name, &sql))
		_, body, _ := strings.Cut(sql, " BEGIN")
		body = regexp.MustCompile(`(NEW|OLD)\.\w+`).ReplaceAllString(strings.TrimSuffix(body, "END"), "?1")
		for statement := range strings.SplitSeq(body, ";") {
			if strings.TrimSpace(statement) != "" {
				statements[name] = append(statements[name], statement)
			}
		}
	}
	triggers.Close()
	if len(statements) < 5 {
		t.Fatalf("%d triggers", len(statements))
	}
	small := regexp.MustCompile(`^SCAN (CONSTANT ROW|json_each|\(subquery|listening)`)
	for name, statements := range statements {
		for _, statement := range statements {
			for _, step := range explain(t, s, statement) {
				if strings.HasPrefix(step, "SCAN") && !small.MatchString(step) {
					t.Errorf("%s: the plan of%s has the step %q", name, statement, step)
				}
			}
		}
	}
}
