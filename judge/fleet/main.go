// Command fleet checks that instances behind a proxy are restarted without a failed call. It starts three processes of
// askback serve behind nginx and behind HAProxy, with the configurations of docs/deploy, calls tools through the proxy,
// and restarts the instances one after the other. A third proxy, plain, has no health checks and never tries a second
// instance, so that calls fail. It is in front of two fleets: one stops with package drain, the other with
// [http.Server.Shutdown].
//
//	go run ./judge/fleet                         # 100 restarts behind each proxy, about 20 minutes
//	go run ./judge/fleet -proxy nginx -restarts 5
//	go run ./judge/fleet -proxy plain -restarts 15
//	go run ./judge/fleet -- --grace 1m           # what follows -- goes to askback serve
//
// It needs the programs nginx and haproxy. There are three kinds of clients: on connections that they keep, with a
// connection for each request, and with calls that take two seconds. A call has two rounds: the tool asks, and is
// answered. Everything but the expected result is a failed call. Nothing is repeated. Behind HAProxy, sessions of
// 2025-11-25 must stay with their instance as well. It exits with 1 if a call has failed, or if more have failed
// behind the plain proxy with drain than with Shutdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

type options struct {
	proxies  []string
	restarts int
	pause    time.Duration
	configs  string
	serve    []string // further arguments of askback serve
}

func main() {
	var o options
	proxy := flag.String("proxy", "nginx,haproxy,plain", "`NAMES` of the proxies")
	flag.IntVar(&o.restarts, "restarts", 100, "`NUMBER` of restarts behind each proxy")
	flag.DurationVar(&o.pause, "pause", 2500*time.Millisecond, "`TIME` from an instance that is ready to the next restart")
	flag.StringVar(&o.configs, "configs", "docs/deploy", "`DIR` of nginx.conf and haproxy.cfg")
	addr := flag.String("serve", "", "be an instance at this `ADDR`, of a fleet behind the plain proxy")
	keys := flag.String("keys", "", "`FILE` of the keys of that instance")
	stopping := flag.String("stop", "drain", "how that instance stops: drain or shutdown")
	flag.Parse()
	if *addr != "" {
		if err := serve(*addr, *keys, *stopping); err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		return
	}
	for name := range strings.SplitSeq(*proxy, ",") {
		o.proxies = append(o.proxies, name)
		if name == "plain" {
			o.proxies = append(o.proxies, "plain, Shutdown")
		}
	}
	o.serve = flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// run builds the command and tries all proxies at once, each with a fleet of its own.
func run(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return err
	}
	program, err := process.Build(ctx, dir)
	if err != nil {
		return err
	}
	results, errs := make([]*result, len(o.proxies)), make([]error, len(o.proxies))
	var all sync.WaitGroup
	for n, name := range o.proxies {
		all.Go(func() {
			if results[n], errs[n] = try(ctx, o, name, program, filepath.Join(dir, name)); errs[n] != nil {
				errs[n] = fmt.Errorf("%s: %w", name, errs[n])
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w; see the logs in %s", err, dir)
	}
	failed, plain := 0, make(map[string]int)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROXY\tRESTARTS\tCLIENTS\tCALLS\tFAILED")
	for n, name := range o.proxies {
		for _, k := range kinds {
			c := results[n].counts[k.name]
			fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%d\n", name, results[n].restarts, k.name, c.calls, c.failed)
			if stop, own := plainProxies[name]; own {
				plain[stop] += c.failed
			} else {
				failed += c.failed
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if plain["drain"] > plain["shutdown"] {
		return fmt.Errorf("%d calls failed behind the plain proxy with drain, and %d with Shutdown",
			plain["drain"], plain["shutdown"])
	}
	if failed > 0 {
		for n, name := range o.proxies {
			for _, text := range results[n].failures {
				fmt.Printf("%s: %s\n", name, text)
			}
		}
		return fmt.Errorf("%d calls failed; see the logs in %s", failed, dir)
	}
	return os.RemoveAll(dir)
}

// try restarts the instances behind one proxy while clients make calls.
func try(ctx context.Context, o *options, name, program, dir string) (*result, error) {
	f, err := startFleet(ctx, o, name, program, dir)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	if _, own := plainProxies[name]; !own { // the plain proxies pass requests to any instance
		if err := checkSessions(ctx, f.url); err != nil {
			return nil, err
		}
	}
	r := newResult()
	calling, stop := context.WithCancel(ctx)
	defer stop()
	var clients sync.WaitGroup
	for _, k := range kinds {
		for n := range perKind {
			clients.Go(func() { k.run(calling, f.url, n, r) })
		}
	}
	for range o.restarts {
		if err := f.restart(ctx, r.restarts%len(f.instances)); err != nil {
			return nil, err
		}
		r.restarts++
		select {
		case <-time.After(o.pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if r.restarts%10 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d restarts, %s\n", name, r.restarts, r)
		}
	}
	stop()
	clients.Wait()
	return r, nil
}
