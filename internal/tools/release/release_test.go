package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const root = "github.com/askback-mcp/askback"

// newRepository makes a repository with this checkout as it is, and version in its CHANGELOG.md.
func newRepository(t *testing.T, version string) (dir string) {
	t.Helper()
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "repository")
	for _, args := range [][]string{
		{"clone", "--quiet", "--no-tags", checkout, dir},
		{"-C", dir, "config", "user.name", "Test"},
		{"-C", dir, "config", "user.email", "test@example.com"},
		{"-C", dir, "--work-tree=" + checkout, "add", "--all"}, // what is not committed yet, too
		{"-C", dir, "commit", "--quiet", "--allow-empty", "--message", "As it is"},
		{"-C", dir, "reset", "--quiet", "--hard"},
	} {
		runGit(t, ".", args...)
	}
	changes := read(t, dir, "CHANGELOG.md")
	write(t, dir, "CHANGELOG.md", strings.Replace(changes, "## Unreleased", "## "+version, 1))
	runGit(t, dir, "commit", "--quiet", "--all", "--allow-empty", "--message", "Changes")
	return dir
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t.Context(), dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every module that users import is released, one that is added tomorrow as well, and Go finds them under their tags
// with the checksums that the others have of them.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads modules")
	}
	const version = "v0.1.0"
	repository := newRepository(t, "0.1.0")
	write(t, repository, "task/redis/go.mod", "module "+root+"/task/redis\n\ngo 1.26.0\n")
	write(t, repository, "task/redis/redis.go", "package redis\n\nimport _ \""+root+"/task\"\n")
	write(t, repository, "go.work", strings.Replace(read(t, repository, "go.work"), "\t./task/sqlite\n",
		"\t./task/redis\n\t./task/sqlite\n", 1))
	runGit(t, repository, "add", "--all")
	runGit(t, repository, "commit", "--quiet", "--message", "Another store")

	var said strings.Builder
	work := t.TempDir()
	r := &release{version: version, repository: repository, say: &said, dry: true, remote: "origin",
		clone: filepath.Join(work, "clone"), proxy: filepath.Join(work, "proxy"), cache: filepath.Join(work, "cache")}
	for _, step := range []func() error{
		func() error { return r.check(t.Context()) },
		func() error { return r.commit(t.Context()) },
		func() error { return r.checkTags(t.Context()) },
		func() error { return r.build(t.Context(), work) },
		func() error { return r.tag(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{".", "bridge", "check", "cmd/askback", "examples", "inbox", "internal/test/pgtest", "otelaskback",
		"task/postgres", "task/redis", "task/sqlite"}
	var tags []string
	for _, dir := range want {
		tag := strings.TrimPrefix(dir+"/"+version, "./")
		tags = append(tags, tag)
		if !strings.Contains(said.String(), "would tag "+tag+" at ") {
			t.Errorf("%s is left out:\n%s", tag, said.String())
		}
	}
	if len(r.modules) != len(want) {
		t.Errorf("%d modules would be released, and not %d:\n%s", len(r.modules), len(want), said.String())
	}
	for _, platform := range platforms {
		if !strings.Contains(said.String(), "would build askback_"+version+"_"+strings.ReplaceAll(platform, "/", "_")) {
			t.Errorf("%s is left out:\n%s", platform, said.String())
		}
	}
	if !strings.Contains(said.String(), "would push the tags to origin") {
		t.Errorf("it does not say what it would push:\n%s", said.String())
	}
	if got := runGit(t, repository, "tag") + runGit(t, repository, "status", "--porcelain"); got != "" {
		t.Fatalf("a dry run changed something: %s", got)
	}

	before := runGit(t, repository, "rev-parse", "HEAD")
	remote := filepath.Join(t.TempDir(), "remote")
	runGit(t, ".", "init", "--quiet", "--bare", remote)
	runGit(t, repository, "remote", "set-url", "origin", remote)
	r.dry = false
	runGit(t, repository, "tag", "--annotate", "--message", "First", version) // by whoever releases
	if err := r.tag(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(runGit(t, remote, "tag")); !slices.Equal(slices.Sorted(slices.Values(got)),
		slices.Sorted(slices.Values(tags))) {
		t.Errorf("the remote has the tags %q", got)
	}
	if at := runGit(t, repository, "rev-parse", version+"^{commit}"); at != before ||
		runGit(t, repository, "rev-parse", "HEAD") != before {
		t.Errorf("the root's tag is at %s, and not at %s", at, before)
	}
	if err := r.checkTags(t.Context()); err != nil {
		t.Errorf("a second attempt: %v", err)
	}
	runGit(t, repository, "tag", "--force", "task/sqlite/"+version, before)
	if err := r.checkTags(t.Context()); err == nil || !strings.Contains(err.Error(), "task/sqlite/v0.1.0 exists") {
		t.Errorf("a tag that is elsewhere: %v", err)
	}

	// Go takes the modules from the tags, as a proxy does.
	environment := append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir(), "GOPROXY=direct",
		"GONOSUMDB="+root+","+root+"/*",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+remote+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+root)
	sums := make(map[string]string)
	for _, m := range r.modules {
		cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.path+"@"+version)
		cmd.Dir, cmd.Env = t.TempDir(), environment
		out, err := cmd.Output()
		var downloaded struct{ Sum, GoModSum, GoMod, Error string }
		if err2 := json.Unmarshal(out, &downloaded); err != nil || err2 != nil || downloaded.Error != "" {
			t.Fatalf("%s: %v %v %s", m.path, err, err2, out)
		}
		sums[m.path+" "+version+" "] = downloaded.Sum
		sums[m.path+" "+version+"/go.mod "] = downloaded.GoModSum
		text := read(t, filepath.Dir(downloaded.GoMod), filepath.Base(downloaded.GoMod))
		if strings.Contains(text, "\nreplace ") {
			t.Errorf("the go.mod of %s has a replacement", m.path)
		}
		for _, need := range m.needs {
			if !strings.Contains(text, need.path+" "+version) {
				t.Errorf("%s does not require %s:\n%s", m.path, need.path, text)
			}
		}
	}
	found := 0
	for line := range strings.SplitSeq(runGit(t, repository, "show", "cmd/askback/"+version+":cmd/askback/go.sum"), "\n") {
		for prefix, sum := range sums {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				if found++; rest != sum {
					t.Errorf("cmd/askback expects %s, but Go gets %s", line, sum)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("cmd/askback has the checksums of %d", found)
	}
}

// The workflow calls this program as it wants to be called, and uploads what it writes.
func TestWorkflowCallsTheRelease(t *testing.T) {
	workflow := read(t, "../../../.github/workflows", "release.yml")
	_, arguments, _ := strings.Cut(workflow, "go run ./internal/tools/release ")
	arguments, _, _ = strings.Cut(arguments, "\n")
	var r release
	flags := r.flags(flag.ContinueOnError)
	if err := flags.Parse(strings.Fields(arguments)); err != nil || r.dry || r.remote == "" || flags.NArg() != 1 {
		t.Errorf("%s: %v", arguments, err)
	}
	for _, file := range []string{"/NOTES.md", "/askback_*", "/SHA256SUMS"} {
		if !strings.Contains(workflow, " "+r.out+file) {
			t.Errorf("the workflow does not upload %s%s", r.out, file)
		}
	}
}

// A version that was published cannot be changed, so that mistakes have to be found before.
func TestReleaseRefuses(t *testing.T) {
	repository := newRepository(t, "0.1.0")
	check := func(version string) error {
		return (&release{version: version, repository: repository}).check(t.Context())
	}
	refuses := func(version, want string) {
		t.Helper()
		if err := check(version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	if err := check("v0.1.0"); err != nil {
		t.Fatal(err)
	}
	refuses("", "want one such as")
	refuses("0.1.0", "want one such as")
	refuses("v0.1", "want one such as")
	refuses("v2.0.0", "/v2")
	refuses("v0.2.0", "no heading '## 0.2.0'")
	write(t, repository, "forgotten.go", "package askback\n")
	refuses("v0.1.0", "forgotten.go")
	if err := os.Remove(filepath.Join(repository, "forgotten.go")); err != nil {
		t.Fatal(err)
	}
}

func TestNotes(t *testing.T) {
	const changes = "# Changes\n\n## Unreleased\n\n## 0.10.0\n\n- a\n\n## v0.1.0 (2026-11-22)\n\n- b\n- c\n\n## 0.0.9\n"
	for version, want := range map[string]string{"v0.10.0": "- a\n", "v0.1.0": "- b\n- c\n"} {
		if got, err := notes(changes, version); err != nil || got != want {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	for _, version := range []string{"v0.0.9", "v0.0.1", "v1.0.0"} {
		if got, err := notes(changes, version); err == nil {
			t.Errorf("%s: %q", version, got)
		}
	}
}

// What the go command recorded in a program is in its SBOM, and the checksums are those that sha256sum expects.
func TestSBOMAndChecksums(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeSBOM(program, filepath.Join(dir, "a.cdx.json")); err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(read(t, dir, "a.cdx.json")),
		cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
	}
	recorded, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	dependencies := 0
	for line := range strings.SplitSeq(string(recorded), "\n") {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			dependencies++
			if want := fmt.Sprintf("pkg:golang/%s@%s", fields[1], fields[2]); !slices.Contains(got, want) {
				t.Errorf("%s is missing in %q", want, got)
			}
		}
	}
	if len(got) != dependencies+1 || !strings.HasPrefix(got[0], "pkg:golang/std@1.") ||
		len(*(*bom.Dependencies)[0].Dependencies) != len(got) {
		t.Errorf("%d dependencies, and %q", dependencies, got)
	}

	write(t, dir, "b", "b\n")
	if err := writeChecksums(dir, []string{"a.cdx.json", "b"}); err != nil {
		t.Fatal(err)
	}
	if want := "0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f  b\n"; !strings.HasSuffix(read(t, dir,
		"SHA256SUMS"), want) {
		t.Errorf("%s", read(t, dir, "SHA256SUMS"))
	}
}
