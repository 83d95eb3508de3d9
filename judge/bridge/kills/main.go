// Command kills proves from outside that a bridge repeats nothing behind anybody's back: hosts make calls through a
// bridge that is killed at random times and started again on the same store, in front of a server that counts.
//
//	go run ./judge/bridge/kills                              # 300 calls through one bridge on SQLite
//	go run ./judge/bridge/kills -store postgres -bridges 2   # through two on a PostgreSQL of its own
//	go run ./judge/bridge/kills -servers                     # through one that lives, while its servers are killed
//
// A third of the calls is idempotent, a third is not, and a third asks twice. Of the first two, each second call asks
// once before it takes effect. A person answers at the desk, and declines to repeat a round whose outcome is unknown.
// What is checked:
//
//   - no call that is not idempotent takes effect twice, in any of its rounds;
//   - each that has ended without its result says in words that its outcome is unknown, or that it was not sent, and
//     then it has not taken effect. A call that its host lost with the connection, before it was given a name, and that
//     no store knows, is one whose host knows by the broken connection;
//   - every idempotent call ends with its result. Its host repeats it if the connection broke before it had a name;
//   - a call that ended with its result has taken effect.
//
// With -servers the bridge stands in front of seven servers, which are killed at random and, if they are no programs of
// the bridge, started again: of 2026-07-28 and of 2025-11-25, over HTTP and as programs, with streams that can be
// resumed, and behind a gateway that answers some calls with an error of its own after they have run. Then a round that
// did not run has no effect, and hosts repeat calls that are idempotent until they are done.
//
// A seed repeats the choices of a run, not its moments. It exits with 1 if any of this does not hold.
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

	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/process"
)

type options struct {
	program string // the askback command
	store   string // the URL, or empty for a file
	bridges int
	servers bool // are killed, in place of bridges
	calls   int
	kills   int           // at least
	hosts   int           // that call at once
	every   time.Duration // between two kills, at most
	seed    uint64
}

func main() {
	if kind := os.Getenv(kindVariable); kind != "" {
		fmt.Fprintln(os.Stderr, serve(context.Background(), kind))
		os.Exit(1)
	}
	o := options{hosts: 24, every: 2 * time.Second}
	store := flag.String("store", "sqlite", "`STORE` of the calls: sqlite or postgres")
	flag.IntVar(&o.bridges, "bridges", 1, "`NUMBER` of bridges")
	flag.BoolVar(&o.servers, "servers", false, "kill the servers behind the bridge, and not the bridge")
	flag.IntVar(&o.calls, "calls", 300, "`NUMBER` of calls")
	flag.IntVar(&o.kills, "kills", 100, "`NUMBER` of kills, at least")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64(), "`SEED` of all choices")
	flag.Parse()
	if o.servers { // most of them are idle when they are killed
		o.every /= 4
	}
	if *store != "sqlite" && *store != "postgres" || o.bridges < 1 || o.calls < 1 || o.kills < 1 {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	found, err := runAlone(ctx, o, *store == "postgres")
	stop()
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(found)
	if len(found.violations) > 0 {
		os.Exit(1)
	}
}

// runAlone builds the command, and starts a PostgreSQL if there is to be one.
func runAlone(ctx context.Context, o options, postgres bool) (*findings, error) {
	dir, err := os.MkdirTemp("", "kills-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.program, err = process.Build(ctx, dir); err != nil {
		return nil, err
	}
	if postgres {
		server, end, err := pgtest.Open()
		if err != nil {
			return nil, err
		}
		defer end()
		o.store = server.DSN()
	}
	return run(ctx, o, dir)
}
