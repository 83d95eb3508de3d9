package checkreport

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/askback-mcp/askback/check/findings"
)

const badgeLabel = "askback check"

// Badge writes the endpoint of a badge in the format of shields.io, for a file that is served somewhere.
func Badge(r *findings.Report) (string, error) {
	message, color := standing(r)
	return indented(struct {
		Version int    `json:"schemaVersion"`
		Label   string `json:"label"`
		Message string `json:"message"`
		Color   string `json:"color"`
	}{1, badgeLabel, message, color})
}

// BadgeLine writes a line of Markdown with a badge that needs no file.
func BadgeLine(r *findings.Report) string {
	message, color := standing(r)
	part := func(text string) string { return url.PathEscape(strings.ReplaceAll(text, " ", "_")) }
	return fmt.Sprintf("[![%s: %s](https://img.shields.io/badge/%s-%s-%s)](%s)\n", badgeLabel, message, part(badgeLabel),
		part(message), color, home)
}

// standing is a report in a few words and a color.
func standing(r *findings.Report) (message, color string) {
	fail, warn := r.Count(findings.Fail), r.Count(findings.Warn)
	switch {
	case !r.Judged():
		return "not judged", "lightgrey"
	case fail > 0:
		return fmt.Sprintf("%d fail, %d warn", fail, warn), "red"
	case warn > 0:
		return fmt.Sprintf("%d fail, %d warn", fail, warn), "yellow"
	case r.Stopped != "":
		return fmt.Sprintf("%d passed, ended early", r.Count(findings.Pass)), "lightgrey"
	default:
		return fmt.Sprintf("%d passed, %d not judged", r.Count(findings.Pass), r.Count(findings.NotJudged)), "brightgreen"
	}
}
