package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/askback-mcp/askback/internal/journal"
)

// record is a task as the database has it.
type record struct {
	task    string // its id
	call    string // the id of its call, by which effects.log knows it
	status  string
	steps   []string // that its journal holds, in their order
	repeats int      // entries of its journal that equal an earlier one

	entries map[string]bool
}

// add adds an entry of the journal. The first one is the call.
func (r *record) add(entry []byte) error {
	if r.call == "" {
		var call struct {
			Call string `json:"call"`
		}
		if err := json.Unmarshal(entry, &call); err != nil || call.Call == "" {
			return fmt.Errorf("the first entry of its journal is no call: %.100q", entry)
		}
		r.call = journal.Derived("call", call.Call)
		return nil
	}
	if r.entries[string(entry)] {
		r.repeats++
	}
	r.entries[string(entry)] = true
	e, err := journal.DecodeEntry(entry)
	if err == nil && e.Kind == journal.Step {
		r.steps = append(r.steps, e.Key)
	}
	return err
}

// observer reads what a store holds.
type observer struct {
	driver, dsn                              string
	recordsQuery, changesQuery, entriesQuery string

	writable, audit string // the DSN and the statements of watch
}

// observeSQLite reads a store's file. Opened like this it changes nothing of what is durable: a server that starts
// afterwards recovers by itself from how the dead one left the file.
func observeSQLite(path string) observer {
	dsn := func(query string) string {
		u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_pragma=busy_timeout(10000)" + query}
		return u.String()
	}
	return observer{
		driver:       "sqlite",
		dsn:          dsn("&mode=ro&_pragma=query_only(1)"),
		recordsQuery: `SELECT t.id, t.status, j.entry FROM task t JOIN journal j ON j.task = t.seq ORDER BY t.id, j.n`,
		changesQuery: `SELECT ` + changeColumns + ` FROM chaos_change ORDER BY n`,
		entriesQuery: `SELECT e.at, e.who, t.id, j.entry FROM chaos_entry e JOIN task t ON t.seq = e.task
			JOIN journal j ON j.task = e.task AND j.n = e.seq WHERE e.seq > 0 ORDER BY e.n`,
		writable: dsn(""),
		audit:    auditSQLite,
	}
}

// observePostgres reads the store of a database.
func observePostgres(dsn string) observer {
	return observer{
		driver: "pgx",
		dsn:    dsn,
		recordsQuery: `SELECT t.id, t.status, j.body FROM askback.task t JOIN askback.journal j USING (id)
			ORDER BY t.id, j.seq`,
		changesQuery: `SELECT ` + changeColumns + ` FROM chaos.change ORDER BY n`,
		entriesQuery: `SELECT e.at, e.who, e.task, j.body
			FROM chaos.entry e JOIN askback.journal j ON j.id = e.task AND j.seq = e.seq WHERE e.seq > 0 ORDER BY e.n`,
		writable: dsn,
		audit:    auditPostgres,
	}
}

// records reads all tasks. It opens a connection and closes it again, so that the observer keeps nothing alive.
func (o observer) records(ctx context.Context) ([]record, error) {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var all []record
	err = query(ctx, db, o.recordsQuery, func(scan func(...any) error) error {
		var id, status string
		var entry []byte
		if err := scan(&id, &status, &entry); err != nil {
			return err
		}
		if n := len(all); n == 0 || all[n-1].task != id {
			all = append(all, record{task: id, status: status, entries: make(map[string]bool)})
		}
		if err := all[len(all)-1].add(entry); err != nil {
			return fmt.Errorf("task %s: %w", id, err)
		}
		return nil
	})
	return all, err
}

// change is a change of a task's row that the database itself has noted. The servers do not know that, and cannot avoid
// it.
type change struct {
	at   time.Time // of the statement
	who  string    // the process, as it named itself; "" if the database does not know
	task string

	fence, oldFence     int64
	version, oldVersion int64
	status, oldStatus   string
	stopped, oldStopped bool      // ended from outside
	outcome             bool      // whether it changed
	until               time.Time // when it is due, by the store's clock, which is the end of a lease; zero if it is not
}

// byCustomer reports whether a change is one that customers cause on any server: an answer, a cancellation.
func (c *change) byCustomer() bool {
	answered := c.oldStatus == "input_required" && (c.status == "input_required" || c.status == "working")
	return answered || c.stopped && !c.oldStopped
}

// entry is an entry of a journal, as the database noted it.
type entry struct {
	at   time.Time
	who  string
	task string
	step string // "" if it is no step
}

const changeColumns = `at, who, task, fence, old_fence, version, old_version, status, old_status, ` +
	`stopped, old_stopped, outcome, until`

// changes reads all that the database has noted, in the order in which it happened to each task.
func (o observer) changes(ctx context.Context) (changes []change, entries []entry, err error) {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	err = query(ctx, db, o.changesQuery, func(scan func(...any) error) error {
		var c change
		var at int64
		var until sql.NullInt64
		err := scan(&at, &c.who, &c.task, &c.fence, &c.oldFence, &c.version, &c.oldVersion, &c.status, &c.oldStatus,
			&c.stopped, &c.oldStopped, &c.outcome, &until)
		if c.at = time.UnixMicro(at); until.Valid {
			c.until = time.UnixMicro(until.Int64)
		}
		changes = append(changes, c)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = query(ctx, db, o.entriesQuery, func(scan func(...any) error) error {
		var e entry
		var at int64
		var body []byte
		if err := scan(&at, &e.who, &e.task, &body); err != nil {
			return err
		}
		e.at = time.UnixMicro(at)
		decoded, err := journal.DecodeEntry(body)
		if err == nil && decoded.Kind == journal.Step {
			e.step = decoded.Key
		}
		entries = append(entries, e)
		return err
	})
	return changes, entries, err
}

// taken waits until a process has lost a lease to another, but no longer than the limit. It is for PostgreSQL.
func (o observer) taken(ctx context.Context, from string, limit time.Duration) error {
	before := -1
	return o.until(ctx, limit, `
		SELECT count(*) FROM chaos.change AS new JOIN chaos.change AS old ON old.task = new.task AND old.fence = new.old_fence
		WHERE old.who = $1 AND old.fence <> old.old_fence AND new.who <> $1 AND new.fence <> new.old_fence
			AND NOT EXISTS (SELECT FROM chaos.change AS ended
				WHERE ended.task = old.task AND ended.n BETWEEN old.n AND new.n AND ended.status <> 'working')`,
		from, func(n int) bool {
			if before < 0 {
				before = n
			}
			return n > before
		})
}

// holds waits until a process has taken a lease, but no longer than the limit. It is for PostgreSQL.
func (o observer) holds(ctx context.Context, who string, limit time.Duration) error {
	return o.until(ctx, limit, `SELECT count(*) FROM chaos.change WHERE who = $1 AND fence <> old_fence`,
		who, func(n int) bool { return n > 0 })
}

// until waits until the number that a statement counts of a process is enough, but no longer than the limit.
func (o observer) until(ctx context.Context, limit time.Duration, count, who string, enough func(n int) bool) error {
	db, err := sql.Open(o.driver, o.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var n int
		if err := db.QueryRowContext(ctx, count, who).Scan(&n); err != nil {
			return err
		}
		if enough(n) || !sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	return ctx.Err()
}

// query calls row for each row of the result.
func query(ctx context.Context, db *sql.DB, statement string, row func(scan func(...any) error) error) error {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// watch makes the database note all changes from now on. The store's tables must be there.
func (o observer) watch(ctx context.Context) error {
	db, err := sql.Open(o.driver, o.writable)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, o.audit); err != nil {
		return fmt.Errorf("adding triggers to the database: %w", err)
	}
	return nil
}
