package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/judge/bench/chart"
)

// experiment finds out how a cost depends on one quantity.
type experiment struct {
	name    string // of its place in the document, and of its chart
	measure func(scale float64) (*result, error)
}

// result is the outcome of an experiment.
type result struct {
	title  string
	table  [][]string
	charts []interface{ SVG() []byte }
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
		r, err := e.measure(scale)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", e.name, err)
		}
		tables := table(r.table)
		fmt.Printf("%s\n\n%s\n", r.title, tables)
		if doc == "" {
			continue
		}
		shown := ""
		for i, c := range r.charts {
			name := e.name
			if i > 0 {
				name += strconv.Itoa(i + 1)
			}
			if err := doc.writeChart(name, c.SVG()); err != nil {
				return err
			}
			shown += doc.show(r.title, name) + "\n"
		}
		if err := doc.write(e.name, shown+tables); err != nil {
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

// passes is how often a cost is measured. The costs of all values of a quantity are measured in turn, and each figure is a
// median.
const passes = 5

// cost returns the CPU time of the server, in microseconds, for each of n operations.
func (s *server) cost(n int, operation func() error) (float64, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := operation(); err != nil {
			return 0, err
		}
	}
	after, err := s.cpu()
	return asMicroseconds(after-before) / float64(n), err
}

// costs returns the median cost of an operation for each value.
func (s *server) costs(values []float64, count func(v float64) int, operation func(v float64) error) ([]float64, error) {
	all := make([][]float64, len(values))
	for pass := range passes + 1 { // the first one warms up
		for i, v := range values {
			cost, err := s.cost(count(v), func() error { return operation(v) })
			if err != nil {
				return nil, fmt.Errorf("for %s: %w", chart.Number(v), err)
			}
			if pass > 0 {
				all[i] = append(all[i], cost)
			}
		}
	}
	medians := make([]float64, len(values))
	for i := range all {
		medians[i] = median(all[i])
	}
	return medians, nil
}

// startGrowing starts a server, and opens a connection to it.
func startGrowing(env ...string) (*server, *connection, error) {
	s, err := start(growing, runtime.NumCPU(), env...)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(s.url)
	if err != nil {
		s.Kill()
		return nil, nil, err
	}
	return s, c, nil
}

// growingRounds measures calls that ask one question after the other.
func growingRounds(scale float64) (*result, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	state := ""
	call := func(questions float64) error {
		arguments := fmt.Sprintf(`{"questions":%v}`, questions)
		response, err := c.post(modernHeader+"rounds\r\n", toolCall("rounds", arguments, ""))
		for i := 0; i < int(questions) && err == nil; i++ {
			state = requestState(response)
			response, err = c.post(modernHeader+"rounds\r\n", toolCall("rounds", arguments, answered(octocat, state, "login"+strconv.Itoa(i))))
		}
		if err == nil && !bytes.Contains(response, []byte("all answered")) {
			err = fmt.Errorf("the server sends %.300s", response)
		}
		return err
	}
	values := []float64{1, 2, 4, 8, 16, 32, 64}
	costs, err := s.costs(values, func(v float64) int { return scaled(int(1000/v), scale) }, call)
	if err != nil {
		return nil, err
	}
	r := &result{title: "Rounds of one call", table: [][]string{{"rounds", "CPU of the call", "CPU of a round", "bytes of the last state"}}}
	each := make([]float64, len(values))
	for i, v := range values {
		each[i] = costs[i] / v
		if err := call(v); err != nil {
			return nil, err
		}
		r.table = append(r.table, []string{chart.Number(v), duration(costs[i]), microseconds(each[i]), chart.Number(float64(len(state)))})
	}
	r.chart("rounds of one call", "CPU of a round, µs", false, chart.Series{Name: "Askback", X: values, Y: each})
	return r, nil
}

func (r *result) chart(x, y string, logY bool, series ...chart.Series) {
	r.charts = append(r.charts, chart.Curves{Title: r.title, X: x, Y: y, LogY: logY, Series: series})
}

// growingArguments measures interactions whose two requests have arguments of a size: one text, or a list of objects.
func growingArguments(scale float64) (*result, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	const item = `{"name":"a thing of this list","count":1234,"tags":["red","green","blue"]}`
	shapes := []struct {
		name string
		of   func(size int) string
	}{
		{"one text", func(size int) string { return `{"text":"` + strings.Repeat("x", size) + `"}` }},
		{"a list of objects", func(size int) string {
			return `{"items":[` + strings.Repeat(item+",", size/(len(item)+1)) + item + `]}`
		}},
	}
	values := []float64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
	r := &result{title: "Size of the arguments", table: [][]string{{"bytes"}}}
	for _, v := range values {
		r.table = append(r.table, []string{chart.Number(v)})
	}
	var series []chart.Series
	for _, shape := range shapes {
		arguments := make(map[float64]string)
		for _, v := range values {
			arguments[v] = shape.of(int(v))
		}
		costs, err := s.costs(values, func(v float64) int { return scaled(min(1000, int(8<<20/v)), scale) }, func(v float64) error {
			asked, err := c.post(modernHeader+"large\r\n", toolCall("large", arguments[v], ""))
			if err != nil {
				return err
			}
			done, err := c.post(modernHeader+"large\r\n", toolCall("large", arguments[v], answered(octocat, requestState(asked), "login")))
			if err == nil && !bytes.Contains(done, []byte("Hello octocat")) {
				err = fmt.Errorf("the server sends %.300s", done)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		r.table[0] = append(r.table[0], "CPU of an interaction, "+shape.name)
		for i := range values {
			r.table[i+1] = append(r.table[i+1], duration(costs[i]))
		}
		series = append(series, chart.Series{Name: shape.name, X: values, Y: costs})
	}
	r.chart("bytes of the arguments", "CPU of an interaction, µs", true, series...)
	return r, nil
}

// growingTools measures servers with many tools.
func growingTools(scale float64) (*result, error) {
	r := &result{title: "Number of tools", table: [][]string{{"tools", "CPU of an interaction", "CPU to add a tool", "heap", "CPU of a first page of tools/list"}}}
	values := []float64{1, 10, 100, 1000, 10_000}
	const list = accept + "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"
	var interactions []float64
	begun := 0.0 // CPU of a start with one tool
	for _, v := range values {
		s, c, err := startGrowing(fmt.Sprintf("%s=%v", toolsVariable, v))
		if err != nil {
			return nil, err
		}
		defer s.Kill()
		used, err := s.cpu()
		if err != nil {
			return nil, err
		}
		costs, err := s.costs([]float64{1}, func(float64) int { return scaled(1000, scale) }, func(float64) error { return modern{c}.interact(octocat, newYork) })
		if err != nil {
			return nil, err
		}
		lists, err := s.costs([]float64{1}, func(float64) int { return scaled(20, scale) }, func(float64) error {
			page, err := c.post(list, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`)
			if err == nil && !bytes.Contains(page, []byte(`"inputSchema"`)) {
				err = fmt.Errorf("the server sends %.300s", page)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		got, err := s.statistics()
		if err != nil {
			return nil, err
		}
		add := "–"
		if v == 1 {
			begun = asMicroseconds(used)
		} else if v >= 1000 {
			add = microseconds((asMicroseconds(used) - begun) / v)
		}
		interactions = append(interactions, costs[0])
		r.table = append(r.table, []string{chart.Number(v), microseconds(costs[0]), add, megabytes(got.Heap), duration(lists[0])})
		s.Kill()
	}
	r.chart("tools", "CPU of an interaction, µs", false, chart.Series{Name: "Askback", X: values, Y: interactions})
	return r, nil
}

// besideFloor starts Askback's server and the floor.
func besideFloor(procs int) (both []*row, stop func(), err error) {
	stop = func() {
		for _, r := range both {
			r.Kill()
		}
	}
	for _, s := range []*subject{subjects[0], growing} {
		server, err := start(s, procs)
		if err != nil {
			stop()
			return nil, nil, err
		}
		both = append(both, &row{server: server})
	}
	return both, stop, nil
}

// growingConnections measures many connections that all interact at once.
func growingConnections(scale float64) (*result, error) {
	both, stop, err := besideFloor(runtime.NumCPU())
	if err != nil {
		return nil, err
	}
	defer stop()
	values := []float64{1, 10, 100, 1000}
	r := &result{title: "Connections that interact at once", table: [][]string{{"connections", "CPU of an interaction", "of the floor", "ratio", "memory", "of the floor"}}}
	cpu, memory := make([][]float64, 2), make([][]float64, 2)
	for _, v := range values {
		turns := make([][]float64, 2)
		for pass := range passes + 1 {
			for i, server := range both {
				m, err := server.takeTurn(settings{turn: time.Duration(scale * float64(2*time.Second)), clients: int(v)})
				if err != nil {
					return nil, fmt.Errorf("%v connections to %s: %w", v, server.title, err)
				}
				if pass > 0 {
					turns[i] = append(turns[i], asMicroseconds(m.cpu))
				}
			}
		}
		for i, server := range both {
			resident, err := server.resident()
			if err != nil {
				return nil, err
			}
			cpu[i], memory[i] = append(cpu[i], median(turns[i])), append(memory[i], resident)
		}
		last := len(cpu[0]) - 1
		r.table = append(r.table, []string{chart.Number(v), microseconds(cpu[1][last]), microseconds(cpu[0][last]),
			fmt.Sprintf("%.2f", cpu[1][last]/cpu[0][last]), megabytes(memory[1][last]), megabytes(memory[0][last])})
	}
	for i := range memory {
		for j := range memory[i] {
			memory[i][j] /= 1 << 20
		}
	}
	names := []string{subjects[0].title, "Askback"}
	for _, c := range []struct {
		y      string
		values [][]float64
	}{{"CPU of an interaction, µs", cpu}, {"resident memory, MB", memory}} {
		r.chart("connections", c.y, false, chart.Series{Name: names[1], X: values, Y: c.values[1]}, chart.Series{Name: names[0], X: values, Y: c.values[0]})
	}
	return r, nil
}

// growingProcessors measures servers with some of the processors. The callers run on the same ones.
func growingProcessors(scale float64) (*result, error) {
	r := &result{title: "Processors", table: [][]string{{"GOMAXPROCS", "interactions a second", "of the floor", "CPU of an interaction", "of the floor"}}}
	var values []float64
	rates := make([][]float64, 2)
	for procs := 1; procs <= runtime.NumCPU(); procs *= 2 {
		both, stop, err := besideFloor(procs)
		if err != nil {
			return nil, err
		}
		defer stop()
		rate, cpu := make([][]float64, 2), make([][]float64, 2)
		for pass := range passes + 1 {
			for i, server := range both {
				m, err := server.takeTurn(settings{turn: time.Duration(scale * float64(2*time.Second)), clients: 4 * procs})
				if err != nil {
					return nil, err
				}
				if pass > 0 {
					rate[i], cpu[i] = append(rate[i], m.perSecond), append(cpu[i], asMicroseconds(m.cpu))
				}
			}
		}
		stop()
		values = append(values, float64(procs))
		for i := range rates {
			rates[i] = append(rates[i], median(rate[i]))
		}
		r.table = append(r.table, []string{strconv.Itoa(procs), chart.Number(median(rate[1])), chart.Number(median(rate[0])), microseconds(median(cpu[1])), microseconds(median(cpu[0]))})
	}
	r.chart("processors of the server (GOMAXPROCS)", "interactions a second", false,
		chart.Series{Name: "Askback", X: values, Y: rates[1]}, chart.Series{Name: subjects[0].title, X: values, Y: rates[0]})
	return r, nil
}

// growingUnanswered asks, and never answers. It fails if the server keeps anything of it.
func growingUnanswered(scale float64) (*result, error) {
	s, c, err := startGrowing()
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	connections := []*connection{c}
	for range 3 {
		another, err := dial(s.url)
		if err != nil {
			return nil, err
		}
		connections = append(connections, another)
	}
	ask := toolCall("greet", `{"place":`+newYork+`}`, "")
	send := func(n int) error {
		var all sync.WaitGroup
		faults := make([]error, len(connections))
		for i, c := range connections {
			all.Go(func() {
				for range n / len(connections) {
					asked, err := c.post(modernHeader+"greet\r\n", ask)
					if err == nil && requestState(asked) == "" {
						err = fmt.Errorf("the server does not ask, but sends %.300s", asked)
					}
					if err != nil {
						faults[i] = err
						return
					}
				}
			})
		}
		all.Wait()
		return errors.Join(faults...)
	}
	r := &result{title: "Questions that nobody answers", table: [][]string{{"asked", "heap", "goroutines"}}}
	var values, heaps []float64
	var first, last statistics
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
		if last, err = s.settled(); err != nil {
			return nil, err
		}
		if len(values) == 0 {
			first = last
		}
		values, heaps = append(values, float64(until)), append(heaps, last.Heap/(1<<20))
		r.table = append(r.table, []string{chart.Number(float64(until)), megabytes(last.Heap), chart.Number(last.Goroutines)})
	}
	if last.Heap-first.Heap > 1<<20 || last.Goroutines > first.Goroutines {
		return nil, fmt.Errorf("questions that nobody answers cost the server memory: before %+v, after %+v", first, last)
	}
	r.chart("questions asked and not answered", "heap, MB", false, chart.Series{Name: "Askback", X: values, Y: heaps})
	return r, nil
}

// holding measures what a server holds for clients that do nothing.
func holding(scale float64) (*result, error) {
	n := scaled(1000, scale)
	r := &result{title: "What is held", table: [][]string{{"", "bytes each", "goroutines each"}}}
	bars := chart.Bars{Title: r.title, Panels: []chart.Panel{{Title: "bytes of heap and stacks"}, {Title: "goroutines"}}}
	for _, h := range []struct {
		title   string
		subject *subject
		open    func(url string) error
	}{
		{"net/http: a response that does not end", subjects[0], func(url string) error { return openStream(url, http.MethodGet, accept, "") }},
		{"a subscription to a list", growing, func(url string) error { return subscribe(url, `"toolsListChanged":true`) }},
		{"a subscription to a task", growing, func(url string) error {
			c, err := dial(url)
			if err != nil {
				return err
			}
			defer c.Close()
			created, err := c.post(modernHeader+"task\r\n", withTasks(toolCall("task", `{"place":`+newYork+`}`, "")))
			if err != nil {
				return err
			}
			_, rest, _ := bytes.Cut(created, []byte(`"taskId":"`))
			id, _, found := bytes.Cut(rest, []byte(`"`))
			if !found {
				return fmt.Errorf("no task was created: %.300s", created)
			}
			return subscribe(url, `"taskIds":["`+string(id)+`"]`)
		}},
		{"a session", growing, func(url string) error {
			s, err := openSession(url)
			if err == nil {
				s.calls.Close()
				s.answers.Close()
			}
			return err
		}},
		{"a session with a stream", growing, func(url string) error {
			s, err := openSession(url)
			if err != nil {
				return err
			}
			s.calls.Close()
			s.answers.Close()
			return openStream(url, http.MethodGet, s.header, "")
		}},
		{"a session with a question", growing, func(url string) error {
			s, err := openSession(url)
			if err != nil {
				return err
			}
			s.calls.Close()
			s.answers.Close()
			return openStream(url, http.MethodPost, s.header, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"place":`+newYork+`}}}`)
		}},
	} {
		s, err := start(h.subject, runtime.NumCPU())
		if err != nil {
			return nil, err
		}
		defer s.Kill() // which ends the connections
		for range 10 { // what is made once
			if err := h.open(s.url); err != nil {
				return nil, fmt.Errorf("%s: %w", h.title, err)
			}
		}
		before, err := s.settled()
		if err != nil {
			return nil, err
		}
		for range n {
			if err := h.open(s.url); err != nil {
				return nil, fmt.Errorf("%s: %w", h.title, err)
			}
		}
		after, err := s.settled()
		if err != nil {
			return nil, err
		}
		s.Kill()
		size := (after.Heap + after.Stacks - before.Heap - before.Stacks) / float64(n)
		goroutines := (after.Goroutines - before.Goroutines) / float64(n)
		text := []string{chart.Number(size), fmt.Sprintf("%.1f", goroutines)}
		r.table = append(r.table, append([]string{h.title}, text...))
		kind := chart.Own
		if h.subject.canned {
			kind = chart.Floor
		}
		bars.Labels, bars.Kinds = append(bars.Labels, h.title), append(bars.Kinds, kind)
		for i, v := range []float64{size, goroutines} {
			bars.Panels[i].Values, bars.Panels[i].Texts = append(bars.Panels[i].Values, v), append(bars.Panels[i].Texts, text[i])
		}
	}
	r.charts = append(r.charts, bars)
	return r, nil
}

// openStream opens a response that does not end, on a connection of its own, and waits for its beginning: the headers, or
// the first event that answers a body. The connection stays open until the server ends.
func openStream(url, method, header, body string) error {
	c, err := dial(url)
	if err != nil {
		return err
	}
	res, err := c.send(method, header, body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answered %s", res.Status)
	}
	if err == nil && body != "" {
		_, err = nextEvent(bufio.NewReader(res.Body))
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	held = append(held, c)
	return nil
}

// subscribe opens a subscription of 2026-07-28.
func subscribe(url, notifications string) error {
	return openStream(url, http.MethodPost, accept+"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n",
		withTasks(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{`+notifications+`},`+modernMeta+`}}`))
}

// withTasks is a request of a client that takes tasks.
func withTasks(request string) string {
	return strings.Replace(request, `{"elicitation":{}}`, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
}

// held are connections that must not be closed by the garbage collector.
var held []io.Closer

// settled returns the statistics when goroutines that are ending have ended.
func (s *server) settled() (statistics, error) {
	last, err := s.statistics()
	for same, tries := 0, 0; err == nil && same < 3 && tries < 100; tries++ {
		time.Sleep(100 * time.Millisecond)
		was := last.Goroutines
		if last, err = s.statistics(); last.Goroutines == was {
			same++
		} else {
			same = 0
		}
	}
	return last, err
}
