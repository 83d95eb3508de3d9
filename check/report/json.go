package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
)

// Schema is the JSON Schema of what JSON returns.
//
//go:embed report.schema.json
var Schema []byte

// document is a report as JSON. Its version grows when a member changes or goes, not when one is added.
type document struct {
	Version int `json:"version"`
	*findings.Report
	Summary counts `json:"summary"`
}

type counts struct {
	Fail      int  `json:"fail"`
	Warn      int  `json:"warn"`
	Note      int  `json:"note"`
	Pass      int  `json:"pass"`
	NotJudged int  `json:"notJudged"`
	Accepted  int  `json:"accepted"`
	Judged    bool `json:"judged"` // anything at all
}

// JSON writes a report for programs, as Schema describes it.
func JSON(r *findings.Report) (string, error) {
	whole := *r
	whole.Targets = orEmpty(r.Targets)
	whole.Verdicts = orEmpty(r.Verdicts)
	return indented(document{Version: 1, Report: &whole, Summary: counts{
		Fail: r.Count(findings.Fail), Warn: r.Count(findings.Warn), Note: r.Count(findings.Note),
		Pass: r.Count(findings.Pass), NotJudged: r.Count(findings.NotJudged),
		Accepted: len(accepted(r)), Judged: r.Judged(),
	}})
}

// orEmpty makes a list that is an array in JSON.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// indented writes JSON in which nothing acts on a terminal.
func indented(v any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return "", fmt.Errorf("the report as JSON: %w", err)
	}
	return foreign.JSON(b.Bytes()), nil
}
