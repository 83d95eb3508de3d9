package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/askback-mcp/askback/judge/process"
)

// experiment finds out how a cost depends on one quantity.
type experiment struct {
	name    string // of its place in the document
	measure func(scale float64) (table [][]string, err error)
}

var experiments = []experiment{
	{"rounds", growingRounds},
	{"unanswered", growingUnanswered},
	{"held", holding},
}

func runGrowth(scale float64, only string, doc document) error {
	found := false
	for _, e := range experiments {
		if only != "" && only != e.name {
			continue
		}
		found = true
		fmt.Fprintln(os.Stderr, "Measuring", e.name)
		rows, err := e.measure(scale)
		if err != nil {
			return fmt.Errorf("measure %s: %w", e.name, err)
		}
		fmt.Printf("%s\n\n%s\n", e.name, table(rows))
		if err := doc.write(e.name, table(rows)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("-only %s: there is no such experiment", only)
	}
	return nil
}

// scaled is a share of n, and at least a few.
func scaled(n int, scale float64) int { return max(int(float64(n)*scale), 5) }

// passes is how often a cost is measured. The costs of all values of a quantity are measured in turn, and each figure
// is a median.
const passes = 5

// costs returns, for each value, the median of the server's CPU time for an operation, in microseconds. The first pass
// warms up.
func (s *server) costs(
	values []float64, count func(v float64) int, operation func(v float64) error,
) ([]float64, error) {
	all := make([][]float64, len(values))
	for pass := range passes + 1 {
		for i, v := range values {
			before, err := s.CPU()
			if err != nil {
				return nil, err
			}
			for range count(v) {
				if err := operation(v); err != nil {
					return nil, fmt.Errorf("for %s: %w", number(v), err)
				}
			}
			after, err := s.CPU()
			if err != nil {
				return nil, err
			}
			if pass > 0 {
				all[i] = append(all[i], asMicroseconds(after-before)/float64(count(v)))
			}
		}
	}
	found := make([]float64, len(values))
	for i := range all {
		found[i] = median(all[i])
	}
	return found, nil
}

// startGrowing starts a server, and opens a connection to it.
func startGrowing() (*server, *connection, error) {
	s, err := start(growing)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(s.URL)
	if err != nil {
		s.Kill()
		return nil, nil, err
	}
	return s, c, nil
}

// growingRounds measures calls that ask one question after the other.
func growingRounds(scale float64) ([][]string, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	state := ""
	call := func(questions float64) error {
		arguments := fmt.Sprintf(`{"questions":%v}`, questions)
		response, err := c.call("rounds", arguments, "")
		for i := 0; i < int(questions) && err == nil; i++ {
			state = requestState(response)
			response, err = c.call("rounds", arguments, answered(octocat, state, "login"+strconv.Itoa(i)))
		}
		return contains(response, err, "all answered")
	}
	values := []float64{1, 2, 4, 8, 16, 32, 64}
	costs, err := s.costs(values, func(v float64) int { return scaled(int(1000/v), scale) }, call)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"rounds", "CPU of the call", "CPU of a round", "bytes of the last state"}}
	for i, v := range values {
		if err := call(v); err != nil {
			return nil, err
		}
		rows = append(rows, []string{
			number(v), duration(costs[i]), microseconds(costs[i] / v), number(float64(len(state))),
		})
	}
	return rows, nil
}

// contains is the error of a request, or one that says that its response does not have a text.
func contains(response []byte, err error, text string) error {
	if err == nil && !bytes.Contains(response, []byte(text)) {
		err = fmt.Errorf("the server does not send %q but %.300s", text, response)
	}
	return err
}

// growingUnanswered asks, and never answers. It fails if the server keeps anything of it.
func growingUnanswered(scale float64) ([][]string, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	connections := []*connection{c}
	for range 3 {
		another, err := dial(s.URL)
		if err != nil {
			return nil, err
		}
		connections = append(connections, another)
	}
	send := func(n int) error {
		var all errgroup.Group
		for _, c := range connections {
			all.Go(func() error {
				for range n / len(connections) {
					asked, err := c.call("greet", `{"place":`+newYork+`}`, "")
					if err := contains(asked, err, `"requestState":"`); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return all.Wait()
	}
	rows := [][]string{{"asked", "heap", "goroutines"}}
	var first, last process.Usage
	asked := 0
	if err := send(400); err != nil { // what is made once
		return nil, err
	}
	for _, until := range []int{1000, 10_000, 100_000, 1_000_000} {
		until = scaled(until, scale)
		if err := send(until - asked); err != nil {
			return nil, err
		}
		asked = until
		if last, err = s.Settled(context.Background()); err != nil {
			return nil, err
		}
		if len(rows) == 1 {
			first = last
		}
		rows = append(rows, []string{
			number(float64(until)), megabytes(float64(last.Heap)), strconv.Itoa(last.Goroutines),
		})
	}
	if last.Heap-first.Heap > 1<<20 || last.Goroutines > first.Goroutines {
		return nil, fmt.Errorf("questions that nobody answers cost the server memory: before %+v, after %+v", first, last)
	}
	return rows, nil
}
