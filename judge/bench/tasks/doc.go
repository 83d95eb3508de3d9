// Package tasks measures how many tasks a second the engine of package task runs on each store, and what each costs
// the database. [River], a queue of jobs in PostgreSQL, runs beside it as the measure.
//
//	cd judge/bench/tasks && go test -bench 'Tasks|Fleet' -benchtime 5x [-clients 32] [-workers 16] [-tasks 1000]
//	cd judge/bench/tasks && go test -bench 'Costs|Sideways' -benchtime 1x
//
// All subjects run in every round, one after the other, each on an empty database with fsync. A client creates its
// tasks one after the other. With a question it waits until a task asks, and answers; it never waits for the end. Rates
// count from the first create until the last outcome is stored, and ratios are medians over the rounds.
//
// [River]: https://github.com/riverqueue/river
package tasks
