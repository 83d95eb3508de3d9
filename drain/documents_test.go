package drain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server that is copied from a document stops as one should: it fails no call, gives its tasks back, and closes their
// store last. What the comment of the package shows is compiled in example_test.go.
func TestDocumentsStopGracefully(t *testing.T) {
	files := expect.Must(filepath.Glob("../docs/*.md"))(t)
	if len(files) == 0 {
		t.Skip("the documents are not in the module")
	}
	for _, name := range append(files, "drain.go", "../askback.go", "../README.md") {
		if filepath.Base(name) == "tutorial.md" {
			continue // whose server is killed on purpose, and says so
		}
		text := expect.Must(os.ReadFile(name))(t)
		for _, abrupt := range []string{"http.ListenAndServe", "go srv.RunTasks"} {
			if strings.Contains(string(text), abrupt) {
				t.Errorf("%s shows %s, which ends in the middle of calls and tasks", name, abrupt)
			}
		}
	}

	example := unindented(t, "example_test.go", "")
	comment, _, _ := strings.Cut(unindented(t, "drain.go", "//"), "package drain")
	_, comment, _ = strings.Cut(comment, "\n\n")
	comment, _, found := strings.Cut(comment, "\n\ndocs/production.md")
	if !found || comment == "" || !strings.Contains(example, comment) {
		t.Errorf("not in example_test.go:\n%s", comment)
	}
}

// unindented returns the lines of a file without a prefix and without what indents them.
func unindented(t *testing.T, name, prefix string) string {
	t.Helper()
	text := expect.Must(os.ReadFile(name))(t)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(strings.TrimLeft(strings.TrimPrefix(line, prefix), "\t "))
	}
	return b.String()
}
