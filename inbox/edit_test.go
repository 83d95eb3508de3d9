package inbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A difference leads from one text to the other, where nothing is left out.
func TestDifference(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		lines := make([]string, 1+draw.IntN(12))
		for i := range lines {
			lines[i] = string(rune('a' + draw.IntN(4)))
		}
		return strings.Join(lines, "\n")
	}
	for range 2000 {
		before, after := text(), text()
		a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
		var was, is []string
		for _, l := range changes(a, b) {
			if l.Mark != "ins" {
				was = append(was, l.Text)
			}
			if l.Mark != "del" {
				is = append(is, l.Text)
			}
		}
		if strings.Join(was, "\n") != before || strings.Join(is, "\n") != after {
			t.Fatalf("%q and %q: %q and %q", before, after, was, is)
		}
		if shown := difference(before, after); (shown == nil) != (before == after) {
			t.Fatalf("%q and %q: %v", before, after, shown)
		}
	}
}

// A difference is bounded, and says so, whatever somebody has edited.
func TestDifferencesAreBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&a, "a", i)
		fmt.Fprintln(&b, "b", i)
	}
	shown := difference(a.String(), b.String())
	if n := len(shown); n != mostChanged+1 || shown[n-1].Text != "… and more" {
		t.Errorf("%d lines, the last is %q", n, shown[n-1].Text)
	}
	shown = difference(a.String(), strings.Replace(a.String(), "a 7000\n", "a b\n", 1))
	if len(shown) != 2*around+4 || shown[0].Text != "…" || shown[around+1] != (line{"del", "a 7000"}) {
		t.Errorf("%q", shown)
	}
}
