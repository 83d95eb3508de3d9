// Package expect says in one line each what a test requires. It imports nothing of this module, so that the tests of
// every package can use it.
package expect

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Must returns a value, or ends the test with its error:
//
//	file := expect.Must(os.Open(name))(t)
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Check(t, err)
		return v
	}
}

// Check ends a test that has met an error. Without one it costs a benchmark nothing.
func Check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Err returns the error of two results.
func Err[T any](_ T, err error) error { return err }

// Equal requires that what was got is what was wanted.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Same requires that a list has these elements, in this order.
func Same[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Contains requires a part of a text.
func Contains(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %s\nwant a text with %q", what, text, part)
	}
}

// Is requires an error.
func Is(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error is %v, want %v", what, err, want)
	}
}

// Fails requires an error that says this.
func Fails(t testing.TB, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: the error is %v, want one that says %q", what, err, says)
	}
}

// Each yields the values of a sequence, which must have no error.
func Each[T any](t testing.TB, all iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v, err := range all {
			if Check(t, err); !yield(v) {
				return
			}
		}
	}
}

// Diff requires that what was got is equal to what was wanted, in all its parts.
func Diff(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
