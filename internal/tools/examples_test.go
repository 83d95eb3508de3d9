package tools

import (
	"go/ast"
	"go/doc"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Each exported name of these packages is used in a runnable example: their functions, types, methods, constants, and
// the fields of their options.
func TestExportedNamesHaveExamples(t *testing.T) {
	for _, directory := range []string{".", "desk"} {
		t.Run(directory, func(t *testing.T) { testExamples(t, directory) })
	}
}

func testExamples(t *testing.T, directory string) {
	loaded := expect.Must(packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedFiles | packages.NeedExportFile,
		Tests: true,
		Dir:   filepath.Join("../..", directory),
	}, "."))(t)
	at := slices.IndexFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.Name, "_test") })
	if at < 0 {
		t.Fatal("there is no package of its tests")
	}
	tests := loaded[at]
	for _, err := range tests.Errors {
		t.Fatal(err)
	}
	used := make(map[types.Object]bool)
	for _, example := range doc.Examples(tests.Syntax...) {
		if example.Output == "" && !example.EmptyOutput {
			t.Errorf("Example%s has no output, so that go test does not run it", example.Name)
			continue
		}
		ast.Inspect(example.Code, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if method, is := tests.TypesInfo.Uses[name].(*types.Func); ok && is { // of a generic type, perhaps
				used[method.Origin()] = true
			} else if ok {
				used[tests.TypesInfo.Uses[name]] = true
			}
			return true
		})
	}
	tested := importOf(tests.Types, path.Join(root, directory))
	if tested == nil {
		t.Fatal("the tests do not import the package")
	}
	for name, object := range exported(tested) {
		file := tests.Fset.Position(object.Pos()).Filename
		if !used[object] && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("no example uses %s", name)
		}
	}
}

func importOf(p *types.Package, path string) *types.Package {
	for _, imported := range p.Imports() {
		if imported.Path() == path {
			return imported
		}
	}
	return nil
}

// exported returns what a package exports, by its names, without the methods that only errors and fmt call.
func exported(p *types.Package) map[string]types.Object {
	all := make(map[string]types.Object)
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		all[name] = object
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !isType || !ok {
			continue
		}
		for method := range named.Methods() {
			if method.Exported() && !slices.Contains([]string{"Error", "Is", "Unwrap", "String"}, method.Name()) {
				all[name+"."+method.Name()] = method
			}
		}
		if fields, ok := named.Underlying().(*types.Struct); ok && slices.Contains(options, name) {
			for field := range fields.Fields() {
				if field.Exported() && !field.Embedded() {
					all[name+"."+field.Name()] = field
				}
			}
		}
	}
	return all
}

// options are the structs whose fields need an example, too. docs/proof/limits.md has a row for each field of Limits.
var options = []string{"Options", "HTTPOptions", "Tasks", "TaskSupport", "Question", "Share"}
