// Package deployment checks the files in examples/fleet that nothing compiles: with the types and the parsers of
// Kubernetes, Compose and BuildKit, against each other, and against the program, which runs as the manifests say.
package deployment

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

const (
	folder = "../../examples/fleet"

	// grace is the default of drain.Options.Grace, and flush what the program takes for its last telemetry.
	grace = 30 * time.Second
	flush = 5 * time.Second
)

func read(t *testing.T, name string) string {
	t.Helper()
	text := expect.Must(os.ReadFile(filepath.Join(folder, name)))(t)
	return string(text)
}

// settings returns the environment variables that the program reads, and whether it needs each.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, name := range []string{"main.go", "telemetry.go"} {
		file := expect.Must(parser.ParseFile(token.NewFileSet(), name, read(t, name), 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			variable, _ := strconv.Unquote(literal.Value)
			switch f := call.Fun.(type) {
			case *ast.Ident:
				if f.Name == "required" {
					found[variable] = true
				}
			case *ast.SelectorExpr:
				if f.Sel.Name == "Getenv" {
					found[variable] = false
				}
			}
			return true
		})
	}
	if !found["DATABASE_URL"] || len(found) < 4 {
		t.Fatalf("the settings of the program: %v", found)
	}
	return found
}

// checkEnvironment compares variables that an instance gets with those that it reads.
func checkEnvironment(t *testing.T, given []string) {
	t.Helper()
	reads := settings(t)
	for _, name := range given {
		// OpenTelemetry's exporters and Go's runtime read some themselves.
		if _, ok := reads[name]; !ok && !strings.HasPrefix(name, "OTEL_") && name != "GOMEMLIMIT" {
			t.Errorf("%s is set, but the program does not read it", name)
		}
	}
	for name, needed := range reads {
		if needed && !slices.Contains(given, name) {
			t.Errorf("%s is not set, but the program needs it", name)
		}
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d := expect.Must(time.ParseDuration(text))(t)
	return d
}

// secrets returns the Secrets that the README makes, as NAME/KEY.
func secrets(t *testing.T) []string {
	t.Helper()
	var made []string
	for _, command := range regexp.MustCompile(`(?s)(?:printf '([^']*)'[^|\x60]*\|\s*)?kubectl create secret `+
		`(?:generic|tls) (\S+) ([^\n|]*)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		lines, name, flags := command[1], command[2], command[3]
		for _, file := range regexp.MustCompile(`--from-file=(\S+)`).FindAllStringSubmatch(flags, -1) {
			made = append(made, name+"/"+file[1])
		}
		if strings.Contains(flags, "--from-env-file=/dev/stdin") {
			for line := range strings.SplitSeq(strings.TrimSuffix(lines, `\n`), `\n`) {
				key, _, _ := strings.Cut(line, "=")
				made = append(made, name+"/"+key)
			}
		}
		if strings.Contains(flags, "--cert=") {
			made = append(made, name+"/tls.crt")
		}
	}
	return made
}
