package terminal

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a server's text is shown, in characters.
const (
	maxServer  = 60
	maxLabel   = 120
	maxAbout   = 400
	maxOption  = 200
	maxMessage = 2000
	maxLines   = 24 // of a message, before it is wrapped
)

// block is a piece of a prompt's body.
type block struct {
	kind blockKind
	text string // may be shown; with line breaks
	mark [2]int // of an address: from where to where its host stands
}

type blockKind int

const (
	ours    blockKind = iota // this package's words
	theirs                   // the server's
	heading                  // over the server's words
	warning
	address
)

// line makes a line that may be shown of a server's text.
func line(s string, most int) string { return unlink(visible(s, most)) }

// visible makes a line that may be shown of text that may hold anything. Addresses in it stay whole.
func visible(s string, most int) string {
	text, more := inert(s, most, 1)
	if more > 0 {
		text += "…"
	}
	return strings.TrimSpace(text)
}

// lines makes lines that may be shown of a server's text.
func lines(s string, most int) string {
	text, more := inert(s, most, maxLines)
	text = unlink(strings.Trim(text, "\n"))
	if more > 0 {
		text += fmt.Sprintf("…\n(cut here: %d more characters)", more)
	}
	return text
}

// inert is s without anything that acts on a terminal or deceives who reads it: at most so many characters of it in at
// most so many lines, and how many characters were left out.
func inert(s string, most, mostLines int) (text string, more int) {
	s = breaks.Replace(s)
	var b strings.Builder
	shown, newlines, marks := 0, 0, 0
	for i, r := range s {
		if r == '\n' {
			newlines++
		}
		if shown == most || newlines == mostLines && mostLines > 1 {
			more = utf8.RuneCountInString(s[i:])
			break
		}
		shown++
		if !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks++; marks > 3 {
			continue // stacked until they cover other lines
		}
		switch {
		case r == '\n' && mostLines > 1:
			b.WriteByte('\n')
		case r == '\n', unicode.Is(unicode.Zs, r), strings.ContainsRune(blanks, r):
			b.WriteByte(' ')
		case r == '\t':
			b.WriteString("    ")
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
			// Turns the direction of writing, joins, or is not seen at all.
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String(), more
}

var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// blanks are letters and symbols that look like a space.
const blanks = "\u115f\u1160\u2800\u3164\uffa0"

var links = regexp.MustCompile(`(?i)(://)|\b(www|ftp)\.|\b(mailto|file|javascript|data|tel):`)

// unlink breaks what terminals make links of by themselves. Only the address that a URL elicitation asks to open may
// be one.
func unlink(s string) string {
	return links.ReplaceAllStringFunc(s, func(match string) string {
		if match == "://" {
			return "[:]//"
		}
		last := len(match) - 1
		return match[:last] + "[" + match[last:] + "]"
	})
}
