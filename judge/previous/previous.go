// Package previous builds the command of the release before this one, from the history of this repository, for tests of
// what both releases read and write.
package previous

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Commit is the commit of the release before this one.
const Commit = "17e539f13d514494605d71abbb33c59f5f62f343"

// MissingError says that this clone does not have the history.
type MissingError struct{ Reason string }

func (e *MissingError) Error() string { return e.Reason }

// Build builds the command of the release before in a directory, and returns its file. If this clone does not have the
// history the error is a [*MissingError].
func Build(ctx context.Context, dir string) (program string, err error) {
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	tree, archive := filepath.Join(dir, "previous"), filepath.Join(dir, "previous.tar")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return "", err
	}
	git := exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(string(root)), "archive", "-o", archive, Commit)
	if out, err := git.CombinedOutput(); err != nil {
		return "", &MissingError{fmt.Sprintf("the release before, commit %.7s, is not in this clone: "+
			"fetch its history with git fetch --unshallow: %s", Commit, out)}
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", tree).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the release before: %w: %s", err, out)
	}
	return build(ctx, tree, filepath.Join(dir, "askback-previous"))
}

// BuildChanged is like [Build] in a directory where that was done, for a command whose file serve.go has other texts in
// the place of some. The library stays as it was.
func BuildChanged(ctx context.Context, dir string, texts ...string) (program string, err error) {
	tree := filepath.Join(dir, "previous")
	file := filepath.Join(tree, "cmd", "askback", "serve.go")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for i := 0; i < len(texts); i += 2 {
		if strings.Count(string(data), texts[i]) != 1 {
			return "", fmt.Errorf("the release before does not have %q once", texts[i])
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(texts...).Replace(string(data))), 0o600); err != nil {
		return "", err
	}
	return build(ctx, tree, filepath.Join(dir, "askback-previous-changed"))
}

func build(ctx context.Context, tree, program string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./cmd/askback")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOWORK="+filepath.Join(tree, "go.work"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the release before: %w: %s", err, out)
	}
	return program, nil
}
