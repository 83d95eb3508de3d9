package storetest

import "github.com/askback-mcp/askback/task"

// A connection may break between a write and the answer to it. The engine then repeats the write, and tells by the
// answer whether it was made: so a store owes that a write is made whole or not at all, and that its repetition is
// refused whole.
var lostTests = []test{
	{"an update that is repeated because its answer was lost is ErrConflict, and nothing more is written",
		func(f *fixture, s task.Store) {
			c := f.addLeased(s)
			c.Status, c.Outcome = task.Completed, []byte("outcome")
			done := clone(c)
			u := task.Update{Leased: true, Due: -1, Entries: list("last")}
			f.update(s, done, u)
			f.wantError("the same Update again", s.Update(f.ctx, c, u), task.ErrConflict)
			u.Due = 0
			f.wantError("with Due 0", s.Update(f.ctx, c, u), task.ErrConflict)
			u.Keep = true
			f.wantError("with Keep", s.Update(f.ctx, c, u), task.ErrConflict)
			f.wantRow(s, done)
			f.wantJournal(s, c.ID, "last")
			f.noneDue(s)
		}},
	{"a task that is created again because the answer was lost is ErrExists, and stays as it is",
		func(f *fixture, s task.Store) {
			t := newTask("alice")
			f.create(s, t, "one")
			f.update(s, t, task.Update{Due: -1})
			again := clone(t)
			again.Message = "again"
			f.wantError("Create", s.Create(f.ctx, again, long, 0, []byte("other"), list("two"), task.Quota{}), task.ErrExists)
			f.wantRow(s, t)
			f.wantJournal(s, t.ID, "one")
			f.noneDue(s)
		}},
	{"an update that asks and is repeated because its answer was lost is ErrConflict, and asks nothing twice",
		func(f *fixture, s task.Store) {
			t := f.addRunning(s, "alice")
			t.Status = task.InputRequired
			first := question("first", "user:bob")
			u := task.Update{Leased: true, Due: -1, Ask: []*task.Question{first, question("second", "user:bob")}}
			again := clone(t)
			f.update(s, t, u)
			want := f.questions(s, t.ID)
			f.wantError("the same Update again", s.Update(f.ctx, clone(again), u), task.ErrConflict)
			f.wantQuestions(s, t.ID, want...)
			f.decide(s, t.ID, "first") // which is why the task runs, and not that it has to
			f.wantError("the same Update after a decision", s.Update(f.ctx, clone(again), u), task.ErrConflict)
			c := f.claimThis(s, t.ID, long)
			f.wantError("the same Update under a lost lease", s.Update(f.ctx, clone(again), u), task.ErrLeaseLost)
			f.wantRow(s, c)

			answer := task.Update{Keep: true, Answered: []string{"second"}, Entries: list("answer")}
			again = clone(c)
			f.update(s, c, answer)
			f.wantError("the same answer again", s.Update(f.ctx, again, answer), task.ErrConflict)
			f.wantJournal(s, t.ID, "answer")
		}},
	{"a change of a question that is repeated because its answer was lost is ErrConflict, and nothing more is written",
		func(f *fixture, s task.Store) {
			t := f.addRunning(s, "alice")
			f.park(s, t, question("key", "user:bob"))
			for _, decision := range []string{"", "decision"} {
				q := f.question(s, t.ID, "key")
				q.Votes, q.Decision = append(q.Votes, "vote"...), []byte(decision)
				again := *q
				f.change(s, q)
				t = f.get(s, t.ID)
				f.wantChange(s, &again, false, task.ErrConflict)
				f.wantQuestion(s, q)
				f.wantRow(s, t)
			}
			f.claimThis(s, t.ID, long)
			f.noneDue(s)
		}},
}
