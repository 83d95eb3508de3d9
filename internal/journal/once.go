package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// UnknownOutcomeError reports that a step of [Run.StepOnce] was begun, and that nobody knows whether it happened.
type UnknownOutcomeError struct {
	Step  string
	Since time.Time // when it began
	By    string    // the instance that began it
	Cause string    // what it failed with, or empty if its instance stopped
}

func (e *UnknownOutcomeError) Error() string {
	why := "its process stopped"
	if e.Cause != "" {
		why = e.Cause
	}
	return fmt.Sprintf("the step %q began at %s, and nobody knows whether it happened: %s", e.Step,
		e.Since.UTC().Format(time.RFC3339), why)
}

// Unwrap returns [ErrRecorded].
func (e *UnknownOutcomeError) Unwrap() error { return ErrRecorded }

// DidNotHappenError is the error of a step of [Run.StepOnce] that certainly had no effect.
type DidNotHappenError struct{ Reason string }

func (e *DidNotHappenError) Error() string { return e.Reason }

// Unwrap returns [ErrRecorded].
func (e *DidNotHappenError) Unwrap() error { return ErrRecorded }

// StepOnce is [Run.Step] for a step that never runs twice: that it begins, at this time in this process, is recorded
// before. If it was begun before and has no result, it does not run, and the error is an [*UnknownOutcomeError]. A
// [*DidNotHappenError] of the step is recorded and returned alike in every run, and any other error as an
// [*UnknownOutcomeError].
func (r *Run) StepOnce(
	ctx context.Context, key string, now time.Time, by string, step func(context.Context) ([]byte, error),
) ([]byte, error) {
	return r.step(ctx, key, &Entry{Kind: Begun, Key: key, Value: appendBytes(appendTime(nil, now), by)}, step)
}

func (r *Run) outlive(ctx context.Context) (_ context.Context, done func()) {
	if r.Outlive == nil {
		return ctx, func() {}
	}
	return r.Outlive(ctx)
}

// mostCause bounds the bytes that are kept of what a step failed with.
const mostCause = 1 << 10

// failed records the error of a step that has begun, and returns it as every later run does.
func (r *Run) failed(ctx context.Context, begun *Entry, err error) error {
	e := Entry{Kind: Failed, Key: begun.Key, Value: []byte{0}}
	if _, did := errors.AsType[*DidNotHappenError](err); did {
		e.Value[0] = 1
	}
	text := err.Error()
	e.Value = append(e.Value, strings.ToValidUTF8(text[:min(len(text), mostCause)], "")...)
	if err := r.add(ctx, e); err != nil {
		return fmt.Errorf("step %q failed, and that was not recorded: %w", e.Key, err)
	}
	return begun.failure(&e)
}

// failure returns the error of a step that was begun, and has failed or no result.
func (e *Entry) failure(failed *Entry) error {
	d := decoder{data: e.Value}
	unknown := &UnknownOutcomeError{Step: e.Key, Since: d.time(), By: string(d.bytes())}
	if failed == nil || len(failed.Value) == 0 {
		return unknown
	}
	unknown.Cause = string(failed.Value[1:])
	if failed.Value[0] == 1 {
		return &DidNotHappenError{unknown.Cause}
	}
	return unknown
}
