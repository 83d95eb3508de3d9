package tools

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/rhysd/actionlint"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The workflows are only run where the repository is hosted. Actionlint knows their syntax, and that of their
// expressions.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("the workflows: %q, %v", files, err)
	}
	files = append(files, "../../examples/ci/github.yml")
	linter := expect.Must(actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{}))(t)
	mistakes := expect.Must(linter.LintFiles(files, nil))(t)
	for _, m := range mistakes {
		t.Error(m)
	}
}
