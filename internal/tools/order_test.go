package tools

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
		"internal/broadcast", "internal/clock", "internal/durable", "internal/edits", "internal/egress", "internal/ending",
		"internal/eventstream", "internal/exactjson",
		"internal/excerpt", "internal/jitter", "internal/signedhook", "internal/tags", "internal/throttle", "internal/turn",
		"seal", "state",
		"internal/strictjson", "input", "internal/raw", "internal/wire", "internal/fault", "internal/bound",
		"internal/journal",
		"internal/foreign", "internal/form", "internal/question", "internal/schema",
		"task", "internal/report", "internal/gate", "internal/consent",
		"internal/call", "internal/inline",
		"internal/taskrun", "task/storetest", "internal/stored", "internal/home", "desk", "desk/chat", "desk/webhook",
		"internal/tasks", "internal/drafts", "internal/sdkfront", "internal/httpfront", "", "audit", "ledger",
		"askbacktest", "client/internal/tap", "client/internal/streamable", "client",
	}
	besides := []string{"drain", "internal/child", "internal/rawclient", "internal/rawclient/alter",
		"internal/rawclient/transcript", "internal/stdio", "internal/test/desktest", "internal/test/expect",
		"internal/test/harness", "internal/test/hostile", "internal/test/judge", "internal/test/ledgertest",
		"internal/test/law", "internal/test/law/planted", "internal/test/program", "internal/test/sim"}
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	list.Dir = "../.."
	for line := range strings.Lines(output(t, list)) {
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

// What the bridge and the checker import of the library's own packages is what they cannot do with its exported names.
// A gateway of somebody else could not do it either, so the lists do not grow without a reason.
func TestModulesImportFewInternalPackages(t *testing.T) {
	allowed := map[string][]string{
		"bridge": {
			"internal/broadcast",  // who waits for what the servers behind offer is woken
			"internal/clock",      // what is sealed says when, by the clock of the instance
			"internal/consent",    // under which policy a call passes: the same words in its record as anywhere
			"internal/fault",      // a call that its server refused did not run
			"internal/foreign",    // schemas and templates that strangers wrote
			"internal/journal",    // which gates a call has passed
			"internal/question",   // who is awaited, in words
			"internal/raw",        // arguments and results pass as the bytes that came
			"internal/stored",     // decisions that no run has found yet
			"internal/strictjson", // bytes from outside are hostile
			"internal/taskrun",    // a call that another process holds
			"internal/tasks",      // events that its server has of servers behind
			"internal/wire",       // names of methods and members
		},
		"check": {
			"internal/child", "internal/excerpt", "internal/foreign", "internal/form", "internal/rawclient",
			"internal/rawclient/alter", "internal/rawclient/transcript", "internal/strictjson", "internal/wire",
		},
	}
	for module, want := range allowed {
		list := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "./...")
		list.Dir = "../../" + module
		var got []string
		for path := range strings.Lines(output(t, list)) {
			if name, ours := strings.CutPrefix(strings.TrimSpace(path), root+"/internal/"); ours {
				got = append(got, "internal/"+name)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s imports %q, want %q", module, got, want)
		}
	}
}
