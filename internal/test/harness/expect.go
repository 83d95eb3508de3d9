package harness

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Want requires a member of a message, at a path as [At] follows it. Errors show the whole message.
func Want(t testing.TB, what string, message, want any, path ...any) {
	t.Helper()
	if got := At(message, path...); got != want {
		t.Errorf("%s: %v is %v, want %v, in %v", what, path, got, want, message)
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
