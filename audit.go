package askback

import "github.com/askback-mcp/askback/internal/report"

// AuditEvent is one fact for [Options.Audit]: who did what, in which call, and what came of it. It never holds an
// answer, an argument, a result, a requestState or a task's id. A field that its kind does not name is empty.
//
// Facts are told as they happen, at least once: a round that a client repeats, or a task's run that another worker
// repeats, is told again. What is told of one round is in order, except that the answer to a task's question is told
// when it is stored, by which time a worker may have gone on with it.
type AuditEvent struct {
	// one of AuditAsked, AuditAnswered, AuditVoted, AuditDecided, AuditUnanswered, AuditRecalled, AuditStep, AuditRefused,
	// AuditShed, AuditState, AuditCancelled and AuditEnded
	Kind      string
	Principal string // the caller, or "" for an anonymous one
	Method    string // such as "tools/call"; "" for what is refused before it is read
	Target    string // the tool's or prompt's name, or the resource's URI; "" for a request about a task
	Call      string // what [Call.ID] returns; "" before the call is known
	Task      string // the name of the task that the call is or that the request is about (see task.Name), or ""
	Round     int    // what [Call.Round] returns; 0 before the call is known
	Key       string // of the question, or the name of the step
	Digest    string // of the question as its client sees it, in hex; "" where a handler asks past its Call
	Action    string // of an answer to an elicitation: accept, decline or cancel
	Reason    string // see the kinds; few and fixed, so that it serves as a metric's label
	By        string // who did it in place of the Principal
	Channel   string // what By did it through: see package input
	Why       string // in the words of By
	For       string // who may answer the question in place of the Principal, separated by commas
}

// The kinds of an [AuditEvent].
const (
	// AuditAsked: a round ended with the question Key, a session's client was sent it, or it was put to the people in For.
	// An answer names the same Digest.
	AuditAsked = report.AuditAsked

	// AuditAnswered: a handler got the client's answer to the question Key for the first time. An answer that does not fit
	// its question does not count as an answer.
	AuditAnswered = report.AuditAnswered

	// AuditVoted: By has voted on the question Key, through the Channel, with the Action and for the reason Why. It is
	// told with the decision, by the instance whose worker gives that to the handler, and so are the votes that did not
	// count.
	AuditVoted = report.AuditVoted

	// AuditDecided: people have decided the question Key, with the Action.
	AuditDecided = report.AuditDecided

	// AuditUnanswered: the deadline of the question Key passed before anybody answered it, or enough people did.
	AuditUnanswered = report.AuditUnanswered

	// AuditRecalled: a call has passed by a decision that By has made before, through the Channel, on an equal call: see
	// [Verdict].Remember. It is told for each person who has voted for it.
	AuditRecalled = report.AuditRecalled

	// AuditStep: the step Key ran. The Reason is completed, and the step recorded, or failed.
	AuditStep = report.AuditStep

	// AuditRefused: a request or its requestState was refused. The Reason is caller (the principal could not be
	// named), session (it is another caller's), authorize, replayed (by [Options.ReplayGuard]), or what a state did not
	// match: one of the Reason constants of package seal, no_store, stored_missing, stored_altered or payload. Or it is
	// late, and only the answer to the question Key was refused, which came after its deadline.
	AuditRefused = report.AuditRefused

	// AuditShed: a call was handed back to its client with a state and no questions, because of Limits.Calls.
	AuditShed = report.AuditShed

	// AuditState: something worth a metric became of a requestState. The Reason is an Outcome of package state.
	AuditState = report.AuditState

	// AuditCancelled: By has cancelled a task with package desk, for the reason Why. It is told by the instance that
	// cleans up, before AuditEnded, and again if that has to be repeated.
	AuditCancelled = report.AuditCancelled

	// AuditEnded: a call ended. The Reason is completed, failed, limit, capability (the client lacks one), task (the
	// call is one from now on, and ends again as such) or cancelled (also where the client has gone away: outside of
	// sessions it may repeat the round).
	AuditEnded = report.AuditEnded
)
