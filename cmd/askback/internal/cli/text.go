package cli

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/foreign"
)

// Harmless makes a server's text safe to show.
func Harmless(text string) string { return foreign.Text(text) }

// HarmlessLine makes a server's text safe to show on one line, in most characters or fewer.
func HarmlessLine(text string, most int) string { return foreign.Line(text, most) }

// Columns is the width of wrapped text.
const Columns = 80

// Wrap breaks long lines between words, and indents each line.
func Wrap(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		row := ""
		for _, word := range strings.Fields(line) {
			if row != "" && utf8.RuneCountInString(row)+1+utf8.RuneCountInString(word) > Columns {
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

// ShellQuote quotes a word for a shell where it needs quotes.
func ShellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ForeignQuote quotes a server's word for a shell. Characters that act on a terminal are spelled out in $'…', which
// bash and other shells read.
func ForeignQuote(word string) string {
	if utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return ShellQuote(word)
	}
	quoted := strconv.Quote(word)
	return "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
}

// Moment shows a time and its distance from now. Past is the word for a time that is over.
func Moment(t, now time.Time, past string) string {
	distance := "in " + Span(t.Sub(now))
	if !t.After(now) {
		distance = past + Span(now.Sub(t)) + " ago"
	}
	return fmt.Sprintf("%s (%s)", t.UTC().Format(time.RFC3339), distance)
}

// Span shows a duration in its two largest units.
func Span(d time.Duration) string {
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

// Table aligns the cells of rows, which are separated by tabs.
func Table(rows []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(rows, "\n"))
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

// Join shows a list on one line.
func Join[T any](list []T, show func(T) string) string {
	var texts []string
	for _, item := range list {
		texts = append(texts, show(item))
	}
	return strings.Join(texts, ", ")
}

// Keys shows the keys of questions, which a server chose, on one line.
func Keys(list []string) string {
	return Join(list, func(key string) string { return HarmlessLine(key, 60) })
}

// EndLine ends the last line of a text.
func EndLine(text string) string {
	if strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
