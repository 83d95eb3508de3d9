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
)

// partitions come often, and upon servers that take at once what another has lost: they have little else to do.
var partitions = []string{"-store", "postgres", "-instances", "3", "-faults", "partition", "-every", "700ms"}

var bugs = []bug{
	{
		// Whoever had the lease once can record steps, behind whatever there is by then.
		name:     "append-without-fence",
		violates: []string{"fence", "repeated"},
		patches: []patch{{sqlFile, 1,
			"UPDATE {schema}.task SET attempts = 0, entries = entries + 1, " +
				"bytes = bytes + coalesce(octet_length($3::bytea), 0)\n" +
				"\t\t\t\tWHERE id = $1 AND fence = $2 AND nonce = $5 AND entries = $4\n",
			"UPDATE {schema}.task SET attempts = 0, entries = entries + 1, " +
				"bytes = bytes + coalesce(octet_length($3::bytea), 0)\n" +
				"\t\t\t\tWHERE id = $1 AND $2::bigint IS NOT NULL AND $5::text IS NOT NULL AND $4::bigint IS NOT NULL\n"}},
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
		patches: []patch{{runFile, 1, "if u.Wake = verdict.Wait; t.Status == task.Working {",
			"if u.Wake = verdict.Wait; t.Status == task.Working || t.Status == task.Completed {"}},
	},
}
