// Command chaos proves from outside that tasks are durable: it keeps customers busy with tasks of provision_vm, injects
// faults into the servers that run them, and then counts what is left.
//
//	go run ./judge/chaos                                    # 200 kills of the only server, on SQLite
//	go run ./judge/chaos -store postgres -instances 3       # 200 kills among three, on a PostgreSQL of its own
//	go run ./judge/chaos -store postgres -instances 3 -faults kill,crash
//	go run ./judge/chaos -fleet -seeds 10                   # all faults at once upon three, ten times
//	go run ./judge/chaos -people                            # people decide calls of deploy meanwhile
//	go run ./judge/chaos -kills 20 -- --workers 2           # what follows -- goes to askback serve
//
// The servers are processes of the askback command, reached over HTTP. The faults are:
//
//   - kill: SIGKILL, at any moment of their work, at times while they start, at times all at once;
//   - crash: PostgreSQL ends as in a crash, and starts again;
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
//   - each machine of a completed task is whole: its files are the files of its manifest, and
//     nothing else lies beside them; of a cancelled task nothing is left;
//   - no step runs again that was recorded. What the journals in the database hold once must be there permanently, and
//     only once, and must never be seen again in effects.log, to which every step adds a line when it has been done;
//   - a step runs again only if the process that ran it was kept from recording it: killed, stopped, cut off, or
//     without an answer of the database. That cannot be excluded, and is counted;
//   - leases are respected: triggers in the database note each change of a task, and who made it. No lease is taken
//     before the one before it has ended or was given back, and nobody else writes under it, or does a step. A handler
//     whose lease is taken has been interrupted before: in waits.log each step notes that it goes on under its lease;
//   - with -people or -fleet, each call of deploy ends as people have decided, whose votes are processes of their own
//     that are killed, too: no vote is lost, late or counted twice, each decision is copied once, and a deadline that
//     passes is decided within a second;
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
)

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
	}
	if err != nil || slices.ContainsFunc(all, func(s *summary) bool { return len(s.violations) > 0 }) {
		os.Exit(1)
	}
}

// runSeeds makes a run for each seed, prints its summary, and returns all summaries.
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
	names := strings.Join(allFaults, ", ")
	flag.StringVar(&o.store, "store", "sqlite", "`STORE` of the tasks: sqlite or postgres")
	flag.IntVar(&o.instances, "instances", 1, "`NUMBER` of servers")
	flag.IntVar(&o.kills, "kills", 200, "`NUMBER` of kills")
	faults := flag.String("faults", faultKill, "`LIST` of faults: "+names)
	fleet := flag.Bool("fleet", false, "all faults but crash upon three servers on PostgreSQL, with 12 kills")
	flag.BoolVar(&o.voting, "people", false, "people decide calls of deploy meanwhile, as with -fleet")
	flag.IntVar(&o.seeds, "seeds", 1, "`NUMBER` of runs, each with the seed after that of the one before")
	flag.BoolVar(&o.impatient, "impatient", false, "end at the first violation")
	flag.Uint64Var(&o.seed, "seed", 0, "`SEED` of all choices; 0 takes one at random")
	flag.DurationVar(&o.every, "every", 350*time.Millisecond, "`TIME` from one new task to the next, on average")
	flag.Parse()
	o.serve = flag.Args()
	o.faults = strings.Split(*faults, ",")
	if *fleet {
		o.store, o.instances, o.kills, o.faults, o.voting = "postgres", 3, 12, fleetFaults, true
	}
	has := func(faults ...string) bool {
		return slices.ContainsFunc(faults, func(f string) bool { return slices.Contains(o.faults, f) })
	}
	unknown := slices.ContainsFunc(o.faults, func(f string) bool { return !slices.Contains(allFaults, f) })
	wrong := ""
	switch {
	case o.store != "sqlite" && o.store != "postgres":
		wrong = fmt.Sprintf("-store %q: want sqlite or postgres", o.store)
	case o.instances < 1 || o.kills < 1 || o.seeds < 1 || o.every <= 0:
		wrong = "-instances, -kills, -seeds and -every: want at least 1"
	case unknown:
		wrong = fmt.Sprintf("-faults %s: want some of %s, with commas between them", *faults, names)
	case has(faultStop) && stopSignal == nil:
		wrong = "-faults stop: this system cannot stop a process"
	case has(faultCrash, faultPartition, faultLease) && o.store != "postgres":
		wrong = "-faults crash, partition and lease need -store postgres"
	}
	if wrong != "" {
		fmt.Fprintln(os.Stderr, wrong)
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o
}
