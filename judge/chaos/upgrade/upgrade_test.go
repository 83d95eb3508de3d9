package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// A store of this release serves the one before it, also when that is started again.
func TestUpgrade(t *testing.T) {
	setting := os.Getenv("ASKBACK_TEST_POSTGRES")
	old, now, err := build(t.Context(), t.TempDir(), before)
	if missing, ok := errors.AsType[*missingError](err); ok && setting != "required" {
		t.Skipf("%v", missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"postgres", "sqlite"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			dsn := ""
			if store == "postgres" {
				dsn = pgtest.DSN(t)
			}
			// Statements may wait for as long as a busy machine makes them: what bounds that is tested with the store.
			r, err := run(t.Context(), options{
				store: store, tasks: 2000, wait: time.Minute, kills: 1, phase: time.Second, old: old, now: now, dsn: dsn,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if len(r.wrong) > 0 || r.ended == 0 {
				t.Errorf("%d tasks ended, and %d things are wrong", r.ended, len(r.wrong))
			}
		})
	}
}
