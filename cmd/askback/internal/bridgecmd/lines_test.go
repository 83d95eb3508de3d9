package bridgecmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A program behind the bridge writes to the log of a host or to a terminal, which it must not be able to change.
func TestLinesOfProgramsAreHarmless(t *testing.T) {
	var out bytes.Buffer
	w := linesOf("shop: ", &out)
	for _, part := range []string{"\x1b]0;title\x07ready\r\n\tin", "dented \u202e\x9b2J\n",
		strings.Repeat("x", cli.MaxLine)} {
		expect.Must(w.Write([]byte(part)))(t)
	}
	want := "shop: \\x1b]0;title\\aready\nshop: \tindented \\u202e\\x9b2J\nshop: " +
		strings.Repeat("x", cli.MaxLine) + "\n"
	expect.Equal(t, "the program shows", out.String(), want)
}
