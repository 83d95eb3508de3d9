package postgres

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A write is one statement that must be durable when it has been made. Writes of several callers at once share a
// transaction: they go to the server together, and its log is synced once for all of them.
//
// A write may still be made when its caller has given up, and so must be one that cannot be made twice: an insert of an
// ID, an update of a version, an entry behind so many others.
type write struct {
	ctx    context.Context
	id     string // The ID of the task.
	lock   lock
	first  bool // The task is locked by a statement before this one, which then sees all that is committed.
	sql    string
	args   []any
	result func(row pgx.Row) error

	err  error
	done chan struct{}
}

// lock says whose quota must not change while a write is made.
type lock struct {
	principal *string
	owner     *string // The owner of the task with this ID.
}

// group collects writes while others are on their way.
type group struct {
	mu      sync.Mutex
	waiting []*write
	sending int // how many transactions are on their way
}

const (
	// senders is how many transactions are on their way at once: while one waits for a lock, there is another.
	senders = 2
	// together bounds the writes of one transaction.
	together = 64
)

// write makes a write. When ctx ends it returns at once; then the write may or may not be made.
func (s *Store) write(ctx context.Context, w *write) error {
	w.ctx, w.done = ctx, make(chan struct{})
	g := &s.group
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	begin := g.sending < senders
	if begin {
		g.sending++
	}
	g.mu.Unlock()
	if begin {
		go s.send()
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send makes the writes that wait, until there are none.
func (s *Store) send() {
	g := &s.group
	for {
		g.mu.Lock()
		n := min(len(g.waiting), together)
		writes := slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		if n == 0 {
			g.sending--
		}
		g.mu.Unlock()
		if n == 0 {
			return
		}
		writes = slices.DeleteFunc(writes, func(w *write) bool { return w.ctx.Err() != nil }) // nobody waits any more
		if len(writes) > 1 {
			err := s.transact(writes)
			if code(err) == "" {
				finish(writes, err)
				continue
			}
			// Nothing was written. One of them may be at fault, or wait for a lock: each on its own.
		}
		for i, w := range writes {
			alone := func() { finish(writes[i:i+1], s.transact([]*write{w})) }
			if len(writes) == 1 {
				alone()
			} else {
				go alone()
			}
		}
	}
}

func finish(writes []*write, err error) {
	for _, w := range writes {
		w.err = cmp.Or(w.err, err)
		close(w.done)
	}
}

// transact makes writes in one transaction, which ends when nobody waits for it any more. It first takes the locks, and
// then writes in the order of IDs, so that no two transactions wait for each other.
func (s *Store) transact(writes []*write) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(len(writes)))
	for _, w := range writes {
		defer context.AfterFunc(w.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	var batch pgx.Batch
	if len(writes) > 1 {
		batch.Queue(s.sql.lockTimeout)
	}
	principals, owners := []string{}, []string{}
	for _, w := range writes {
		if w.lock.principal != nil {
			principals = append(principals, *w.lock.principal)
		}
		if w.lock.owner != nil {
			owners = append(owners, *w.lock.owner)
		}
	}
	if len(principals)+len(owners) > 0 {
		batch.Queue(s.sql.lockQuotas, principals, owners)
	}
	slices.SortStableFunc(writes, func(a, b *write) int { return cmp.Compare(a.id, b.id) })
	for _, w := range writes {
		w.err = nil
		if w.first {
			batch.Queue(s.sql.lockTask, lookup(w.id))
		}
		batch.Queue(w.sql, w.args...).QueryRow(func(row pgx.Row) error {
			err := w.result(row)
			if err == pgx.ErrNoRows {
				w.err, err = err, nil // That there is no row is an answer.
			}
			return err
		})
	}
	return s.on(ctx, workers, func(conn *pgxpool.Conn) error { return conn.SendBatch(ctx, &batch).Close() })
}
