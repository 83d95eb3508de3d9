package tools_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Imports run one way: each package of the library imports only packages that stand before it here, and a package that
// is new has to be given its place. The gate and the engine of calls do not know each other.
func TestImportsRunOneWay(t *testing.T) {
	order := []string{
		"internal/edits", "internal/ending", "internal/eventstream", "internal/exactjson", "internal/excerpt",
		"internal/tags", "internal/throttle", "seal", "state",
		"internal/strictjson", "input", "internal/raw", "internal/wire", "internal/fault", "internal/bound",
		"internal/journal",
		"internal/foreign", "internal/form", "internal/question", "internal/schema",
		"task", "internal/report", "internal/gate",
		"internal/call", "internal/inline",
		"internal/taskrun", "task/storetest", "internal/stored", "internal/home", "desk", "desk/webhook",
		"internal/tasks", "internal/drafts", "internal/sdkfront", "internal/httpfront", "",
		"askbacktest", "client/internal/tap", "client/internal/streamable", "client",
	}
	besides := []string{"drain", "internal/child", "internal/rawclient", "internal/rawclient/alter",
		"internal/rawclient/transcript", "internal/test/desktest", "internal/test/harness", "internal/test/hostile",
		"internal/test/law", "internal/test/program"}
	const root = "github.com/askback-mcp/askback"
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(strings.TrimPrefix(fields[0], root), "/")
		place := slices.Index(order, name)
		if place < 0 {
			if !slices.Contains(besides, name) {
				t.Errorf("the package %q has no place in the order", name)
			}
			continue
		}
		for _, path := range fields[1:] {
			imported, ours := strings.CutPrefix(path, root)
			imported = strings.TrimPrefix(imported, "/")
			if ours && !slices.Contains(order[:place], imported) {
				t.Errorf("%q imports %q, which does not stand before it", name, imported)
			}
			if name == "internal/call" && imported == "internal/gate" {
				t.Errorf("%q imports %q", name, imported)
			}
		}
	}
}
