package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// raw opens the file without the store.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path))
	expect.Check(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func mustExec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func query[T any](t testing.TB, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// touch writes to a store, so that all its files are there.
func touch(t testing.TB, s *Store) *task.Task {
	t.Helper()
	tk := &task.Task{ID: fmt.Sprint("task ", time.Now().UnixNano()), Principal: "alice", Status: task.Working}
	expect.Check(t, s.Create(t.Context(), tk, time.Hour, 0, []byte("call"), nil, task.Quota{}))
	return tk
}

// SQLite itself acknowledges what is written to a file that nobody can open again.
func TestAFileThatIsGoneTakesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed there")
	}
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "tasks.db")
			s := open(t, path)
			touch(t, s)
			expect.Check(t, lose(path))
			const gone = "the file was removed or replaced"
			n := &task.Task{ID: "lost", Status: task.Working}
			err := s.Create(t.Context(), n, time.Hour, 0, []byte("call"), nil, task.Quota{})
			expect.Fails(t, "a write", err, gone)
			// This is how a server looks whether it is ready.
			expect.Fails(t, "a read of a task that is not there", expect.Err(s.Get(t.Context(), "none")), gone)
			other := open(t, filepath.Join(t.TempDir(), "tasks.db"))
			touch(t, other)
		})
	}
}

func TestOnlyTheOwnerCanReadTheFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no such modes there")
	}
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := open(t, path)
	touch(t, s)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		expect.Check(t, err)
		if mode := info.Mode(); mode != 0o600 {
			t.Errorf("%s has mode %v, want -rw-------", filepath.Base(path+suffix), mode)
		}
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "tasks.db"))
	touch(t, s)
	expect.Check(t, s.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Errorf("there are %q, %v; want tasks.db", names, err)
	}
}

func TestEachConnectionIsSetUp(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000",
		"user_version": fmt.Sprint(version)} {
		if got := query[string](t, s.conn, "PRAGMA "+pragma); got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	expect.Equal(t, "whether readers only read", query[int](t, s.readers, "PRAGMA query_only"), 1)
}

func TestPathsOfAnyForm(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("some of these cannot be names there")
	}
	dir := t.TempDir()
	for _, name := range []string{"plain", "with space", "a?b=c", "a#b", "50%", "%41", "ünï", ":memory", "a&mode=memory",
		"-x", "a;b", "'"} {
		path := filepath.Join(dir, name)
		s := open(t, path)
		tk := touch(t, s)
		s.Close()
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		s = open(t, path)
		if _, err := s.Get(t.Context(), tk.ID); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		s.Close()
	}
	t.Chdir(dir)
	s := open(t, "relative.db")
	t.Chdir("/")
	touch(t, s)
	if _, err := os.Stat(filepath.Join(dir, "relative.db")); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, content string) string {
		path := filepath.Join(dir, name)
		expect.Check(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	database := func(name string, statements ...string) string {
		path := filepath.Join(dir, name)
		file(name, "")
		db := raw(t, path)
		for _, q := range statements {
			mustExec(t, db, q)
		}
		db.Close()
		return path
	}
	for _, c := range []struct{ says, path, want string }{
		{"no path", "", "not the path of a file"},
		{"memory", ":memory:", "not the path of a file"},
		{"a URI", "file:x.db", "not the path of a file"},
		{"no directory", filepath.Join(dir, "no", "tasks.db"), "create its directory first"},
		{"a directory", dir, "not a regular file"},
		{"text", file("text", strings.Repeat("this is not a database\n", 100)),
			"is not a SQLite database; choose another path"},
		{"little text", file("little", "x"), "is not a SQLite database; choose another path"},
		{"another application's tables", database("tables", "CREATE TABLE t (x)"), "database of another application"},
		{"another application's id", database("id", "PRAGMA application_id = 7"), "application_id is 0x7,"},
		{"another application's version", database("version", "PRAGMA user_version = 3"), "database of another application"},
		{"another schema", database("schema", fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			"PRAGMA user_version = 99"), "version 99, and this program knows version 2 only: run the"},
	} {
		t.Run(c.says, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			s, err := Open(t.Context(), c.path)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("the error is %q, want it to name the path and say %q", err, c.want)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file has changed")
			}
		})
	}
}

func TestManyOpenANewFileAtOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		path := filepath.Join(t.TempDir(), "tasks.db")
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				s, err := Open(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				tk := &task.Task{ID: fmt.Sprint(i), Status: task.Working}
				if err := s.Create(t.Context(), tk, time.Hour, 0, nil, nil, task.Quota{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		expect.Equal(t, "the number", query[int](t, raw(t, path), "SELECT count(*) FROM task"), 6)
	}
}

func TestOpenWithAContextThatEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "tasks.db")); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want context.Canceled", err)
	}
}

// wantFailure requires that an error carries the driver's code, names the file and says
// what to do.
func wantFailure(t *testing.T, s *Store, err error, code int, advice string) {
	t.Helper()
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || e.Code()&0xff != code {
		t.Fatalf("the error is %v, want one of the driver with code %d", err, code)
	}
	for _, part := range []string{"append to the journal of a task", s.path, advice} {
		expect.Contains(t, "the error", err.Error(), part)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	big := make([]byte, 1<<20)
	t.Run("locked by another process", func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
		tk := touch(t, s)
		other := raw(t, s.path)
		other.SetMaxOpenConns(1)
		mustExec(t, other, "BEGIN IMMEDIATE")
		mustExec(t, s.conn, "PRAGMA busy_timeout = 20")
		wantFailure(t, s, s.Append(t.Context(), tk.ID, tk.Claim, 0, big), sqlite3.SQLITE_BUSY,
			"another process has kept the file locked")

		mustExec(t, s.conn, "PRAGMA busy_timeout = 60000")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		expect.Is(t, "the error", s.Append(ctx, tk.ID, tk.Claim, 0, big), context.DeadlineExceeded)
		if _, err := s.Get(t.Context(), tk.ID); err != nil {
			t.Errorf("reading while another process writes: %v", err)
		}
		mustExec(t, other, "ROLLBACK")
		if err := s.Append(t.Context(), tk.ID, tk.Claim, 0, big); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("full", func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
		tk := touch(t, s)
		mustExec(t, s.conn, "PRAGMA max_page_count = 100")
		wantFailure(t, s, s.Append(t.Context(), tk.ID, tk.Claim, 0, big), sqlite3.SQLITE_FULL, "the disk is full; make room")
		mustExec(t, s.conn, "PRAGMA max_page_count = 10000")
		if err := s.Append(t.Context(), tk.ID, tk.Claim, 0, big); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if _, entries, err := s.Journal(t.Context(), tk.ID, -1); err != nil || len(entries) != 1 {
			t.Errorf("the journal has %d entries, %v; want 1", len(entries), err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
		tk := touch(t, s)
		mustExec(t, s.conn, "PRAGMA query_only = 1")
		wantFailure(t, s, s.Append(t.Context(), tk.ID, tk.Claim, 0, big), sqlite3.SQLITE_READONLY,
			"let this user write to it")
	})
}

// A writer waits for its turn no longer than its context lasts.
func TestAWriterWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	tk := touch(t, s)
	s.writing <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	expect.Is(t, "the error", s.Append(ctx, tk.ID, tk.Claim, 0, nil), context.DeadlineExceeded)
	<-s.writing
	expect.Check(t, s.Append(t.Context(), tk.ID, tk.Claim, 0, nil))
}

// A task that cannot be deleted keeps no other in the store, however few are deleted at once.
func TestATaskThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	for i := range 6 {
		tk := &task.Task{ID: fmt.Sprint(i), Principal: "alice", Status: task.Working}
		expect.Check(t, s.Create(t.Context(), tk, -time.Hour, 0, []byte("call"), nil, task.Quota{}))
		tk.Status = task.Completed
		expect.Check(t, s.Update(t.Context(), tk, task.Update{Due: -1}))
	}
	mustExec(t, s.conn, `CREATE TRIGGER poison BEFORE DELETE ON task WHEN OLD.id IN ('0', '2')
		BEGIN SELECT RAISE(ABORT, 'poisoned'); END`)
	if n, err := s.Purge(t.Context(), 0, 2); n != 2 || err == nil || !strings.Contains(err.Error(), "poisoned") {
		t.Errorf("Purge: %d, %v", n, err)
	}
	if n, err := s.Evict(t.Context(), "alice", -time.Hour, 9); n != 2 || err == nil {
		t.Errorf("Evict: %d, %v", n, err)
	}
	expect.Equal(t, "tasks are left", query[int](t, s.conn, "SELECT count(*) FROM journal"), 2)
	mustExec(t, s.conn, `DROP TRIGGER poison`)
	expect.Equal(t, "Purge afterwards", expect.Must(s.Purge(t.Context(), 0, 9))(t), 2)
}

// A file of another schema is told from ours by its version, and not by the errors of its statements.
func TestAnotherSchemaHasAnotherVersion(t *testing.T) {
	const sum = 0x6e033386 // of the schema with this version
	if now := crc32.ChecksumIEEE([]byte(schema)); now != sum {
		t.Errorf("the schema has changed since version %d: count the version up, and note %#x here", version, now)
	}
}
