package main

import (
	"time"
)

// violation is something that must not be.
type violation struct {
	kind kind
	text string
	at   time.Time // when it was found
}

// kind says which promise was broken.
type kind string

const (
	kindLost     kind = "lost"     // a task, an answer or a record is gone
	kindWrong    kind = "wrong"    // an outcome is not what the customer ordered
	kindAgain    kind = "again"    // a step ran again without need
	kindChanged  kind = "changed"  // a task changed that had ended
	kindEarly    kind = "early"    // a lease was taken before it had ended
	kindFence    kind = "fence"    // somebody wrote, or worked, under the lease of another
	kindRepeated kind = "repeated" // a journal has an entry twice
	kindEnded    kind = "ended"    // a server ended by itself, or did not when it was told to
)

// kinds are all of them, in the order of tables.
var kinds = []kind{kindLost, kindWrong, kindAgain, kindChanged, kindEarly, kindFence, kindRepeated, kindEnded}

func (v violation) String() string { return string(v.kind) + ": " + v.text }

// counter is something that a run counts, by its name in the summary.
type counter string

const (
	kills         counter = "kills"
	killsAimed    counter = "… aimed between a step and its record"
	killsStarting counter = "… before the server listened"
	killsAll      counter = "… of all servers at once"
	crashes       counter = "crashes of PostgreSQL"

	stops          counter = "servers stopped for a while"
	partitions     counter = "servers cut off from the database"
	restarts       counter = "servers ended by SIGTERM"
	rotations      counter = "steps of key rotations"
	lostByDatabase counter = "responses lost of the database"
	lostByServers  counter = "responses lost of servers"
	delayed        counter = "responses late"
	held           counter = "requests held until after a lease"
	silences       counter = "requests that the database itself left unanswered"

	completed      counter = "tasks completed"
	cancelled      counter = "tasks cancelled"
	proposals      counter = "tasks in the proposals' dialect"
	unacknowledged counter = "tasks whose creation was not acknowledged"
	calls          counter = "calls in rounds completed"
	broken         counter = "requests cut off"

	killsDecided counter = "… when a vote was given or a deadline passed"
	votersKilled counter = "processes of people killed"
	votes        counter = "votes acknowledged"
	decisions    counter = "questions decided by people"
	unanswered   counter = "questions decided by their deadline"
	deployments  counter = "calls decided by people completed"
	latest       counter = "milliseconds that a deadline was decided late, at the most"

	recorded        counter = "steps recorded"
	done            counter = "steps done"
	repeatedSteps   counter = "steps done again, as their process could not record them"
	late            counter = "steps done late, by processes that were stopped or cut off"
	leases          counter = "leases taken"
	recordedEntries counter = "entries recorded"
	leftovers       counter = "directories left of completed tasks, by interrupted steps"
)

// counters are all of them, in the order of the summary.
var counters = []counter{
	kills, killsAimed, killsDecided, killsStarting, killsAll, crashes, votersKilled,
	stops, partitions, restarts, rotations, lostByDatabase, lostByServers, delayed, held, silences,
	completed, cancelled, proposals, unacknowledged, calls, broken,
	votes, decisions, unanswered, deployments, latest,
	recorded, done, repeatedSteps, late, leases, recordedEntries, leftovers,
}
