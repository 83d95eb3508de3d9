package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	other := cell{section: sections[0], client: "gosdk", server: "askback", scenario: sections[0].scenarios[0],
		transport: sections[0].transports[0]}
	listed := cell{section: sections[0], client: "askback", server: "gosdk", scenario: scenario{tool: "t_state"},
		transport: transport{name: "legacy"}}
	for _, test := range []struct {
		name  string
		cell  cell
		fault string
		want  string // in the error; empty if there is none
		count string
	}{
		{"passes", other, "", "", "1 of 1"},
		{"fails", other, "it came apart", "gosdk/askback/t_elicit/http: it came apart", "0 of 1"},
		{"fails as it is listed", listed, "tool error: the server is busy, retry later", "", "0 of 1"},
		{"fails otherwise than listed", listed, "it burned", "askback/gosdk/t_state/legacy: it burned", "0 of 1"},
		{"passes, but is listed", listed, "", "askback/gosdk/t_state/legacy is listed", "0 of 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			test.cell.fault = test.fault
			got := ""
			if err := report(&out, []*cell{&test.cell}); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("the error %q, want %q", got, test.want)
			}
			if !strings.Contains(out.String(), "Tools that ask: "+test.count+" cells pass.\n") {
				t.Errorf("it prints %q, want %s", out.String(), test.count)
			}
		})
	}
}

// What is known of a peer is known of cells that there are.
func TestKnown(t *testing.T) {
	there := make(map[string]bool)
	for _, c := range allCells() {
		there[c.String()] = true
	}
	if len(there) != 147+16+36+18+4 {
		t.Errorf("%d cells", len(there))
	}
	for name := range known {
		if !there[name] {
			t.Errorf("there is no cell %s", name)
		}
	}
}

func TestJudge(t *testing.T) {
	c := &cell{scenario: scenario{text: "Hello, octocat."}, transport: transport{revision: modern}}
	for printed, want := range map[string]string{
		`{"revision":"2026-07-28","result":{"content":[{"type":"text","text":"Hello, octocat."}]}}`:  "",
		`{"revision":"2025-11-25","result":{"content":[{"type":"text","text":"Hello, octocat."}]}}`:  `"2025-11-25" instead`,
		`{"revision":"2026-07-28","result":{"content":[{"type":"text","text":"Hello, ."}]}}`:         `says "Hello, ."`,
		`{"revision":"2026-07-28","result":{"content":[]}}`:                                          `says ""`,
		`{"revision":"2026-07-28","result":{"content":[{"type":"text","text":"?"}],"isError":true}}`: "tool error: ?",
		"": "no result",
	} {
		if got := c.judge([]byte(printed)); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", printed, got, want)
		}
	}
}
