//go:build !unix

package pgtest

import (
	"errors"
	"testing"
)

// A Server does not exist on this system.
type Server struct{ close func() }

// DSN is never called.
func (*Server) DSN() string { return "" }

// Stop is never called.
func (*Server) Stop() error { return errors.ErrUnsupported }

// Restart is never called.
func (*Server) Restart() error { return errors.ErrUnsupported }

func start(bool, *Server) (*Server, error) {
	return nil, &missingError{"a PostgreSQL for tests is not started on this system"}
}

// Pooler leaves the test out, or fails it.
func Pooler(t testing.TB, _, _ string) string {
	check(t, &missingError{"a PgBouncer for tests is not started on this system"})
	return ""
}
