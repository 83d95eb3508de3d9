// Package ledgertest tries package ledger on a database.
package ledgertest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/ledger"
	"github.com/askback-mcp/askback/task"
)

var cuts = flag.Int64("cuts", 60, "how often the connection to the ledger is cut off")

// Run tries a ledger on a new database, to which the connector connects. The database has to wait for a transaction
// that has written the same row.
func Run(t *testing.T, d ledger.Dialect, connector driver.Connector) {
	f := &faults{Connector: connector}
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	b := &bookings{T: t, db: db, ledger: expect.Must(ledger.New(t.Context(), db, d))(t), faults: f}
	b.exec(`CREATE TABLE bookings (room BIGINT, number BIGINT)`)
	t.Run("its table is there", func(t *testing.T) { expect.Check(t, expect.Err(ledger.New(t.Context(), db, d))) })
	t.Run("connections are cut off", b.cutOff)
	t.Run("two workers have a task", b.stolen)
	t.Run("what does not commit", b.rolledBack)
	t.Run("what is old expires", b.expire)
}

// bookings are the rows of an author's table, which the steps of calls write.
type bookings struct {
	*testing.T
	db     *sql.DB
	ledger *ledger.Ledger
	faults *faults
	last   atomic.Int64 // number of a booking
}

type room struct {
	Room  int64 `json:"room"`
	Plain bool  `json:"plain"` // by a step of askback.Do
}

func (b *bookings) exec(query string) {
	b.Helper()
	expect.Check(b, expect.Err(b.db.ExecContext(b.Context(), query)))
}

// of returns the numbers of a room's bookings.
func (b *bookings) of(t *testing.T, room int64) (numbers []int64) {
	t.Helper()
	query := fmt.Sprint(`SELECT number FROM bookings WHERE room = `, room)
	rows := expect.Must(b.db.QueryContext(t.Context(), query))(t)
	defer rows.Close()
	for rows.Next() {
		var n int64
		expect.Check(t, rows.Scan(&n))
		numbers = append(numbers, n)
	}
	return numbers
}

// book is the step: it writes a row, and returns its number.
func (b *bookings) book(ctx context.Context, in room, exec func(context.Context, string, ...any) (sql.Result, error),
) (int64, error) {
	n := b.last.Add(1)
	_, err := exec(ctx, fmt.Sprintf(`INSERT INTO bookings VALUES (%d, %d)`, in.Room, n))
	return n, err
}

// handler asks, so that the call has a state, and books.
func (b *bookings) handler(ctx context.Context, call *askback.Call, in room) (string, error) {
	if err := askback.Approve(call, "sure", askback.Question{Message: "Sure?"}); err != nil {
		return "", err
	}
	var n int64
	var err error
	if in.Plain {
		n, err = askback.Do(ctx, call, "book", func(ctx context.Context) (int64, error) {
			return b.book(ctx, in, b.db.ExecContext)
		})
	} else {
		n, err = ledger.Do(ctx, b.ledger, call, "book", func(ctx context.Context, tx *sql.Tx) (int64, error) {
			return b.book(ctx, in, tx.ExecContext)
		})
	}
	return strconv.FormatInt(n, 10), err
}

// Requests with the state of one call are sent until one succeeds, some of them twice at the same time, while
// connections are cut off wherever they do something. Each call has one booking, with the number that every request
// gets. Steps of askback.Do book some rooms twice, so that this can fail.
func (b *bookings) cutOff(t *testing.T) {
	s := harness.NewTaskServer(t, nil, harness.AddTool("book", b.handler))
	twice := 0
	for in := (room{Room: 1}); b.faults.cuts.Load() < *cuts || twice == 0; in.Room++ {
		in.Plain = in.Room%4 == 0
		params := fmt.Sprintf(`"name":"book","arguments":{"room":%d,"plain":%v}`, in.Room, in.Plain)
		asked := s.Result(harness.ProposalOnly, "tools/call", "book", params)
		params += `,"inputResponses":{"sure":{"action":"accept","content":{}}},"requestState":` +
			harness.Quote(asked["requestState"].(string))
		var all sync.WaitGroup
		results := make([]string, 1+in.Room%2)
		b.faults.on.Store(true)
		for i := range results {
			all.Go(func() {
				for failed := true; failed; {
					res := s.Result(harness.ProposalOnly, "tools/call", "book", params)
					failed, _ = res["isError"].(bool)
					results[i] = fmt.Sprint(harness.Content(res))
				}
			})
		}
		all.Wait()
		b.faults.on.Store(false)
		booked := b.of(t, in.Room)
		if in.Plain {
			twice += len(booked) - 1
			continue
		}
		if len(booked) != 1 || slices.ContainsFunc(results, func(r string) bool { return r != fmt.Sprint(booked[0]) }) {
			t.Fatalf("room %d has the bookings %d, and the requests got %q", in.Room, booked, results)
		}
	}
	t.Logf("%d cuts; %d bookings too many by steps of askback.Do", b.faults.cuts.Load(), twice)
}

// A worker that has lost its lease commits, while the next one waits for the same step.
func (b *bookings) stolen(t *testing.T) {
	runs, stolen := make(chan struct{}, 2), make(chan struct{})
	store := new(task.MemoryStore)
	s := harness.NewTaskServerOn(t, store, nil, harness.AddTask("book", nil,
		func(ctx context.Context, call *askback.Call, in room) (string, error) {
			runs <- struct{}{}
			n, err := ledger.Do(ctx, b.ledger, call, "book", func(ctx context.Context, tx *sql.Tx) (int64, error) {
				<-stolen
				return b.book(context.WithoutCancel(ctx), in, tx.ExecContext)
			})
			return strconv.FormatInt(n, 10), err
		}))
	created := s.Result(harness.WithExtension, "tools/call", "book", `"name":"book","arguments":{"room":-1,"plain":false}`)
	id := created["taskId"].(string)
	<-runs
	harness.Steal(t, store, id)()
	<-runs
	close(stolen)
	res := s.Get(harness.WithExtension, id, "completed")
	text := fmt.Sprint(harness.Content(res["result"].(map[string]any)))
	if booked := b.of(t, -1); len(booked) != 1 || text != fmt.Sprint(booked[0]) {
		t.Errorf("the bookings are %d, and the result is %q", booked, text)
	}
}

// A step that fails, panics, asks, or whose context ends leaves nothing behind, and runs again.
func (b *bookings) rolledBack(t *testing.T) {
	fails := errors.New("no room")
	for i, tt := range []struct {
		says string
		end  func(call *askback.Call, cancel func()) error
	}{
		{"it fails", func(*askback.Call, func()) error { return fails }},
		{"it panics", func(*askback.Call, func()) error { panic(fails) }},
		{"it asks", func(call *askback.Call, _ func()) error {
			return askback.Approve(call, "sure", askback.Question{Message: "Sure?"})
		}},
		{"its context ends", func(_ *askback.Call, cancel func()) error { cancel(); return nil }},
	} {
		in, again := room{Room: int64(-10 - i)}, false
		s := harness.NewTaskServer(t, nil, harness.AddTool("book",
			func(ctx context.Context, call *askback.Call, _ room) (string, error) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				_, err := ledger.Do(ctx, b.ledger, call, "book", func(ctx context.Context, tx *sql.Tx) (int64, error) {
					n, err := b.book(ctx, in, tx.ExecContext)
					if err == nil && !again {
						err = tt.end(call, cancel)
					}
					return n, err
				})
				return "booked", err
			}))
		call := func() (booked bool) {
			const params = `"name":"book","arguments":{"room":1,"plain":false}`
			_, response := s.Send(harness.ProposalOnly, "tools/call", "book", params)
			return harness.At(response, "result", "content") != nil && harness.At(response, "result", "isError") != true
		}
		if call() || len(b.of(t, in.Room)) != 0 {
			t.Errorf("%s: there are the bookings %d", tt.says, b.of(t, in.Room))
		}
		if again = true; !call() || len(b.of(t, in.Room)) != 1 {
			t.Errorf("%s: in the next run there are the bookings %d", tt.says, b.of(t, in.Room))
		}
	}
}

// expire deletes what is older than it may be.
func (b *bookings) expire(t *testing.T) {
	if n, err := b.ledger.Expire(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("within the hour %d expire: %v", n, err)
	}
	b.exec(`UPDATE askback_ledger SET written = written - 3700`)
	if n, err := b.ledger.Expire(t.Context(), time.Hour); n == 0 || err != nil {
		t.Errorf("after an hour %d expire: %v", n, err)
	}
}
