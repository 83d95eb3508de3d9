// Command real shows that the seams of the simulation (internal/test/law) are where the world is: what holds there, in
// memory and virtual time, must hold between real processes that are killed, a real network and a database that fails.
//
//	cd judge && go run ./real                  # two minutes of work, and until all of it has ended
//	cd judge && go run ./real -for 40s -seed 7
//
// It needs a Unix, PostgreSQL and nginx, and runs in the root of the repository. These are its world:
//
//   - three instances of the server in server.go, on PostgreSQL with a synchronous standby. They are behind nginx, with
//     nginx.conf and inbox.conf of examples/fleet;
//   - askback bridge in front of nginx, on a database of its own, and askback inbox serve as its page;
//   - hosts that call through nginx and through the bridge: with tasks, in words, in sessions and in rounds;
//   - people who vote over the API of both pages, and let deadlines pass;
//   - the payment service, which notes each effect, and a receiver of webhooks, which refuses some and is slow for one
//     of the callers.
//
// In the first quarter of the time instances are restarted by SIGTERM, and no call may fail. Then processes are killed
// with SIGKILL or frozen with SIGSTOP, and PostgreSQL crashes, fails over to its standby, and crashes again. At last
// everything is left alone until it has ended, and this must be so:
//
//   - no vote that was acknowledged is lost, and none counts that nobody gave, that is late, or that counts already;
//   - a decision is what its votes say, in the row, on the page, in the result of the call, and in the effect;
//   - an order is paid with one idempotency key, and again only if the process that did so before was killed, frozen or
//     without its database; what must not be repeated is done once, or never if its host reads that it did not run;
//   - the notices of each question arrive, signed, in their order, and with no contradiction;
//   - every call ends, and every task, and nobody waits longer than a bound for what nobody else holds up.
//
// It prints what happened, names what must not have happened and the folder of the logs, and then exits with 1. A seed
// repeats the choices of a run, not its moments: what is found here belongs into the simulation, where it is repeated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	var err error
	if text := os.Getenv(instanceVariable); text != "" {
		err = serve(ctx, text)
	} else {
		lasts := flag.Duration("for", 2*time.Minute, "`TIME` in which calls are made, and fail")
		seed := flag.Uint64("seed", rand.Uint64(), "`SEED` of all choices")
		flag.Parse()
		err = run(ctx, *lasts, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		os.Exit(1)
	}
}

// run lets the world go on for a time, and then takes the account.
func run(ctx context.Context, lasts time.Duration, seed uint64) error {
	fmt.Fprintf(os.Stderr, "seed %d\n", seed)
	w, err := newWorld(ctx, seed)
	if err != nil {
		return err
	}
	defer w.end()
	calling, stop := context.WithTimeout(w.ctx, lasts)
	defer stop()
	w.startPeople()
	w.startHosts(calling)
	if err := w.fail(calling, lasts); err != nil {
		return err
	}
	violations, err := w.settle(ctx)
	fmt.Printf("%s%6d violations\n", w.record, len(violations))
	for _, v := range violations {
		fmt.Println("  -", v)
	}
	w.end()
	if err == nil && len(violations) == 0 {
		return os.RemoveAll(w.dir)
	}
	return errors.Join(err, fmt.Errorf("%d violations; the logs are in %s", len(violations), w.dir))
}
