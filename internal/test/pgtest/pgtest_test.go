//go:build unix

package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, two := DSN(t), DSN(t)
	if one == two {
		t.Fatalf("both are %s", one)
	}
	query(t, one, "CREATE TABLE a (b int)")
	if got := query(t, two, "SELECT count(*)::text FROM pg_class WHERE relname = 'a'"); got != "0" {
		t.Errorf("the second database has a table of the first")
	}
}

func TestTheDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	admin := DSN(t)
	var name string
	t.Run("inner", func(t *testing.T) {
		name = query(t, DSN(t), "SELECT current_database()::text")
	})
	if got := query(t, admin, "SELECT count(*)::text FROM pg_database WHERE datname = '"+name+"'"); got != "0" {
		t.Errorf("%s is still there", name)
	}
}

func TestAServerStopsAndStarts(t *testing.T) {
	t.Parallel()
	s := Start(t)
	query(t, s.DSN(), "CREATE TABLE a (b int)")
	query(t, s.DSN(), "INSERT INTO a VALUES (1)")
	check(t, s.Stop())
	if conn, err := pgx.Connect(t.Context(), s.DSN()); err == nil {
		conn.Close(t.Context())
		t.Fatal("it accepts a connection after Stop")
	}
	for range 2 {
		check(t, s.Restart())
		if got := query(t, s.DSN(), "SELECT count(*)::text FROM a"); got != "1" {
			t.Errorf("%s rows after a restart, want 1", got)
		}
	}
}

func TestNothingRemains(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"return", "panic", "kill"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			if foreign(t) != "" {
				t.Skip("the server is not of this machine")
			}
			_, err := binaries()
			check(t, err)
			dir, err := os.MkdirTemp("/tmp", "pgtest")
			check(t, err)
			defer os.RemoveAll(dir)
			check(t, os.Chmod(dir, 0o755|os.ModeSticky|0o022))
			child := exec.Command(os.Args[0], "-test.run=^TestChild$")
			child.Env = append(os.Environ(), "PGTEST_CHILD="+end, "TMPDIR="+dir)
			out, _ := child.CombinedOutput()
			pid, ok := strings.CutPrefix(strings.SplitN(string(out), "\n", 2)[0], "postmaster ")
			if !ok {
				t.Fatalf("the child started no server:\n%s", out)
			}
			deadline := time.Now().Add(30 * time.Second)
			for {
				left, _ := filepath.Glob(dir + "/*")
				process := exec.Command("kill", "-0", pid).Run()
				if len(left) == 0 && process != nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("still there: %v, process %s (%v)", left, pid, process)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

// TestChild is a process that uses a server and ends.
func TestChild(t *testing.T) {
	end := os.Getenv("PGTEST_CHILD")
	if end == "" {
		t.Skip("for TestNothingRemains")
	}
	if os.Getenv("PGTEST_NO_PROGRAMS") != "" {
		distribution = ""
	}
	DSN(t)
	server, err := startQuick()
	check(t, err)
	pid, err := os.ReadFile(filepath.Join(server.dir, "cluster", "postmaster.pid"))
	check(t, err)
	os.Stdout.WriteString("postmaster " + strings.SplitN(string(pid), "\n", 2)[0] + "\n")
	switch end {
	case "panic":
		panic("as wanted")
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		check(t, err)
		self.Kill()
		select {}
	}
}

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want string }{
		{"off", "--- SKIP: TestChild"},
		{"", "--- SKIP: TestChild"},
		{"", "apt-get install postgresql"},
		{"required", "--- FAIL: TestChild"},
		{"required", "apt-get install postgresql"},
	} {
		child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
		child.Env = []string{"PGTEST_CHILD=return", "PGTEST_NO_PROGRAMS=1", variable + "=" + c.value, "PATH=",
			"TMPDIR=" + os.TempDir()}
		out, _ := child.CombinedOutput()
		if !strings.Contains(string(out), c.want) {
			t.Errorf("with %s=%s the test says not %q but:\n%s", variable, c.value, c.want, out)
		}
	}
}

func query(t *testing.T, dsn, sql string) (first string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	check(t, err)
	defer conn.Close(ctx)
	if err = conn.QueryRow(ctx, sql).Scan(&first); !errors.Is(err, pgx.ErrNoRows) {
		check(t, err)
	}
	return first
}

func TestTheServerThatTheEnvironmentNames(t *testing.T) {
	s := Start(t)
	t.Setenv(variable, s.DSN())
	if got := query(t, DSN(t), "SELECT inet_server_port()::text"); got != strconv.Itoa(s.port) {
		t.Errorf("the database is on port %s, want %d", got, s.port)
	}
}
