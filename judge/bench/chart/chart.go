// Package chart draws bars and curves as SVG that can be read on a light and on a dark page.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bars is a chart of several quantities of the same things: one panel of horizontal bars for each quantity.
type Bars struct {
	Title  string
	Labels []string // of the things, from top to bottom
	Kinds  []Kind   // of the things
	Panels []Panel
}

// Kind decides the colour of a thing.
type Kind int

// The kinds: what others are compared with, our own, and those of others.
const (
	Floor Kind = iota
	Own
	Peer
)

// Panel has one value for each label. Texts stand beside the bars.
type Panel struct {
	Title  string
	Values []float64
	Texts  []string
}

// Curves is a chart of quantities that depend on another. Its x axis is logarithmic, with a tick at each x of the first curve.
type Curves struct {
	Title, X, Y string
	LogY        bool // otherwise the y axis begins at 0
	Series      []Series
}

// Series is one curve.
type Series struct {
	Name string
	X, Y []float64
}

const (
	width  = 760
	left   = 270 // of the bars
	row    = 24
	header = 34
)

const style = `<style>
text{font:13px system-ui,sans-serif;fill:#1f2328}
.t{font-size:15px;font-weight:600}.s{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.g{stroke:#8884;fill:none}.a{fill:#0969da;stroke:#0969da}.b{fill:#8250df;stroke:#8250df}.c{fill:#bc4c00;stroke:#bc4c00}.d{fill:#1a7f37;stroke:#1a7f37}
.l{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#58a6ff;stroke:#58a6ff}.b{fill:#bc8cff;stroke:#bc8cff}.c{fill:#f0883e;stroke:#f0883e}.d{fill:#3fb950;stroke:#3fb950}}
</style>
`

// drawing collects the elements of a chart.
type drawing struct{ bytes.Buffer }

func (d *drawing) text(class string, x, y float64, text string) {
	fmt.Fprintf(d, `<text class="%s" x="%.0f" y="%.0f">`, class, x, y)
	_ = xml.EscapeText(d, []byte(text)) // a buffer takes everything
	d.WriteString("</text>\n")
}

func (d *drawing) line(x1, y1, x2, y2 float64) {
	fmt.Fprintf(d, `<path class="g" d="M%.1f %.1fL%.1f %.1f"/>`+"\n", x1, y1, x2, y2)
}

func (d *drawing) svg(height float64) []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f">`+"\n%s%s</svg>\n",
		width, height, width, height, style, d.Bytes())
}

// SVG returns the chart.
func (b Bars) SVG() []byte {
	d := new(drawing)
	d.text("t", 10, 22, b.Title)
	y := float64(header)
	for _, p := range b.Panels {
		d.text("s", 10, y+18, p.Title)
		y += row + 4
		most := 0.0
		for _, v := range p.Values {
			most = max(most, v)
		}
		for i, v := range p.Values {
			d.text("e", left-8, y+16, b.Labels[i])
			length := 0.0
			if most > 0 {
				length = v / most * (width - left - 150)
			}
			fmt.Fprintf(d, `<rect class="%c" x="%d" y="%.0f" width="%.1f" height="%d"/>`+"\n", "dab"[b.Kinds[i]], left, y+4, max(length, 1), row-8)
			d.text("", left+length+8, y+16, p.Texts[i])
			y += row
		}
		y += 10
	}
	return d.svg(y + 6)
}

// SVG returns the chart.
func (c Curves) SVG() []byte {
	const top, bottom, from, to = 64, 300, 80, width - 40
	d := new(drawing)
	d.text("t", 10, 22, c.Title)
	d.text("", 10, 44, c.Y)
	x := axis{log: true, from: from, to: to}
	y := axis{log: c.LogY, from: bottom, to: top}
	for _, s := range c.Series {
		x.cover(s.X)
		y.cover(s.Y)
	}
	y.round()
	for _, v := range y.ticks() {
		d.line(from, y.at(v), to, y.at(v))
		d.text("e", from-8, y.at(v)+4, Number(v))
	}
	next := math.Inf(-1)
	for _, v := range c.Series[0].X {
		if at := x.at(v); at > next { // labels that would overlap are left out
			d.text("m", at, bottom+20, Number(v))
			next = at + 38
		}
	}
	d.text("m", (from+to)/2, bottom+42, c.X)
	for i, s := range c.Series {
		class := string("abcd"[i%4])
		points := make([]string, len(s.X))
		for j := range s.X {
			points[j] = fmt.Sprintf("%.1f %.1f", x.at(s.X[j]), y.at(s.Y[j]))
			fmt.Fprintf(d, `<circle class="%s" cx="%.1f" cy="%.1f" r="3"/>`+"\n", class, x.at(s.X[j]), y.at(s.Y[j]))
		}
		fmt.Fprintf(d, `<path class="%s l" d="M%s"/>`+"\n", class, strings.Join(points, "L"))
		at := float64(from + 10 + i*180)
		fmt.Fprintf(d, `<rect class="%s" x="%.0f" y="%d" width="12" height="12"/>`+"\n", class, at, bottom+56)
		d.text("", at+18, bottom+67, s.Name)
	}
	return d.svg(bottom + 80)
}

// axis maps values to places.
type axis struct {
	log         bool
	from, to    float64 // places
	least, most float64 // values; of a linear axis the least is 0
}

func (a *axis) cover(values []float64) {
	for _, v := range values {
		if a.least == 0 || v < a.least {
			a.least = v
		}
		a.most = max(a.most, v)
	}
	if !a.log {
		a.least = 0
	}
}

// round extends the axis to whole ticks.
func (a *axis) round() {
	if a.log {
		a.least, a.most = math.Pow(10, math.Floor(math.Log10(a.least))), math.Pow(10, math.Ceil(math.Log10(a.most)))
		if a.least == a.most {
			a.most *= 10
		}
		return
	}
	if a.most == 0 {
		a.most = 1
	}
	a.most = math.Ceil(a.most/a.step()) * a.step()
}

// step is the distance of a linear axis's ticks: 1, 2 or 5 times a power of ten.
func (a *axis) step() float64 {
	power := math.Pow(10, math.Floor(math.Log10(a.most/4)))
	for _, n := range []float64{1, 2, 5} {
		if a.most/(n*power) <= 6 {
			return n * power
		}
	}
	return 10 * power
}

func (a *axis) ticks() (ticks []float64) {
	if a.log {
		for v := a.least; v <= a.most*1.01; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := a.step()
	for i := range int(a.most/step+0.5) + 1 {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

func (a *axis) at(v float64) float64 {
	share := 0.5
	switch {
	case a.log && a.most > a.least:
		share = math.Log(v/a.least) / math.Log(a.most/a.least)
	case !a.log:
		share = v / a.most
	}
	return a.from + share*(a.to-a.from)
}

// Number writes a number with three digits, and thousands separated.
func Number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
