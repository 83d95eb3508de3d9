package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/storetest"
)

// TestMain lets more tests run in parallel than there are processors: most of them wait for the server. A -parallel on
// the command line counts nevertheless.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

func TestStore(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schemas(t)
	storetest.Run(t, func(*testing.T) func(*testing.T) task.Store {
		dsn := schema()
		return func(t *testing.T) task.Store { return open(t, dsn) }
	})
}

// A backup of the database is put back.
func TestStoreThatLosesCommits(t *testing.T) {
	t.Parallel()
	storetest.RunLostCommits(t, func(t *testing.T) (func(*testing.T) task.Store, func(*testing.T) func(*testing.T)) {
		dsn := pgtest.DSN(t)
		config, err := pgx.ParseConfig(dsn)
		expect.Check(t, err)
		name, backup := config.Database, config.Database+"_backup"
		config.Database = "postgres" // nobody may be connected to one that is copied
		admin := func(t *testing.T, statements ...string) {
			t.Helper()
			conn, err := pgx.ConnectConfig(context.Background(), config)
			expect.Check(t, err)
			defer conn.Close(context.Background())
			for _, sql := range statements {
				if _, err := conn.Exec(context.Background(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		}
		t.Cleanup(func() { admin(t, "DROP DATABASE IF EXISTS "+backup) })
		return func(t *testing.T) task.Store { return open(t, dsn) }, func(t *testing.T) func(*testing.T) {
			admin(t, "DROP DATABASE IF EXISTS "+backup, "CREATE DATABASE "+backup+" TEMPLATE "+name)
			return func(t *testing.T) { admin(t, "DROP DATABASE "+name, "CREATE DATABASE "+name+" TEMPLATE "+backup) }
		}
	})
}

// Through a pooler statements may not be prepared.
func TestEveryWayToSendAStatement(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, with(dsn, "search_path="+mode, "default_query_exec_mode="+mode))
			ctx := t.Context()
			n := newTask()
			n.Pending = []byte{0, 255, '\''}
			expect.Check(t, s.Create(ctx, n, -time.Hour, 0, nil, [][]byte{{0}, nil, []byte("'")},
				task.Quota{Unfinished: 1}))
			if err := s.Create(ctx, newTask(), time.Hour, 0, nil, nil, task.Quota{Unfinished: 1}); !errors.Is(err,
				task.ErrQuota) {
				t.Errorf("beyond the quota the error is %v", err)
			}
			c, err := claimOne(s, ctx, "", nil, time.Minute)
			expect.Check(t, err)
			if _, err := renewOne(s, ctx, c.ID, c.Claim, time.Minute); err != nil {
				t.Error(err)
			}
			expect.Check(t, s.Append(ctx, c.ID, c.Claim, 3, []byte("a")))
			c.Status, c.Attempts = task.Working, 0
			expect.Check(t, s.Update(ctx, c, task.Update{Leased: true, Keep: true, Entries: [][]byte{[]byte("u")}}))
			if got, err := s.Get(ctx, c.ID); err != nil || !cmp.Equal(got, c) {
				t.Errorf("Get: %v, %s", err, cmp.Diff(c, got))
			}
			if ts, err := s.List(ctx, "alice", "extension", time.Time{}, "", 5); err != nil || len(ts) != 1 {
				t.Errorf("List: %v, %v", ts, err)
			}
			if ts, err := s.List(ctx, "alice", "extension", c.Created, c.ID, 5); err != nil || len(ts) != 0 {
				t.Errorf("List: %v, %v", ts, err)
			}
			if ids, err := s.Expired(ctx, 5); err != nil || len(ids) != 1 {
				t.Errorf("Expired: %v, %v", ids, err)
			}
			_, entries, err := s.Journal(ctx, c.ID, -1)
			if got := fmt.Sprintf("%q", entries); err != nil || got != `["\x00" "" "'" "a" "u"]` {
				t.Errorf("Journal: %s, %v", got, err)
			}
			c.Status = task.Completed
			expect.Check(t, s.Update(ctx, c, task.Update{Leased: true, Due: -1}))
			expect.Equal(t, "Purge", expect.Must(s.Purge(ctx, 0, 5))(t), 1)
		})
	}
}

func TestSchemasDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := open(t, with(dsn, "search_path=a")), open(t, with(dsn, "search_path=b"))
	ctx := t.Context()
	n := create(t, a, newTask())
	if _, err := b.Get(ctx, n.ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("Get in the other schema: %v, want %v", err, task.ErrNotFound)
	}
	if c, err := claimOne(b, ctx, "", nil, time.Minute); c != nil || err != nil {
		t.Errorf("Claim in the other schema: %v, %v", c, err)
	}
	changed, _ := watch(t, b)
	create(t, a, newTask())
	another := open(t, with(dsn, "search_path=b"))
	m := create(t, another, newTask())
	expect.Equal(t, "Watch in the other schema told", soon(t, changed), task.Name(m.ID))
}

func TestTextThatCannotBeStored(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.DSN(t))
	ctx := t.Context()
	for _, bad := range []struct{ text, want string }{
		{"a\x00b", "has a zero byte"},
		{"a\xffb", "is not valid UTF-8"},
		{"\xed\xa0\x80", "is not valid UTF-8"},
	} {
		for name, set := range map[string]func(*task.Task){
			"ID":        func(t *task.Task) { t.ID = bad.text },
			"Principal": func(t *task.Task) { t.Principal = bad.text },
			"Method":    func(t *task.Task) { t.Method = bad.text },
			"Target":    func(t *task.Task) { t.Target = bad.text },
			"Dialect":   func(t *task.Task) { t.Dialect = bad.text },
			"Status":    func(t *task.Task) { t.Status = task.Status(bad.text) },
		} {
			n := newTask()
			set(n)
			err := s.Create(ctx, n, time.Hour, 0, nil, nil, task.Quota{})
			if want := fmt.Sprintf("the %s %q %s", name, bad.text, bad.want); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("Create: the error is %v, want one that has %q", err, want)
			}
		}
		if _, err := s.Get(ctx, bad.text); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Get of %q: %v", bad.text, err)
		}
		if _, _, err := s.Journal(ctx, bad.text, -1); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Journal of %q: %v", bad.text, err)
		}
		if err := s.Append(ctx, bad.text, task.Claim{}, 0, nil); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Append to %q: %v", bad.text, err)
		}
		if _, err := renewOne(s, ctx, bad.text, task.Claim{}, 0); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Renew of %q: %v", bad.text, err)
		}
		if err := s.Update(ctx, &task.Task{ID: bad.text}, task.Update{}); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Update of %q: %v", bad.text, err)
		}
		if ts, err := s.List(ctx, bad.text, "", time.Time{}, "", 9); len(ts) != 0 || err != nil {
			t.Errorf("List of %q: %v, %v", bad.text, ts, err)
		}

		// A task can end, whatever it has to say.
		n := create(t, s, newTask())
		n.Message, n.Status = "<"+bad.text+">", task.Failed
		expect.Check(t, s.Update(ctx, n, task.Update{Due: -1}))
		got, err := s.Get(ctx, n.ID)
		expect.Check(t, err)
		if !strings.HasPrefix(got.Message, "<") || !strings.Contains(got.Message, "\ufffd") ||
			!strings.HasSuffix(got.Message, ">") {
			t.Errorf("the message %q came back as %q", n.Message, got.Message)
		}
		if c, err := claimOne(s, ctx, bad.text, []string{bad.text}, time.Minute); c != nil || err != nil {
			t.Errorf("Claim after %q: %v, %v", bad.text, c, err)
		}
	}
}

// Claims wait neither for each other nor for the writer of a task.
func TestClaimPassesOverWhatIsLocked(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := open(t, dsn)
	ctx := t.Context()
	locked := create(t, s, newTask())
	other := newTask()
	other.Principal = "zoe"
	create(t, s, other)
	tx, err := bare(t, dsn).Begin(ctx)
	expect.Check(t, err)
	defer tx.Rollback(ctx)
	expect.Must(tx.Exec(ctx, "SELECT FROM askback.task WHERE id = $1 FOR NO KEY UPDATE", locked.ID))(t)
	short, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if c, err := claimOne(s, short, "", nil, time.Minute); err != nil || c == nil || c.ID != other.ID {
		t.Errorf("Claim took %v (%v), want the task that is not locked", c, err)
	}
	if c, err := claimOne(s, short, "", nil, time.Minute); err != nil || c != nil {
		t.Errorf("Claim took %v (%v), want nothing", c, err)
	}
	expect.Check(t, tx.Rollback(ctx))
	if c, err := claimOne(s, ctx, "", nil, time.Minute); err != nil || c == nil || c.ID != locked.ID {
		t.Errorf("Claim took %v (%v), want the task that was locked", c, err)
	}
}

// A worker may write late to a task that has ended. Its entry is there and then goes with
// the task, or is refused.
func TestPurgeLeavesNothingOfAJournal(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := open(t, dsn)
	pool := bare(t, dsn)
	ctx := t.Context()
	for range 30 {
		n := newTask()
		n.Status = task.Completed
		expect.Check(t, s.Create(ctx, n, -time.Minute, 0, call, nil, task.Quota{}))
		expect.Check(t, s.Update(ctx, n, task.Update{Due: -1}))
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				for there := 0; ; there++ {
					err := s.Append(ctx, n.ID, n.Claim, there, entry)
					if errors.Is(err, task.ErrNotFound) {
						return
					}
					if err != nil && !errors.Is(err, task.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		for {
			purged, err := s.Purge(ctx, 0, 10)
			expect.Check(t, err)
			if purged == 1 {
				break
			}
		}
		writers.Wait()
	}
	var left int
	expect.Check(t, pool.QueryRow(ctx, "SELECT count(*) FROM askback.journal").Scan(&left))
	expect.Equal(t, "entries are left of journals whose tasks are gone", left, 0)
}

func TestTheServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := open(t, with(server.DSN(), "pool_max_conns=5"))
	ctx := t.Context()
	var kept []*task.Task

	for range 3 {
		// Several connections are open, and none has rested.
		var clients sync.WaitGroup
		for range 5 {
			clients.Go(func() {
				for range 20 {
					if _, err := s.Expired(ctx, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		kept = append(kept, create(t, s, newTask()))

		watchContext, cancel := context.WithCancel(ctx)
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- s.Watch(watchContext, func() { close(ready) }, func(string, bool) {}) }()
		soon(t, ready)

		expect.Check(t, server.Stop())
		if err := soon(t, ended); err == nil {
			t.Error("Watch returned no error when the server had gone")
		}
		cancel()
		_, err := s.Get(ctx, kept[0].ID)
		for range 9 {
			if err == nil || errors.Is(err, task.ErrNotFound) {
				t.Fatalf("Get without a server: %v", err)
			}
			_, err = s.Get(ctx, kept[0].ID)
		}
		if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a server the error is %v, want a ConnectError that is ECONNREFUSED", err)
		}
		expect.Check(t, server.Restart())
		for _, k := range kept {
			if got, err := s.Get(ctx, k.ID); err != nil || !cmp.Equal(got, k) {
				t.Errorf("after a restart Get: %v, %s", err, cmp.Diff(k, got))
			}
		}
		changed, _ := watch(t, s)
		other := open(t, server.DSN())
		n := create(t, other, newTask())
		other.Close()
		if id := soon(t, changed); id != task.Name(n.ID) {
			t.Errorf("after a restart Watch told of %s, want %s", id, n.ID)
		}
	}
}

// A crash costs one call at most, not one for each connection of the pool.
func TestACrashFailsOneCall(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := open(t, with(server.DSN(), "pool_max_conns=5"))
	ctx := t.Context()
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			for range 20 {
				s.Expired(ctx, 1)
			}
		})
	}
	clients.Wait()
	expect.Check(t, server.Restart())
	var failed []error
	for range 10 {
		if _, err := s.Expired(ctx, 1); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 1 {
		t.Errorf("%d calls failed after a restart: %v", len(failed), failed)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	config, err := pgx.ParseConfig(dsn)
	expect.Check(t, err)
	password := config.Password
	for _, c := range []struct{ dsn, want string }{
		{strings.Replace(dsn, config.Database, "nowhere", 1), `"nowhere" does not exist`},
		{strings.Replace(dsn, ":"+password+"@", ":wrong"+password+"@", 1), "password authentication failed"},
		{with(dsn, "default_transaction_isolation=serializable"), "must be read committed"},
		{with(dsn, "default_transaction_read_only=on"), "read-only transaction"},
		{with(dsn, "no_such_parameter=1"), "no_such_parameter"},
	} {
		s, err := postgres.Open(t.Context(), c.dsn)
		if err == nil {
			s.Close()
			if !strings.Contains(c.want, "password") { // a server may trust everybody
				t.Errorf("Open gave no error, want one that says %q", c.want)
			}
			continue
		}
		expect.Contains(t, "the error", err.Error(), c.want)
		if password != "" && strings.Contains(fmt.Sprintf("%v %+v", err, err), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestManyInstancesOpenAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	var instances sync.WaitGroup
	for range 20 {
		instances.Go(func() {
			s, err := postgres.Open(t.Context(), dsn)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Create(t.Context(), newTask(), time.Hour, 0, nil, nil, task.Quota{Unfinished: 20}); err != nil {
				t.Error(err)
			}
		})
	}
	instances.Wait()
}

// The role of a service need not be one that may create schemas.
func TestARoleWithASchema(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pool := bare(t, dsn)
	role, password := "askback_test_"+strings.ToLower(rand.Text()), rand.Text()
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD '" + password + "'",
		"CREATE SCHEMA tasks AUTHORIZATION " + role,
	} {
		expect.Must(pool.Exec(t.Context(), sql))(t)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := pool.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	config, err := pgx.ParseConfig(dsn)
	expect.Check(t, err)
	theirs := fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=%s", config.Host, config.Port, config.Database, role,
		password)
	if _, err := postgres.Open(t.Context(), theirs); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a role that may not create a schema opens one: %v", err)
	}
	for range 2 {
		s := open(t, theirs+" search_path=tasks")
		create(t, s, newTask())
		s.Close()
	}
}

// open opens a store until the end of the test.
func open(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn)
	expect.Check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// with returns the URL with these parameters as well.
func with(dsn string, params ...string) string {
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	return dsn + separator + strings.Join(params, "&")
}

// soon receives what must come.
func soon[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing has come for a minute")
	}
	return v
}

// watch watches until the end of the test.
func watch(t *testing.T, s *postgres.Store) (changed <-chan string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ids, ready, ended := make(chan string, 100), make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func() { close(ready) }, func(id string, _ bool) { ids <- id }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("Watch: %v", err)
	}
	return ids, cancel
}

// claimOne claims one task. Without one that is due both results are nil.
func claimOne(s task.Store, ctx context.Context, after string, skip []string, lease time.Duration) (*task.Task, error) {
	var load []task.Load
	for _, p := range skip { // each has its share of one worker
		load = append(load, task.Load{Principal: p, Tasks: 1})
	}
	claimed, err := s.Claim(ctx, after, load, lease, 1)
	if len(claimed) == 0 || err != nil {
		return nil, err
	}
	return claimed[0].Task, nil
}

// A row that somebody keeps locked ends no other lease.
func TestRenewDoesNotWaitForALock(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := open(t, dsn)
	ctx := t.Context()
	var leases []task.Leased
	for range 3 {
		n := newTask()
		expect.Check(t, s.Create(ctx, n, time.Hour, time.Minute, nil, nil, task.Quota{}))
		leases = append(leases, task.Leased{ID: n.ID, Claim: n.Claim})
	}
	tx, err := bare(t, dsn).Begin(ctx)
	expect.Check(t, err)
	defer tx.Rollback(ctx)
	expect.Must(tx.Exec(ctx, "SELECT FROM askback.task WHERE id = $1 FOR UPDATE", leases[1].ID))(t)
	short, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	renewed, err := s.Renew(short, leases, time.Hour)
	expect.Check(t, err)
	if renewed[0].Err != nil || renewed[2].Err != nil {
		t.Errorf("the others: %v, %v", renewed[0].Err, renewed[2].Err)
	}
	if err := renewed[1].Err; err == nil || errors.Is(err, task.ErrLeaseLost) || errors.Is(err, task.ErrNotFound) {
		t.Errorf("the lease on the locked row: %v, want an error that says to try again", err)
	}
}

// renewOne renews one lease.
func renewOne(
	s task.Store, ctx context.Context, id string, claim task.Claim, lease time.Duration,
) (version int64, err error) {
	renewed, err := s.Renew(ctx, []task.Leased{{ID: id, Claim: claim}}, lease)
	if err != nil {
		return 0, err
	}
	return renewed[0].Version, renewed[0].Err
}
