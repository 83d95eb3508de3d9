package report

import (
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/askback-mcp/askback/check/findings"
)

func TestText(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/text.golden", Text(sample(), TextOptions{Directory: "findings"}))
	golden(t, "testdata/narrow.golden", Text(sample(), TextOptions{Width: 40}))
	stopped := &findings.Report{Subject: "./server", Kind: "server", Stopped: "it ended with status 2",
		Remarks: []string{"the entry for state-forged expired on 2026-01-01"}}
	golden(t, "testdata/nothing.golden", Text(stopped, TextOptions{}))
}

// Colors add nothing but themselves.
func TestColoursLeaveTheTextAsItIs(t *testing.T) {
	t.Parallel()
	plain := Text(sample(), TextOptions{})
	coloured := Text(sample(), TextOptions{Colour: true})
	if coloured == plain || ansi.Strip(coloured) != plain {
		t.Errorf("with colors:\n%s", coloured)
	}
}

func TestTextKeepsToItsWidth(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Verdicts[3].Reason = strings.Repeat("日本語 ", 100)
	for _, width := range []int{40, 80, 120} {
		for line := range strings.Lines(Text(r, TextOptions{Width: width, Colour: true})) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	for _, text := range strange {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Text(hostile(text), TextOptions{Directory: "d"}) {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) && r != 0x200c) {
				t.Errorf("%q: the text has %U", text, r)
			}
		}
	})
}
