// Command chaos proves from outside that tasks are durable: it keeps customers busy with tasks of provision_vm, brings
// faults upon the servers that run them, and then counts what is left.
//
//	go run ./judge/chaos                                       # 200 kills of the only server, on SQLite
//	go run ./judge/chaos -store postgres -instances 3          # 200 kills among three, on a PostgreSQL of its own
//	go run ./judge/chaos -store postgres -instances 3 -restart # and PostgreSQL crashes as well
//	go run ./judge/chaos -fleet -seeds 10                      # all faults at once upon three, ten times
//	go run ./judge/chaos -kills 20 -- --workers 2              # what follows -- goes to askback serve
//
// The servers are processes of the askback command, reached over HTTP. The faults are:
//
//   - kill: SIGKILL, at any moment of their work, at times while they start, at times all at once;
//   - stop: SIGSTOP and, about as long as a lease later, SIGCONT;
//   - partition: a server does not reach PostgreSQL for about as long as a lease, and what it sent arrives afterwards;
//   - lease: a server whose steps take longer than a lease does not reach PostgreSQL until another has taken one of its
//     leases, and its steps would have ended;
//   - loss: responses of PostgreSQL to the servers, and of the servers to the customers, are late or never come;
//   - roll: the keys are rotated in their three steps, and after each all servers end by SIGTERM and start again, each
//     with one of two releases of link_accounts, whose calls go on meanwhile.
//
// What is checked is what somebody else than Askback can see:
//
//   - each task whose id a customer was given ends as it should: completed with what the
//     customer answered, or cancelled by its customer; and when it has ended, nothing of it changes;
//   - each machine of a completed task is whole: its files are those of its manifest, and
//     nothing else lies beside them; of a cancelled task nothing is left;
//   - no step runs again that was recorded. What the journals in the database hold once must be there permanently, and
//     only once, and must never be seen again in effects.log, to which every step adds a line when it has been done;
//   - a step runs again only if the process that ran it was kept from recording it: killed, stopped, cut off, or without
//     an answer of the database. That cannot be excluded, and is counted;
//   - leases are respected: triggers in the database note each change of a task, and who made it. No lease is taken
//     before the one before it has ended or was given back, and nobody else writes under it, or does a step. A handler
//     whose lease is taken has been interrupted before: in waits.log each step notes that it goes on under its lease;
//   - a call in rounds is never refused its state, and never asks twice.
//
// A seed repeats the choices of a run, not its moments. It exits with 1 if any of this does not hold, and leaves its
// files for a post-mortem.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
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
	faults    []string
	restart   bool // crash PostgreSQL, too
	impatient bool // end at the first violation
	seed      uint64
	seeds     int
	pace      time.Duration // of a step
	every     time.Duration // a new task begins
	drain     time.Duration // how long everything may take to end after the last kill
	serve     []string      // further arguments of askback serve
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	all, err := runSeeds(ctx, o, os.Stderr)
	stop()
	if len(all) > 1 {
		fmt.Print(table(all))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	if slices.ContainsFunc(all, func(s *summary) bool { return len(s.violations) > 0 }) {
		os.Exit(1)
	}
}

// runSeeds makes a run for each seed, prints its summary, and returns those of all.
func runSeeds(ctx context.Context, o options, log io.Writer) (all []*summary, err error) {
	for range o.seeds {
		s, err := run(ctx, o, log)
		if err != nil {
			return all, err
		}
		fmt.Println(s)
		all = append(all, s)
		o.seed++
	}
	return all, nil
}

// parse reads the command line. It ends the process if that is wrong.
func parse() (o options) {
	flag.StringVar(&o.store, "store", "sqlite", "`STORE` of the tasks: sqlite or postgres")
	flag.StringVar(&o.dsn, "dsn", "", "`URL` of an empty database of a PostgreSQL that is there; without it one is started")
	flag.IntVar(&o.instances, "instances", 1, "`NUMBER` of servers")
	flag.IntVar(&o.kills, "kills", 200, "`NUMBER` of kills")
	faults := flag.String("faults", faultKill, "`LIST` of faults: "+strings.Join(allFaults, ", "))
	fleet := flag.Bool("fleet", false, "all faults upon three servers on PostgreSQL: -store postgres -instances 3 -faults "+strings.Join(allFaults, ",")+" -kills 12")
	flag.IntVar(&o.seeds, "seeds", 1, "`NUMBER` of runs, each with the seed after that of the one before")
	flag.BoolVar(&o.impatient, "impatient", false, "end at the first violation")
	flag.BoolVar(&o.restart, "restart", false, "crash PostgreSQL, too, once in 50 kills")
	flag.Uint64Var(&o.seed, "seed", 0, "`SEED` of all choices; 0 takes one at random")
	flag.DurationVar(&o.pace, "pace", 200*time.Millisecond, "`TIME` that each step takes")
	flag.DurationVar(&o.every, "every", 350*time.Millisecond, "`TIME` from one new task to the next, on average")
	flag.DurationVar(&o.drain, "drain", 3*time.Minute, "`TIME` for all tasks to end after the last kill")
	flag.Parse()
	o.serve = flag.Args()
	o.faults = strings.Split(*faults, ",")
	if *fleet {
		o.store, o.instances, o.kills, o.faults = "postgres", 3, 12, allFaults
	}
	fault := ""
	switch {
	case o.store != "sqlite" && o.store != "postgres":
		fault = fmt.Sprintf("-store %q: want sqlite or postgres", o.store)
	case o.instances < 1 || o.kills < 1:
		fault = "-instances and -kills: want at least 1"
	case o.pace <= 0 || o.every <= 0 || o.drain <= 0:
		fault = "-pace, -every and -drain: want more than 0"
	case o.seeds < 1:
		fault = "-seeds: want at least 1"
	case slices.ContainsFunc(o.faults, func(f string) bool { return !slices.Contains(allFaults, f) }):
		fault = fmt.Sprintf("-faults %s: want some of %s, with commas between them", *faults, strings.Join(allFaults, ", "))
	case slices.Contains(o.faults, faultStop) && stopSignal == nil:
		fault = "-faults stop: this system cannot stop a process"
	case (slices.Contains(o.faults, faultPartition) || slices.Contains(o.faults, faultLease)) && o.store != "postgres":
		fault = "-faults partition and lease need -store postgres"
	case o.store != "postgres" && (o.dsn != "" || o.restart):
		fault = "-dsn and -restart need -store postgres"
	case o.dsn != "" && o.seeds > 1:
		fault = "-dsn names an empty database, and -seeds needs one for each run: leave out -dsn"
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
