// Bench measures what Askback costs a server.
//
//	cd judge/bench && go run .            one interaction, compared with a floor and with other libraries
//	cd judge/bench && go run . -growth    how the cost grows, and what it costs to hold
//
// Each server is a process of its own on this machine. All take turns under the same load within one run, and their
// costs are shown as ratios to the floor: a net/http handler that reads the body and writes fixed bytes of the same
// sizes. The tables go into docs/proof/performance.md, or with -doc "" only to standard output.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if name := os.Getenv(subjectVariable); name != "" {
		exit(runServer(name))
	}
	var set settings
	flag.IntVar(&set.rounds, "rounds", 5, "rounds that the median is taken of")
	flag.DurationVar(&set.turn, "turn", 2*time.Second, "how long each server is under load in a round")
	flag.IntVar(&set.clients, "clients", 4, "concurrent clients")
	doc := flag.String("doc", "../../docs/proof/performance.md",
		"document that the tables go into; empty for none")
	growth := flag.Bool("growth", false, "measure how the cost grows")
	scale := flag.Float64("scale", 1, "with -growth: share of the load; less is faster and less exact")
	only := flag.String("only", "",
		"with -growth: measure only what has this name; else only these servers, with commas, and the floor")
	flag.Parse()
	if *growth {
		exit(runGrowth(*scale, *only, document(*doc)))
	}
	exit(runComparison(set, *only, document(*doc)))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runComparison(set settings, only string, doc document) error {
	var chosen []*subject
	left := ""
	for _, s := range subjects {
		if only != "" && s != subjects[0] && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		if s.handler == nil {
			if err := s.findNode(); err != nil {
				left = fmt.Sprintf("\nLeft out: %s, because %v.\n", s.title, err)
				continue
			}
		}
		chosen = append(chosen, s)
	}
	rows, err := compare(chosen, set)
	if err != nil {
		return err
	}
	tables := figures(rows, set) + left
	fmt.Println(tables)
	return doc.write("comparison", tables)
}
