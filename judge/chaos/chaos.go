package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// options are the choices of the command line.
type options struct {
	store     string         // sqlite or postgres
	postgres  *pgtest.Server // nil starts one
	instances int
	kills     int
	faults    []string
	voting    bool // people decide calls of deploy meanwhile
	impatient bool // end at the first violation
	seed      uint64
	seeds     int
	every     time.Duration // a new task begins
	serve     []string      // further arguments of askback serve
}

// Faults that the option -faults names.
const (
	faultKill      = "kill"      // SIGKILL
	faultCrash     = "crash"     // PostgreSQL ends as in a crash, and is started again
	faultStop      = "stop"      // SIGSTOP for about the time of a lease, and SIGCONT
	faultPartition = "partition" // a server without its database for about the time of a lease
	faultLease     = "lease"     // a server without its database until it has lost a lease within a step
	faultLoss      = "loss"      // responses lost or late, and requests that reach the database late
	faultRoll      = "roll"      // restarts by SIGTERM, one server after another, with a rotation of keys and two releases
)

// fleetFaults are those that can come at once: a crash of the database would excuse what the others do.
var (
	fleetFaults = []string{faultKill, faultStop, faultPartition, faultLease, faultLoss, faultRoll}
	allFaults   = append(fleetFaults, faultCrash)
)

const (
	pace  = 200 * time.Millisecond // of a step
	drain = 3 * time.Minute        // how long everything may take to end after the last fault
)

// chaos is a run: its servers and customers, and the faults.
type chaos struct {
	options
	running  context.Context // of the servers
	logged   io.Writer
	dir      string
	program  string // the file of askback
	keys     string // the file of keys
	storeURL string
	machines string // directory
	observer observer
	ledger   *ledger
	rotation rotation
	slots    []*slot
	people   *people     // nil if nobody votes
	lossy    atomic.Bool // whether responses may be lost now
	reading  sync.Mutex

	mu     sync.Mutex
	outage time.Time // until when a server may end by itself before it listens
}

// has reports whether a fault is among those that are wanted.
func (c *chaos) has(fault string) bool { return slices.Contains(c.faults, fault) }

func (c *chaos) say(format string, args ...any) {
	fmt.Fprintf(c.logged, "chaos: "+format+"\n", args...)
}

// setOutage says until when a server may find no database.
func (c *chaos) setOutage(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outage = until
}

// setLoss begins or ends the losses and delays of all servers.
func (c *chaos) setLoss(lossy bool) {
	c.lossy.Store(lossy)
	for _, s := range c.slots {
		s.setLoss(lossy)
	}
}

const (
	// longerThanALease is how late a held request reaches the database: what it wants to write is no longer its sender's.
	longerThanALease = 12 * time.Second
	// silence is how long a database is without an answer before a server is taken for cut off: a little less than the
	// deadline of a store.
	silence = 4 * time.Second
	// patience is how long a server may take until it listens, or until it has ended.
	patience = time.Minute
)
