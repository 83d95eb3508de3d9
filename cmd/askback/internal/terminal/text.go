package terminal

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The length of a server's text that is shown, in characters.
const (
	maxServer  = 60
	maxLabel   = 120
	maxAbout   = 400
	maxOption  = 200
	maxMessage = 2000
	maxLines   = 24 // lines of a message, before wrapping
)

// block is one part of a prompt's body.
type block struct {
	kind blockKind
	text string // safe to show; may have line breaks
	mark [2]int // the start and end of the host in an address
}

type blockKind int

const (
	ours    blockKind = iota // text of this package
	theirs                   // text of the server
	heading                  // over text of the server
	warning
	address
)

// line makes a server's text safe to show on one line.
func line(s string, most int) string { return unlink(visible(s, most)) }

// visible makes any text safe to show on one line. Unlike line, it keeps addresses intact.
func visible(s string, most int) string {
	text, more := inert(s, most, 1)
	if more > 0 {
		text += "…"
	}
	return strings.TrimSpace(text)
}

// lines makes a server's text safe to show on several lines.
func lines(s string, most int) string {
	text, more := inert(s, most, maxLines)
	text = unlink(strings.Trim(text, "\n"))
	if more > 0 {
		text += fmt.Sprintf("…\n(cut here: %d more characters)", more)
	}
	return text
}

// inert removes everything from s that acts on a terminal or deceives the reader. It keeps at most most characters and
// mostLines lines, and returns how many characters more s has.
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
			continue // stacked marks would cover other lines
		}
		switch {
		case r == '\n' && mostLines > 1:
			b.WriteByte('\n')
		case r == '\n', unicode.Is(unicode.Zs, r), strings.ContainsRune(blanks, r):
			b.WriteByte(' ')
		case r == '\t':
			b.WriteString("    ")
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
			// Changes the direction of writing, joins characters, or is invisible.
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

// blanks are the letters and symbols that look like a space.
const blanks = "\u115f\u1160\u2800\u3164\uffa0"

// links match the beginnings of what terminals turn into links: all of a scheme or a host's first label, the character
// that unlink breaks, and enough behind it to tell an address from words such as "file: the green one".
var links = []*regexp.Regexp{
	regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]+)(:)(//[^\s])`),
	regexp.MustCompile(`(?i)\b(www\d*)(\.)([^\s.])`),
	regexp.MustCompile(`(?i)\b(ftp\d*)(\.)([^\s.]+\.[^\s.])`),
	regexp.MustCompile(`(?i)\b(mailto)(:)([^\s@]+@)`),
	regexp.MustCompile(`(?i)\b(file)(:)(/)`),
	regexp.MustCompile(`(?i)\b(javascript)(:)([^\s])`),
	regexp.MustCompile(`(?i)\b(data)(:)([^\s,;]*[,;])`),
	regexp.MustCompile(`(?i)\b(tel)(:)(\+?\d)`),
}

// unlink breaks up what terminals turn into links. Only the address of a URL elicitation may be a link.
func unlink(s string) string {
	for _, link := range links {
		s = link.ReplaceAllString(s, "$1[$2]$3")
	}
	return s
}
