// Package state is about what an operator may put beside requestState: a [Store], for a migration or for states that
// are too large to travel, and a [Guard], which makes every state single use. Most servers need neither: a
// requestState carries all that its call has to remember (package seal).
package state

import (
	"context"
	"time"
)

// Options put a store beside requestState, for one of two ends, or both. A server that keeps its state in a store
// today migrates in phases (Mode), and can tell in each whether the next is safe. And a state that is too large to
// travel may stay in the store (Overflow). docs/recipes.md has the way through
// the phases.
//
// What is in the store is not sealed: who reads it reads what the clients answered, and in the first two phases who
// writes to it decides how calls go on. A store that fails stops no call, except where Overflow needs it.
type Options struct {
	// Store is required. All instances share it, unless it is a [MemoryStore].
	Store Store

	// Mode is the phase of the migration. Empty means StatelessOnly.
	Mode Mode

	// Overflow is the size in bytes beyond which a requestState stays in the Store, and a reference travels, sealed
	// and bound as any state. It is at most the server's limit StateBytes, which bounds what travels; StoredBytes
	// bounds what stays. Zero means never. Every instance needs the Store before the first one has an Overflow.
	Overflow int
}

// Store keeps states. It is called concurrently, and the request waits for it: where a database may hang, give up after
// a time. The context is the context of the request. A phase that stores a state has 10 seconds instead, even if the
// client has gone away. What a method wrote is there for every instance when it returns. [MemoryStore] is one, and the
// Stores of task/sqlite and task/postgres are; task/storetest has a suite for others.
type Store interface {
	// PutState keeps data until expires, in place of earlier data under this id. Under call, which is not unique,
	// FindStates finds it, unless call is empty. An id has up to 64 bytes, a call too. It does not keep the slice.
	PutState(ctx context.Context, id, call string, data []byte, expires time.Time) error
	// SwapState is PutState if what GetState would read under this id is old, where nil is nothing. It reports
	// whether it was. Of several calls at once with the same old, one succeeds.
	SwapState(ctx context.Context, id, call string, old, data []byte, expires time.Time) (swapped bool, err error)
	// GetState reads the data under this id that has not expired, and nil if there is
	// nothing. The caller may modify it.
	GetState(ctx context.Context, id string) (data []byte, err error)
	// FindStates reads up to limit states under this call that have not expired.
	FindStates(ctx context.Context, call string, limit int) (data [][]byte, err error)
	// DeleteState deletes the data under this id, if there is any.
	DeleteState(ctx context.Context, id string) error
}

// Mode is a phase of the migration from a store to requestState.
type Mode string

const (
	// Dual is the first phase: every state travels sealed and is stored as well. When
	// one comes back it is compared with the stored one, which is the truth: the call goes
	// on from it if they differ, and also if none came back that opens.
	Dual Mode = "dual"
	// StatelessFirst is the second phase: the sealed state is the truth. States are
	// stored all the same, and looked up where none came back that opens.
	StatelessFirst Mode = "stateless-first"
	// StatelessOnly is the third phase: no state is stored or looked up, except for Overflow.
	StatelessOnly Mode = "stateless-only"
)

// Outcome is the result of looking for a state that a request should have: the Reason of an askback.AuditEvent of
// the kind AuditState. Outcomes are few, fixed and short, so they serve as a metric's label.
type Outcome string

// In Dual, the outcome of comparing a state that opened with the stored one.
const (
	// Same: they are the same.
	Same Outcome = "same"
	// Older: the client repeated an earlier round. That is no fault: responses get lost. The call goes on from the
	// stored state, so that no step runs twice, unless its handler is in the SDK's manual style.
	Older Outcome = "older"
	// Behind: the stored state is of an earlier round, because it could not be
	// written when it was due. The call goes on from the sealed one.
	Behind Outcome = "behind"
	// Different: they are of one round and not the same. The call goes on from the
	// stored one, unless its handler is in the SDK's manual style. Requests of one call that
	// ran at the same time can lead to it; anything else is a fault.
	Different Outcome = "different"
	// Absent: none is stored. The call has ended and the client repeats its last round, or it began before the store
	// was there, or the store lost it. The call goes on from the sealed one.
	Absent Outcome = "absent"
)

// In Dual and StatelessFirst, the outcome for a request that has answers but no
// state, or a state that does not open, which is refused as well (AuditRefused).
const (
	// Missing: there was no state, and the call went on from the stored one.
	Missing Outcome = "missing"
	// Invalid: the state did not open, and the call went on from the stored one.
	Invalid Outcome = "invalid"
	// Unknown: no call like the request's is stored, or its caller is anonymous, so that nobody can tell whose call it is,
	// or the [Guard] has its round among the used ones. A request without a state began a new call, one with a state was
	// refused.
	Unknown Outcome = "unknown"
	// Ambiguous: several such calls are stored. The request fared as with Unknown.
	Ambiguous Outcome = "ambiguous"
)

// In every mode.
const (
	// Overflowed: the state stays in the store because of its size.
	Overflowed Outcome = "overflowed"
	// Failed: the store failed, or holds data that cannot be read. The log has the error.
	Failed Outcome = "failed"
)
