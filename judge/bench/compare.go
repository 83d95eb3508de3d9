package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/askback-mcp/askback/judge/process"
)

// settings are the settings of a comparison.
type settings struct {
	rounds  int           // a warm-up precedes the first
	turn    time.Duration // how long a server is under load in a round
	clients int           // callers at once
}

// row is what was measured of one server.
type row struct {
	*server
	checksArguments, checksAnswer bool // against the tool's schema, and against the form
	turns                         []measured
	memory                        float64 // at the end, in bytes
}

// compare measures all servers in turn, several times. It does not measure any if one of them gives wrong answers.
func compare(subjects []*subject, set settings) (rows []*row, err error) {
	for _, s := range subjects {
		server, err := start(s)
		if err != nil {
			return nil, err
		}
		defer server.Kill()
		r := &row{server: server}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("checking the answers of %q: %w", s.title, err)
		}
		rows = append(rows, r)
		fmt.Fprintf(os.Stderr, "%s: %s\n", r.title, r.URL)
	}
	for round := range set.rounds + 1 {
		fmt.Fprintf(os.Stderr, "Round %d of %d\n", round, set.rounds)
		for _, r := range rows {
			m, err := r.takeTurn(set)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.title, err)
			}
			if round > 0 {
				r.turns = append(r.turns, m)
			}
		}
	}
	for _, r := range rows {
		resident, _, err := process.Memory(r.PID())
		if err != nil {
			return nil, err
		}
		r.memory = float64(resident)
	}
	return rows, nil
}

func (s *server) caller() (caller, error) {
	if s.session {
		return openSession(s.URL)
	}
	c, err := dial(s.URL)
	return modern{c}, err
}

// takeTurn opens connections, and measures their interactions.
func (r *row) takeTurn(set settings) (measured, error) {
	callers := make([]caller, set.clients)
	for i := range callers {
		c, err := r.caller()
		if err != nil {
			return measured{}, err
		}
		defer c.close()
		callers[i] = c
	}
	return load(r.server, callers, set.turn)
}

// check makes two interactions that have different answers. Then it finds out what the server does with a place and a
// name that are numbers, which the schema of the tool and the form do not allow.
func (r *row) check() error {
	try := func(name, place string) error {
		c, err := r.caller()
		if err != nil {
			return err
		}
		defer c.close()
		return c.interact(name, place)
	}
	if err := try(octocat, newYork); err != nil || r.canned {
		return err
	}
	r.checksArguments, r.checksAnswer = try(octocat, "7") != nil, try("7", newYork) != nil
	return try(`"Ada"`, `"London"`)
}

// quantity is a column of the table.
type quantity struct {
	title string
	of    func(r *row, turn int) float64
	write func(v float64) string
}

// number writes a number with three digits, and thousands separated.
func number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return humanize.Comma(int64(math.RoundToEven(v)))
}

func microseconds(v float64) string { return number(v) + " µs" }

func duration(v float64) string {
	if v >= 10_000 {
		return number(v/1000) + " ms"
	}
	return microseconds(v)
}

func asMicroseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func megabytes(v float64) string { return number(v/(1<<20)) + " MB" }

var quantities = []quantity{
	{"interactions a second", func(r *row, turn int) float64 { return r.turns[turn].perSecond }, number},
	{"server CPU each", func(r *row, turn int) float64 { return asMicroseconds(r.turns[turn].cpu) }, microseconds},
	{"p50", func(r *row, turn int) float64 { return asMicroseconds(r.turns[turn].p50) }, duration},
	{"p99", func(r *row, turn int) float64 { return asMicroseconds(r.turns[turn].p99) }, duration},
	{"memory at the end", func(r *row, _ int) float64 { return r.memory }, megabytes},
}

// median returns the medians over the turns of the quantity, and of its ratio to the floor's in the same round.
func (q *quantity) median(r, floor *row) (value, ratio float64) {
	values, ratios := make([]float64, len(r.turns)), make([]float64, len(r.turns))
	for i := range r.turns {
		values[i] = q.of(r, i)
		ratios[i] = values[i] / q.of(floor, i)
	}
	return median(values), median(ratios)
}

var yes = map[bool]string{true: "yes", false: "no"}

func median[T cmp.Ordered](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// figures are the tables of a comparison.
func figures(rows []*row, set settings) string {
	cells := [][]string{{"server"}}
	for _, q := range quantities {
		cells[0] = append(cells[0], q.title)
	}
	deeds := [][]string{
		{"server", "between question and answer there is", "checks the arguments", "checks the answer"},
	}
	for _, r := range rows {
		line := []string{r.title}
		for _, q := range quantities {
			value, ratio := q.median(r, rows[0])
			line = append(line, fmt.Sprintf("%s (%.2f)", q.write(value), ratio))
		}
		cells = append(cells, line)
		deeds = append(deeds, []string{r.title, r.between, yes[r.checksArguments], yes[r.checksAnswer]})
	}
	return fmt.Sprintf("Medians of %d rounds of %v for each server in turn, with %d clients; "+
		"GOMAXPROCS=%d, GOGC=100. In brackets: the ratio to the floor.\n\n%s\n%s",
		set.rounds, set.turn, set.clients, runtime.NumCPU(), table(cells), table(deeds))
}
