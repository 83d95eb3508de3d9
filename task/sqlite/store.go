package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Store is a [task.Store] in one SQLite file. Its zero value is not usable: see [Open].
// It is safe for concurrent use, also by several processes, each with its own.
//
// Other errors than the errors of package task wrap the driver's *sqlite.Error, if it gave one. If a context ended, the
// error is the context's.
type Store struct {
	path string
	file fs.FileInfo // which file is open

	// SQLite lets one connection write at a time. Here that is always the same one, so
	// that writers of this process wait for each other in Go and not by polling a lock.
	conn    *sql.Conn
	writing chan struct{} // holds a token while the connection is in use
	w       statements

	mu      sync.Mutex
	waiting []*write // for the connection

	readers *sql.DB
	r       statements

	opened []io.Closer // in this order; nothing is closed before what came after it
}

var _ interface {
	task.Store
	task.Inserter
	task.Subscriptions
} = (*Store)(nil)

// statements are prepared statements by their SQL.
type statements map[string]*sql.Stmt

// exec runs a statement, and returns how many rows it wrote.
func (p statements) exec(ctx context.Context, query string, args ...any) (rows int64, err error) {
	result, err := p[query].ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// wrote runs a statement, and returns the error if it wrote nothing.
func (s *Store) wrote(ctx context.Context, nothing error, query string, args ...any) error {
	rows, err := s.w.exec(ctx, query, args...)
	if err == nil && rows == 0 {
		err = nothing
	}
	return err
}

// Close waits for the write that is going on, and closes the file. If no other process
// has it open, everything is in the one file then.
func (s *Store) Close() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	var errs []error
	for _, opened := range slices.Backward(s.opened) {
		errs = append(errs, opened.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("task/sqlite: close %s: %w", s.path, err)
	}
	return nil
}

// present returns an error if the file that is open is no longer the one at the store's path. SQLite itself goes on
// with a file that was removed or replaced, and everything written to it is lost when it is closed.
func (s *Store) present() error {
	now, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.file, now) {
		return errors.New("the file was removed or replaced while it was open: " +
			"stop every process that has it open, put the file or a backup in its place, and start again")
	}
	return nil
}

const (
	beginSQL    = `BEGIN IMMEDIATE`
	commitSQL   = `COMMIT`
	rollbackSQL = `ROLLBACK`

	savepointSQL  = `SAVEPOINT one`
	rollbackToSQL = `ROLLBACK TO one`
	releaseSQL    = `RELEASE one`
)

// A write is what one caller does in a transaction, which it shares with others who write at the same time: so that one
// sync makes them all durable.
type write struct {
	do   func(ctx context.Context, now int64) error
	err  error
	done chan struct{}
}

// write calls do in a transaction, while nobody else writes. What do gives to statements is a context that does not
// end: they wait for nothing, and a transaction whose COMMIT is interrupted may or may not have happened.
//
// The goroutine that gets the connection makes all writes that wait, each within a savepoint, so that one that fails
// leaves the others alone.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, now int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{do: do, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.done: // another has made it
		return w.err
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
		select {
		case <-w.done: // both came at once
			return w.err
		default:
		}
	case <-ctx.Done():
		if s.withdraw(w) {
			return ctx.Err()
		}
		<-w.done
		return w.err
	}
	on := context.WithoutCancel(ctx)
	if _, err := s.w.exec(ctx, beginSQL); err != nil {
		s.w.exec(on, rollbackSQL) // it may have begun, just when ctx ended
		s.withdraw(w)
		return err // the others try for themselves
	}
	s.transact(on)
	return w.err
}

// withdraw takes a write back, unless it was or is being made.
func (s *Store) withdraw(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return i >= 0
}

// transact makes the writes that wait, in the transaction that has begun.
func (s *Store) transact(ctx context.Context) {
	s.mu.Lock()
	writes := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	broken := errors.New("another write in the same transaction panicked")
	defer func() {
		if broken != nil {
			s.w.exec(ctx, rollbackSQL) // fails if there is nothing to roll back
		}
		for _, w := range writes {
			w.err = cmp.Or(w.err, broken)
			close(w.done)
		}
	}()
	broken = s.makeAll(ctx, writes)
}

// makeAll makes writes and commits them. An error is one of the transaction, of which nothing will be left.
func (s *Store) makeAll(ctx context.Context, writes []*write) (err error) {
	for _, w := range writes {
		if w.err, err = s.within(ctx, w, len(writes) > 1); err != nil {
			return err
		}
	}
	if _, err = s.w.exec(ctx, commitSQL); err != nil {
		return err
	}
	return s.present()
}

// within makes one write. If others share the transaction it takes a savepoint, and an error of the write is not one of
// the transaction.
func (s *Store) within(ctx context.Context, w *write, shared bool) (err, broken error) {
	do := func() error { return w.do(ctx, time.Now().UnixMilli()) }
	if !shared {
		err := do()
		return err, err
	}
	return s.saving(ctx, do)
}

// saving calls do in a savepoint, so that nothing is left of what do wrote if it returns an error. Broken is an error
// of the transaction.
func (s *Store) saving(ctx context.Context, do func() error) (err, broken error) {
	if _, err := s.w.exec(ctx, savepointSQL); err != nil {
		return err, err
	}
	if err = do(); err != nil {
		_, broken = s.w.exec(ctx, rollbackToSQL)
	}
	if broken == nil {
		_, broken = s.w.exec(ctx, releaseSQL)
	}
	return err, broken
}
