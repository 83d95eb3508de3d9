package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/term"
)

// harmless is a text of a server in which nothing acts on a terminal or deceives who reads it: control characters,
// escape sequences and what changes the direction of writing are spelled out. Line breaks and tabs stay.
func harmless(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], "\ufffd"):
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[i]), 16))
		case r == '\n', r == '\t', r == '\u200c', r == '\u200d', unicode.Is(unicode.Zs, r), strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// harmlessLine is harmless, in one line of at most so many characters.
func harmlessLine(text string, most int) string {
	line := []rune(harmless(strings.Join(strings.Fields(text), " ")))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

// isTerminal reports whether f, a reader or writer of a command, is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// outputForeign writes a server's text: as it is, but for a terminal.
func outputForeign(w io.Writer, text string) error {
	if isTerminal(w) {
		text = harmless(text)
	}
	return output(w, text)
}

// columns is the width that text is wrapped to.
const columns = 80

// wrap breaks lines that are too long between words, and puts indent before each.
func wrap(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		length := 0
		for i, word := range strings.Fields(line) {
			n := len([]rune(word))
			switch {
			case i == 0:
				b.WriteString(indent)
				length = len(indent)
			case length+1+n > columns:
				b.WriteString("\n" + indent)
				length = len(indent)
			default:
				b.WriteByte(' ')
				length++
			}
			b.WriteString(word)
			length += n
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shellQuote is a word for a shell.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,=", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// foreignQuote is a server's word for a shell. What could act on a terminal is spelled out, as bash and others read it.
func foreignQuote(word string) string {
	strange := func(r rune) bool { return !strconv.IsPrint(r) && !unicode.Is(unicode.Zs, r) || r == utf8.RuneError }
	if !strings.ContainsFunc(word, strange) {
		return shellQuote(word)
	}
	var b strings.Builder
	for len(word) > 0 {
		r, n := utf8.DecodeRuneInString(word)
		switch {
		case strange(r):
			for _, c := range []byte(word[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		case r == '\'' || r == '\\':
			b.WriteString(`\` + word[:n])
		default:
			b.WriteString(word[:n])
		}
		word = word[n:]
	}
	return "$'" + b.String() + "'"
}
