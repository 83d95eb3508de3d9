package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
		return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_pragma=busy_timeout(10000)" + query}).String()
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
		driver:       "pgx",
		dsn:          dsn,
		recordsQuery: `SELECT t.id, t.status, j.body FROM askback.task t JOIN askback.journal j USING (id) ORDER BY t.id, j.seq`,
		changesQuery: `SELECT ` + changeColumns + ` FROM chaos.change ORDER BY n`,
		entriesQuery: `SELECT e.at, e.who, e.task, j.body FROM chaos.entry e JOIN askback.journal j ON j.id = e.task AND j.seq = e.seq
			WHERE e.seq > 0 ORDER BY e.n`,
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

// effect is a line of effects.log: a step of a call that has been done.
type effect struct {
	at   time.Time
	step string
	call string
	pid  int
}

// steps are those of provision_vm that are recorded, with the part of the work that each
// belongs to: between the parts the task waits for its customer.
var steps = map[string]int{
	"create-directories": 1, "write-disk": 1, "write-config": 1, "verify-files": 1,
	"configure-network": 2, "boot": 2, "write-manifest": 2,
}

// effectsLog is the file to which every step adds a line when it has been done.
func (c *chaos) effectsLog() string { return filepath.Join(c.machines, "effects.log") }

// waitsLog is the file to which every step adds a line when it goes on, under its lease, after it has waited.
func (c *chaos) waitsLog() string { return filepath.Join(c.machines, "waits.log") }

// effects reads the log of effects.
func (c *chaos) effects() ([]effect, error) { return readEffects(c.effectsLog()) }

// readEffects reads a log. No line is ever changed, so a process that was killed cannot have
// spoilt the lines that it wrote before.
func readEffects(file string) ([]effect, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no step has been done yet
	}
	var all []effect
	for line := range strings.Lines(string(data)) {
		var e effect
		var at string
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if _, err := fmt.Sscan(line, &at, &e.step, &e.call, &e.pid); err != nil {
			return nil, fmt.Errorf("%s: the line %q does not begin with \"time step call process\"", filepath.Base(file), line)
		}
		if e.at, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		all = append(all, e)
	}
	return all, err
}

// look observes the database and then the log of effects.
func (c *chaos) look(ctx context.Context) error {
	c.looking.Lock() // what was read first is observed first
	defer c.looking.Unlock()
	ids := c.ledger.acknowledged()
	records, err := c.observer.records(ctx)
	if err != nil {
		return fmt.Errorf("reading the journals: %w", err)
	}
	at := time.Now()
	effects, err := c.effects()
	if err != nil {
		return err
	}
	c.ledger.observe(at, ids, records, effects)
	return nil
}

// judge looks, and then checks the leases and all that was done under them. It returns the effects that were done in time.
func (c *chaos) judge(ctx context.Context) ([]effect, error) {
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	// In this order: each effect that is read has had its lease noted.
	effects, err := c.effects()
	if err != nil {
		return nil, err
	}
	waits, err := readEffects(c.waitsLog())
	if err != nil {
		return nil, err
	}
	changes, entries, err := c.observer.changes(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what the database noted: %w", err)
	}
	claims := c.ledger.inspect(changes, entries)
	c.ledger.interrupted(waits, claims)
	return c.ledger.inTime(effects, claims), nil
}
