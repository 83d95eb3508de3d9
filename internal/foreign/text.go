package foreign

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Visible calls write with the parts of a foreign text, in their order: those that can be shown as they are, and the
// names of characters that show nothing, or that change how others are shown, such as U+202E. With those a caller could
// have people approve another text than they read.
func Visible(text string, write func(part string, isName bool)) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	begin, before := 0, ' '
	for i, r := range text {
		n, name := utf8.RuneLen(r), ""
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			n, name = 1, fmt.Sprintf(`\x%02x`, text[i])
		case isVisible(r, before):
			before = r
			continue
		default:
			name = fmt.Sprintf("U+%04X", r)
		}
		if begin < i {
			write(text[begin:i], false)
		}
		write(name, true)
		begin, before = i+n, ' '
	}
	if begin < len(text) {
		write(text[begin:], false)
	}
}

// isVisible reports whether somebody sees a character, or what it does to the one before it.
func isVisible(r, before rune) bool {
	isJoiner := func(r rune) bool { return r == '\u200c' || r == '\u200d' }
	isVariant := func(r rune) bool { return r == '\ufe0e' || r == '\ufe0f' }
	switch {
	case r == '\n', r == '\t', unicode.Is(unicode.Zs, r):
		return true
	case isJoiner(r): // in emoji, and in scripts whose letters change
		return before > unicode.MaxASCII && !isJoiner(before)
	case isVariant(r): // of emoji
		return before > ' ' && !isJoiner(before) && !isVariant(before)
	case r == '\u2800', unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return false // letters and signs that are blank
	}
	return strconv.IsPrint(r)
}

// Shown is Visible in one text: the names of characters are in brackets, such as ⟨U+202E⟩.
func Shown(text string) string {
	var b strings.Builder
	Visible(text, func(part string, isName bool) {
		if isName {
			part = "⟨" + part + "⟩"
		}
		b.WriteString(part)
	})
	return b.String()
}
