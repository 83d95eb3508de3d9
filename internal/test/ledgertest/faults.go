package ledgertest

import (
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"sync/atomic"
)

// faults cut connections off, before or after what they are asked to do, as the death of a process does.
type faults struct {
	driver.Connector
	on   atomic.Bool
	cuts atomic.Int64
}

// share of what a connection is asked to do is cut off, half of it afterwards.
const share = 0.15

var errCut = errors.New("the connection is cut off")

func (f *faults) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: c.(raw), faults: f}, nil
}

// raw is a connection of a driver.
type raw interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

// conn is a connection that may be cut off. One goroutine at a time uses it.
type conn struct {
	raw
	faults *faults
	dead   bool
}

// through does something, unless the connection is cut off before, and says nothing of it if it is cut off after.
func (c *conn) through(do func() error) error {
	if c.dead {
		return errCut
	}
	draw := 1.0
	if c.faults.on.Load() {
		draw = rand.Float64()
	}
	if draw < share/2 {
		return c.cut()
	}
	if err := do(); err != nil {
		return err
	}
	if draw < share {
		return c.cut()
	}
	return nil
}

func (c *conn) cut() error {
	c.dead = true
	c.faults.cuts.Add(1)
	_ = c.raw.Close()
	return errCut
}

func (c *conn) IsValid() bool { return !c.dead }

func (c *conn) Close() error {
	if c.dead {
		return nil
	}
	return c.raw.Close()
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.raw.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	t := &tx{conn: c}
	return t, c.through(func() (err error) { t.Tx, err = c.raw.BeginTx(ctx, opts); return err })
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	return res, c.through(func() (err error) { res, err = c.raw.ExecContext(ctx, query, args); return err })
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.faults.on.Load() && rand.Float64() < share {
		return nil, c.cut()
	}
	return c.raw.QueryContext(ctx, query, args)
}

// tx is a transaction of such a connection.
type tx struct {
	driver.Tx
	conn *conn
}

func (t *tx) Commit() error { return t.conn.through(t.Tx.Commit) }

func (t *tx) Rollback() error {
	if t.conn.dead {
		return nil
	}
	return t.Tx.Rollback()
}
