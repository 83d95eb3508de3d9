package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// With a single connection everything works, one statement after another, and a watch has a connection of its own.
func TestStoreWithOneConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := open(t, with(dsn, "pool_max_conns=1"))
	watch(t, s)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() { runThrough(t, s) })
	}
	callers.Wait()
	expect.Equal(t, "Evict", expect.Must(s.Evict(t.Context(), "alice", 0, 100))(t), 40)
	var sessions int
	others := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	if err := bare(t, dsn).QueryRow(t.Context(), others).Scan(&sessions); err != nil || sessions != 2 {
		t.Errorf("the server has %d sessions, %v; want one, and one of the watch", sessions, err)
	}
}

// Of n connections, half are never a reader's, and what is more urgent comes first.
func TestConnectionsAreShared(t *testing.T) {
	for _, tt := range []struct{ connections, readers int }{{1, 1}, {2, 1}, {3, 1}, {4, 2}, {16, 8}} {
		synctest.Test(t, func(t *testing.T) {
			c := postgres.NewConnections(tt.connections)
			var served []string
			wait := func(lane int, name string) {
				go func() {
					if c.Take(t.Context(), lane) == nil {
						served = append(served, name)
					}
				}()
				synctest.Wait()
			}
			want := func(names ...string) {
				t.Helper()
				synctest.Wait()
				if !slices.Equal(served, names) {
					t.Fatalf("of %d connections %q were served, want %q", tt.connections, served, names)
				}
				served = nil
			}
			for i := range tt.readers + 1 {
				wait(postgres.Clients, fmt.Sprint(i))
			}
			for i := range tt.readers {
				if served[i] != fmt.Sprint(i) {
					t.Errorf("reader %s is number %d", served[i], i)
				}
			}
			served = served[tt.readers:]
			for range tt.connections - tt.readers {
				wait(postgres.Workers, "worker")
			}
			served = served[tt.connections-tt.readers:]
			wait(postgres.Workers, "record")
			wait(postgres.Renewals, "renewal")
			want()
			c.Give(postgres.Clients)
			want("renewal")
			c.Give(postgres.Renewals)
			want("record")
			c.Give(postgres.Workers)
			want(fmt.Sprint(tt.readers)) // the reader that came last
			// Who gives up is no longer waited for.
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error)
			go func() { gone <- c.Take(ctx, postgres.Renewals) }()
			synctest.Wait()
			cancel()
			expect.Is(t, "who gave up", <-gone, context.Canceled)
			c.Give(postgres.Clients)
			wait(postgres.Workers, "the next")
			want("the next")
		})
	}
}

// crowded notes how many reads end while leases are renewed.
type crowded struct {
	task.Store
	reads, renewals, most atomic.Int64
}

func (c *crowded) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	before := c.reads.Load()
	renewed, err := c.Store.Renew(ctx, leases, lease)
	c.renewals.Add(1)
	c.most.Store(max(c.most.Load(), c.reads.Load()-before)) // an engine renews one after another
	return renewed, err
}

// A hundred clients read all the time, and the database is far away: tasks end, and leases are renewed before those
// reads that have begun earlier and wait for a connection.
func TestReadersDoNotStarveWorkers(t *testing.T) {
	t.Parallel()
	const statement, lease, readers, tasks, steps = 20 * time.Millisecond, 4 * time.Second, 100, 12, 3
	for _, connections := range []int{4, 1} {
		t.Run(fmt.Sprintf("%d connections", connections), func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DSN(t)
			open(t, dsn).Close() // makes the tables
			s := &crowded{Store: open(t, with(distant(t, dsn, statement), fmt.Sprintf("pool_max_conns=%d", connections)))}
			defer s.Store.(*postgres.Store).Close()
			e, err := taskrun.NewEngine(s, &taskrun.Options{Settings: task.Settings{Lease: lease, Attempts: 100},
				Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
					if w.Task.Round == 0 && len(w.Entries) == 0 {
						for n := s.renewals.Load(); s.renewals.Load() < n+3; {
							if ctx.Err() != nil {
								return taskrun.Verdict{}, context.Cause(ctx)
							}
							time.Sleep(50 * time.Millisecond)
						}
					}
					for step := len(w.Entries); step < steps; step++ {
						if err := w.Record(ctx, []byte{byte(step)}); err != nil {
							return taskrun.Verdict{}, err
						}
					}
					return taskrun.Verdict{Status: task.Completed}, nil
				}})
			expect.Check(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			for range readers {
				all.Go(func() {
					for ctx.Err() == nil {
						if _, err := e.List(ctx, "alice", "", nil, 10); err == nil {
							s.reads.Add(1)
						}
					}
				})
			}
			var ids []string
			for i := range tasks {
				n, err := e.Create(ctx, &taskrun.New{Principal: "alice", Round: i})
				expect.Check(t, err)
				ids = append(ids, n.ID)
			}
			all.Go(func() { e.Run(ctx) })
			direct := open(t, dsn)
			for _, id := range ids {
				harness.Eventually(t, "end of a task", func() bool {
					n, err := direct.Get(ctx, id)
					expect.Check(t, err)
					return n.Status == task.Completed
				})
			}
			t.Logf("%d reads ended, and at most %d during one of %d renewals", s.reads.Load(), s.most.Load(), s.renewals.Load())
			if n := s.most.Load(); n > readers/8 {
				t.Errorf("%d reads of %d clients ended before a renewal", n, readers)
			}
		})
	}
}

// distant returns the URL of a database whose answer to each statement comes so much later.
func distant(t *testing.T, dsn string, by time.Duration) string {
	t.Helper()
	return relay(t, dsn, func(client, backend net.Conn) {
		buffer := make([]byte, 1<<16)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			time.Sleep(by) // the client waits for each answer before it sends more
			if _, err := backend.Write(buffer[:n]); err != nil {
				return
			}
		}
	}, func(client, backend net.Conn) {
		io.Copy(client, backend)
	})
}
