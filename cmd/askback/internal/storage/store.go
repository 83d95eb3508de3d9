// Package storage opens the stores of tasks that command lines name, and knows those that servers and bridges have
// without a name.
package storage

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// Store is an open store of tasks.
type Store struct {
	task.Store

	Name string // as logs show it, without a password
}

// Open opens sqlite:PATH or postgres://…. Its error does not contain the password.
func Open(ctx context.Context, name string) (*Store, error) {
	if path, isSQLite := strings.CutPrefix(name, "sqlite:"); isSQLite {
		tasks, err := sqlite.Open(ctx, path)
		return &Store{tasks, name}, err
	}
	tasks, err := postgres.Open(ctx, name)
	return &Store{tasks, databaseName(name)}, err
}

// Check checks the form of --store. Its error does not repeat the value, which may contain a password.
func Check(name string) error {
	if scheme, rest, _ := strings.Cut(name, ":"); name == "" || name == "none" || scheme == "sqlite" && rest != "" ||
		(scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//") {
		return nil
	}
	return cli.Usagef("--store: want sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or none")
}

// databaseName reduces the URL of a database to the parts that are not secret.
func databaseName(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "postgres"
	}
	return "postgres://" + u.Host + u.Path
}

// Options returns the options of a server for the tasks of the store.
func (s *Store) Options(workers int) *askback.Tasks {
	return &askback.Tasks{
		Store:         s.Store,
		Settings:      task.Settings{Workers: workers},
		ListAnonymous: true, // with --as "" all callers are one user, too
	}
}

// Public names a store without its password, and from whatever directory.
func Public(store string) string {
	path, isFile := strings.CutPrefix(store, "sqlite:")
	if !isFile {
		return databaseName(store)
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "sqlite:" + path
}
