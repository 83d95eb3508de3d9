package harness

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Must returns v. An error is a mistake in the test's own preparations, and ends it.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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

// Want requires a member of a message, at a path as [At] follows it. Errors show the whole message.
func Want(t testing.TB, what string, message, want any, path ...any) {
	t.Helper()
	if got := At(message, path...); got != want {
		t.Errorf("%s: %v is %v, want %v, in %v", what, path, got, want, message)
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

// Bubble runs a test beside others, in a bubble of time. At its end sessions become idle, and end.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(31 * time.Minute) })
		test(t)
	})
}

// Serve starts a server over HTTP for as long as the test runs.
func Serve(t testing.TB, h http.Handler) *httptest.Server {
	web := httptest.NewServer(h)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web
}

// InTime returns a context for what has to happen soon, also on a busy machine.
func InTime(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
