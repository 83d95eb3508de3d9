package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// README.md has figures of docs/proof/performance.md, which this program writes.
func TestREADMEHasTheFigures(t *testing.T) {
	here := expect.Must(os.Getwd())(t)
	read := func(name string) string {
		// The name keeps its dots: go test takes a result from its cache although a file outside the module has changed.
		data := expect.Must(os.ReadFile(here + "/../../" + name))(t)
		return string(data)
	}
	document, readme := read("docs/proof/performance.md"), read("README.md")
	// figure finds a number in a row of one of the document's tables.
	figure := func(row string) float64 {
		t.Helper()
		found := regexp.MustCompile(`(?m)^\| ` + row).FindStringSubmatch(document)
		if found == nil {
			t.Fatalf("docs/proof/performance.md has no row like %s", row)
		}
		n := expect.Must(strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64))(t)
		return n
	}
	cpu := figure(`Askback \| [^|]+\| ([\d,]+) µs`)
	for _, want := range []string{
		fmt.Sprintf("%.0f µs, %.1f times a handler of fixed bytes", cpu, figure(`Askback \| [^|]+\| [\d,]+ µs \(([\d.]+)\)`)),
		fmt.Sprintf("the Go SDK's manual style takes %.0f times as much, mcp-go %.0f times",
			figure(`Go SDK [\d.]+ \| [^|]+\| ([\d,]+) µs`)/cpu, figure(`mcp-go [\d.]+ \| [^|]+\| ([\d,]+) µs`)/cpu),
		fmt.Sprintf("| 1,000,000 questions that nobody answers | %.1f MB of heap", figure(`1,000,000 \| ([\d.]+) MB`)),
		fmt.Sprintf("%.0f bytes after one round, %.1f KB after 32",
			figure(`1 \| [\d,]+ µs \| [\d,.]+ µs \| ([\d,]+) \|`), figure(`32 \| [\d,]+ µs \| [\d,.]+ µs \| ([\d,]+) \|`)/1000),
		fmt.Sprintf("%.1f times as many; %.0f %% as many when every task asks once",
			figure(`PostgreSQL, no question \| [\d,]+ \| ([\d.]+)`),
			100*math.Round(20*figure(`PostgreSQL, one question \| [\d,]+ \| ([\d.]+)`))/20),
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}
