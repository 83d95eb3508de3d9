package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The race step of the gate tests every package, or fails: it does not pass with the packages that it could list.
func TestTheRaceStepFailsWithItsList(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("the gate needs bash: %v", err)
	}
	const other = "example.com/askback/internal/tools/fuzz"
	for _, c := range []struct {
		says, list string
		tested     string
	}{
		{"a list", "echo example.com/askback; echo example.com/askback/task; echo " + other,
			"example.com/askback example.com/askback/task"},
		{"no list", "exit 1", ""},
		{"a list that breaks off", "echo example.com/askback; exit 1", ""},
		{"an empty list", "exit 0", ""},
		{"nothing left of the list", "echo " + other, ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := t.TempDir()
			program := "#!" + bash + "\ncase $1 in\nlist) " + c.list + " ;;\ntest) echo \"$@\" >'" + dir + "/tested' ;;\nesac\n"
			expect.Check(t, os.WriteFile(filepath.Join(dir, "go"), []byte(program), 0o700))
			race := exec.Command(bash, "../../.ci/race")
			race.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := race.CombinedOutput()
			tested, _ := os.ReadFile(filepath.Join(dir, "tested"))
			if (err == nil) != (c.tested != "") || !strings.HasSuffix(strings.TrimSpace(string(tested)), c.tested) ||
				c.tested == "" && len(tested) > 0 {
				t.Errorf("it ends with %v and has tested %q, want %q\n%s", err, tested, c.tested, out)
			}
		})
	}
}

// The judges' workspace is the root's and one module more. .ci/modules writes it after a change of the root's.
func TestTheWorkspaceOfJudges(t *testing.T) {
	modules := func(file string) string {
		_, modules, _ := strings.Cut(string(expect.Must(os.ReadFile("../../"+file))(t)), "\ngo ")
		return modules
	}
	want := strings.NewReplacer("use (\n", "use (\n\t.\n", "\t.\n", "\t..\n", "./", "../").Replace(modules("go.work"))
	expect.Equal(t, "judge/go.work", modules("judge/go.work"), want)
}

// The gate runs the race step, and no other test of the gate lists packages in an argument, where a failure is not
// seen.
func TestTheGateListsNothingInAnArgument(t *testing.T) {
	gate := expect.Must(os.ReadFile("../../.ci/run"))(t)
	expect.Contains(t, "the steps of the gate", string(gate), "\n.ci/race\n")
	for line := range strings.Lines(string(gate)) {
		if strings.HasPrefix(strings.TrimSpace(line), "go ") && strings.Contains(line, "$(") {
			t.Errorf("go gets an argument that may fail unseen: %s", line)
		}
	}
}
