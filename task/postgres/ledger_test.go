package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/ledgertest"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/ledger"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	config := expect.Must(pgx.ParseConfig(pgtest.DSN(t)))(t)
	ledgertest.Run(t, ledger.Postgres, stdlib.GetConnector(*config))
}
