package main

import (
	"bytes"
	"fmt"
	"os"
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

// document is the file that shows the results: Markdown with a place for each of them between two markers. Empty is
// none.
type document string

// write replaces the text at a place.
func (d document) write(place, text string) error {
	if d == "" {
		return nil
	}
	begin := fmt.Sprintf("<!-- %s: written by judge/bench -->\n", place)
	end := fmt.Sprintf("<!-- end of %s -->\n", place)
	old, err := os.ReadFile(string(d))
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("write the results into %s: it lacks the markers %q and %q",
			d, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(string(d), slices.Concat(before, []byte(begin+"\n"+text+"\n"+end), after), 0o644)
}
