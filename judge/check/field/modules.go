package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/askback-mcp/askback/judge/process"
)

// goPackage builds a program of a module that go.mod pins. It is told its address by the function tell.
func goPackage(name string, tell func(cmd *exec.Cmd, address string)) builder {
	return func(ctx context.Context, work string) (func(string) *exec.Cmd, error) {
		program := filepath.Join(work, strings.ReplaceAll(name, "/", "-"))
		return func(address string) *exec.Cmd {
			cmd := exec.Command(program)
			tell(cmd, address)
			return cmd
		}, process.BuildGo(ctx, program, name)
	}
}

//go:embed serve
var serving embed.FS

// goExample builds an example that calls its own server in the same process. A function makes a file of a program from
// the published file, with a function newServer and without main, and a file of the directory serve has the other main.
func goExample(module, file, main string, make func(source []byte) ([]byte, error)) builder {
	return func(ctx context.Context, work string) (func(string) *exec.Cmd, error) {
		list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
		list.Stderr = os.Stderr
		dir, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		example, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), file))
		if err != nil {
			return nil, err
		}
		if example, err = make(example); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		serving, err1 := serving.ReadFile("serve/" + main)
		program := filepath.Join(work, "example-"+strings.TrimSuffix(main, ".go"))
		files := []string{filepath.Join(program+"-source", "example.go"), filepath.Join(program+"-source", main)}
		err2 := os.MkdirAll(program+"-source", 0o755)
		err3 := os.WriteFile(files[0], example, 0o644)
		err4 := os.WriteFile(files[1], serving, 0o644)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return nil, err
		}
		return func(address string) *exec.Cmd { return exec.Command(program, address) },
			process.BuildGo(ctx, program, files...)
	}
}

// withoutMain renames the function main of a program.
func withoutMain(source []byte) ([]byte, error) {
	files, main, err := function(source, "main")
	if err != nil {
		return nil, err
	}
	at := files.Position(main.Name.Pos()).Offset
	return append(append(bytes.Clone(source[:at]), "published"...), source[at:]...), nil
}

// exampleServer returns the statements of an example of the Go SDK's documentation that make its server s.
func exampleServer(source []byte) ([]byte, error) {
	files, example, err := function(source, "Example_mrtr")
	if err != nil {
		return nil, err
	}
	text := []byte("package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/google/jsonschema-go/jsonschema\"\n" +
		"\t\"github.com/modelcontextprotocol/go-sdk/mcp\"\n)\n\nfunc newServer() *mcp.Server {\n")
	for _, statement := range example.Body.List {
		code := source[files.Position(statement.Pos()).Offset:files.Position(statement.End()).Offset]
		if bytes.HasPrefix(code, []byte("s := mcp.NewServer(")) || bytes.HasPrefix(code, []byte("mcp.AddTool(s, ")) {
			text = append(append(text, code...), '\n')
		}
	}
	return append(text, "return s\n}\n"...), nil
}

// function finds a function of a file.
func function(source []byte, name string) (*token.FileSet, *ast.FuncDecl, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
			return files, f, nil
		}
	}
	return nil, nil, errors.New("no function " + name)
}
