package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/process"
)

// database is a PostgreSQL with a standby that has every commit before it is acknowledged, as docs/production.md says.
type database struct {
	primary, standby *pgtest.Server
	hosts            string // of both, for URLs
	end              func()
}

// startDatabase starts both, with a database for the instances and one for the bridge. Without an end they end with
// this process.
func startDatabase(ctx context.Context) (*database, error) {
	primary, err := pgtest.Open()
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, primary, "CREATE DATABASE "+bridge); err != nil {
		return nil, err
	}
	standby, err := primary.Follow()
	if err != nil {
		return nil, err
	}
	d := &database{primary: primary, standby: standby, end: func() { standby.Close(); primary.Close() }}
	first, _ := url.Parse(d.primary.DSN()) // both are URLs
	second, _ := url.Parse(d.standby.DSN())
	d.hosts = first.Host + "," + second.Host
	const retry, synchronous = "wal_retrieve_retry_interval = '100ms'", "synchronous_standby_names = '*'"
	err1 := execute(ctx, d.standby, "ALTER SYSTEM SET "+retry, "SELECT pg_reload_conf()")
	err2 := execute(ctx, d.primary, "ALTER SYSTEM SET "+synchronous, "SELECT pg_reload_conf()")
	return d, errors.Join(err1, err2)
}

// url is the URL of a database on the server that accepts writes.
func (d *database) url(name string) string {
	u, _ := url.Parse(d.primary.DSN())
	u.Host, u.Path = d.hosts, "/"+name
	u.RawQuery = url.Values{"target_session_attrs": {"read-write"}, "connect_timeout": {"2"}}.Encode()
	return u.String()
}

func execute(ctx context.Context, server *pgtest.Server, statements ...string) error {
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// fail ends the primary as a crash does. After some time it is there again, or else its standby is promoted.
func (d *database) fail(ctx context.Context, kind string, after time.Duration) error {
	if err := d.primary.Stop(); err != nil {
		return err
	}
	pause(ctx, after)
	if kind == crashed {
		return d.primary.Restart()
	}
	d.primary = d.standby
	return execute(ctx, d.primary, "SELECT pg_promote()")
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool { return process.Sleep(ctx, d) == nil }
