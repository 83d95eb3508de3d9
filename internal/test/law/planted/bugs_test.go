package planted

// bug is a fault of the code that the law, or the bridge's world, must find.
type bug struct {
	name    string
	world   string // whose seeds look for it
	patches []patch
}

// patch replaces a text that is as often in a file as it says.
type patch struct {
	file     string
	times    int
	old, new string
}

const (
	tasksFile     = "task/memory.go"
	questionsFile = "task/memory_question.go"
	noticesFile   = "task/memory_notice.go"
	runFile       = "internal/taskrun/run.go"
	engineFile    = "internal/taskrun/engine.go"
	deskFile      = "internal/home/desk.go"
)

// The worlds of the law.
const (
	thefts = "leases are stolen"
	lossy  = "the network fails"
	quiet  = "hardly anything fails"
	well   = "all is well"
	slow   = "the store is slow"
	wild   = "everything fails"
	poison = "a row is poisoned"
	late   = "people come late"
	skewed = "people come late, and clocks are off"
	dead   = "nobody takes notices for long"
	crowd  = "a crowd is before everybody"
	bridge = "the bridge" // of bridge/internal/world
)

var bugs = []bug{
	{
		// A client learns of a task that the store has not taken.
		name:    "a-task-before-its-row",
		world:   lossy,
		patches: []patch{{"internal/taskrun/engine.go", 1, "if first.err != nil {", "if false {"}},
	},
	{
		// Whoever had the lease once can record steps, behind whatever there is by then.
		name:  "append-without-fence",
		world: thefts,
		patches: []patch{
			{tasksFile, 1, "return s.doTask(ctx, id, &claim, func(", "return s.doTask(ctx, id, nil, func("},
			{tasksFile, 1, "if len(m.entries) != there {", "if false {"},
		},
	},
	{
		// Whoever had the lease once can change the task, if nobody has changed it since.
		name:    "update-without-fence",
		world:   thefts,
		patches: []patch{{tasksFile, 1, "\tif u.Leased {\n\t\tclaim = &t.Claim", "\tif false {\n\t\tclaim = &t.Claim"}},
	},
	{
		name:    "update-without-version",
		world:   wild,
		patches: []patch{{tasksFile, 1, "case m.Version != t.Version:", "case false:"}},
	},
	{
		name:    "lease-taken-early",
		world:   well,
		patches: []patch{{tasksFile, 1, "m.dueAt <= now && (best", "m.dueAt <= now+8000 && (best"}},
	},
	{
		// A worker goes on although it cannot renew its lease, or learns that another has it.
		name:  "lost-lease-interrupts-nothing",
		world: wild,
		patches: []patch{
			{runFile, 2, "interrupt(task.ErrLeaseLost)", "_ = task.ErrLeaseLost"},
			{"internal/taskrun/lease.go", 1, "c.interrupt(task.ErrLeaseLost)", "_, _ = c.interrupt, task.ErrLeaseLost"},
		},
	},
	{
		name:  "step-not-recorded",
		world: well,
		patches: []patch{{"internal/home/stored.go", 1,
			"err := s.work.Record(ctx, e.Append(nil))",
			"var err error\n\tif e.Kind != journal.Step {\n\t\terr = s.work.Record(ctx, e.Append(nil))\n\t}"}},
	},
	{
		name:  "completed-task-is-due",
		world: well,
		patches: []patch{{runFile, 1, "if t.Status == task.Working {\n\t\t\tu.Due = verdict.Wait",
			"if t.Status == task.Working || t.Status == task.Completed {\n\t\t\tu.Due = verdict.Wait"}},
	},
	{
		// A step that was begun, and must not run twice, runs again.
		name:    "begun-and-run-again",
		world:   wild,
		patches: []patch{{"internal/journal/run.go", 1, "find(Begun, key); begun != nil", "find(Begun, key); false"}},
	},
	{
		// That it begins is not durable before it runs.
		name:  "begun-in-memory",
		world: wild,
		patches: []patch{{"internal/journal/run.go", 1, "if err := r.add(ctx, *begun); err != nil {",
			"r.journal.Entries = append(r.journal.Entries, *begun)\n\t\tif err := ctx.Err(); err != nil {"}},
	},
	{
		// The worker copies a decision into the journal, and copies it again.
		name:  "decision-copied-twice",
		world: well,
		patches: []patch{{"internal/journal/run.go", 1, "err = r.Commit(context.Background(), e)",
			"err = errors.Join(r.Commit(context.Background(), e), r.Commit(context.Background(), e))"}},
	},
	{
		// A deadline that passes decides a question which people have decided before.
		name:  "expiry-after-a-decision",
		world: well,
		patches: []patch{
			{questionsFile, 1, "for _, q := range s.waiting[waitingKey{}].in(true) {", "for q := range decidedToo(s) {"},
			{questionsFile, 1, "|| !q.late(now) {\n\t\t\t\tbreak", "|| !q.late(now) {\n\t\t\t\tcontinue"},
			{questionsFile, 1, "case stored.Status != QuestionOpen:\n\t\t\treturn ErrClosed",
				"case stored.Status != QuestionOpen && !expired:\n\t\t\treturn ErrClosed"},
			{questionsFile, 1, "// late reports", `func decidedToo(s *MemoryStore) iter.Seq[*memoryQuestion] {
	return func(yield func(*memoryQuestion) bool) {
		for _, m := range s.named {
			for _, q := range m.inTurn() {
				if q.Status != QuestionWithdrawn && !strings.Contains(string(q.Decision), "unanswered") && !yield(q) {
					return
				}
			}
		}
	}
}

// late reports`},
		},
	},
	{
		// A vote counts that comes after the deadline.
		name:    "late-vote-counts",
		world:   well,
		patches: []patch{{questionsFile, 1, "case stored.late(now) && !expired:", "case false:"}},
	},
	{
		// A vote that the same person gives again is counted again.
		name:  "vote-counted-twice",
		world: well,
		patches: []patch{{"desk/vote.go", 1, "return slices.ContainsFunc(b.Votes[b.From:], func",
			"return false && slices.ContainsFunc(b.Votes[b.From:], func"}},
	},
	{
		// Who edits what somebody has accepted has accepted it, too.
		name:  "an-edit-counts-for-the-proposal",
		world: well,
		patches: []patch{{"desk/vote.go", 1, "b.From < len(b.Votes) && !equal(proposal(b), v.Content) {",
			"b.From < len(b.Votes) && false {"}},
	},
	{
		// The status of a call says that nothing ran, although a step did before its client could not be asked.
		name:    "not-run-after-a-step",
		world:   well,
		patches: []patch{{"internal/call/call.go", 1, "(!lacks || c.run.Stepped())", "!lacks"}},
	},
	{
		// The worker of a task that is cancelled goes on to the end.
		name:    "cancelled-run-goes-on",
		world:   well,
		patches: []patch{{runFile, 1, "interrupt(ErrStopped)", "_ = ErrStopped"}},
	},
	{
		// The run that cleans up does what had not been done before.
		name:    "cleaning-up-begins-steps",
		world:   well,
		patches: []patch{{"internal/call/engine.go", 1, "\tc.run.Halt = errEnded\n", ""}},
	},
	{
		name:  "cleaned-up-again",
		world: well,
		patches: []patch{{runFile, 1, "case err == nil && w.Stopped:\n\t\t_ = r.settle(write, w, t, u)",
			"case err == nil && w.Stopped:\n\t\tu.Due = time.Minute\n\t\t_ = r.settle(write, w, t, u)"}},
	},
	{
		// Only one goroutine of a server tells the store that somebody listens, and not before others claim.
		name:    "claimed-before-somebody-listens",
		world:   slow,
		patches: []patch{{engineFile, 1, "_ = e.store.persist(ctx, func() error { return notices.listen(ctx) })", ""}},
	},
	{
		// Notices go with their task.
		name:  "purge-takes-notices",
		world: dead,
		patches: []patch{{tasksFile, 1, "	delete(s.tasks, m.ID)\n", "\tdelete(s.tasks, m.ID)\n" +
			"\tif its := s.outbox.tasks[m.ID]; len(its) > 0 {\n\t\tremove(&s.outbox.turns, its[0], longestUntaken)\n" +
			"\t\tdelete(s.outbox.tasks, m.ID)\n\t}\n"}},
	},
	{
		// A decision leaves the work no more time than was left before it.
		name:  "decision-prolongs-nothing",
		world: late,
		patches: []patch{
			{questionsFile, 1, "m.live(now + m.ttl)", ""},
			{tasksFile, 1, "m.live(now + m.ttl)", ""},
		},
	},
	{
		// The first row that cannot be written to keeps a sweep from all others.
		name:  "first-error-ends-a-sweep",
		world: poison,
		patches: []patch{
			{"internal/taskrun/stuck.go", 1, "s.add(k)", "_ = k"},
			{"internal/taskrun/stuck.go", 1, "\t\troom <- struct{}{}\n",
				"\t\tall.Wait()\n\t\tif err != nil {\n\t\t\tbreak\n\t\t}\n\t\troom <- struct{}{}\n"},
		},
	},
	{
		// Who has most notices has all places for their delivery.
		name:    "deliveries-without-shares",
		world:   crowd,
		patches: []patch{{noticesFile, 1, "if n := delivering[principal]; n < fewest {", "if n := 0; n < fewest {"}},
	},
	{
		// The clock of the server that asks says when a deadline is.
		name:  "deadline-by-another-clock",
		world: skewed,
		patches: []patch{ownClock,
			{deskFile, 1, "Content: content, Within: q.Within,", "Content: content, Within: s.byOwnClock(q.Within),"}},
	},
	{
		// The clock of the server that asks says how long a task lives.
		name:    "life-by-another-clock",
		world:   skewed,
		patches: []patch{ownClock, {deskFile, 1, "v.TTL = s.desk.Keeps", "v.TTL = s.byOwnClock(s.desk.Keeps)"}},
	},
	{
		// A session that is gone when a stream is resumed passes for one that was gone before the call came.
		name:  "unsent-by-an-error-class",
		world: bridge,
		patches: []patch{
			{"client/internal/tap/http.go", 1, "	case lasts && resumes && (res.StatusCode",
				"	case lasts && resumes && res.StatusCode == http.StatusNotFound:\n		return nil\n" +
					"	case lasts && resumes && (res.StatusCode"},
			{"client/call.go", 1, "	case isStatus && status.Refuses()",
				"	case errors.Is(err, mcp.ErrSessionMissing):\n		return &NotRunError{Status: 404, Err: err}\n" +
					"	case isStatus && status.Refuses()"},
		},
	},
	{
		// An error that the transport has made passes for the server's answer.
		name:    "the-transports-error",
		world:   bridge,
		patches: []patch{{"client/internal/tap/exchange.go", 1, "return x.Delivery.failure(err)", "return err"}},
	},
	{
		name:    "nothing-was-sent-where-the-connection-broke",
		world:   bridge,
		patches: []patch{{"client/internal/tap/delivery.go", 1, "d.begun || !d.asked || err == nil", "err == nil"}},
	},
	{
		name:    "a-lost-call-made-again",
		world:   bridge,
		patches: []patch{{"bridge/internal/legacy/call.go", 1, "return !c.Strict() && !c.once &&", "return"}},
	},
	{
		// The beginning of a program's response passes for an answer: an error of its own.
		name:  "half-a-line-is-an-answer",
		world: bridge,
		patches: []patch{{"internal/rawclient/lines.go", 1, "\t\tcase isMessage(line):",
			"\t\tcase err != nil && isMessage(line) && !json.Valid(line):\n" +
				"\t\t\tif id, method := head(line); id != nil && !method {\n" +
				"\t\t\t\tl.rest = append(wire.AppendError(nil, id, wire.Errorf(-32603, \"cut off\")), '\\n')\n" +
				"\t\t\t}\n\t\tcase isMessage(line):"}},
	},
	{
		// A program whose host is gone goes on.
		name:  "the-end-of-input-is-not-seen",
		world: bridge,
		patches: []patch{{"internal/sdkfront/stdio.go", 1, "pass.CloseWithError(filter(t.in, pass, out, t.limits))",
			"_ = filter(t.in, pass, out, t.limits)"}},
	},
	{
		// A bridge without an approval goes on with the calls of another one, which has one.
		name:  "a-gate-of-the-process",
		world: bridge,
		patches: []patch{{"bridge/internal/calls/gates.go", 1, "\tif err := c.admit(ctx); err != nil {",
			"\tif c.Approval == nil {\n\t\treturn arguments, nil\n\t}\n\tif err := c.admit(ctx); err != nil {"}},
	},
}

// ownClock is what bugs need that look at the clock of their server.
var ownClock = patch{deskFile, 1, "// waitsFor says", `func (s *Stored) byOwnClock(d time.Duration) time.Duration {
	now, err := s.desk.Now(s.ctx)
	if d == 0 || err != nil {
		return d
	}
	return max(1, d+clock.Now(s.ctx).Sub(now))
}

// waitsFor says`}
