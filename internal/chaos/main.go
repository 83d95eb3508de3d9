// Command chaos proves from outside that tasks are durable: it keeps customers busy with tasks of provision_vm, kills
// the servers that run them again and again, and then counts what is left.
//
//	go run ./internal/chaos                                       # 200 kills of the only server, on SQLite
//	go run ./internal/chaos -store postgres -instances 3          # 200 kills among three, on a PostgreSQL of its own
//	go run ./internal/chaos -store postgres -instances 3 -restart # and PostgreSQL crashes as well
//	go run ./internal/chaos -kills 20 -- --workers 2              # what follows -- goes to askback serve
//
// The servers are processes of the askback command, reached over HTTP, and they die by
// SIGKILL: at any moment of their work, at times while they start, at times all at once.
// What is checked is what somebody else than Askback can see:
//
//   - each task whose id a customer was given ends as it should: completed with what the
//     customer answered, or cancelled by its customer;
//   - each machine of a completed task is whole: its files are those of its manifest, and
//     nothing else lies beside them; of a cancelled task nothing is left;
//   - no step runs again that was recorded. After each kill the journals are read from the
//     database, and what they hold then must be there permanently, and must never be seen
//     again in effects.log, to which every step adds a line when it has been done;
//   - a step runs again only if the process that ran it was killed before it could record
//     it. That cannot be excluded, and is counted.
//
// It exits with 1 if any of this does not hold, and leaves its files for a post-mortem.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// options are the choices of the command line.
type options struct {
	store     string         // sqlite or postgres
	dsn       string         // of a PostgreSQL that is there
	postgres  *pgtest.Server // or one that may be crashed; without either, one is started
	instances int
	kills     int
	restart   bool // crash PostgreSQL, too
	seed      uint64
	pace      time.Duration // of a step
	every     time.Duration // a new task begins
	drain     time.Duration // how long everything may take to end after the last kill
	serve     []string      // further arguments of askback serve
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	s, err := run(ctx, o, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	fmt.Print(s)
	if len(s.violations) > 0 {
		os.Exit(1)
	}
}

// parse reads the command line. It ends the process if that is wrong.
func parse() (o options) {
	flag.StringVar(&o.store, "store", "sqlite", "`STORE` of the tasks: sqlite or postgres")
	flag.StringVar(&o.dsn, "dsn", "", "`URL` of an empty database of a PostgreSQL that is there; without it one is started")
	flag.IntVar(&o.instances, "instances", 1, "`NUMBER` of servers")
	flag.IntVar(&o.kills, "kills", 200, "`NUMBER` of kills")
	flag.BoolVar(&o.restart, "restart", false, "crash PostgreSQL, too, once in 50 kills")
	flag.Uint64Var(&o.seed, "seed", 0, "`SEED` of all choices; 0 takes one at random")
	flag.DurationVar(&o.pace, "pace", 200*time.Millisecond, "`TIME` that each step takes")
	flag.DurationVar(&o.every, "every", 350*time.Millisecond, "`TIME` from one new task to the next, on average")
	flag.DurationVar(&o.drain, "drain", 3*time.Minute, "`TIME` for all tasks to end after the last kill")
	flag.Parse()
	o.serve = flag.Args()
	fault := ""
	switch {
	case o.store != "sqlite" && o.store != "postgres":
		fault = fmt.Sprintf("-store %q: want sqlite or postgres", o.store)
	case o.instances < 1 || o.kills < 1:
		fault = "-instances and -kills: want at least 1"
	case o.pace <= 0 || o.every <= 0 || o.drain <= 0:
		fault = "-pace, -every and -drain: want more than 0"
	case o.store != "postgres" && (o.dsn != "" || o.restart):
		fault = "-dsn and -restart need -store postgres"
	case o.dsn != "" && o.restart:
		fault = "-restart crashes the PostgreSQL that chaos itself has started: leave out -dsn"
	}
	if fault != "" {
		fmt.Fprintln(os.Stderr, fault)
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o
}
