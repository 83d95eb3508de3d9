// Release makes a release of every module that others import, and of the command.
//
//	go run ./internal/tools/release [-dry-run] [-out DIR] [-push REMOTE] VERSION
//
// It releases the commit that is checked out, in these steps:
//
//  1. It checks that everything is committed, and that CHANGELOG.md has the version.
//  2. In a clone, it gives the modules the requirements of each other that their go.mod files must not have before
//     there is a version, and commits that. The branch stays as it is. The commit has the time of the one that is
//     released, so that a second attempt makes the same one; a tag that is elsewhere is an error.
//  3. It builds the command for every platform, exactly as 'go install' builds this version with -trimpath and without
//     cgo. DIR gets the programs, an SBOM of each (CycloneDX), their checksums, and the release's part of CHANGELOG.md.
//  4. It makes the tags of all modules. With -push, it pushes them all or none.
//
// With -dry-run it does the first two steps, and says what it would do in the others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	r := &release{say: os.Stdout, repository: "."}
	flags := r.flags(flag.ExitOnError)
	_ = flags.Parse(os.Args[1:]) // it exits on an error
	r.version = flags.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) flags(onError flag.ErrorHandling) *flag.FlagSet {
	flags := flag.NewFlagSet("release", onError)
	flags.BoolVar(&r.dry, "dry-run", false, "change nothing, and say what would be done")
	flags.StringVar(&r.out, "out", "dist", "directory of what is built")
	flags.StringVar(&r.remote, "push", "", "remote to push the tags to")
	return flags
}

// release is one release.
type release struct {
	version    string
	dry        bool
	out        string
	remote     string // empty: nothing is pushed
	say        io.Writer
	repository string

	notes   string    // the part of CHANGELOG.md
	modules []*module // each after those that it imports
	clone   string    // of the repository, where the release is committed
	proxy   string    // a directory that is a module proxy with this version
	cache   string    // a module cache of its own: what is not released yet must not stay in the user's
}

func (r *release) run(ctx context.Context) (err error) {
	if err := r.check(ctx); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	r.clone, r.proxy, r.cache = filepath.Join(work, "clone"), filepath.Join(work, "proxy"), filepath.Join(work, "cache")
	if err := r.commit(ctx); err != nil {
		return err
	}
	if err := r.checkTags(ctx); err != nil {
		return err
	}
	if err := r.build(ctx, work); err != nil {
		return err
	}
	return r.tag(ctx)
}

// check finds what would make a release wrong, because a version that a proxy has seen cannot be changed.
func (r *release) check(ctx context.Context) error {
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("the version %q: want one such as v0.1.0", r.version)
	}
	if major := semver.Major(r.version); major != "v0" && major != "v1" {
		return fmt.Errorf("the version %s: the modules' paths would have to end with /%s", r.version, major)
	}
	root, err := git(ctx, r.repository, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r.repository = root
	if changed, err := git(ctx, root, "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		return fmt.Errorf("commit or remove what is not committed:\n%s", changed)
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if r.notes, err = notes(string(changes), r.version); err != nil {
		return err
	}
	r.modules, err = findModules(ctx, root)
	return err
}

// checkTags refuses to move a tag. One that is where it belongs is from an attempt that failed later.
func (r *release) checkTags(ctx context.Context) error {
	for _, m := range r.modules {
		at, err := r.tagged(ctx, m)
		if err != nil {
			return err
		}
		if at != "" && at != m.commit {
			return fmt.Errorf("the tag %s exists, at %s and not at %s: a version is released once, so take the next one",
				m.tag(r.version), at, m.commit)
		}
	}
	return nil
}

// tagged returns the commit that a module's tag is at, or nothing if there is no such tag.
func (r *release) tagged(ctx context.Context, m *module) (commit string, err error) {
	tag := m.tag(r.version)
	if exists, err := git(ctx, r.repository, "tag", "--list", tag); err != nil || exists == "" {
		return "", err
	}
	return git(ctx, r.repository, "rev-parse", tag+"^{commit}")
}

// notes returns what CHANGELOG.md says of a version.
func notes(changes, version string) (string, error) {
	number := strings.TrimPrefix(version, "v")
	heading := regexp.MustCompile(`(?m)^## v?` + regexp.QuoteMeta(number) + `\b.*$`).FindStringIndex(changes)
	if heading == nil {
		return "", fmt.Errorf("CHANGELOG.md has no heading '## %s': rename 'Unreleased'", number)
	}
	text, _, _ := strings.Cut(changes[heading[1]:], "\n## ")
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing of %s", number)
	}
	return text + "\n", nil
}

// tag tags the root where it is, and the others at the commit that has their requirements.
func (r *release) tag(ctx context.Context) error {
	if !r.dry {
		if _, err := git(ctx, r.repository, "fetch", "--quiet", "--no-tags", r.clone, "HEAD"); err != nil {
			return err
		}
	}
	push := []string{"push", "--atomic", r.remote}
	for _, m := range r.modules {
		tag := m.tag(r.version)
		push = append(push, "refs/tags/"+tag)
		at, err := r.tagged(ctx, m)
		if err != nil {
			return err
		}
		switch {
		case at != "":
			fmt.Fprintf(r.say, "%s is tagged\n", tag)
		case r.dry:
			fmt.Fprintf(r.say, "would tag %s at %s\n", tag, m.commit)
		default:
			if _, err := git(ctx, r.repository, "tag", tag, m.commit); err != nil {
				return err
			}
		}
	}
	switch {
	case r.remote == "":
	case r.dry:
		fmt.Fprintf(r.say, "would push the tags to %s\n", r.remote)
	default:
		if _, err := git(ctx, r.repository, push...); err != nil {
			return err
		}
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, nil, "git", args...)
}

// command runs a command, and returns its output without the last line break.
func command(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
