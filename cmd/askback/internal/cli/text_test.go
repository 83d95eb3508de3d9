package cli

import (
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestTextIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	word := strings.Repeat("x", 30)
	got := Wrap(word+" "+word+" "+word+"\n\n  "+strings.Repeat("y", 90), "  ")
	want := "  " + word + " " + word + "\n  " + word + "\n\n  " + strings.Repeat("y", 90) + "\n"
	expect.Diff(t, "the value", want, got)
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
		got, err := SplitCommand(ShellQuote(word))
		if err != nil || len(got) != 1 || got[0] != word {
			t.Errorf("%q: %q, %v", word, got, err)
		}
	})
}
