package tools

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	markdown "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A reader stumbles over these: the English of a contract, or nouns of which only a pronoun is left.
var stumbles = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`that of`, `those of`, `this of`, `the one of`, `who(m|se)?ever`, `whatever`, `wherever`, `whichever`, `which never`,
	`but for`, `for good`, `is none`, `are none`, `was none`, `of whose`, `of which`, `of whom`, `in which case`, `nor`,
	`hence`, `thereby`, `therein`, `thereof`, `whereby`, `so as to`, `beforehand`, `belongs? into`,
	`be it`, `such that`, `what it came to`,
}, "|") + `)\b`)

// How long a sentence is at most, in words. What stands between backquotes is one word.
const longest = 30

// The documents are written for somebody who reads them once. An exception stands in testdata/prose.txt.
func TestProseOfTheDocuments(t *testing.T) {
	l := newLinter(t, "words")
	for _, page := range tracked(t, "*.md") {
		source := expect.Must(os.ReadFile(repository + page))(t)
		for _, s := range sentencesOf(source) {
			l.read(page, s)
		}
	}
	l.end(".md")
}

// The same holds for what the programs and the library say: messages, errors, and help.
func TestProseOfTheMessages(t *testing.T) {
	l := newLinter(t, "words")
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "judge/") {
			continue
		}
		file := expect.Must(parser.ParseFile(token.NewFileSet(), repository+name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if said, err := strconv.Unquote(lit.Value); err == nil && strings.Count(said, " ") > 2 {
					l.read(name, said)
				}
			}
			return true
		})
	}
	l.end(".go")
}

// The same holds for what the documentation of the packages says.
func TestProseOfTheDocComments(t *testing.T) {
	l := newLinter(t, "comments")
	read := func(name string, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			l.read(name, strings.Join(strings.Fields(g.Text()), " "))
		}
	}
	packages := 0
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "judge/") || strings.Contains(name, "internal/") {
			continue
		}
		file := expect.Must(parser.ParseFile(token.NewFileSet(), repository+name, nil, parser.ParseComments))(t)
		if read(name, file.Doc); file.Doc != nil {
			packages++
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.IsExported() {
					read(name, n.Doc)
				}
				return false
			case *ast.GenDecl:
				read(name, n.Doc)
			case *ast.TypeSpec:
				read(name, n.Doc)
				return n.Name.IsExported()
			case *ast.ValueSpec:
				read(name, n.Doc, n.Comment)
			case *ast.Field:
				read(name, n.Doc, n.Comment)
			}
			return true
		})
	}
	l.end(".go")
	if packages < 15 {
		t.Errorf("found the comments of %d packages", packages)
	}
}

// How much there is to read: a page for one purpose, and few of them. The lists and measurements of the proof have a
// budget of their own.
func TestDocumentsAreShort(t *testing.T) {
	const mostOfReadme = 1_100
	words := func(page string) int {
		source := expect.Must(os.ReadFile(page))(t)
		return len(strings.Fields(string(source)))
	}
	for _, folder := range []struct {
		name                          string
		mostPages, mostOfAPage, words int
	}{{"docs", 15, 3_000, 24_500}, {"docs/proof", 6, 4_000, 12_000}} {
		pages := expect.Must(filepath.Glob(repository + folder.name + "/*.md"))(t)
		all := 0
		for _, page := range pages {
			n := words(page)
			all += n
			if n > folder.mostOfAPage {
				t.Errorf("%s has %d words; a page has at most %d", page, n, folder.mostOfAPage)
			}
		}
		if len(pages) > folder.mostPages || all > folder.words {
			t.Errorf("%s has %d pages and %d words; it has at most %d and %d", folder.name, len(pages), all,
				folder.mostPages, folder.words)
		}
		t.Logf("%s: %d pages, %d words", folder.name, len(pages), all)
	}
	if n := words(repository + "README.md"); n > mostOfReadme {
		t.Errorf("README.md has %d words, and at most %d", n, mostOfReadme)
	}
}

// Every block of Go in a document stands in a file that is compiled and tested. A line of "// …" stands for others.
func TestGoOfTheDocuments(t *testing.T) {
	var code strings.Builder
	for _, name := range tracked(t, "*.go") {
		source := expect.Must(os.ReadFile(repository + name))(t)
		code.WriteString("\x00" + unindented(string(source)))
	}
	l, blocks := newLinter(t, "code"), 0
	for _, page := range tracked(t, "*.md") {
		if page == "docs/tutorial.md" { // whose reader writes the files: TestTutorial
			continue
		}
		source := expect.Must(os.ReadFile(repository + page))(t)
		for _, block := range regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```").FindAllStringSubmatch(string(source), -1) {
			blocks++
			for part := range strings.SplitSeq(unindented(block[1]), "\n// …\n") {
				if !strings.Contains(code.String(), strings.TrimSpace(part)) && !l.allows(page, part) {
					t.Errorf("%s: no file of Go has\n%s", page, part)
				}
			}
		}
	}
	l.end(".md")
	if blocks < 20 {
		t.Errorf("the documents have %d blocks of Go", blocks)
	}
}

// unindented returns lines without the space before them and without blank ones.
func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString("\n" + line)
		}
	}
	return b.String() + "\n"
}

// linter knows the sentences that may stay, by file and beginning.
type linter struct {
	t    *testing.T
	stay map[[2]string]bool // whether one was found
}

func newLinter(t *testing.T, check string) *linter {
	t.Helper()
	source := expect.Must(os.ReadFile("testdata/prose.txt"))(t)
	l := &linter{t: t, stay: make(map[[2]string]bool)}
	for line := range strings.Lines(string(source)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 4 || fields[3] == "" {
			t.Fatalf("testdata/prose.txt: not words, comments or code | FILE | TEXT | REASON: %s", line)
		}
		if fields[0] == check {
			l.stay[[2]string{fields[1], fields[2]}] = false
		}
	}
	return l
}

// read reads a sentence of a document, or a message.
func (l *linter) read(name, s string) {
	wrong := ""
	if found := stumbles.FindString(s); found != "" {
		wrong = fmt.Sprintf("has %q", found)
	} else if n := len(strings.Fields(s)); n > longest && strings.HasSuffix(name, ".md") {
		wrong = fmt.Sprintf("has %d words, and a sentence at most %d", n, longest)
	}
	if wrong == "" {
		return
	}
	if !l.allows(name, s) {
		l.t.Errorf("%s: %s: %s", name, wrong, s)
	}
}

// allows reports whether there is an exception for a text.
func (l *linter) allows(name, s string) bool {
	for e := range l.stay {
		if e[0] == name && strings.Contains(s, e[1]) {
			l.stay[e] = true
			return true
		}
	}
	return false
}

// end finds the exceptions that nothing needs.
func (l *linter) end(suffix string) {
	for e, found := range l.stay {
		if !found && strings.HasSuffix(e[0], suffix) {
			l.t.Errorf("testdata/prose.txt: nothing needs the exception for %s: %s", e[0], e[1])
		}
	}
}

var endOfSentence = regexp.MustCompile(`[.!?…][")”]?\s+`)

// sentencesOf returns the sentences of a page: of its paragraphs, items, headings and cells.
func sentencesOf(source []byte) (all []string) {
	page := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	_ = markdown.Walk(page, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		_, isCell := n.(*table.TableCell)
		if !entering || !isCell && n.Kind() != markdown.KindParagraph && n.Kind() != markdown.KindTextBlock &&
			n.Kind() != markdown.KindHeading {
			return markdown.WalkContinue, nil
		}
		block := textOf(n, source)
		for _, s := range endOfSentence.Split(block, -1) {
			all = append(all, strings.TrimSpace(s))
		}
		return markdown.WalkSkipChildren, nil
	})
	return all
}

// textOf returns the text of a block, with code and addresses as one word.
func textOf(block markdown.Node, source []byte) string {
	var b strings.Builder
	_ = markdown.Walk(block, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		if !entering {
			return markdown.WalkContinue, nil
		}
		switch n := n.(type) {
		case *markdown.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *markdown.CodeSpan:
			b.WriteString("`code`")
			return markdown.WalkSkipChildren, nil
		}
		return markdown.WalkContinue, nil
	})
	return b.String()
}

// tracked lists files of the repository, with those that are not added yet.
func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	list := exec.Command("git", "-C", "../..", "ls-files", "--cached", "--others", "--exclude-standard", "-z", pattern)
	files := strings.Split(strings.TrimSuffix(output(t, list), "\x00"), "\x00")
	files = slices.DeleteFunc(files, func(name string) bool { // deleted, and not committed yet
		_, err := os.Stat(repository + name)
		return err != nil
	})
	if len(files) < 10 {
		t.Fatalf("the repository has %d files of %s", len(files), pattern)
	}
	return files
}
