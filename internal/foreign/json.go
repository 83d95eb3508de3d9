package foreign

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var unescaped = strings.NewReplacer(`\\`, `\\`,
	`\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">", `\u0026`, "&")

// Plain returns JSON for people to read: with <, > and & as themselves, which many encoders escape.
func Plain(text []byte) string { return unescaped.Replace(string(text)) }

// JSON is Plain with escapes for the characters that act on a terminal. They occur in strings only, where the escape
// has the same meaning.
func JSON(text []byte) string {
	text = []byte(Plain(text))
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case r == '\n', strconv.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
