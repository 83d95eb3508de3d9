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
)

// goPackage builds a program of a module that go.mod pins. It is told its address by the function address.
func goPackage(
	name, path string, address func(cmd *exec.Cmd, address string),
) func(context.Context, string) (starter, error) {
	return func(ctx context.Context, work string) (starter, error) {
		program := filepath.Join(work, strings.ReplaceAll(name, "/", "-"))
		if err := build(ctx, program, name); err != nil {
			return nil, err
		}
		return serve(path, func(at string, _ int) *exec.Cmd {
			cmd := exec.Command(program)
			address(cmd, at)
			return cmd
		}), nil
	}
}

//go:embed serve
var serving embed.FS

// goExample builds an example that calls its own server in the same process. A function makes a file of a program from
// the published file, with a function newServer and without main, and a file of the directory serve has the other main.
func goExample(
	module, file, path, main string, make func(source []byte) ([]byte, error),
) func(context.Context, string) (starter, error) {
	return func(ctx context.Context, work string) (starter, error) {
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
		serving, err := serving.ReadFile("serve/" + main)
		if err != nil {
			return nil, err
		}
		program := filepath.Join(work, "example-"+strings.TrimSuffix(main, ".go"))
		sources := program + "-source"
		if err := os.MkdirAll(sources, 0o755); err != nil {
			return nil, err
		}
		files := []string{filepath.Join(sources, "example.go"), filepath.Join(sources, main)}
		for i, text := range [][]byte{example, serving} {
			if err := os.WriteFile(files[i], text, 0o644); err != nil {
				return nil, err
			}
		}
		if err := build(ctx, program, files...); err != nil {
			return nil, err
		}
		return serve(path, func(address string, _ int) *exec.Cmd { return exec.Command(program, address) }), nil
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

func build(ctx context.Context, program string, what ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", program}, what...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
