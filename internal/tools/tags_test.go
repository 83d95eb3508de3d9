package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/judge"
)

// released is a repository with this checkout as it is, and the version in its CHANGELOG.md.
type released struct {
	t   *testing.T
	dir string
}

func newReleased(t *testing.T) *released {
	t.Helper()
	checkout := expect.Must(filepath.Abs("../.."))(t)
	r := &released{t, filepath.Join(t.TempDir(), "repository")}
	output(r.t, exec.Command("git", "clone", "--quiet", "--no-tags", checkout, r.dir))
	r.git("config", "user.name", "Test")
	r.git("config", "user.email", "test@example.com")
	r.git("--work-tree="+checkout, "add", "--all") // what is not committed yet, too
	r.git("commit", "--quiet", "--allow-empty", "--message", "As it is")
	r.git("reset", "--quiet", "--hard")
	r.git("clean", "--quiet", "-d", "--force") // of what the checkout no longer has
	r.replace("CHANGELOG.md", "## Unreleased", "## "+strings.TrimPrefix(version, "v"))
	return r
}

func (r *released) git(args ...string) string {
	r.t.Helper()
	return output(r.t, exec.Command("git", append([]string{"-C", r.dir}, args...)...))
}

// replace replaces text in a file that may not have it, and commits.
func (r *released) replace(name, old, text string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	before := expect.Must(os.ReadFile(file))(r.t)
	expect.Check(r.t, os.WriteFile(file, []byte(strings.ReplaceAll(string(before), old, text)), 0o600))
	r.git("commit", "--quiet", "--all", "--allow-empty", "--message", "Another "+name)
}

// tags runs the script, and returns what it prints to a person.
func (r *released) tags(version string) (printed string, err error) {
	out, err := exec.Command(filepath.Join(r.dir, ".ci/tags"), version).CombinedOutput()
	return string(out), err
}

// Every module that users import gets its tag, one that is added tomorrow as well, and Go finds the modules there.
func TestTags(t *testing.T) {
	judge.Skip(t)
	r := newReleased(t)
	expect.Check(t, os.MkdirAll(filepath.Join(r.dir, "task/redis"), 0o700))
	expect.Check(t, os.WriteFile(filepath.Join(r.dir, "task/redis/go.mod"),
		[]byte("module "+root+"/task/redis\n\ngo 1.26.0\n"), 0o600))
	r.git("add", "--all")
	r.replace("go.work", "\t./task/sqlite\n", "\t./task/redis\n\t./task/sqlite\n")
	r.git("tag", "--annotate", "--message", "First", version) // by whoever releases

	for range 2 { // the second attempt finds the tags
		printed, err := r.tags(version)
		if err != nil || !strings.Contains(printed, "The first release.") || strings.Contains(printed, "\n## ") {
			t.Fatalf("%v, and it prints what the change log says of another version, or nothing: %s", err, printed)
		}
	}
	dirs := append(slices.Clone(published), "examples", "task/redis")
	var want []string
	for _, dir := range dirs {
		want = append(want, strings.TrimPrefix(dir+"/"+version, "./"))
	}
	slices.Sort(want)
	expect.Same(t, "the tags", strings.Fields(r.git("tag", "--points-at", "HEAD")), want)

	// Go takes the modules from the tags, as a proxy does.
	cache := t.TempDir()
	for _, dir := range dirs {
		cmd := exec.Command("go", "mod", "download", "-json", modulePath(dir)+"@"+version)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+cache, "GOPROXY=direct",
			"GONOSUMDB="+root+","+root+"/*", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+r.dir+".insteadOf",
			"GIT_CONFIG_VALUE_0=https://"+root)
		var downloaded struct{ Sum, Error string }
		if err := json.Unmarshal([]byte(output(r.t, cmd)), &downloaded); err != nil || downloaded.Sum == "" {
			t.Errorf("%s: %v %s", modulePath(dir), err, downloaded.Error)
		}
	}
}

// A version that a proxy has seen cannot be changed, so that mistakes have to be found before.
func TestTagsRefuse(t *testing.T) {
	judge.Skip(t)
	r := newReleased(t)
	refuses := func(version, want string) {
		t.Helper()
		if printed, err := r.tags(version); err == nil || !strings.Contains(printed, want) {
			t.Errorf("%q: %v, %s; want %q", version, err, printed, want)
		}
	}
	refuses("", "want one such as")
	refuses("0.1.0", "want one such as")
	refuses("v0.1", "want one such as")
	refuses("v2.0.0", "other paths")
	refuses("v0.2.0", "nothing under '## 0.2.0'")
	r.replace("CHANGELOG.md", "## 0.1.0", "## 0.2.0\n\n## 0.1.0 (2026-11-27)")
	refuses("v0.2.0", "nothing under '## 0.2.0'")
	r.replace("CHANGELOG.md", "## 0.2.0\n", "## 0.2.0\n\n- A change.\n")
	refuses("v0.2.0", "change go.work")

	forgotten := filepath.Join(r.dir, "forgotten.go")
	expect.Check(t, os.WriteFile(forgotten, []byte("package askback\n"), 0o600))
	refuses(version, "forgotten.go")
	expect.Check(t, os.Remove(forgotten))
	r.replace("bridge/go.mod", root+" v0.1.0", root+" v0.1.0-rc.1")
	refuses(version, "bridge/go.mod")
	r.replace("bridge/go.mod", root+" v0.1.0-rc.1", root+" v0.1.0")
	r.git("tag", "task/sqlite/"+version, "HEAD~")
	refuses(version, "the tag task/sqlite/v0.1.0 exists")
	r.git("tag", "--delete", "task/sqlite/"+version)
	expect.Equal(t, "it made the tags", r.git("tag"), "")
	if printed, err := r.tags(version); err != nil {
		t.Errorf("%v: %s", err, printed)
	}
}
