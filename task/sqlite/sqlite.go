// Package sqlite keeps tasks in one SQLite file: a [task.Store] that needs no server, no cgo and no setting up. It is
// the store for one machine; several processes on it may open the same file. The package's example is a server that
// keeps its tasks in one.
//
// What a method has done when it returns survives the end of the process and the loss of
// power: each write is synced to the disk. That sync is most of what a write costs.
//
// Beside the file lie two more while it is open, with -wal and -shm added to its name. They belong to it: a copy of
// the file alone may lack what was written last, or be damaged. Back it up with VACUUM INTO or the backup command of
// the sqlite3 shell. If the file is removed or replaced while it is open, every write fails from then on. The file must
// be on a disk of this machine, as processes share memory through it; a fleet of machines uses task/postgres.
//
// The Store also keeps states, as a state.Store, in a table of their own: see
// PutState. Of those a write deletes some that have expired. [Store.Guard] makes states single use.
//
// The store uses the clock of the machine. A step of it ends leases early, or keeps them longer: docs/tasks.md says
// what follows.
//
// Instances are not told of each other's writes (there is no [task.Watcher]): a server learns of them by asking, which
// costs two probes of an index when nothing is due.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver
)

// Open opens the store in the file at path, and creates the file, for this user only, if it does not exist; its
// directory must exist. A file that is not a store, or one with another schema, is refused and left as it is. The
// context is for opening only.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("task/sqlite: open: %w", err)
	}
	s := &Store{path: path, writing: make(chan struct{}, 1)}
	if err := s.open(ctx); err != nil {
		s.Close()
		s.wrap(ctx, "open the store", &err)
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	// The writer is closed last: it is the one that can move what is in the -wal file.
	writer, err := sql.Open("sqlite", dsn(s.path, "synchronous(FULL)", fmt.Sprintf("journal_size_limit(%d)", walLimit)))
	if err != nil {
		return err
	}
	s.opened = append(s.opened, writer)
	writer.SetMaxOpenConns(1)
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	if s.conn, err = writer.Conn(ctx); err != nil {
		return err
	}
	s.opened = append(s.opened, s.conn)
	if err := prepareSchema(ctx, s.conn); err != nil {
		return err
	}
	if s.w, err = s.prepare(ctx, s.conn, writes); err != nil {
		return err
	}
	if s.readers, err = sql.Open("sqlite", dsn(s.path, "query_only(1)")); err != nil {
		return err
	}
	s.opened = append(s.opened, s.readers)
	n := max(4, runtime.GOMAXPROCS(0))
	s.readers.SetMaxOpenConns(n)
	s.readers.SetMaxIdleConns(n)
	s.r, err = s.prepare(ctx, s.readers, reads)
	return err
}

func (s *Store) prepare(ctx context.Context, on interface {
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}, queries []string) (statements, error) {
	prepared := make(statements)
	for _, query := range queries {
		stmt, err := on.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		s.opened = append(s.opened, stmt) // a connection that has statements left does not let go of the file
		prepared[query] = stmt
	}
	return prepared, nil
}

// creating makes sure that nobody in this process has opened a file while locate closes
// it: that would drop the locks which SQLite holds on it for the process.
var creating sync.Mutex

// locate makes path absolute, and creates the file if there is none. SQLite would create it readable for all.
func locate(path string) (string, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("%q is not the path of a file: give one, such as tasks.db", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return path, f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: create its directory first", err)
	}
	// A directory that cannot be written to need not matter if the file is there.
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return "", fmt.Errorf("%w: the file is not there and cannot be created", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file: choose another path", path)
	case info.Size() > 0 && info.Size() < 512:
		// SQLite would take it for an empty one and write over it.
		return "", fmt.Errorf("%s is not a SQLite database; choose another path", path)
	}
	return path, nil
}

// dsn returns the driver's name for the file, with pragmas for each connection.
func dsn(path string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/
	}
	pragmas = append([]string{"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")"}, pragmas...)
	query := url.Values{"mode": {"rw"}, "_pragma": pragmas}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String()
}

// writes are the statements of the writer.
var writes = []string{
	beginSQL, commitSQL, rollbackSQL, savepointSQL, rollbackToSQL, releaseSQL, usageSQL, createSQL, callSQL, entrySQL,
	appendSQL, wakeSQL,
	firstPrincipalSQL, nextPrincipalSQL, firstTargetSQL, nextTargetSQL, claimSQL, claimedJournalSQL,
	leasedSQL, recordedSQL, renewSQL, updateKeepSQL, updateRenewSQL, updateDueSQL, stateSQL, liveSQL, ownerSQL,
	purgeableSQL, evictableSQL, deleteSQL, purgeJournalSQL, forgetEventsSQL,
	emitSQL, trimEventsSQL, purgeEventsSQL,
	putStateSQL, addStateSQL, swapStateSQL, deleteStateSQL, purgeStatesSQL, useStateSQL, purgeUsedSQL,
	questionSQL, namedSQL, openSQL, addQuestionSQL, reopenSQL, withdrawSQL, changeQuestionSQL, liveOnSQL,
	dueAtOnceSQL,
	listenSQL, remindSQL, remindedSQL, wakeNoticesSQL, firstNotifiedSQL, nextNotifiedSQL, takeNoticeSQL, settleSQL,
	retrySQL, refusedSQL,
	addSubscriptionSQL, saveSubscriptionSQL, endSubscriptionsSQL, claimSubscriptionsSQL,
	rememberSQL, recallableSQL, recallSQL, spendSQL, forgetSQL, purgeRememberedSQL,
}

// reads are the statements of the readers.
var reads = []string{
	getSQL, versionsSQL, listSQL, selectSQL, countSQL, journalSQL, expiredSQL, anyDueSQL, anyPurgeableSQL,
	getStateSQL, findStatesSQL, questionsSQL, byAskedSQL, newestSQL, byDeadlineSQL, listedSQL,
	overdueSQL, changesSQL,
	anyNoticeSQL, anyRefusedSQL,
	rememberedSQL, anyEndedSQL,
	subscribedSQL, anySubscriptionSQL,
	eventsSQL, eventMarksSQL, eventsDeletedSQL, anyExpiredSQL,
}
