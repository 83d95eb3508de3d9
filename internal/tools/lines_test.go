package tools

import (
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A line of Go has at most 120 columns, a tab counted as one. Left out are what stands between backquotes
// over several lines, because it is somebody else's text, such as a message or a statement, and what cannot be broken:
// the tag of a field, and the output of an example.
func TestLinesFit(t *testing.T) {
	const columns = 120
	files := tracked(t, "*.go")
	if len(files) < 100 {
		t.Fatalf("the repository has %d files of Go", len(files))
	}
	for _, name := range files {
		src := expect.Must(os.ReadFile(repository + name))(t)
		foreign := foreignLines(src)
		for i, line := range strings.Split(string(src), "\n") {
			if n := utf8.RuneCountInString(line); n > columns && !foreign[i+1] {
				t.Errorf("%s:%d: %d columns; a line has at most %d", name, i+1, n, columns)
			}
		}
	}
}

// foreignLines returns the lines of a file that cannot be broken.
func foreignLines(src []byte) map[int]bool {
	lines := make(map[int]bool)
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	before, isOutput := token.ILLEGAL, false
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		n := strings.Count(text, "\n")
		isTag := before == token.IDENT || before == token.RBRACK || before == token.RBRACE
		if tok == token.STRING && (n > 0 || isTag) {
			first := files.Position(pos).Line
			for line := first; line <= first+n; line++ {
				lines[line] = true
			}
		}
		if isOutput = tok == token.COMMENT && (isOutput || strings.HasPrefix(text, "// Output:")); isOutput {
			lines[files.Position(pos).Line] = true
		}
		before = tok
	}
}
