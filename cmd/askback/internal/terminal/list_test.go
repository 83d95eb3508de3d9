package terminal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// towns is the schema of one field, whose list has n towns, and three others behind them.
func towns(n int, kind string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("Town %d", i+1))
	}
	list := `"enum":["` + strings.Join(append(all, "New York", "York", "Yorkshire Dales"), `","`) + `"]`
	if kind == "array" {
		list = `"items":{"type":"string",` + list + `}`
	}
	return `{"type":"object","required":["town"],"properties":{"town":{"type":"` + kind + `",` + list + `}}}`
}

// A list that is too long for a screen shows a part of itself, and finds what is typed.
func TestALongListFilters(t *testing.T) {
	p := newPerson(t)
	ptytest.Resize(t, p.tty, 24, 60)
	p.screen = newEmulator(24, 60)
	a := askForm(t, p.terminal(), "Where?", towns(117, "string"))
	p.sees("▸ ( ) Town 1\n", "Town 8", "120 choices: type to filter them", "type to filter · ", "Send    Decline")
	p.seesNoMore("Town 9")
	p.types(up, "\x1b[F")
	p.sees("▸ (•) Yorkshire Dales")
	p.types("\x1b[200~own 11\x1b[201~") // pasted
	p.sees("> own 11", "▸ (•) Town 11\n", "Town 110", "Town 116", "9 of 120 choices")
	p.types(down, ctrlU)
	p.sees("▸ (•) Town 110\n", "120 choices: type")
	p.types("yokr")
	p.sees("> yokr", "0 of 120 choices")
	p.types(enter)
	p.sees("✗ no choice contains that")
	p.types(tab, tab, toLeft, enter) // Send
	p.sees("✗ no choice contains that", "┃ > yokr")
	p.types(back, back)
	p.seesNoMore("✗")
	p.sees("( ) New York", "▸ (•) York\n", "3 of 120 choices") // what begins so comes first
	p.types("rk new")                                          // words in any order
	p.sees("▸ (•) New York", "1 of 120 choices")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"town": "New York"}})
	p.showsOnly("tracker asks:\n│ Where?\n  town  New York\n✓ Sent.")
	p.gotItBack()
}

// What is ticked stays in view, whatever the filter leaves.
func TestALongListOfSeveralChoicesFilters(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "Where?", towns(117, "array"))
	p.sees("▸ [ ] Town 1\n", "↑↓ move · space tick · type to filter")
	p.types("117")
	p.sees("▸ [ ] Town 117", "1 of 120 choices")
	p.types(" ", ctrlU, "york", " ")
	p.sees("▸ [x] York\n", "3 of 120 choices · ticked: Town 117, York")
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"town": []any{"Town 117", "York"}}})
	p.gotItBack()
}

// A list that fits is drawn whole, and a letter points at an option.
func TestAShortListDoesNotFilter(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal(), "Where?", towns(9, "string"))
	p.sees("▸ ( ) Town 1", "Town 9", "Yorkshire Dales")
	p.types("y")
	p.sees("▸ (•) York\n")
	if p.everSaw("filter") {
		t.Error("a list of 12 filters")
	}
	p.types(enter)
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"town": "York"}})
}

func TestALongListByLine(t *testing.T) {
	p := newPerson(t)
	a := askForm(t, p.terminal("ACCESSIBLE=1"), "Where?", towns(117, "string"))
	p.sees("Of 120 choices, type a part of one to see those that have it. Type the number\n  of your choice.")
	p.types("yokr\n")
	p.sees("! type a number from 1 to 120")
	p.types("york\n")
	p.sees("  118. New York\n  119. York\n  120. Yorkshire Dales\n>")
	p.types("119\n")
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"town": "York"}})
	if p.everSaw("Town 1") {
		t.Error("all of a long list was read out")
	}
}

func TestNearest(t *testing.T) {
	f := &field{options: []option{{label: "Lebanon"}, {label: "North Macedonia"}, {label: "Norway (NO)"}}}
	got := map[string]int{}
	for _, filter := range []string{"no", "NON", "no)", "way nor", " nor", "x", ""} {
		got[filter] = f.nearest(filter)
	}
	want := map[string]int{"no": 1, "NON": 0, "no)": 2, "way nor": 2, " nor": 1, "x": -1, "": 0}
	expect.Diff(t, "the value", want, got)
}
