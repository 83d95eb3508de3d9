package askback_test

import (
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// SECURITY.md says which test shows what stops an attack. The tests exist, and no row is without one.
func TestSecurityNamesItsTests(t *testing.T) {
	data := expect.Must(os.ReadFile("SECURITY.md"))(t)
	rows := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.TrimSpace(cells[len(cells)-1]) == "shown by" {
			continue
		}
		rows++
		expect.Equal(t, "cells in "+line, len(cells), 3)
		for _, complaint := range checkShown(cells[len(cells)-1]) {
			t.Errorf("%s: %s", cells[0], complaint)
		}
	}
	if rows < 30 {
		t.Errorf("%d rows", rows)
	}
}

func TestKeysThatAreMissingAreWarnedOf(t *testing.T) {
	for _, missing := range []bool{true, false} {
		logger, log := harness.Logs()
		opts := &askback.Options{Logger: logger}
		if !missing {
			opts.Keys = harness.NewRing(t)
		}
		srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil), opts))(t)
		c := harness.Pipe(t, srv)
		c.Call(1, "tools/list", "", `{}`)
		if got := log.String(); got != "" { // the only instance, whose client ends with it
			t.Errorf("over stdio, the log says %q", got)
		}
		srv.HTTPHandler(nil)
		srv.HTTPHandler(nil)
		if got := log.String(); strings.Count(got, "no keys configured") != map[bool]int{true: 1}[missing] ||
			missing && !strings.Contains(got, "level=WARN") {
			t.Errorf("keys are missing: %v, and the log says %q", missing, log)
		}
	}
}
