package ci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// Every action of others is named by a commit, with its version behind it.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{".github/workflows/*.yml", ".github/actions/*/action.yml", "examples/ci/*.yml"} {
		found, err := filepath.Glob(repository + "/" + pattern)
		if err != nil || found == nil {
			t.Fatalf("no file %s, %v", pattern, err)
		}
		files = append(files, found...)
	}
	all := 0
	for _, file := range files {
		for _, m := range uses.FindAllStringSubmatch(text(file), -1) {
			all++
			ours := strings.HasPrefix(m[1], "./") || m[1] == "askback-mcp/askback/.github/actions/check@COMMIT"
			if !ours && !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s", file, m[1])
			}
		}
	}
	if all < 8 {
		t.Errorf("only %d actions", all)
	}
}

// The example for GitHub has inputs that the action has, and takes the files that it writes.
func TestTheExampleForGitHub(t *testing.T) {
	t.Parallel()
	var a action
	read(t, folder+"/action.yml", &a)
	var example struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]string
			}
		}
	}
	read(t, repository+"/examples/ci/github.yml", &example)
	files := a.Inputs["folder"].Default
	seen := 0
	for _, s := range example.Jobs["check"].Steps {
		switch name, _, _ := strings.Cut(s.Uses, "@"); name {
		case "askback-mcp/askback/.github/actions/check":
			for input := range s.With {
				if _, ok := a.Inputs[input]; !ok {
					t.Errorf("the action has no input %s", input)
				}
			}
		case "github/codeql-action/upload-sarif":
			expect.Equal(t, "the file that it uploads", s.With["sarif_file"], files+"/check.sarif")
		case "actions/upload-artifact":
			expect.Equal(t, "the folder that it keeps", s.With["path"], files)
		default:
			continue
		}
		seen++
	}
	expect.Equal(t, "steps of three", seen, 3)
}

// The example for GitLab runs: it builds the command of the last commit, and keeps the files that the check writes.
func TestTheExampleForGitLab(t *testing.T) {
	t.Parallel()
	var example struct {
		Askback struct {
			Script    []string
			Artifacts struct {
				When    string
				Reports struct{ JUnit string }
				Paths   []string
			}
		}
	}
	read(t, repository+"/examples/ci/gitlab.yml", &example)
	top := expect.Must(filepath.Abs(repository))(t)
	commit := expect.Must(exec.CommandContext(t.Context(), "git", "-C", top, "rev-parse", "HEAD").Output())(t)
	dir, header := t.TempDir(), filepath.Join(t.TempDir(), "header")
	expect.Check(t, os.WriteFile(header, []byte("Authorization: Bearer "+planted.Alice), 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", strings.Join(example.Askback.Script, "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CI_PROJECT_DIR="+dir, "ASKBACK_COMMIT="+strings.TrimSpace(string(commit)),
		"SERVER_URL="+serve(t, "plain-base64", nil), "SERVER_HEADER="+header, "GOWORK=",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=url."+top+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/askback-mcp/askback",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*")
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	kept := example.Askback.Artifacts
	for _, file := range append(slices.Clone(kept.Paths), kept.Reports.JUnit) {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	if kept.When != "always" || kept.Reports.JUnit == "" || len(kept.Paths) != 1 {
		t.Errorf("it keeps %+v", kept)
	}
}
