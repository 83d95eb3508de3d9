package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

func (f *failure) covers(c *cell) bool {
	return slices.Contains(f.clients, c.client) && slices.Contains(f.servers, c.server) &&
		slices.Contains(f.tools, c.scenario.tool) && slices.Contains(f.transports, c.transport)
}

func (f *failure) explains(c *cell) bool {
	return f.covers(c) && c.fault != "" && strings.Contains(c.fault, f.words)
}

// report is the outcome of the cells.
type report struct {
	cells    []*cell
	known    []failure
	versions string
}

// verdict is an error if a cell with Askback failed for a reason that is not listed as the other side's, or if a
// listing does not apply. What else fails between peers is only shown.
func (r *report) verdict() error {
	var problems []string
	for _, c := range r.cells {
		listed := false
		for _, f := range r.known {
			if !f.covers(c) {
				continue
			}
			if f.explains(c) {
				listed = listed || f.peer != "askback"
			} else {
				problems = append(problems, fmt.Sprintf("%v is listed under %s, but does not fail so: %s",
					c, f.code, cmp.Or(c.fault, "it passes")))
			}
		}
		if c.fault != "" && c.askbacks() && !listed {
			problems = append(problems, fmt.Sprintf("%v: %s", c, c.fault))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}

const unlisted = "**?**"

// mark is what a table shows of a cell.
func (r *report) mark(c *cell) string {
	if c.fault == "" {
		return "✓"
	}
	for _, f := range r.known {
		if f.explains(c) {
			return f.code
		}
	}
	return unlisted
}

// tables returns the tables as Markdown that is also readable as text.
func (r *report) tables() string {
	var b strings.Builder
	b.WriteString(r.versions + "\n")
	for _, s := range sections {
		r.section(&b, s)
	}
	b.WriteString(r.footnotes())
	return b.String()
}

func (r *report) section(b *strings.Builder, s *section) {
	all, passed, own, ownPassed := 0, 0, 0, 0
	marks := make(map[string]string) // by cell
	for _, c := range r.cells {
		if c.section != s {
			continue
		}
		marks[c.String()] = r.mark(c)
		all++
		if c.askbacks() {
			own++
		}
		if c.fault == "" {
			passed++
		}
		if c.askbacks() && c.fault == "" {
			ownPassed++
		}
	}
	if all == 0 {
		return
	}
	if b.WriteString("\n"); s.title != "" {
		b.WriteString(s.title + ": ")
	}
	fmt.Fprintf(b, "%d of %d cells pass; of the %d with Askback as client, server or both, %d.\n",
		passed, all, own, ownPassed)
	for _, t := range s.transports {
		rows := [][]string{{"client", "server"}}
		for _, scenario := range s.scenarios {
			rows[0] = append(rows[0], scenario.title)
		}
		for _, client := range s.clients {
			for _, server := range s.servers {
				row := []string{client.title, server.title}
				for _, scenario := range s.scenarios {
					c := &cell{client: client.name, server: server.name, scenario: scenario, transport: t.name}
					row = append(row, marks[c.String()])
				}
				if strings.Join(row[2:], "") != "" {
					rows = append(rows, row)
				}
			}
		}
		if len(rows) > 1 {
			fmt.Fprintf(b, "\n### %s\n\n%s", t.title, table(rows))
		}
	}
}

func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 0, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "| %s \t|\n", strings.Join(row, " \t| "))
	}
	w.Flush()
	head, body, _ := strings.Cut(b.String(), "\n")
	rule := regexp.MustCompile(`[^|]`).ReplaceAllString(head, "-")
	return head + "\n" + rule + "\n" + body
}

func (r *report) footnotes() string {
	var b strings.Builder
	for _, f := range r.known {
		if slices.ContainsFunc(r.cells, f.explains) {
			fmt.Fprintf(&b, "\n**%s** — %s. %s\n", f.code, peerTitle(f.peer), strings.Join(strings.Fields(f.note), " "))
		}
	}
	for _, c := range r.cells {
		if r.mark(c) == unlisted {
			fmt.Fprintf(&b, "\n%s — %v: %.300s\n", unlisted, c, strings.Join(strings.Fields(c.fault), " "))
		}
	}
	return b.String()
}

const begin, end = "<!-- tables: written by go run . -->\n", "<!-- end of tables -->\n"

// marks reads the marks of tables as [report.tables] writes them, by table, client, server and number of the scenario.
func marks(text string) map[string]string {
	all := make(map[string]string)
	title := ""
	for line := range strings.Lines(text) {
		if found, ok := strings.CutPrefix(line, "### "); ok {
			title = strings.TrimSpace(found)
		}
		row := strings.Split(line, "|") // with nothing before the first bar
		for i := 3; i < len(row)-1; i++ {
			cell := fmt.Sprintf("%s: %s with the server of %s, scenario %d",
				title, strings.TrimSpace(row[1]), strings.TrimSpace(row[2]), i-2)
			all[cell] = strings.TrimSpace(row[i])
		}
	}
	return all
}

// regressions is an error if a cell that passes in the text of the README fails in these tables, or is not there.
func (r *report) regressions(readme string) error {
	_, before, _ := strings.Cut(readme, begin)
	now := marks(r.tables())
	var problems []string
	for cell, mark := range marks(before) {
		if mark == "✓" && now[cell] != mark {
			problems = append(problems, fmt.Sprintf("%s: passed when README.md was written, and now: %s",
				cell, cmp.Or(now[cell], "no such cell")))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New(strings.Join(problems, "\n"))
}

// writeREADME replaces what is between the markers. If a cell passes there and fails now, it leaves the file as it is.
func (r *report) writeREADME(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks its markers", name)
	}
	if err := r.regressions(string(text)); err != nil {
		return err
	}
	return os.WriteFile(name, slices.Concat(before, []byte(begin+"\n"+r.tables()+"\n"+end), after), 0o644)
}
