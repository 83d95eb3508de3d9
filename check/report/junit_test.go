package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func junitText(t testing.TB, r *findings.Report, failOn findings.Level) string {
	t.Helper()
	text := expect.Must(JUnit(r, failOn))(t)
	return text
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Stopped = "the server answered 503"
	golden(t, "testdata/junit.golden", junitText(t, r, findings.Fail))
}

// The level from which findings are failures.
func TestJUnitFailures(t *testing.T) {
	t.Parallel()
	for level, want := range map[findings.Level]int{findings.Fail: 1, findings.Warn: 2, findings.Note: 3} {
		var got junitSuites
		expect.Check(t, xml.Unmarshal([]byte(junitText(t, sample(), level)), &got))
		failures := 0
		for _, suite := range got.Suites {
			expect.Equal(t, suite.Name+": cases", len(suite.Cases), suite.Tests)
			failures += suite.Failed
		}
		if got.Tests != len(sample().Verdicts) || got.Failed != want || failures != want || got.Skipped != 5 {
			t.Errorf("%s: %d tests, %d and %d failures, %d skipped", level, got.Tests, got.Failed, failures, got.Skipped)
		}
	}
}

// A program that others wrote reads the same.
func TestAParserOfOthersReadsJUnit(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Abs(installed(t))
	expect.Check(t, err)
	parse := exec.Command("node", "--input-type=module", "-e", `
		import { readFileSync } from "node:fs"
		const { parse } = await import("file://" + process.argv[1] + "/junit2json/dist/esm/index.js")
		console.log(JSON.stringify(await parse(readFileSync(0, "utf8"))))`, modules)
	parse.Stdin = strings.NewReader(junitText(t, sample(), findings.Warn))
	out, err := parse.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var got struct {
		Tests, Failures int
		Testsuite       []struct {
			Name     string
			Testcase []struct {
				Name    string
				Failure []struct{ Message, Inner string }
				Skipped []struct{ Message string }
			}
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var failed, skipped []string
	for _, suite := range got.Testsuite {
		for _, c := range suite.Testcase {
			probe, _, _ := strings.Cut(c.Name, ":")
			if len(c.Failure) > 0 {
				failed = append(failed, suite.Name+" "+probe)
			}
			if len(c.Skipped) > 0 {
				skipped = append(skipped, suite.Name+" "+probe)
			}
		}
	}
	want := []string{"tools/call deploy state-credentials", "tools/call deploy state-forged"}
	expect.Diff(t, "failed", want, failed)
	if len(skipped) != 5 || got.Tests != 12 || got.Failures != 2 {
		t.Errorf("%q are skipped, of %d tests with %d failures", skipped, got.Tests, got.Failures)
	}
}

func FuzzJUnit(f *testing.F) {
	for _, text := range strange {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		decoder := xml.NewDecoder(strings.NewReader(junitText(t, hostile(text), findings.Note)))
		for {
			switch _, err := decoder.Token(); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				t.Fatal(err)
			}
		}
	})
}
