package tools

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The clock of an instance may be wrong, and decides nothing: what is stored is judged by the store's. So the packages
// that serve calls read it through internal/clock, where the simulation can set it, and the files that read the
// machine's clock are these.
func TestClocksAreReadThroughOnePackage(t *testing.T) {
	reasons := map[string][]string{
		"it measures what passes in this process, where no setting of the clock counts": {
			"bridge/internal/calls/handoff.go", "bridge/internal/legacy/opencall.go", "bridge/internal/legacy/pool.go",
			"bridge/internal/legacy/send.go", "bridge/lists.go", "internal/call/call.go", "internal/call/engine.go",
			"internal/call/report.go", "internal/home/held.go", "internal/taskrun/leave.go", "internal/taskrun/notify.go",
			"internal/taskrun/pace.go", "internal/taskrun/store.go", "internal/taskrun/stuck.go",
			"internal/taskrun/subscribe.go", "internal/taskrun/unstored.go", "internal/tasks/deliver.go",
			"internal/tasks/words.go", "task/postgres/lanes.go",
		},
		"it follows a lease, by whichever of the machine's clocks says that more has passed": {
			"internal/taskrun/engine.go", "internal/taskrun/handler.go", "internal/taskrun/lease.go",
			"internal/taskrun/leases.go", "internal/taskrun/run.go", "internal/taskrun/workers.go",
		},
		"it is a store's clock": {
			"task/memory.go", "task/sqlite/claim.go", "task/sqlite/delete.go", "task/sqlite/event.go",
			"task/sqlite/notice.go", "task/sqlite/question.go", "task/sqlite/read.go", "task/sqlite/remembered.go",
			"task/sqlite/schema.go",
			"task/sqlite/state.go", "task/sqlite/store.go", "task/sqlite/subscription.go",
		},
		"a receiver compares it with its own": {"desk/webhook/webhook.go"},
	}
	allowed := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(reasons))...)))
	var reads []string
	for _, dir := range []string{"internal/call", "internal/home", "internal/journal", "internal/stored",
		"internal/taskrun", "internal/tasks", "desk", "task", "bridge"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(name string, _ fs.DirEntry, err error) error {
			file := strings.TrimPrefix(filepath.ToSlash(name), "../../")
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
				strings.HasPrefix(file, "task/storetest/") {
				return err
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
					return true
				}
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
					reads = append(reads, file)
					if !slices.Contains(allowed, file) {
						t.Errorf("%v reads time.%s: use internal/clock, or the clock of the store", fset.Position(s.Pos()), s.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		expect.Check(t, err)
	}
	for _, file := range allowed {
		if !slices.Contains(reads, file) {
			t.Errorf("%s reads no clock any more", file)
		}
	}
}
