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

// Commit is that of the release before this one.
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
	program = filepath.Join(dir, "askback-previous")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", program, "./cmd/askback")
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOWORK="+filepath.Join(tree, "go.work"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the release before: %w: %s", err, out)
	}
	return program, nil
}
