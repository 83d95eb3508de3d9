package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// table returns rows as Markdown. The first one is the heading.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// document is the one that shows the results: Markdown with a place for each of them between two markers, and its charts in
// a directory beside it that has its name.
type document string

// write replaces the text at a place.
func (d document) write(place, text string) error {
	begin, end := fmt.Sprintf("<!-- %s: written by judge/bench -->\n", place), fmt.Sprintf("<!-- end of %s -->\n", place)
	old, err := os.ReadFile(string(d))
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("writing the results into %s: it lacks the markers %q and %q", d, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(string(d), slices.Concat(before, []byte(begin+"\n"+text+"\n"+end), after), 0o644)
}

func (d document) writeChart(name string, svg []byte) error {
	dir := strings.TrimSuffix(string(d), ".md")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".svg"), svg, 0o644)
}

// show returns the Markdown that shows a chart.
func (d document) show(title, name string) string {
	return fmt.Sprintf("![%s](%s/%s.svg)\n", title, strings.TrimSuffix(filepath.Base(string(d)), ".md"), name)
}
