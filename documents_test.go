package askback_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Whatever the documents point to within the repository is there: files, and headings in pages.
func TestLinksOfTheDocuments(t *testing.T) {
	if _, err := os.Stat("cmd/askback"); err != nil {
		t.Skip("cmd/askback, which documents point to, is a module of its own, which is not here")
	}
	pages := expect.Must(filepath.Glob("docs/*.md"))(t)
	proof := expect.Must(filepath.Glob("docs/proof/*.md"))(t)
	pages = append(append(pages, proof...), "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
		"seal/FORMAT.md", "examples/fleet/README.md", "testdata/transcripts/README.md")
	for _, page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(t, page), -1) {
			path, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, ":") {
				continue // elsewhere
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if heading != "" && strings.HasSuffix(target, ".md") && !slices.Contains(headings(t, target), heading) {
				t.Errorf("%s: %s has no heading #%s", page, target, heading)
			}
		}
	}
}

// docs/proof/README.md says what is there.
func TestProofNamesItsPages(t *testing.T) {
	pages, err := filepath.Glob("docs/proof/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	list := prose(t, "docs/proof/README.md")
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(list, "]("+name+") | ") {
			t.Errorf("docs/proof/README.md has no row for %s", name)
		}
	}
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text := expect.Must(os.ReadFile(page))(t)
	return regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(string(text), "")
}

// headings returns the names under which a page's headings can be linked.
func headings(t *testing.T, page string) (names []string) {
	t.Helper()
	for _, line := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(t, page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(line[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
