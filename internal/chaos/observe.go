package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/askback-mcp/askback/internal/journal"
)

// record is a task as the database has it.
type record struct {
	task   string // its id
	call   string // the id of its call, by which effects.log knows it
	status string
	steps  []string // that its journal holds, in their order
}

// observer reads what a store holds on a connection of its own. Each time it opens one
// and closes it again, so that it is not the observer who keeps anything alive.
type observer func(context.Context) ([]record, error)

// observeSQLite reads a store's file. Opened like this it changes nothing of what is
// durable: a server that starts afterwards recovers by itself from how the dead one left
// the file.
func observeSQLite(path string) observer {
	dsn := (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"}).String()
	return func(ctx context.Context) ([]record, error) {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		rows, err := db.QueryContext(ctx, `SELECT t.id, t.status, j.entry FROM task t JOIN journal j ON j.task = t.seq ORDER BY t.id, j.n`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var c collector
		for rows.Next() {
			if err := rows.Scan(&c.id, &c.status, &c.entry); err != nil {
				return nil, err
			}
			if err := c.add(); err != nil {
				return nil, err
			}
		}
		return c.records, rows.Err()
	}
}

// observePostgres reads the store of a database.
func observePostgres(dsn string) observer {
	return func(ctx context.Context) ([]record, error) {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return nil, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		rows, err := conn.Query(ctx, `SELECT t.id, t.status, j.body FROM askback.task t JOIN askback.journal j USING (id) ORDER BY t.id, j.seq`)
		if err != nil {
			return nil, err
		}
		var c collector
		if _, err := pgx.ForEachRow(rows, []any{&c.id, &c.status, &c.entry}, c.add); err != nil {
			return nil, err
		}
		return c.records, nil
	}
}

// collector makes records of rows that come task by task: first the call, then what was
// recorded.
type collector struct {
	id, status string
	entry      []byte
	records    []record
}

func (c *collector) add() error {
	if n := len(c.records); n == 0 || c.records[n-1].task != c.id {
		var call struct {
			Call string `json:"call"`
		}
		if err := json.Unmarshal(c.entry, &call); err != nil || call.Call == "" {
			return fmt.Errorf("task %s: the first entry of its journal is no call: %.100q", c.id, c.entry)
		}
		c.records = append(c.records, record{task: c.id, call: journal.Derived("call", call.Call), status: c.status})
		return nil
	}
	e, err := journal.DecodeEntry(c.entry)
	if err != nil {
		return fmt.Errorf("task %s: %w", c.id, err)
	}
	if last := &c.records[len(c.records)-1]; e.Kind == journal.Step {
		last.steps = append(last.steps, e.Key)
	}
	return nil
}
