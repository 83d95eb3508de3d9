package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	gomod "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// module is a module that is released.
type module struct {
	dir    string // in the repository
	path   string
	needs  []*module // what its packages and their tests import
	commit string    // that it is tagged at
}

func (m *module) tag(version string) string { return path.Join(m.dir, version) }

// findModules finds the modules of the workspace that others import, and the modules that those import. Each comes
// after those that it needs.
func findModules(ctx context.Context, root string) ([]*module, error) {
	text, err := command(ctx, root, nil, "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var workspace struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(text), &workspace); err != nil {
		return nil, fmt.Errorf("go.work: %w", err)
	}
	var all []*module
	for _, use := range workspace.Use {
		dir := path.Clean(use.DiskPath)
		name, err := command(ctx, filepath.Join(root, dir), []string{"GOWORK=off"}, "go", "list", "-m")
		if err != nil {
			return nil, err
		}
		all = append(all, &module{dir: dir, path: name})
	}
	// An import belongs to the module with the longest path that fits.
	slices.SortFunc(all, func(a, b *module) int { return cmp.Compare(len(b.path), len(a.path)) })

	var found []*module
	var visit func(m *module) error
	visit = func(m *module) error {
		if slices.Contains(found, m) || m.needs != nil {
			return nil
		}
		const imports = `{{range .Imports}}{{.}} {{end}}` +
			`{{range .TestImports}}{{.}} {{end}}{{range .XTestImports}}{{.}} {{end}}`
		text, err := command(ctx, filepath.Join(root, m.dir), nil, "go", "list", "-f", imports, "./...")
		if err != nil {
			return err
		}
		m.needs = []*module{}
		for _, imported := range strings.Fields(text) {
			i := slices.IndexFunc(all, func(m *module) bool { return strings.HasPrefix(imported+"/", m.path+"/") })
			if i < 0 || all[i] == m || slices.Contains(m.needs, all[i]) {
				continue
			}
			m.needs = append(m.needs, all[i])
			if err := visit(all[i]); err != nil {
				return err
			}
		}
		found = append(found, m)
		return nil
	}
	byPath := func(a, b *module) int { return cmp.Compare(a.path, b.path) }
	for _, m := range slices.SortedFunc(slices.Values(all), byPath) {
		private := strings.Contains("/"+m.dir+"/", "/internal/")
		if private || m.dir == "judge" {
			continue // nobody can import it, or has a reason to
		}
		if err := visit(m); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// commit gives the modules their requirements of each other, in a commit of the clone, and makes a proxy with all of
// them.
func (r *release) commit(ctx context.Context) error {
	if _, err := git(ctx, r.repository, "clone", "--quiet", r.repository, r.clone); err != nil {
		return err
	}
	about, err := git(ctx, r.repository, "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	identity := []string{"GIT_COMMITTER_DATE=" + about, "GIT_AUTHOR_DATE=" + about} // the same at any time
	for _, name := range []string{"AUTHOR", "COMMITTER"} {
		identity = append(identity, "GIT_"+name+"_NAME=Askback release", "GIT_"+name+"_EMAIL=release@askback.invalid")
	}
	first := []string{"commit", "--quiet", "--allow-empty", "--message", "Release " + r.version}
	if _, err := command(ctx, r.clone, identity, "git", first...); err != nil {
		return err
	}
	for _, m := range r.modules {
		dir := filepath.Join(r.clone, m.dir)
		edit := []string{"mod", "edit"}
		for _, need := range m.needs {
			edit = append(edit, "-require="+need.path+"@"+r.version)
		}
		if len(m.needs) > 0 {
			if _, err := command(ctx, dir, nil, "go", edit...); err != nil {
				return err
			}
			if _, err := command(ctx, dir, r.environment(), "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		amend := []string{"commit", "--quiet", "--all", "--allow-empty", "--amend", "--no-edit"}
		if _, err := command(ctx, r.clone, identity, "git", amend...); err != nil {
			return err
		}
		if err := r.publish(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	released, err1 := git(ctx, r.repository, "rev-parse", "HEAD")
	made, err2 := git(ctx, r.clone, "rev-parse", "HEAD")
	changed, err3 := git(ctx, r.clone, "diff", "--stat", "HEAD~")
	for _, m := range r.modules {
		if m.commit = made; m.dir == "." {
			m.commit = released
		}
	}
	fmt.Fprintf(r.say, "the commit %s of %s changes\n%s\n", made, r.version, changed)
	return errors.Join(err1, err2, err3)
}

// publish adds a module to the proxy, with the files that every proxy takes from the repository.
func (r *release) publish(m *module) error {
	var file bytes.Buffer
	version := gomod.Version{Path: m.path, Version: r.version}
	subdir := m.dir
	if subdir == "." {
		subdir = ""
	}
	if err := zip.CreateFromVCS(&file, version, r.clone, "HEAD", subdir); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(r.clone, m.dir, "go.mod"))
	if err != nil {
		return err
	}
	escaped, err := gomod.EscapePath(m.path)
	if err != nil {
		return err
	}
	to := filepath.Join(r.proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(r.version + "\n"), r.version + ".info": fmt.Appendf(nil, `{"Version":%q}`, r.version),
		r.version + ".mod": mod, r.version + ".zip": file.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// environment lets the go command find the modules of this version before they are released. What this machine has of
// others it need not download again.
func (r *release) environment() []string {
	proxies := []string{"file://" + filepath.ToSlash(r.proxy)}
	ours := r.modules[0].path
	for _, name := range []string{"GOMODCACHE", "GOPROXY"} {
		value, err := command(context.Background(), ".", nil, "go", "env", name)
		if err != nil {
			continue // the go command will say it
		}
		if name == "GOMODCACHE" {
			value = "file://" + filepath.ToSlash(value) + "/cache/download"
		}
		proxies = append(proxies, value)
	}
	return []string{"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + r.cache, "GOPROXY=" + strings.Join(proxies, ","),
		"GONOSUMDB=" + ours + "," + ours + "/*"}
}
