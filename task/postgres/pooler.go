package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// behindPooler reports whether a pooler in front of the server lends sessions for one transaction at a time, as
// PgBouncer does with pool_mode=transaction. It returns an error if the statements, as the URL configures them, need a
// session of their own, because they would fail now and then.
func behindPooler(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	pid, err := backend(ctx, conn, "")
	if err != nil || pid == conn.PgConn().PID() {
		return false, err // the server itself has accepted the connection
	}
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer other.Close(ctx)
	// While the other connection is in a transaction, it keeps a session, usually the one that was used last.
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

// sharable returns an error if statements in this mode need a session for longer than one transaction.
func sharable(mode pgx.QueryExecMode) error {
	switch mode {
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec:
		return errors.New("a pooler in transaction mode is in front of the server, where prepared statements are lost " +
			"or another's: add default_query_exec_mode=exec to the URL, or connect to PostgreSQL directly, " +
			"or through a pooler in session mode")
	}
	return nil
}

// backend returns the server process that serves a connection after the statement first. It prepares no statement.
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
