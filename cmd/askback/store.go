package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
	"github.com/askback-mcp/askback/task/sqlite"
)

// storage is where the examples keep what outlives the process.
type storage struct {
	tasks    task.Store // nil if there is none
	name     string     // of the store, for people: without its password
	machines string     // the directory of the machines
	noPlace  error      // why there is no such directory
}

// openStorage opens the store that the options name, and finds a place for the machines.
func openStorage(ctx context.Context, o serveOptions) (*storage, error) {
	s, dir := new(storage), o.data
	if dir == "" {
		var err error
		if dir, err = stateDir(); err != nil {
			s.noPlace = fmt.Errorf("no place to keep machines in: %w; name one with --data DIR", err)
		}
	}
	if s.noPlace == nil {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		s.machines = filepath.Join(dir, "machines")
	}

	kind, path, err := parseStore(o.store)
	switch {
	case err != nil:
		return nil, err
	case kind == storeDefault && s.noPlace != nil:
		return nil, s.noPlace
	case kind == storeDefault:
		// Machines and tasks stay together: whoever shares the tasks goes on with the machines.
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = s.openSQLite(ctx, filepath.Join(dir, "tasks.db"))
		}
		if err != nil {
			return nil, fmt.Errorf("the store of the tasks: %w; name another one with --store, or none with --store none", err)
		}
	case kind == storeSQLite:
		if err := s.openSQLite(ctx, path); err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
	case kind == storePostgres:
		store, err := postgres.Open(ctx, o.store)
		if err != nil {
			return nil, fmt.Errorf("--store: %w", err) // which never shows the URL
		}
		s.tasks, s.name = store, databaseName(o.store)
	}
	return s, nil
}

// storeKind is what --store names.
type storeKind int

const (
	storeDefault storeKind = iota // a file of SQLite where the machines are
	storeNone
	storeSQLite
	storePostgres
)

// parseStore reads --store. The path is that of a file of SQLite.
func parseStore(text string) (kind storeKind, path string, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		return storeDefault, "", nil
	case text == "none":
		return storeNone, "", nil
	case scheme == "sqlite" && rest != "":
		return storeSQLite, rest, nil
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return storePostgres, "", nil
	}
	// What was given is not repeated: it may be an address with a password.
	return 0, "", usagef("--store: want sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or none")
}

func (s *storage) openSQLite(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	s.tasks, s.name = store, "sqlite:"+path
	return nil
}

// databaseName is what of a database's URL may be shown.
func databaseName(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "postgres"
	}
	return "postgres://" + u.Host + u.Path
}

func (s *storage) close() error {
	if s.tasks == nil {
		return nil
	}
	return s.tasks.Close()
}

// options let calls become tasks if there is a store for them.
func (s *storage) options(workers int) *askback.Tasks {
	if s.tasks == nil {
		return nil
	}
	return &askback.Tasks{
		Store:         s.tasks,
		Workers:       workers,
		ListAnonymous: true, // without authentication there is one user
	}
}

// stateDir is the directory for what this user's servers keep: that of the XDG conventions or, where systems have
// their own, that of the system.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askback"), nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "askback"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "askback"), err
}

// besideTasks runs serve and, while it serves, the tasks. These are stopped last, so that a request that waits for one
// still gets its result. If they cannot be run, serving ends as well.
func besideTasks(ctx context.Context, srv *askback.Server, log *slog.Logger, serve func(context.Context) error) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	working, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	ended := make(chan error, 1)
	go func() {
		err := srv.RunTasks(working)
		if err == nil && working.Err() == nil {
			err = errors.New("they ended by themselves")
		}
		stop()
		ended <- err
	}()

	err := serve(serving)
	giveBack()
	select {
	case failure := <-ended:
		if failure != nil && !errors.Is(failure, context.Canceled) {
			err = errors.Join(err, fmt.Errorf("running tasks: %w", failure))
		}
	case <-time.After(grace):
		log.Warn("tasks did not stop in time: another server, or this one when it starts again, goes on with them", "limit", grace)
	}
	return err
}
