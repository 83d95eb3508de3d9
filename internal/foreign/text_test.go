package foreign

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\n\ttext":     "plain\n\ttext",
		"Zürich, 東京 👩‍💻":    "Zürich, 東京 👩‍💻",
		"\x1b[31mred":       `\x1b[31mred`,
		"a\rb\r\nc":         "a\\rb\nc",
		"\u202eabc\u2066":   `\u202eabc\u2066`,
		"\u009b31m\x07\x7f": `\u009b31m\a\x7f`,
		"\xff\xfe\ufffd":    `\xff\xfe` + "\ufffd",
		"\x00":              `\x00`,
	} {
		expect.Equal(t, fmt.Sprintf("%q", text), Text(text), want)
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Text(text) {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) && r != 0x200c) {
				t.Errorf("%q has %U", text, r)
			}
		}
		if strings.Contains(Line(text, 50), "\n") {
			t.Errorf("%q: more than a line", text)
		}
	})
}
