package sqlite

import (
	"context"
	"database/sql/driver"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"

	"github.com/askback-mcp/askback/internal/test/ledgertest"
	"github.com/askback-mcp/askback/ledger"
)

// file connects to a database in a file.
type file string

func (f file) Connect(context.Context) (driver.Conn, error) { return f.Driver().Open(string(f)) }
func (f file) Driver() driver.Driver                        { return new(sqlite.Driver) }

func TestLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bookings.db")
	ledgertest.Run(t, ledger.SQLite, file("file:"+path+"?_pragma=busy_timeout(60000)"))
}
