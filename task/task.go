// Package task is the contract between the servers that run durable tasks and the stores that keep them. A task is work
// that survives the process, waits for input without holding anything, and goes on in any instance that shares the
// store.
//
// A [Task] is one small row: its principal, its status, its open questions. What its work has recorded, the journal,
// is kept apart from it, so that reading the status costs the same after any amount of work. A [Store] keeps both:
// task/sqlite and task/postgres durably, [MemoryStore] for as long as the process lives. task/storetest is the suite
// that every store must pass.
//
// Package askback runs calls of tools as tasks, with the [Settings] and the Store of its Tasks. Package desk is for the
// operator of the store. Use this package to configure tasks, or to write a store.
//
// What a server promises on a store that keeps its contract:
//
//   - A task exists before its client knows its ID.
//   - At any time at most one worker can write to a task: a [Claim] has a number, which rises with each claim, and a
//     random nonce, and a worker that lost its lease can commit nothing.
//   - What a worker recorded is there for the next one, unless the database itself loses commits, as an asynchronous
//     failover does. Even then two workers never write under one claim: see docs/production.md, Failover.
//   - A parked task is a row and nothing else.
package task

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"time"
)

// Status is the state of a task as the client sees it.
type Status string

// The statuses of a task. The last three are terminal.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Terminal reports whether a task with this status has ended.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is the row of a task. To stores each []byte is opaque. Times have a resolution of a millisecond.
type Task struct {
	ID        string // at least 128 random bits
	Principal string // the owner; "" is the anonymous principal
	Method    string // the method of the request that became a task, such as "tools/call"
	Target    string // the tool's name, or what else the method names
	Dialect   string // the dialect of the client that made it; only its server looks at it

	Status       Status
	Message      string // for people: the progress, or the reason of a failure
	Pending      []byte // the open questions; empty unless the status is InputRequired
	Outcome      []byte // the result or the error; empty unless it completed or failed
	Round        int    // how many rounds ended without an outcome
	Created      time.Time
	Updated      time.Time
	Expires      time.Time // when its time to live ends; it never moves to an earlier time
	PollInterval time.Duration

	// Events says that an [EventLog] logs what becomes of the task. It does not change once the task is created.
	Events bool
	// Stopped says that a cancellation or the end of its time to live ended the task. Its
	// handler may have to clean up.
	Stopped bool
	// Attempts counts the claims since the task last recorded anything. A server that stops leaves -1, so that the next
	// claim does not count: no run was lost.
	Attempts int
	// Version rises with every [Store.Update].
	Version int64
	// Claim is the last claim. [Store.Claim], and a Create or Update with a lease, make a new one.
	Claim
}

// Claim identifies a claim of a task. Two claims are the same only if both fields are equal. A task that nobody has
// claimed has the zero value.
type Claim struct {
	// Fence is the number of the claim, one more than the number of the previous claim. If the database has lost commits,
	// the number proves nothing, because the next claim then has the number of the lost one.
	Fence int64
	// Nonce is random, with at least 128 bits, in letters and digits, and distinguishes a claim from a lost claim with the
	// same number.
	Nonce string
}

// Errors of a [Store].
var (
	// ErrNotFound says that there is no task with this ID.
	ErrNotFound = errors.New("task not found")
	// ErrConflict says that the task was changed meanwhile: read it again.
	ErrConflict = errors.New("the task was changed meanwhile")
	// ErrEnded says that the task is in a terminal status, and that does not change.
	ErrEnded = errors.New("the task has ended")
	// ErrLeaseLost says that another worker has claimed the task, or that the database has lost the claim.
	ErrLeaseLost = errors.New("the lease on the task is lost")
	// ErrExists says that there is a task with this ID already.
	ErrExists = errors.New("there is a task with this id already")
)

// Update says what to write of a task besides its row, and under which conditions.
type Update struct {
	// Leased requires that the Claim of the given task is the stored one. A worker sets it in all its updates.
	Leased bool
	// Keep leaves the time at which the task is due as it is: a running task stays leased, and a parked one stays parked.
	// With Leased it prolongs the lease: see [Store.Append].
	Keep bool
	// Lease claims the task for the writer, as [Store.Claim] does, if it is more than zero: in the store and in the given
	// task, Fence and Attempts rise by one, and the Nonce is new. Keep and Due are ignored then.
	Lease time.Duration
	// TTL makes the task live at least so long from now. Zero leaves Expires as it is.
	TTL time.Duration
	// Expired requires that the time to live of the task has ended, by the clock of the store.
	Expired bool
	// Due is the time from now after which the task may be claimed. Negative means that the
	// task is parked: it cannot be claimed. With Keep, Due is ignored.
	Due time.Duration
	// Ask are the questions that are open while the task is parked, if it is: see [Question].
	Ask []*Question
	// Answered are keys of questions that the task's client has answered: see [Question].
	Answered []string
	// Entries are added to the journal.
	Entries [][]byte
	// Quota bounds the bytes that the task's principal has once the Entries are added. Its other fields are ignored.
	// A worker sets none: what it has done must be recorded.
	Quota Quota
}

// Filter selects tasks of a [Store]. A nil field lets all pass.
type Filter struct {
	Statuses   []Status
	Principals []string // "" is the anonymous one
	Targets    []string
}

// Load is how many tasks of a principal and a target a server runs.
type Load struct {
	Principal, Target string
	Tasks             int // more than zero
}

// Leased names a task, and the claim under which somebody has it.
type Leased struct {
	ID string
	Claim
}

// Renewed is the result of renewing a lease.
type Renewed struct {
	// Err is nil, or ErrLeaseLost if the task has another claim, or ErrNotFound. After any other error the lease was not
	// renewed, and Renew can be tried again.
	Err     error
	Version int64 // of the task, if Err is nil
}

// Claimed is a task that was claimed, with its journal: the call and the entries. A Call that is nil says that the
// journal was not read.
type Claimed struct {
	*Task
	Call    []byte
	Entries [][]byte
}

// Name returns the name by which operators know a task: in lists, log lines, audit events, spans and notifications. The
// ID cannot be had from it, and the ID can be all that protects a task. It has 26 letters and digits, so that it can be
// typed.
func Name(id string) string {
	sum := sha256.Sum256([]byte(id))
	return nameEncoding.EncodeToString(sum[:16])
}

var nameEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)
