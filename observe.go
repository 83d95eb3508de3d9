package askback

import (
	"time"

	"github.com/askback-mcp/askback/internal/report"
)

// Operation is something that a [Server] does and that takes time, for [Options.Observe]. It never holds an answer, an
// argument, a result, a requestState or a task's ID; only Meta can read what the client sent. A field that the kind
// does not name is zero. An operation must not be used after the function that Observe returned has been called.
type Operation struct {
	// OperationRequest, OperationRun, OperationStep, OperationQuestion, OperationStore or OperationNotice
	Kind string

	// Known when Observe is called:

	Began  time.Time
	Method string // such as "tools/call"; "" if the request was turned away, over HTTP, before its message was read
	Target string // the tool's or prompt's name, or the resource's URI, as the client sent it; "" if it is about a task
	Call   string // what [Call.ID] returns; "" if the request ended before its call was known
	// Task is the name of the task that the call is, or that the request is about: see task.Name. Of a request that
	// makes a task it is known at the end. It is "" where there is no task.
	Task  string
	Round int // what [Call.Round] returns, or 0
	// Step is the name of the step, the method of task.Store or one of its extensions, such as "Claim", or the kind of
	// the notice, such as "due_soon".
	Step string
	// the last run of the task did not end or park it: its worker stopped, failed or lost its lease
	Recovered bool

	// Request is the ID of the JSON-RPC request, cut to 64 bytes. It is "" where the SDK carries the message, which
	// does not tell it.
	Request string

	// Session is the ID of the session before 2026-07-28 that the request came in. It is "" for an anonymous caller,
	// whose session nothing but its ID protects.
	Session string

	Protocol  string // the protocol version
	Transport string // how the request came: TransportHTTP or TransportPipe

	// Meta returns a member of the request's _meta that is a string, such as "traceparent", or "". A run of a task has
	// the _meta of the request that became the task. The text is the client's own.
	Meta func(name string) string

	// Trace travels with the call: what Observe sets where it is empty is in every later operation of the call, on any
	// instance, and in the runs of its task. It travels in the requestState, encrypted, or is stored with the task:
	// keep it short. What is set in an operation without a Call, in a step or in a run of a task is lost.
	Trace string

	// Deadline is when a question is unanswered. Zero means that it waits without a deadline.
	Deadline time.Time

	// Waited is how long a question was open, and how long a run was due before its worker began it: zero if it is
	// Recovered. It is measured by the clocks of the store and of this process, and never negative.
	Waited time.Duration

	// Known at the end:

	// Outcome says how the operation ended.
	//
	//   - A request or run ends with one of the reasons of [AuditEnded], or with input_required.
	//   - A request also ends with shed (handed back because of Limits.Calls), refused (for the Reason) or unavailable
	//     (because of another limit).
	//   - A run also ends with interrupted, lease_lost, elsewhere (another process must continue), shutdown, stopped (the
	//     task was cancelled or has expired meanwhile) or cleaned_up.
	//   - A step ends with completed or failed.
	//   - A question ends with accept, decline, cancel or unanswered.
	//   - A call of the store ends with completed, also if the store refused it, such as a write that came too late, with
	//     failed, or with cancelled (the caller went away or the process stops).
	//   - A delivery of a notice ends with completed, failed (it is tried again), given_up or shutdown. A notice that was
	//     not kept because of Tasks.PerPrincipal.Notices has refused.
	Outcome string

	Reason string // why a request was refused: a reason of [AuditRefused]
	// of the JSON-RPC error that the client gets; 0 if it gets a result. A tool's own error is a result
	Code       int64
	Rounds     int      // how often the handler ran: more than once only in a session before 2026-07-28
	Asked      []string // the keys of the questions that the last round asked, or the key of the question
	StateBytes int      // of the requestState that the client gets
}

// The kinds of an [Operation], and its transports. Of a question, a call of the store and a notice Observe is called
// when they have ended, so that Outcome and the other fields are known then.
const (
	// OperationRequest is a request for a handler or about a task, from the gate to its outcome. Observe is called once
	// the call is known, which may have begun elsewhere and bring a Trace, or at the end if it never is.
	OperationRequest = report.OperationRequest

	// OperationRun is a run of a task by a worker.
	OperationRun = report.OperationRun

	// OperationStep is a step that runs, and its recording. A step whose result was recorded before does not run.
	OperationStep = report.OperationStep

	// OperationQuestion is a question of a task that people have decided, or whose deadline has passed, from Began,
	// when it was asked. It is told when a run of the task gets the decision, at least once. Questions that the client
	// answers do not count.
	OperationQuestion = report.OperationQuestion

	// OperationStore is a call of the store of tasks by this process: the Step is the method. Package desk's are not
	// among them.
	OperationStore = report.OperationStore

	// OperationNotice is one attempt of [DeskOptions].Notify to deliver a notice: the Step is its kind.
	OperationNotice = report.OperationNotice

	// How a request came.
	TransportHTTP = report.TransportHTTP
	TransportPipe = report.TransportPipe // standard input and output, or any other connection of whole messages
)
