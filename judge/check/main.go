// The command check judges 'askback check': each fault that is planted into a server has to be found by the probe that
// is meant, and on correct servers there must be no finding.
//
//	go run ./check -runs 20               each of them twenty times
//	go run ./check -runs 20 -lossy        over a connection that loses one response in ten
//	go run ./check -runs 1 -only declined one of them
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

	"github.com/askback-mcp/askback/judge/process"
)

func main() {
	j := new(judge)
	runs := flag.Int("runs", 20, "how often each server is checked")
	flag.BoolVar(&j.lossy, "lossy", false, "lose one response in ten")
	only := flag.String("only", "", "servers whose names match this regular expression")
	kind := flag.String("kind", "", "only \"faults\" or \"correct\"")
	hostile := flag.Bool("hostile", false, "check servers that harm their client")
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
	if j.program, err = process.Build(ctx, dir); err != nil {
		log.Fatal(err)
	}
	wrong := 0
	if *hostile {
		wrong = judgeHostile(ctx, j, os.Stdout)
	} else {
		var chosen []subject
		for _, s := range subjects() {
			if wanted.MatchString(s.Name) && (*kind == "" || (*kind == "faults") == (s.fault != nil)) {
				chosen = append(chosen, s)
			}
		}
		for sum := range j.sums(ctx, chosen, *runs) {
			fmt.Println(sum.line())
			wrong += sum.wrong
		}
	}
	if wrong > 0 {
		fmt.Println(wrong, "runs are wrong")
		os.Exit(1)
	}
}
