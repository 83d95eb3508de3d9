package task

import (
	"errors"
	"fmt"
)

// Quota bounds what one principal has in a store, or says how much it has. As a bound, a field that is 0 bounds
// nothing.
type Quota struct {
	Unfinished int   // tasks that have not ended
	Kept       int   // tasks that are stored, including those that have ended
	Bytes      int64 // size of their calls, journals, outcomes and what they ask their clients; not of a [Question]
	Notices    int   // notices that wait to be delivered; see [Store.Listen], which refuses no write for it
}

// Check returns a [*QuotaError] if a principal that has used may not add that much. Every [Store] calls it, so that
// all of them have the same rule.
func (q Quota) Check(used, add Quota) error {
	passes := func(used, add, max int64) bool { return max > 0 && add > 0 && used+add > max }
	switch {
	case passes(int64(used.Unfinished), int64(add.Unfinished), int64(q.Unfinished)):
		return &QuotaError{Max: Quota{Unfinished: q.Unfinished}}
	case passes(int64(used.Kept), int64(add.Kept), int64(q.Kept)):
		return &QuotaError{Max: Quota{Kept: q.Kept}}
	case passes(used.Bytes, add.Bytes, q.Bytes):
		return &QuotaError{Max: Quota{Bytes: q.Bytes}}
	}
	return nil
}

// ErrQuota says that the principal has as much in the store as its [Quota] allows. The error is a [*QuotaError].
var ErrQuota = errors.New("the quota of tasks is used up")

// QuotaError is the error of a write that would pass a bound of a [Quota]. It matches [ErrQuota].
type QuotaError struct {
	Max Quota // only the field whose bound is reached is set
}

// Error names the bound, and says what makes room.
func (e *QuotaError) Error() string {
	switch {
	case e.Max.Unfinished > 0:
		return fmt.Sprintf("too many unfinished tasks: at most %d may be under way for one caller; "+
			"wait for some to end, or cancel them", e.Max.Unfinished)
	case e.Max.Kept > 0:
		return fmt.Sprintf("too many tasks: at most %d are kept for one caller, including those that have ended; "+
			"try again later, when older ones make room", e.Max.Kept)
	}
	return fmt.Sprintf("too much in tasks: the tasks of one caller hold at most %d bytes; "+
		"cancel some, or try again later, when older ones make room", e.Max.Bytes)
}

// Is reports whether target is [ErrQuota].
func (e *QuotaError) Is(target error) bool { return target == ErrQuota }
