// The command check judges 'askback check': each fault that is planted into a server has to be found by the probe that
// is meant, and on correct servers there must be no finding.
//
//	go run ./check -runs 20               each of them twenty times
//	go run ./check -runs 20 -busy         beside two busy loops
//	go run ./check -runs 20 -lossy        over a connection that loses one response in ten
//	go run ./check -runs 1 -only declined one of them
//	go run ./check -runs 1 -load          with what is large, many or long, which takes a minute or two for each
//	go run ./check -hostile               servers that harm their client
//
// It prints a table, and ends with status 1 if anything is wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"sync"

	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	runs := flag.Int("runs", 20, "how often each server is checked")
	busy := flag.Bool("busy", false, "run two busy loops beside")
	lossy := flag.Bool("lossy", false, "lose one response in ten")
	only := flag.String("only", "", "servers whose names match this regular expression")
	kind := flag.String("kind", "", "only \"faults\" or \"correct\"")
	hostile := flag.Bool("hostile", false, "check servers that harm their client")
	load := flag.Bool("load", false, "send every server what is large, many or long, not only those with a fault there")
	parallel := flag.Int("parallel", 4, "how many servers are checked at once; most of a run is waiting")
	verbose := flag.Bool("v", false, "show the findings on each server")
	program := flag.String("askback", "", "the command; empty builds it")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if *program == "" {
		if *program, err = process.Build(ctx, dir); err != nil {
			log.Fatal(err)
		}
	}
	j := &judge{program: *program, lossy: *lossy, load: *load}
	if *busy {
		var loops sync.WaitGroup
		for range 2 {
			loops.Go(func() {
				for ctx.Err() == nil {
				}
			})
		}
	}
	wrong := 0
	if *hostile {
		wrong = judgeHostile(ctx, j, os.Stdout)
	} else {
		var chosen []subject
		for _, s := range subjects() {
			if wanted.MatchString(s.name) && (*kind == "" || (*kind == "faults") == (s.fault != nil)) {
				chosen = append(chosen, s)
			}
		}
		for sum := range j.sums(ctx, chosen, *runs, *parallel, *verbose) {
			fmt.Println(sum.line())
			wrong += sum.wrong
		}
	}
	if wrong > 0 {
		fmt.Println(wrong, "runs are wrong")
		os.Exit(1)
	}
}
