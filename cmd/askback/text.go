package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/foreign"
)

// harmless makes a server's text safe to show.
func harmless(text string) string { return foreign.Text(text) }

// harmlessLine makes a server's text safe to show on one line, in most characters or fewer.
func harmlessLine(text string, most int) string { return foreign.Line(text, most) }

// columns is the width of wrapped text.
const columns = 80

// wrap breaks long lines between words, and indents each line.
func wrap(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		row := ""
		for _, word := range strings.Fields(line) {
			if row != "" && utf8.RuneCountInString(row)+1+utf8.RuneCountInString(word) > columns {
				b.WriteString(row + "\n")
				row = ""
			}
			if row == "" {
				row = indent + word
			} else {
				row += " " + word
			}
		}
		b.WriteString(row + "\n")
	}
	return b.String()
}

// shellQuote quotes a word for a shell where it needs quotes.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// foreignQuote quotes a server's word for a shell. Characters that act on a terminal are spelled out in $'…', which
// bash and other shells read.
func foreignQuote(word string) string {
	if utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return shellQuote(word)
	}
	quoted := strconv.Quote(word)
	return "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
}

// moment shows a time and its distance from now. Past is the word for a time that is over.
func moment(t, now time.Time, past string) string {
	distance := "in " + span(t.Sub(now))
	if !t.After(now) {
		distance = past + span(now.Sub(t)) + " ago"
	}
	return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), distance)
}

// span shows a duration in its two largest units.
func span(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "less than 1s"
}

// table aligns the cells of rows, which are separated by tabs.
func table(rows []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(rows, "\n"))
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

// join shows a list on one line.
func join[T any](list []T, show func(T) string) string {
	var texts []string
	for _, item := range list {
		texts = append(texts, show(item))
	}
	return strings.Join(texts, ", ")
}

func keys(list []string) string {
	return join(list, func(key string) string { return harmlessLine(key, 60) })
}

// endLine ends the last line of a text.
func endLine(text string) string {
	if strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
