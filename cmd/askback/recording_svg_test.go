package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hinshun/vt10x"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A recording is what a terminal showed, as an animated SVG, of which readRecording reads the text again.
//
// The file needs no script, so a page can show it as an image. It has a background of its own, which suits light and
// dark pages. Where nothing moves (a renderer without animations, or a reader who wants less motion) it shows the last
// frame.

// frame is what a terminal shows for some time.
type frame struct {
	Lines [][]textRun
	Show  time.Duration
}

// textRun is a text of one style in a line.
type textRun struct {
	Column int // from 0
	Text   string
	Style  string // classes of the style sheet, such as "b c2"; empty is the default
}

// capture copies what is on a screen, without spaces at the ends of lines and without empty lines at the end.
func capture(screen vt10x.View, show time.Duration) frame {
	screen.Lock()
	defer screen.Unlock()
	columns, rows := screen.Size()
	f := frame{Show: show}
	for y := range rows {
		var line []textRun
		for x := range columns {
			cell := screen.Cell(x, y)
			r, style := cell.Char, styleOf(cell)
			if r == 0 {
				r = ' '
			}
			if len(line) == 0 || line[len(line)-1].Style != style {
				line = append(line, textRun{Column: x, Style: style})
			}
			line[len(line)-1].Text += string(r)
		}
		for len(line) > 0 && line[len(line)-1].Style == "" {
			last := &line[len(line)-1]
			if last.Text = strings.TrimRight(last.Text, " "); last.Text != "" {
				break
			}
			line = line[:len(line)-1]
		}
		f.Lines = append(f.Lines, line)
	}
	for len(f.Lines) > 0 && len(f.Lines[len(f.Lines)-1]) == 0 {
		f.Lines = f.Lines[:len(f.Lines)-1]
	}
	return f
}

// The bits of vt10x.Glyph.Mode, which it does not export.
const (
	modeReverse = 1 << 0
	modeBold    = 1 << 2
)

// styleOf returns the classes of a cell. Colours beyond the sixteen of a terminal are left out: the command uses none.
func styleOf(cell vt10x.Glyph) string {
	var classes []string
	if cell.Mode&modeBold != 0 {
		classes = append(classes, "b")
	}
	if cell.Mode&modeReverse != 0 {
		// The emulator has swapped the colours already.
		return strings.Join(append(classes, "r"), " ")
	}
	if cell.FG.ANSI() {
		classes = append(classes, fmt.Sprintf("c%d", cell.FG))
	}
	return strings.Join(classes, " ")
}

// String is the text of the frame.
func (f frame) String() string {
	var text strings.Builder
	for _, line := range f.Lines {
		column := 0
		for _, run := range line {
			text.WriteString(strings.Repeat(" ", max(0, run.Column-column)))
			text.WriteString(run.Text)
			column = run.Column + len([]rune(run.Text))
		}
		text.WriteByte('\n')
	}
	return trimEnds(text.String())
}

func trimEnds(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// The measures of a cell and of the margin, in pixels.
const (
	svgCellWidth, svgCellHeight = 8.4, 18
	svgMargin                   = 16
)

// The colours are those of a dark terminal, with a contrast of 4.5:1 or more to its background.
const svgSheet = `
svg{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text{fill:#d5dae1;white-space:pre}.b{font-weight:bold;fill:#fff}.r{font-weight:bold;fill:#10151c}.bar{fill:#d5dae1}
.c1{fill:#ff8078}.c2{fill:#5fd38d}.c3{fill:#e5c07b}.c4{fill:#7ab7ff}.c5{fill:#d79bf0}.c6{fill:#5ccfe0}.c8{fill:#98a2ae}
.f{visibility:hidden;animation:%gs step-end infinite}#last{visibility:visible}
`

// writeRecording writes the frames as an SVG of so many columns and rows. The title is for those who cannot see it.
func writeRecording(w io.Writer, title string, columns, rows int, frames []frame) error {
	var all time.Duration
	for _, f := range frames {
		all += f.Show
	}
	var svg strings.Builder
	wide, high := 2*svgMargin+svgCellWidth*float64(columns), 2*svgMargin+svgCellHeight*rows
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %d" role="img">`+"\n", wide, high)
	fmt.Fprintf(&svg, "<title>%s</title>\n<style>", escapeXML(title))
	fmt.Fprintf(&svg, svgSheet, all.Seconds())
	var begin time.Duration
	percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(all) }
	for i, f := range frames {
		end := begin + f.Show
		fmt.Fprintf(&svg, "@keyframes f%d{0%%{visibility:hidden}%.4g%%{visibility:visible}", i, percent(begin))
		if i < len(frames)-1 {
			fmt.Fprintf(&svg, "%.4g%%{visibility:hidden}", percent(end))
		}
		fmt.Fprintf(&svg, "}.f%d{animation-name:f%d}\n", i, i)
		begin = end
	}
	svg.WriteString("@media(prefers-reduced-motion:reduce){.f{animation:none}}\n</style>\n")
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" rx="8" fill="#10151c" stroke="#3a434e"/>`+"\n")
	for i, f := range frames {
		id := ""
		if i == len(frames)-1 {
			id = ` id="last"`
		}
		fmt.Fprintf(&svg, "<g class=\"f f%d\"%s>\n", i, id)
		for y, line := range f.Lines {
			for _, run := range line {
				writeRun(&svg, y, run)
			}
			svg.WriteByte('\n')
		}
		svg.WriteString("</g>\n")
	}
	svg.WriteString("</svg>\n")
	_, err := io.WriteString(w, svg.String())
	return err
}

func writeRun(svg *strings.Builder, y int, run textRun) {
	reversed := strings.HasSuffix(run.Style, "r")
	text := run.Text
	if !reversed { // else its spaces are seen
		text = strings.TrimLeft(text, " ")
	}
	if text == "" {
		return
	}
	length := len([]rune(text))
	column := run.Column + len([]rune(run.Text)) - length
	x, top, wide := svgMargin+svgCellWidth*float64(column), svgMargin+svgCellHeight*y, svgCellWidth*float64(length)
	if reversed {
		fmt.Fprintf(svg, `<rect class="bar" x="%.4g" y="%d" width="%.4g" height="%d"/>`, x, top, wide, svgCellHeight)
	}
	class := ""
	if run.Style != "" {
		class = fmt.Sprintf(` class="%s"`, run.Style)
	}
	// With textLength the columns are straight in any font.
	fmt.Fprintf(svg, `<text x="%.4g" y="%d" textLength="%.4g"%s>%s</text>`, x, top+svgCellHeight-4, wide, class,
		escapeXML(text))
}

func escapeXML(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// readRecording returns the text of each frame of a file that [writeRecording] wrote.
func readRecording(r io.Reader) ([]string, error) {
	var svg struct {
		Frames []struct {
			Texts []struct {
				X    float64 `xml:"x,attr"`
				Y    int     `xml:"y,attr"`
				Text string  `xml:",chardata"`
			} `xml:"text"`
		} `xml:"g"`
	}
	if err := xml.NewDecoder(r).Decode(&svg); err != nil {
		return nil, fmt.Errorf("reading a recording: %w", err)
	}
	var frames []string
	for _, g := range svg.Frames {
		f := frame{}
		for _, text := range g.Texts {
			y, column := (text.Y-svgMargin)/svgCellHeight, int((text.X-svgMargin)/svgCellWidth+0.5)
			for len(f.Lines) <= y {
				f.Lines = append(f.Lines, nil)
			}
			f.Lines[y] = append(f.Lines[y], textRun{Column: column, Text: text.Text})
		}
		frames = append(frames, f.String())
	}
	return frames, nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	screen := vt10x.New(vt10x.WithSize(20, 5))
	var frames []frame
	var want []string
	for _, step := range []struct{ writes, shows string }{
		{"$ askback\r\n", "$ askback"},
		{"\r\n  \x1b[1mbold\x1b[m & <\x1b[32mgreen\x1b[m>", "$ askback\n\n  bold & <green>"},
		{"\r\n\x1b[1;7m > chosen \x1b[m ┃", "$ askback\n\n  bold & <green>\n > chosen  ┃"},
		{"\x1b[2J\x1b[H\x1b[3;18Hend", "\n\n" + strings.Repeat(" ", 17) + "end"},
	} {
		expect.Must(io.WriteString(screen, step.writes))(t)
		f := capture(screen, time.Second)
		if got := f.String(); got != step.shows {
			t.Errorf("after %q the screen shows\n%q\nwant\n%q", step.writes, got, step.shows)
		}
		frames, want = append(frames, f), append(want, step.shows)
	}
	var svg bytes.Buffer
	expect.Check(t, writeRecording(&svg, "A <test>", 20, 5, frames))
	for _, part := range []string{
		`<title>A &lt;test&gt;</title>`,
		`class="c2">green</text>`,
		`class="b r"> &gt; chosen </text>`,
		`<g class="f f3" id="last">`,
	} {
		if !strings.Contains(svg.String(), part) {
			t.Errorf("no %s in\n%s", part, &svg)
		}
	}
	got := expect.Must(readRecording(&svg))(t)
	expect.Diff(t, "the value", want, got)
}
