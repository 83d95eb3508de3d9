// Package pgtest gives tests a real PostgreSQL.
//
//	store, err := postgres.Open(ctx, pgtest.DSN(t))
//
// Where it comes from is decided by the environment variable ASKBACK_TEST_POSTGRES:
//
//   - the URL of a server, such as postgres://user:password@127.0.0.1:5432/postgres, of
//     a user who may create databases: that server is used;
//   - off: tests that need a PostgreSQL are left out;
//   - nothing: the server's programs are looked for on this machine, and run with a
//     database cluster of their own in a temporary directory. If there are none, the
//     test is left out, and says how to have it (go test -v shows it);
//   - required: the same, but if there are none the test fails.
//
// The cluster is started when the first test asks for it, and is shared by the tests of
// a process. It ends and its files go when the process ends, however that comes about.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	variable = "ASKBACK_TEST_POSTGRES"

	// Values of the variable that are not URLs.
	off      = "off"
	required = "required"
)

// DSN returns the URL of a new and empty database, which is dropped at the end of the test. For a benchmark the
// server makes writes durable, as in production; for a test it does not, to be quick. It is safe for concurrent use.
func DSN(t testing.TB) string {
	t.Helper()
	if dsn := foreign(t); dsn != "" {
		return newDatabase(t, dsn)
	}
	start := startQuick
	if _, benchmark := t.(*testing.B); benchmark {
		start = startDurable
	}
	s, err := start()
	check(t, err)
	return newDatabase(t, s.DSN())
}

// Schemas returns a function that returns the URL of another empty schema each time, all of one database that is
// dropped at the end of the test. A schema is made much faster than a database. It is safe for concurrent use.
func Schemas(t testing.TB) (next func() string) {
	t.Helper()
	dsn := DSN(t)
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	var n atomic.Int64
	return func() string { return fmt.Sprintf("%s%ssearch_path=test%d", dsn, separator, n.Add(1)) }
}

// The servers that the tests of this process share: without and with fsync.
var (
	startQuick   = sync.OnceValues(func() (*Server, error) { return start(false, nil) })
	startDurable = sync.OnceValues(func() (*Server, error) { return start(true, nil) })
)

// Start starts a server for this test alone, which may stop and start it again. It ends with
// the test. A server that ASKBACK_TEST_POSTGRES names is not used for this.
func Start(t testing.TB) *Server {
	t.Helper()
	foreign(t)
	s, err := start(false, nil)
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

// Open starts a server for a program that is no test. It ends with the process, or when it is closed.
func Open() (*Server, error) { return start(false, nil) }

// Follow starts a server that begins with the data of s and follows it by asynchronous streaming replication. It ends
// with the process, or when it is closed.
func (s *Server) Follow() (standby *Server, err error) { return start(false, s) }

// Close ends the server and removes its files. It may be called again.
func (s *Server) Close() { s.close() }

// foreign returns the URL of the server that the environment names, if it names one.
func foreign(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv(variable)
	switch dsn {
	case off:
		t.Skipf("pgtest: %s=%s leaves out the tests that need a PostgreSQL", variable, off)
	case required:
		return ""
	}
	return dsn
}

// check ends a test with an error, if there is one. It skips the test where this machine has no PostgreSQL, unless the
// environment requires one.
func check(t testing.TB, err error) {
	t.Helper()
	if _, missing := errors.AsType[*missingError](err); missing && os.Getenv(variable) != required {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// missingError says that this machine has no PostgreSQL, and how to install one.
type missingError struct{ reason string }

func (e *missingError) Error() string {
	return fmt.Sprintf("pgtest: %s: install it, as with apt-get install postgresql, or set %s to the URL of a server, "+
		"or to %q to leave these tests out",
		e.reason, variable, off)
}

func newDatabase(t testing.TB, dsn string) string {
	t.Helper()
	name := "askback_test_" + strings.ToLower(rand.Text())
	admin := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := admin("CREATE DATABASE " + name); err != nil {
		t.Fatalf("pgtest: create a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the database of the test: %v", err)
		}
	})
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("pgtest: %s is not a URL", variable)
	}
	u.Path = "/" + name
	return u.String()
}
