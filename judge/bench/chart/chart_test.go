package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// texts parses a chart and returns the texts in it.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var all strings.Builder
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if text, ok := token.(xml.CharData); ok {
			all.Write(text)
		}
	}
}

func has(t *testing.T, svg []byte, wants ...string) {
	t.Helper()
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Errorf("a place that is no number: %s", svg)
	}
	all := texts(t, svg)
	for _, want := range wants {
		if !strings.Contains(all, want) {
			t.Errorf("the chart has no %q, but %s", want, all)
		}
	}
}

func TestBars(t *testing.T) {
	b := Bars{"Costs", []string{"A & B", "C"}, []Kind{Floor, Peer}, []Panel{{"CPU", []float64{1, 0}, []string{"1 µs", "none"}}, {"Memory", []float64{0, 0}, []string{"-", "-"}}}}
	svg := b.SVG()
	has(t, svg, "Costs", "A & B", "CPU", "1 µs", "none", "Memory")
	if strings.Count(string(svg), "<rect") != 4 {
		t.Errorf("not four bars: %s", svg)
	}
}

func TestCurves(t *testing.T) {
	for _, c := range []Curves{
		{Title: "Growth", X: "rounds", Y: "µs", Series: []Series{{"one", []float64{1, 4, 64}, []float64{10, 20, 999}}, {"two", []float64{1, 64}, []float64{1, 5}}}},
		{Title: "Growth", X: "rounds", Y: "µs", LogY: true, Series: []Series{{"one", []float64{1, 4, 64}, []float64{1, 10, 100_000}}}},
		{Title: "Growth", X: "rounds", Y: "µs", LogY: true, Series: []Series{{"one", []float64{1}, []float64{7}}}},
		{Title: "Growth", X: "rounds", Y: "µs", Series: []Series{{"one", []float64{1, 2}, []float64{0, 0}}}},
	} {
		has(t, c.SVG(), "Growth", "rounds", "µs", "one")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123: "0.0123", 1: "1", 12.345: "12.3", 99.9: "99.9", 123.4: "123", 1234: "1,234", 1234567: "1,234,567", -5000: "-5,000", 100: "100"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
