package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// advice explains the driver's result codes: what each means here, and what to do.
var advice = map[int]string{
	sqlite3.SQLITE_BUSY: "another process has kept the file locked for " + busyTimeout.String() +
		"; look for one that left a transaction open, and try again",
	sqlite3.SQLITE_FULL:     "the disk is full; make room and try again: nothing was written",
	sqlite3.SQLITE_READONLY: "the file cannot be written; let this user write to it and to its directory",
	sqlite3.SQLITE_CANTOPEN: "the file, or the -wal or -shm file beside it, cannot be opened; let this user read and " +
		"write it and its directory",
	sqlite3.SQLITE_NOTADB:  "the file is not a SQLite database; choose another path",
	sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a backup",
	sqlite3.SQLITE_IOERR:   "the disk gave an error; check it, and that it is a local one",
	sqlite3.SQLITE_PERM:    "the file may not be opened; let this user read and write it",
	sqlite3.SQLITE_TOOBIG:  "a value is larger than SQLite allows, which is 1 GB",
}

// wrap adds to an error what was being done, and what to do about it.
func (s *Store) wrap(ctx context.Context, doing string, err *error) {
	if *err == nil {
		return
	}
	if isCode(*err, sqlite3.SQLITE_INTERRUPT) && ctx.Err() != nil {
		*err = ctx.Err()
	}
	what := doing + " in " + s.path
	if e, ok := errors.AsType[*driver.Error](*err); ok && advice[e.Code()&0xff] != "" {
		what += ": " + advice[e.Code()&0xff]
	}
	*err = fmt.Errorf("task/sqlite: %s: %w", what, *err)
}

// isCode reports whether err has this primary or extended result code.
func isCode(err error, code int) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && (e.Code() == code || e.Code()&0xff == code)
}

const (
	// busyTimeout is how long a write waits for writes of other processes.
	busyTimeout = 10 * time.Second
	// walLimit is what the file with -wal is cut to after it had to grow beyond.
	walLimit = 64 << 20
)
