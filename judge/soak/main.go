// Soak keeps a server under load, and fails if what it uses grows.
//
//	cd judge && go run ./soak                  # ten minutes of mixed load
//	cd judge && go run ./soak -time 2h         # or longer
//	cd judge && go run ./soak -floods          # what one hostile caller can do to the server, and to another caller
//	cd judge && go run ./soak -floods -only batch
//
// The mixed load is calls that ask, sessions before 2026-07-28, tasks on SQLite, subscriptions, slow readers, and
// calls, sessions, tasks and bodies that their clients abandon. The server is a process of its own, in which an
// abandoned call lives for 20 seconds. Every ten seconds a line tells its memory, goroutines and descriptors; after a
// warm-up none may grow. It measures: judge/real and the simulation judge what the responses say.
//
// A flood gets a server of its own, and comes from a process that the machine serves last (nice). The bars: the
// server's memory stays below 200 MB, and 99 of 100 interactions of another caller take at most three times as long
// as in the quiet. It needs Linux, whose /proc tells what a process uses.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	lasts := flag.Duration("time", 0, "`TIME` of load; 10m by default, and 10s for each flood")
	flooded := flag.Bool("floods", false, "floods of one caller instead of mixed load")
	only := flag.String("only", "", "only floods whose name contains this `TEXT`")
	serve := flag.Bool("serve", false, "run as the server (used by the program itself)")
	attack := flag.String("attack", "", "run as the attacker with the flood of this `NAME` (used by the program itself)")
	url := flag.String("url", "", "`URL` to attack")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *serve:
		err = runServer()
	case *attack != "":
		err = runAttacker(ctx, *attack, *url)
	case *flooded:
		err = flooding(ctx, *only, cmp.Or(*lasts, 10*time.Second), os.Stdout)
	default:
		var s *process.Server
		if s, err = startSubject(); err == nil {
			err = soak(ctx, s, cmp.Or(*lasts, 10*time.Minute), os.Stdout)
			s.Kill()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

// startSubject starts the server under load, in a process of its own.
func startSubject() (*process.Server, error) {
	cmd, err := process.Self("-serve")
	if err != nil {
		return nil, err
	}
	return process.StartServer(cmd, "")
}
