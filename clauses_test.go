package askback_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// docs/proof/clauses.tsv says where each clause of the earlier documents is implemented and which test shows
// it. These tests check that the names in it exist, that every clause has a test, and that the counts add up. The
// clauses of the revision itself are held by the checker's corpus.
func TestClausesAreWhereTheTablesSay(t *testing.T) {
	for _, complaint := range checkClauses(readClauses(t)) {
		t.Error(complaint)
	}
}

func readClauses(t *testing.T) string {
	t.Helper()
	data := expect.Must(os.ReadFile("docs/proof/clauses.tsv"))(t)
	return string(data)
}

// The check finds each kind of fault in the tables.
func TestClausesThatAreWrongAreSeen(t *testing.T) {
	doc := readClauses(t)
	row := regexp.MustCompile(`(?m)^S-2\t.*\n`).FindString(doc)
	if row == "" {
		t.Fatal("there is no row S-2")
	}
	cell := func(n int, text string) string {
		cells := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		cells[n-1] = text
		return strings.Replace(doc, row, strings.Join(cells, "\t")+"\n", 1)
	}
	for name, c := range map[string]struct{ doc, complaint string }{
		"a row is gone":                  {strings.Replace(doc, row, "", 1), "want S-2"},
		"a row without an ID":            {strings.Replace(doc, "\nS-2\t", "\n\t", 1), "without an id"},
		"a row is there twice":           {strings.Replace(doc, row, row+row, 1), "want S-3"},
		"a cell is missing":              {strings.Replace(doc, row, strings.Replace(row, "`\t`", "` `", 1), 1), "cells"},
		"an empty cell":                  {cell(3, ""), "empty"},
		"another keyword":                {cell(2, "SHOULD"), "says"},
		"a keyword that is none":         {cell(2, "perhaps"), "keyword"},
		"an occurrence too many":         {cell(2, "MUST NOT ×2"), "says"},
		"a file that is not there":       {cell(5, "`nowhere.go`"), "nowhere.go"},
		"a file of tests":                {cell(5, "`clauses_test.go`"), "clauses_test.go"},
		"a package that is not there":    {cell(5, "`internal/nowhere`"), "internal/nowhere"},
		"a name of no package":           {cell(5, "`nowhere.AddTool`"), "nowhere"},
		"a name that is not there":       {cell(5, "`askback.AddTol`"), "AddTol"},
		"a method that is not there":     {cell(5, "`askback.Server.Nothing`"), "Server.Nothing"},
		"a name of another package":      {cell(5, "`client.AddTool`"), "AddTool"},
		"a name that is not exported":    {cell(5, "`askback.acceptForm`"), "exported"},
		"a method that is not exported":  {cell(5, "`client/await.go`, `askback.Server.serve`"), "exported"},
		"no place, and no reason":        {cell(5, "somewhere"), "neither"},
		"a name inside a file":           {cell(5, "`tool.go: AddTool`"), "may be renamed"},
		"a test that is not there":       {cell(6, "`askback.TestNothing`"), "TestNothing"},
		"a test of another package":      {cell(6, "`client.TestElicitation`"), "TestElicitation"},
		"a transcript that is not there": {cell(6, "`testdata/transcripts/nothing.txt`"), "nothing.txt"},
		"a scenario that is not there": {cell(6, "`askback.TestElicitation`, `conformance: nothing`"),
			"conformance: nothing"},
		"a scenario alone":                  {cell(6, "`conformance: input-required-result-result-type`"), "of ours"},
		"nothing that shows it":             {cell(6, "reading the code"), "of ours"},
		"a row that is not there":           {cell(3, "As in P2-99"), "P2-99"},
		"a document is gone":                {strings.Replace(doc, "\nST\t", "\nXY\t", 1), "documents"},
		"a count that says something else":  {strings.Replace(doc, "MUST NOT 8", "MUST NOT 7", 1), "says 7"},
		"a count that leaves a keyword out": {strings.Replace(doc, ", MUST NOT 8", "", 1), "says 0"},
	} {
		found := false
		complaints := checkClauses(c.doc)
		for _, complaint := range complaints {
			found = found || strings.Contains(complaint, c.complaint)
		}
		if c.doc == doc || !found {
			t.Errorf("%s: no complaint of %q among %q", name, c.complaint, complaints)
		}
	}
}

// keywords are those of RFC 2119 and, in lower case, those that the documents use as such.
var keywords = []string{"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY",
	"must", "must not", "should", "may", "can", "cannot", "will"}

var (
	clauseID      = regexp.MustCompile(`^(P1|S|P2|T|ST|EV)(?:-\d+)?$`)
	ratifiedID    = regexp.MustCompile(`^(MR|EL|TK|HT)(?:-\d+)?$`)
	clauseMention = regexp.MustCompile(`\b(?:P1|S|P2|T|ST|EV)-\d+\b`)
	clauseKeyword = regexp.MustCompile(`^(.+?)(?: ×(\d+))?$`)
	codeSpan      = regexp.MustCompile("`([^`]+)`")
	codeFile      = regexp.MustCompile(`^[\w./-]+\.go$`)
	codePackage   = regexp.MustCompile(`^(?:internal|examples)/[\w/]+$`)
	codeName      = regexp.MustCompile(`^([a-z][a-z0-9/]*)\.([A-Za-z]\w*(?:\.[A-Za-z]\w*)?)$`)
	codeTest      = regexp.MustCompile(`^([\w/-]+)\.((?:Test|Example|Fuzz)\w*)$`)
)

// checkClauses returns the faults of the tables.
func checkClauses(doc string) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	var name string
	var documents []string
	next := 0
	said, found := map[string]int{}, map[string]int{}
	ids := map[string]bool{}
	end := func() {
		for _, keyword := range keywords {
			if said[keyword] != found[keyword] {
				complain("%s: the count says %d %s, the rows have %d", name, said[keyword], keyword, found[keyword])
			}
		}
	}
	for i, line := range strings.Split(strings.TrimSuffix(doc, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		id := clauseID.FindStringSubmatch(cells[0])
		switch {
		case i == 0 || ratifiedID.MatchString(cells[0]):
			continue
		case id == nil:
			complain("a row without an id: %.60s", line)
			continue
		case len(cells) != 6:
			complain("%s has %d cells, want 6", cells[0], len(cells))
			continue
		case cells[0] == id[1]: // a document, with the counts of its keywords
			end()
			name, next = id[1], 1
			documents = append(documents, name)
			clear(found)
			said = countsOf(cells[1], complain)
			continue
		}
		if want := fmt.Sprintf("%s-%d", name, next); cells[0] != want {
			complain("the row %s stands where we want %s", cells[0], want)
		}
		ids[cells[0]] = true
		next++
		for i, cell := range cells {
			if strings.TrimSpace(cell) != cell || cell == "" {
				complain("%s: cell %d is empty, or has space around it", cells[0], i+1)
			}
		}
		times := 1
		keyword := clauseKeyword.FindStringSubmatch(cells[1])
		if keyword != nil && keyword[2] != "" {
			times, _ = strconv.Atoi(keyword[2])
		}
		if keyword == nil || !slices.Contains(keywords, keyword[1]) {
			complain("%s: %q is no keyword", cells[0], cells[1])
		} else {
			found[keyword[1]] += times
		}
		for _, complaint := range append(checkPlaces(cells[4]), checkShown(cells[5])...) {
			complain("%s: %s", cells[0], complaint)
		}
	}
	end()
	for _, mention := range clauseMention.FindAllString(doc, -1) {
		if !ids[mention] {
			complain("%s is mentioned, and there is no such row", mention)
		}
	}
	if got := strings.Join(documents, " "); got != "P1 S P2 T ST EV" {
		complain("the documents are %s, want P1 S P2 T ST EV", got)
	}
	return complaints
}

// countsOf reads how many of each keyword a document has, as in "MUST 8, MAY 7".
func countsOf(cell string, complain func(format string, args ...any)) map[string]int {
	counts := make(map[string]int)
	for part := range strings.SplitSeq(cell, ", ") {
		last := strings.LastIndexByte(part, ' ')
		n, err := strconv.Atoi(part[last+1:])
		if last < 0 || err != nil {
			complain("the count %q is not a keyword and a number", part)
			continue
		}
		counts[part[:last]] += n
	}
	return counts
}

// checkPlaces checks that a cell names an existing file, package or exported name, or begins with the reason why it has
// none.
func checkPlaces(cell string) (complaints []string) {
	places := 0
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		place := span[1]
		name := codeName.FindStringSubmatch(place)
		switch {
		case codeFile.MatchString(place):
			if info, err := os.Stat(filepath.FromSlash(place)); err != nil || info.IsDir() || place != path.Clean(place) ||
				strings.HasSuffix(place, "_test.go") {
				complaints = append(complaints, fmt.Sprintf("%s is not a file of the module's code", place))
			}
		case codePackage.MatchString(place):
			if _, err := exportedBy(place); err != nil {
				complaints = append(complaints, fmt.Sprintf("%s: %v", place, err))
			}
		case name != nil:
			declared, err := exportedBy(name[1])
			if err != nil {
				complaints = append(complaints, fmt.Sprintf("%s: %v", place, err))
			} else if !declared[name[2]] {
				complaints = append(complaints, fmt.Sprintf("%s has no exported name %s", name[1], name[2]))
			}
		case strings.Contains(place, ".go"):
			complaints = append(complaints,
				fmt.Sprintf("%q may be renamed: name the file alone, or an exported name with its package", place))
			continue
		default:
			continue // a word of the protocol
		}
		places++
	}
	if places == 0 && !strings.HasPrefix(cell, "Decided otherwise: ") && !strings.HasPrefix(cell, "Not implemented: ") {
		complaints = append(complaints, "it has neither a place in the code nor a reason why there is none")
	}
	return complaints
}

// checkShown checks that a cell names existing tests, and at least one of ours.
func checkShown(cell string) (complaints []string) {
	ours := 0
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		test := codeTest.FindStringSubmatch(span[1])
		scenario, official := strings.CutPrefix(span[1], "conformance: ")
		switch {
		case official:
			if readme, err := os.ReadFile("judge/conformance/README.md"); err != nil ||
				!strings.Contains(string(readme), "\n| "+scenario+" ") {
				complaints = append(complaints, fmt.Sprintf("there is no %s", span[1]))
			}
			continue
		case test != nil:
			dir := test[1]
			if dir == "askback" {
				dir = "."
			}
			if declared, err := testsOf(dir); err != nil || !declared[test[2]] {
				complaints = append(complaints, fmt.Sprintf("there is no %s: %v", span[1], err))
			}
		case strings.Contains(span[1], "testdata/"):
			if _, err := os.Stat(span[1]); err != nil {
				complaints = append(complaints, err.Error())
			}
		default:
			complaints = append(complaints, fmt.Sprintf("%q is neither a test nor a transcript", span[1]))
		}
		ours++
	}
	if ours == 0 {
		complaints = append(complaints, "it names no test of ours")
	}
	return complaints
}

// exportedBy returns the exported names of a package: functions, types, constants and variables, and methods and fields
// as Type.Name.
func exportedBy(dir string) (map[string]bool, error) {
	key := "package " + dir
	if declared, ok := clauseNames[key]; ok {
		return declared, nil
	}
	if dir == "askback" {
		dir = "."
	}
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	declare := func(names ...string) {
		for _, name := range names {
			if !ast.IsExported(name) {
				return
			}
		}
		declared[strings.Join(names, ".")] = true
	}
	found := false
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		found = true
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					declare(d.Name.Name)
					continue
				}
				of := d.Recv.List[0].Type
				if pointer, ok := of.(*ast.StarExpr); ok {
					of = pointer.X
				}
				declare(typeName(of), d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							declare(name.Name)
						}
					case *ast.TypeSpec:
						declare(spec.Name.Name)
						declareMembers(declare, spec)
					}
				}
			}
		}
	}
	if !found {
		return nil, errors.New("there is no such package")
	}
	clauseNames[key] = declared
	return declared, nil
}

// clauseNames caches the names that each package and each directory of tests declares, because
// the tables are checked many times.
var clauseNames = map[string]map[string]bool{}

// declareMembers declares the fields of a struct, or the methods of an interface.
func declareMembers(declare func(names ...string), spec *ast.TypeSpec) {
	var list *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			declare(spec.Name.Name, name.Name)
		}
	}
}

func typeName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.IndexExpr:
		return typeName(of.X)
	case *ast.IndexListExpr:
		return typeName(of.X)
	}
	return ""
}

// testsOf returns the functions of a directory's test files.
func testsOf(dir string) (map[string]bool, error) {
	if declared, ok := clauseNames[dir]; ok {
		return declared, nil
	}
	files, err := fs.Glob(os.DirFS(dir), "*_test.go")
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				declared[f.Name.Name] = true
			}
		}
	}
	clauseNames[dir] = declared
	return declared, nil
}
