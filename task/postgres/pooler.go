package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// behindPooler reports whether a pooler is in front of the server that lends its sessions for a transaction, as
// PgBouncer does with pool_mode=transaction. The error says so if the statements of the URL need a session of their
// own: some would fail, and only sometimes.
func behindPooler(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	pid, err := backend(ctx, conn, "")
	if err != nil || pid == conn.PgConn().PID() {
		return false, err // it is the server that has greeted us
	}
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer other.Close(ctx)
	// While the other connection is in a transaction it keeps a session, as a rule the one that was used last.
	for range 3 {
		its, err := backend(ctx, other, "BEGIN")
		if err != nil {
			return false, fmt.Errorf("a pooler is in front of the server, and no transaction can be begun: "+
				"use its transaction or session mode: %w", err)
		}
		now, err := backend(ctx, conn, "")
		if err != nil {
			return false, err
		}
		if _, err := other.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
			return false, err
		}
		if its == pid || now != pid {
			return true, sharable(config.DefaultQueryExecMode)
		}
	}
	return false, nil
}

// sharable returns an error if statements that are sent in this way need more than one transaction of a session.
func sharable(mode pgx.QueryExecMode) error {
	switch mode {
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec:
		return errors.New("a pooler in transaction mode is in front of the server, where prepared statements are lost " +
			"or another's: add default_query_exec_mode=exec to the URL, or connect to PostgreSQL directly, " +
			"or through a pooler in session mode")
	}
	return nil
}

// backend returns the process at the server that serves a connection, after a statement. It prepares nothing.
func backend(ctx context.Context, conn *pgx.Conn, first string) (pid uint32, err error) {
	var results []*pgconn.Result
	for _, sql := range []string{first, "SELECT pg_backend_pid()"} {
		if sql == "" {
			continue
		}
		if results, err = conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return 0, err
		}
	}
	n, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	return uint32(n), err
}
