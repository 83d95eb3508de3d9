package recording_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/askback-mcp/askback/cmd/askback/internal/recording"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	screen := vt10x.New(vt10x.WithSize(20, 5))
	var frames []recording.Frame
	var want []string
	for _, step := range []struct{ writes, shows string }{
		{"$ askback\r\n", "$ askback"},
		{"\r\n  \x1b[1mbold\x1b[m & <\x1b[32mgreen\x1b[m>", "$ askback\n\n  bold & <green>"},
		{"\r\n\x1b[1;7m > chosen \x1b[m ┃", "$ askback\n\n  bold & <green>\n > chosen  ┃"},
		{"\x1b[2J\x1b[H\x1b[3;18Hend", "\n\n" + strings.Repeat(" ", 17) + "end"},
	} {
		if _, err := io.WriteString(screen, step.writes); err != nil {
			t.Fatal(err)
		}
		f := recording.Capture(screen, time.Second)
		if got := f.String(); got != step.shows {
			t.Errorf("after %q the screen shows\n%q\nwant\n%q", step.writes, got, step.shows)
		}
		frames, want = append(frames, f), append(want, step.shows)
	}
	var svg bytes.Buffer
	if err := recording.Write(&svg, "A <test>", 20, 5, frames); err != nil {
		t.Fatal(err)
	}
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
	got, err := recording.Read(&svg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
