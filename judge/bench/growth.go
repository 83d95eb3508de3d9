package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

// experiment finds out how a cost depends on one quantity.
type experiment struct {
	name    string // of its place in the document
	measure func(scale float64) (table [][]string, err error)
}

var experiments = []experiment{
	{"rounds", growingRounds},
	{"arguments", growingArguments},
	{"tools", growingTools},
	{"connections", growingConnections},
	{"processors", growingProcessors},
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

// medians measures the values of a quantity in turn, and returns the median for each. The first pass warms up.
func medians(values []float64, measure func(v float64) (float64, error)) ([]float64, error) {
	all := make([][]float64, len(values))
	for pass := range passes + 1 {
		for i, v := range values {
			cost, err := measure(v)
			if err != nil {
				return nil, fmt.Errorf("for %s: %w", number(v), err)
			}
			if pass > 0 {
				all[i] = append(all[i], cost)
			}
		}
	}
	found := make([]float64, len(values))
	for i := range all {
		found[i] = median(all[i])
	}
	return found, nil
}

// costs returns, for each value, the median of the server's CPU time for an operation, in microseconds.
func (s *server) costs(
	values []float64, count func(v float64) int, operation func(v float64) error,
) ([]float64, error) {
	return medians(values, func(v float64) (float64, error) {
		before, err := s.CPU()
		if err != nil {
			return 0, err
		}
		for range count(v) {
			if err := operation(v); err != nil {
				return 0, err
			}
		}
		after, err := s.CPU()
		return asMicroseconds(after-before) / float64(count(v)), err
	})
}

// startGrowing starts a server, and opens a connection to it.
func startGrowing(env ...string) (*server, *connection, error) {
	s, err := start(growing, runtime.NumCPU(), env...)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(s.URL)
	if err != nil {
		s.Stop()
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
	defer s.Stop()
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

// growingArguments measures interactions whose two requests have arguments of a size: one text, or a list of objects.
func growingArguments(scale float64) ([][]string, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	const item = `{"name":"a thing of this list","count":1234,"tags":["red","green","blue"]}`
	values := []float64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	rows := [][]string{{"bytes"}}
	for _, v := range values {
		rows = append(rows, []string{number(v)})
	}
	for _, shape := range []struct {
		name string
		of   func(size int) string
	}{
		{"one text", func(size int) string { return `{"text":"` + strings.Repeat("x", size) + `"}` }},
		{"a list of objects", func(size int) string {
			return `{"items":[` + strings.Repeat(item+",", size/(len(item)+1)) + item + `]}`
		}},
	} {
		arguments := make(map[float64]string)
		for _, v := range values {
			arguments[v] = shape.of(int(v))
		}
		count := func(v float64) int { return scaled(min(1000, int(8<<20/v)), scale) }
		costs, err := s.costs(values, count, func(v float64) error {
			asked, err := c.call("large", arguments[v], "")
			if err != nil {
				return err
			}
			done, err := c.call("large", arguments[v], answered(octocat, requestState(asked), "login"))
			return contains(done, err, "Hello octocat")
		})
		if err != nil {
			return nil, err
		}
		rows[0] = append(rows[0], "CPU of an interaction, "+shape.name)
		for i := range values {
			rows[i+1] = append(rows[i+1], duration(costs[i]))
		}
	}
	return rows, nil
}

// growingTools measures servers with many tools.
func growingTools(scale float64) ([][]string, error) {
	rows := [][]string{
		{"tools", "CPU of an interaction", "CPU to add a tool", "heap", "CPU of a first page of tools/list"},
	}
	const list = accept + "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
	begun := 0.0 // CPU of a start with one tool
	measure := func(v float64) error {
		s, c, err := startGrowing(fmt.Sprintf("%s=%v", toolsVariable, v))
		if err != nil {
			return err
		}
		defer s.Stop()
		used, err := s.CPU()
		if err != nil {
			return err
		}
		cost := func(count int, operation func() error) string {
			costs, e := s.costs([]float64{1}, func(float64) int { return scaled(count, scale) },
				func(float64) error { return operation() })
			if e != nil {
				err = errors.Join(err, e)
				return ""
			}
			return duration(costs[0])
		}
		interaction := cost(1000, func() error { return modern{c}.interact(octocat, newYork) })
		page := cost(20, func() error {
			page, err := c.post(list, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`)
			return contains(page, err, `"inputSchema"`)
		})
		usage, e := s.Usage(context.Background())
		if err := errors.Join(err, e); err != nil {
			return err
		}
		add := "–"
		if v == 1 {
			begun = asMicroseconds(used)
		} else if v >= 1000 {
			add = microseconds((asMicroseconds(used) - begun) / v)
		}
		rows = append(rows, []string{number(v), interaction, add, megabytes(float64(usage.Heap)), page})
		return nil
	}
	for _, v := range []float64{1, 10, 100, 1000, 10_000} {
		if err := measure(v); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// besideFloor measures the floor and Askback in turn, and returns the medians of each, in this order.
func besideFloor(procs int, values []float64, set func(v float64) settings) (found [][2]beside, err error) {
	var both [2]*row
	for i, s := range []*subject{subjects[0], growing} {
		server, err := start(s, procs)
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		both[i] = &row{server: server}
	}
	for _, v := range values {
		var rates, cpus [2][]float64
		var of [2]beside
		for pass := range passes + 1 {
			for i, server := range both {
				m, err := server.takeTurn(set(v))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", server.title, err)
				}
				if pass > 0 {
					rates[i], cpus[i] = append(rates[i], m.perSecond), append(cpus[i], asMicroseconds(m.cpu))
				}
			}
		}
		for i, server := range both {
			resident, _, err := server.Memory()
			if err != nil {
				return nil, err
			}
			of[i] = beside{median(rates[i]), median(cpus[i]), float64(resident)}
		}
		found = append(found, of)
	}
	return found, nil
}

// beside is what is measured of the floor, and of Askback beside it.
type beside struct{ rate, cpu, memory float64 }

// growingConnections measures many connections that all interact at once.
func growingConnections(scale float64) ([][]string, error) {
	values := []float64{1, 10, 100, 1000}
	found, err := besideFloor(runtime.NumCPU(), values, func(v float64) settings {
		return settings{turn: time.Duration(scale * float64(2*time.Second)), clients: int(v)}
	})
	rows := [][]string{{"connections", "CPU of an interaction", "of the floor", "ratio", "memory", "of the floor"}}
	for i, of := range found {
		floor, own := of[0], of[1]
		rows = append(rows, []string{
			number(values[i]), microseconds(own.cpu), microseconds(floor.cpu), fmt.Sprintf("%.2f", own.cpu/floor.cpu),
			megabytes(own.memory), megabytes(floor.memory),
		})
	}
	return rows, err
}

// growingProcessors measures servers with some of the processors. The callers run on the same ones.
func growingProcessors(scale float64) ([][]string, error) {
	rows := [][]string{
		{"GOMAXPROCS", "interactions a second", "of the floor", "CPU of an interaction", "of the floor"},
	}
	for procs := 1; procs <= runtime.NumCPU(); procs *= 2 {
		found, err := besideFloor(procs, []float64{0}, func(float64) settings {
			return settings{turn: time.Duration(scale * float64(2*time.Second)), clients: 4 * procs}
		})
		if err != nil {
			return nil, err
		}
		floor, own := found[0][0], found[0][1]
		rows = append(rows, []string{strconv.Itoa(procs), number(own.rate), number(floor.rate),
			microseconds(own.cpu), microseconds(floor.cpu)})
	}
	return rows, nil
}

// growingUnanswered asks, and never answers. It fails if the server keeps anything of it.
func growingUnanswered(scale float64) ([][]string, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	connections := []*connection{c}
	for range 3 {
		another, err := dial(s.URL)
		if err != nil {
			return nil, err
		}
		connections = append(connections, another)
	}
	send := func(n int) error {
		var all sync.WaitGroup
		faults := make([]error, len(connections))
		for i, c := range connections {
			all.Go(func() {
				for range n / len(connections) {
					asked, err := c.call("greet", `{"place":`+newYork+`}`, "")
					if faults[i] = contains(asked, err, `"requestState":"`); faults[i] != nil {
						return
					}
				}
			})
		}
		all.Wait()
		return errors.Join(faults...)
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
