package main

import (
	"fmt"
	"testing"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// startPostgres starts a PostgreSQL in the way that tests do.
func startPostgres() (_ *pgtest.Server, stop func(), err error) {
	t := new(standIn)
	defer func() {
		if p := recover(); p != nil {
			t.cleanUp()
			failure, ok := p.(fatal)
			if !ok {
				panic(p)
			}
			err = failure
		}
	}()
	return pgtest.Start(t), t.cleanUp, nil
}

// standIn is the part of a test that pgtest.Start needs, where there is no test.
type standIn struct {
	testing.TB
	cleanups []func()
}

func (*standIn) Helper()                           {}
func (*standIn) Fatal(args ...any)                 { panic(fatal{fmt.Errorf("%s", fmt.Sprint(args...))}) }
func (*standIn) Fatalf(format string, args ...any) { panic(fatal{fmt.Errorf(format, args...)}) }
func (*standIn) Skipf(format string, args ...any)  { panic(fatal{fmt.Errorf(format, args...)}) }
func (t *standIn) Cleanup(f func())                { t.cleanups = append(t.cleanups, f) }

func (t *standIn) cleanUp() {
	for _, f := range t.cleanups {
		f()
	}
}

// fatal is what would end a test.
type fatal struct{ error }
