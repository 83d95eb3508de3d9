package foreign

import (
	"strconv"
	"strings"
	"unicode"
)

// Text makes a server's text safe to show: it spells out control characters, escape sequences and characters that
// change the direction of writing, and keeps line breaks and tabs.
func Text(text string) string {
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

// Line makes a server's text safe to show on one line, in most characters or fewer.
func Line(text string, most int) string {
	line := []rune(Text(strings.Join(strings.Fields(text), " ")))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}
