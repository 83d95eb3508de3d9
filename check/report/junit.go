package report

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
)

// The types of JUnit's XML, in the members that its readers agree on.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Name    string       `xml:"name,attr"`
		Tests   int          `xml:"tests,attr"`
		Failed  int          `xml:"failures,attr"`
		Skipped int          `xml:"skipped,attr"`
		Seconds string       `xml:"time,attr"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name      string      `xml:"name,attr"`
		Tests     int         `xml:"tests,attr"`
		Failed    int         `xml:"failures,attr"`
		Errors    int         `xml:"errors,attr"`
		Skipped   int         `xml:"skipped,attr"`
		Seconds   string      `xml:"time,attr"`
		Timestamp string      `xml:"timestamp,attr"`
		Cases     []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Seconds string       `xml:"time,attr"`
		Failure *junitFault  `xml:"failure"`
		Skipped *junitReason `xml:"skipped"`
		Output  string       `xml:"system-out,omitempty"`
	}
	junitFault struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit writes a report as JUnit's XML, with a suite for each target. A finding that is at least as grave as failOn is
// a failure, and what is not judged is skipped.
func JUnit(r *findings.Report, failOn findings.Level) (string, error) {
	all := junitSuites{Name: xmlText("askback check " + r.Subject), Seconds: seconds(r)}
	verdicts := r.Verdicts
	if r.Stopped != "" {
		verdicts = append(slices.Clone(verdicts), findings.Verdict{Probe: "run", Title: "The run ended early",
			Level: findings.NotJudged, Reason: r.Stopped})
	}
	for _, v := range verdicts {
		class := xmlText(place(v))
		at := slices.IndexFunc(all.Suites, func(s junitSuite) bool { return s.Name == class })
		if at < 0 {
			at = len(all.Suites)
			all.Suites = append(all.Suites, junitSuite{Name: class, Seconds: "0",
				Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05")})
		}
		suite, c := &all.Suites[at], testCase(v, failOn)
		suite.Cases = append(suite.Cases, c)
		suite.Tests++
		all.Tests++
		if c.Failure != nil {
			suite.Failed++
			all.Failed++
		}
		if c.Skipped != nil {
			suite.Skipped++
			all.Skipped++
		}
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", fmt.Errorf("the report as XML: %w", err)
	}
	return xml.Header + string(text) + "\n", nil
}

func testCase(v findings.Verdict, failOn findings.Level) junitCase {
	c := junitCase{Class: xmlText(place(v)), Name: xmlText(v.Probe + ": " + v.Title), Seconds: "0"}
	switch {
	case v.Level == findings.NotJudged:
		c.Skipped = &junitReason{xmlText("not judged: " + strings.Join(compact(v.Reason, v.Remedy), "; "))}
	case v.Accepted != "":
		c.Output = xmlText(fmt.Sprintf("%s, accepted until %s: %s\n%s", v.Level, v.Expires, v.Accepted, story(v)))
	case v.Level.AtLeast(failOn):
		c.Failure = &junitFault{Message: xmlText(v.Reason), Type: string(v.Level), Text: xmlText(story(v))}
	case isFinding(v):
		c.Output = xmlText(string(v.Level) + ": " + story(v))
	}
	return c
}

// story tells a finding in a few lines.
func story(v findings.Verdict) string {
	facts := compact(v.Reason, rule(v))
	for _, fact := range []struct{ word, text string }{{"Harm: ", v.Harm}, {"Mend: ", v.Mend}} {
		if fact.text != "" {
			facts = append(facts, fact.word+fact.text)
		}
	}
	return strings.Join(facts, "\n")
}

func seconds(r *findings.Report) string { return fmt.Sprintf("%.3f", r.Took.Seconds()) }

// xmlText spells out what XML cannot have, such as most control characters, and what acts on a terminal.
func xmlText(text string) string {
	text = foreign.Text(text)
	if short := []rune(text); len(short) > maxWords {
		text = string(short[:maxWords-1]) + "…"
	}
	return text
}
