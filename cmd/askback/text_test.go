package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
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
		if got := harmless(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzHarmless(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range harmless(text) {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) && r != 0x200c) {
				t.Errorf("%q has %U", text, r)
			}
		}
		if strings.Contains(harmlessLine(text, 50), "\n") {
			t.Errorf("%q: more than a line", text)
		}
	})
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	word := strings.Repeat("x", 30)
	got := wrap(word+" "+word+" "+word+"\n\n  "+strings.Repeat("y", 90), "  ")
	want := "  " + word + " " + word + "\n  " + word + "\n\n  " + strings.Repeat("y", 90) + "\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is quoted for a shell comes back as one word.
func FuzzShellQuote(f *testing.F) {
	for _, word := range []string{"", "a", "a b", "it's", `"\$'`, "\n", "é"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if word != string([]rune(word)) {
			t.Skip("not UTF-8")
		}
		got, err := splitCommand(shellQuote(word))
		if err != nil || len(got) != 1 || got[0] != word {
			t.Errorf("%q: %q, %v", word, got, err)
		}
	})
}
