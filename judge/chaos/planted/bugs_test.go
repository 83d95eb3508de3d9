package planted

// bug is a fault of the code that chaos must find.
type bug struct {
	name     string
	chaos    []string // its arguments; nil is all faults
	violates []string // kinds of chaos, of which it must find one
	patches  []patch
}

// patch replaces a text that is as often in a file as it says.
type patch struct {
	file     string
	times    int
	old, new string
}

const (
	sqlFile = "task/postgres/sql.go"
	runFile = "internal/taskrun/run.go"

	questionFile = "task/postgres/question.go"
)

// partitions come often, and upon servers that take at once what another has lost: they have little else to do.
var partitions = []string{"-store", "postgres", "-instances", "3", "-faults", "partition", "-every", "700ms"}

// People decide calls, and little else happens.
var voting = []string{"-people", "-store", "postgres", "-instances", "2", "-kills", "12", "-every", "2s"}

var bugs = []bug{
	{
		// Whoever had the lease once can record steps, behind whatever there is by then.
		name:     "append-without-fence",
		violates: []string{"fence", "repeated"},
		patches: []patch{{sqlFile, 1,
			"WHERE id = $1 AND fence = $2 AND nonce = $5 AND entries = $4\n",
			"WHERE id = $1 AND $2::bigint IS NOT NULL AND $5::text IS NOT NULL AND $4::bigint IS NOT NULL\n"}},
	},
	{
		// Whoever had the lease once can change the task, and add to its journal, if nobody has changed it since.
		name:     "update-without-fence",
		chaos:    partitions,
		violates: []string{"fence", "repeated"},
		patches: []patch{{sqlFile, 1,
			"WHERE id = $1 AND version = $2 AND ($3::bigint IS NULL OR fence = $3 AND nonce = $19)",
			"WHERE id = $1 AND version = $2 AND ($3::bigint IS NULL OR $19::text IS NOT NULL)"}},
	},
	{
		name:     "lease-taken-early",
		violates: []string{"early"},
		patches: []patch{{sqlFile, 8,
			"WHERE due <= statement_timestamp() AND",
			"WHERE due <= statement_timestamp() + interval '8 s' AND"}},
	},
	{
		// A worker goes on although it cannot renew its lease, or learns that another has it.
		name:     "lost-lease-interrupts-nothing",
		chaos:    []string{"-store", "postgres", "-instances", "3", "-faults", "lease", "-every", "700ms"},
		violates: []string{"fence"},
		patches: []patch{
			{runFile, 2, "interrupt(task.ErrLeaseLost)", "_ = task.ErrLeaseLost"},
			{"internal/taskrun/lease.go", 1, "c.interrupt(task.ErrLeaseLost)", "_, _ = c.interrupt, task.ErrLeaseLost"},
		},
	},
	{
		name:     "step-not-recorded",
		violates: []string{"lost", "again"},
		patches: []patch{{"internal/home/stored.go", 1,
			"err := s.work.Record(ctx, e.Append(nil))",
			"var err error\n\tif e.Kind != journal.Step {\n\t\terr = s.work.Record(ctx, e.Append(nil))\n\t}"}},
	},
	{
		name:     "completed-task-is-due",
		violates: []string{"changed"},
		patches: []patch{{runFile, 1, "if t.Status == task.Working {\n\t\t\tu.Due = verdict.Wait",
			"if t.Status == task.Working || t.Status == task.Completed {\n\t\t\tu.Due = verdict.Wait"}},
	},
	{
		// The worker copies a decision into the journal, and copies it again.
		name:     "decision-copied-twice",
		chaos:    voting,
		violates: []string{"repeated"},
		patches: []patch{{"internal/journal/run.go", 1, "err = r.Commit(context.Background(), e)",
			"err = errors.Join(r.Commit(context.Background(), e), r.Commit(context.Background(), e))"}},
	},
	{
		// A deadline that passes decides a question which people have decided before.
		name:     "expiry-after-a-decision",
		chaos:    voting,
		violates: []string{"changed", "wrong"},
		patches: []patch{
			{questionFile, 1, "WHERE deadline <= statement_timestamp() AND ` + overdueQuestion + `",
				"WHERE deadline <= statement_timestamp() AND status <> 'withdrawn' AND NOT expired"},
			{questionFile, 1, "WHEN status <> 'open' THEN 'closed'", "WHEN false THEN 'closed'"},
		},
	},
	{
		// A vote counts that comes after the deadline.
		name:     "late-vote-counts",
		chaos:    voting,
		violates: []string{"changed"},
		patches: []patch{{questionFile, 1, "WHEN NOT $4::boolean AND deadline <= clock_timestamp() THEN 'late'",
			"WHEN NOT $4::boolean AND false THEN 'late'"}},
	},
	{
		// A vote that the same person gives again is counted again.
		name:     "vote-counted-twice",
		chaos:    voting,
		violates: []string{"repeated"},
		patches: []patch{{"desk/vote.go", 1, "return slices.ContainsFunc(b.Votes[b.From:], func",
			"return false && slices.ContainsFunc(b.Votes[b.From:], func"}},
	},
}
