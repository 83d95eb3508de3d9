package ledger_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/ledger"
)

type booking struct {
	Room string `json:"room"`
}

// The booking and its record are one transaction. So a call books once, if its process dies or a request comes twice.
func ExampleDo() {
	ctx := context.Background()
	var db *sql.DB // of a driver for PostgreSQL, such as github.com/jackc/pgx/v5/stdlib
	l, err := ledger.New(ctx, db, ledger.Postgres)
	if err != nil {
		log.Fatal(err)
	}
	handler := func(ctx context.Context, call *askback.Call, in booking) (string, error) {
		if err := askback.Approve(call, "sure", askback.Question{Message: "Book " + in.Room + "?"}); err != nil {
			return "", err
		}
		return ledger.Do(ctx, l, call, "book", func(ctx context.Context, tx *sql.Tx) (number string, err error) {
			err = tx.QueryRowContext(ctx, `INSERT INTO bookings (room) VALUES ($1) RETURNING number`, in.Room).Scan(&number)
			return number, err
		})
	}
	_ = askback.ToolHandler[booking, string](handler)
}

// Records are deleted once no call can need them. Whoever has migrations of their own runs the DDL there.
func ExampleLedger_Expire() {
	ctx := context.Background()
	var db *sql.DB
	if _, err := db.ExecContext(ctx, ledger.SQLiteDDL); err != nil {
		log.Fatal(err)
	}
	l, err := ledger.New(ctx, db, ledger.SQLite)
	if err != nil {
		log.Fatal(err)
	}
	deleted, err := l.Expire(ctx, 30*24*time.Hour)
	log.Print(deleted, err)
}
