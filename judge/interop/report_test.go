package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	listed := failure{
		code: "X1", peer: "gosdk", clients: []string{"gosdk"}, servers: []string{"askback", "gosdk"},
		tools: []string{"t_elicit"}, transports: []string{"http"}, words: "came apart",
	}
	asAskbacks := listed
	asAskbacks.peer = "askback"
	for _, test := range []struct {
		name, server, fault string
		known               []failure
		want                string // in the verdict; empty if there is none
		mark                string
	}{
		{"passed", "askback", "", nil, "", "✓"},
		{"failed, not listed", "askback", "it came apart", nil, "gosdk/askback/t_elicit/http: it came apart", "**?**"},
		{"failed, listed as the peer's", "askback", "it came apart", []failure{listed}, "", "X1"},
		{"failed, listed as Askback's", "askback", "it came apart", []failure{asAskbacks}, "it came apart", "X1"},
		{"failed in another way than listed", "askback", "it burned", []failure{listed}, "does not fail so: it burned",
			"**?**"},
		{"passed, but listed", "askback", "", []failure{listed}, "does not fail so: it passes", "✓"},
		{"between peers: failed, not listed", "gosdk", "it came apart", nil, "", "**?**"},
		{"between peers: passed, but listed", "gosdk", "", []failure{listed}, "does not fail so: it passes", "✓"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cell{section: sections[0], client: "gosdk", server: test.server, scenario: scenarios[0], transport: "http",
				fault: test.fault}
			r := &report{[]*cell{c}, test.known, ""}
			verdict := ""
			if err := r.verdict(); err != nil {
				verdict = err.Error()
			}
			if !strings.Contains(verdict, test.want) || test.want == "" && verdict != "" {
				t.Errorf("verdict %q, want %q", verdict, test.want)
			}
			if mark := r.mark(c); mark != test.mark {
				t.Errorf("mark %q, want %q", mark, test.mark)
			}
			if tables := r.tables(); strings.Contains(tables, test.fault) != (test.mark == unlisted || test.fault == "") {
				t.Errorf("an unlisted fault must be told, and only that:\n%s", tables)
			}
		})
	}
}

// The table of known failures must name cells that exist, and give evidence.
func TestKnown(t *testing.T) {
	for _, f := range known {
		covered := 0
		for _, c := range allCells("") {
			if f.covers(c) {
				covered++
			}
		}
		if want := len(f.clients) * len(f.servers) * len(f.tools) * len(f.transports); covered != want || want == 0 {
			t.Errorf("%s covers %d cells of %d", f.code, covered, want)
		}
		if f.words == "" || f.note == "" || f.peer == "askback" {
			t.Errorf("%s lacks its words or its evidence, or is Askback's", f.code)
		}
	}
}

func TestWriteREADME(t *testing.T) {
	name := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(name, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := &cell{section: sections[0], client: "askback", server: "askback", scenario: scenarios[0], transport: "http"}
	if err := (&report{[]*cell{c}, nil, ""}).writeREADME(name); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	failing := *c
	failing.fault = "it came apart"
	for _, cells := range [][]*cell{{&failing}, {}} {
		err := (&report{cells, nil, ""}).writeREADME(name)
		const want = "HTTP, 2026-07-28: Askback with the server of Askback, scenario 1: passed when"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a cell that passed before: %v", err)
		}
	}
	if after, _ := os.ReadFile(name); string(after) != string(got) {
		t.Errorf("a regression was written:\n%s", after)
	}
	text := string(got)
	if !strings.HasPrefix(text, "before\n"+begin) || !strings.HasSuffix(text, end+"after\n") ||
		strings.Contains(text, "old") || !strings.Contains(text, "| Askback | Askback | ✓ ") {
		t.Errorf("got\n%s", text)
	}
}
