package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// The servers are this program.
func TestMain(m *testing.M) {
	if name := os.Getenv(subjectVariable); name != "" {
		exit(runServer(name))
	}
	os.Exit(judge.Run(m))
}

func needsLinux(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("the time and memory of processes are read from Linux's /proc")
	}
}

// Every server that is written in Go gives right answers, and is measured.
func TestComparison(t *testing.T) {
	needsLinux(t)
	var written []*subject
	for _, s := range subjects {
		if s.handler != nil {
			written = append(written, s)
		}
	}
	set := settings{rounds: 1, turn: 20 * time.Millisecond, clients: 2}
	rows := expect.Must(compare(written, set))(t)
	for _, r := range rows {
		if m := r.turns[0]; m.perSecond <= 0 || m.cpu <= 0 || m.p50 <= 0 || m.p99 < m.p50 || r.memory <= 0 {
			t.Errorf("%s: %+v, memory %v", r.title, m, r.memory)
		}
	}
	for i, want := range map[int][2]bool{0: {false, false}, 1: {true, true}} { // the floor, Askback
		if got := [2]bool{rows[i].checksArguments, rows[i].checksAnswer}; got != want {
			t.Errorf("%s checks arguments and answers: %v, want %v", rows[i].title, got, want)
		}
	}
	tables := figures(rows, set)
	for _, s := range written {
		if strings.Count(tables, "| "+s.title+" | ") < 2 {
			t.Errorf("%s is not in both tables:\n%s", s.title, tables)
		}
	}
}

// A server that asks nothing, or answers something else, is not measured.
func TestWrongAnswersAreFound(t *testing.T) {
	needsLinux(t)
	s := expect.Must(start(subjects[0]))(t)
	defer s.Kill()
	wrong := *s.subject
	wrong.canned = false
	s.subject = &wrong
	if err := (&row{server: s}).check(); err == nil {
		t.Error("the fixed bytes of the floor pass for the answers of a server")
	}
}

func TestDocument(t *testing.T) {
	doc := document(filepath.Join(t.TempDir(), "performance.md"))
	const text = "Before.\n<!-- a: written by judge/bench -->\nold\n<!-- end of a -->\nAfter.\n"
	expect.Check(t, os.WriteFile(string(doc), []byte(text), 0o600))
	for range 2 { // the second time replaces what the first has written
		expect.Check(t, doc.write("a", "new\n"))
	}
	got, err := os.ReadFile(string(doc))
	if want := strings.Replace(text, "old\n", "\nnew\n\n", 1); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	expect.Fails(t, "a document without the marker", doc.write("b", "new"), "<!-- b: ")
}

// The document has a place for all results.
func TestTheDocumentHasAllPlaces(t *testing.T) {
	text := expect.Must(os.ReadFile("../../docs/proof/performance.md"))(t)
	places := []string{"comparison"}
	for _, e := range experiments {
		places = append(places, e.name)
	}
	for _, place := range places {
		begin, end := "<!-- "+place+": written by judge/bench -->\n", "<!-- end of "+place+" -->\n"
		if strings.Count(string(text), begin) != 1 || strings.Count(string(text), end) != 1 {
			t.Errorf("docs/proof/performance.md does not have one place for %s", place)
		}
	}
}

// The experiments work, at a scale that measures nothing.
func TestGrowth(t *testing.T) {
	needsLinux(t)
	for _, e := range experiments {
		t.Run(e.name, func(t *testing.T) {
			rows := expect.Must(e.measure(0.001))(t)
			if len(rows) < 2 {
				t.Errorf("got the table %v", rows)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.0123", 1: "1", 12.345: "12.3", 99.9: "99.9", 123.4: "123", 1234: "1,234", 1234567: "1,234,567",
		-5000: "-5,000", 100: "100",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}
